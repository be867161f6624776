"""Will this job be slowed down if it starts now? Windows of counters, labels, data sets and classifiers."""
