"""Node counters: samples and readers."""
