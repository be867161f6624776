"""Tables of jobs in any columns: a map says which column is what; public data sets are such maps."""
