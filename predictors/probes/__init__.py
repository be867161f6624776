"""How congested is the network just now? Probes that measure it, jobs that are run again and again beside them."""
