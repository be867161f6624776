"""Selection of a classifier and of its inputs."""
