"""What passes ask of nodes that differ: EASY's places, and a plan of several reservations."""
