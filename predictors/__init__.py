"""What will this job do? Run time in seconds and variability class, with their uncertainty."""
