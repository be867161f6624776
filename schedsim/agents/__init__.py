"""Agents that learn: networks, their gradients, training."""
