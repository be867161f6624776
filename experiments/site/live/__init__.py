"""Start times of jobs that wait on a cluster now."""
