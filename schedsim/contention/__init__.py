"""A machine on which jobs disturb one another: loads slow jobs down, and counters and probes tell of the loads."""
