"""Jobs and machine of a simulation."""
