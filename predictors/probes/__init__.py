"""Probes that measure the network, and control jobs that are run regularly after them."""
