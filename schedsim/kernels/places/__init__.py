"""What is free on each node, what jobs ask of nodes, and the first fit of a job."""
