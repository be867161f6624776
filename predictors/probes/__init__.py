"""Probes that measure the network, and control jobs that are run again and again beside them."""
