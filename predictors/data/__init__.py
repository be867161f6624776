"""Job logs: the table, its readers and writers, the synthetic log. Imports nothing else of ours."""
