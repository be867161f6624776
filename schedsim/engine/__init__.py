"""The engine: `simulate`, and `Simulation`, which runs, stops and forks."""
