"""The machine: topology, allocation, outages, run times."""
