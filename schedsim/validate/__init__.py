"""Does a schedule keep its laws."""
