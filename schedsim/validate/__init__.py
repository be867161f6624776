"""Whether a schedule keeps its laws."""
