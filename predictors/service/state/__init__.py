"""State of the service, and the threads that change it."""
