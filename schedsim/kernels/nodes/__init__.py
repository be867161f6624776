"""What passes ask of machines whose nodes differ: EASY's places, and a plan of several reservations."""
