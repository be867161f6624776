"""A machine on which jobs disturb each other: loads slow jobs down, and counters and probes show the loads."""
