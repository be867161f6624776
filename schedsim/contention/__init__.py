"""A machine on which jobs disturb one another: loads slow jobs down, and counters and probes show the loads."""
