"""Agents as files with their frame and origin, and agents that learn: networks, their gradients, training."""
