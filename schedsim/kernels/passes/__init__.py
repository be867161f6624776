"""What one pass starts: EASY and its relatives, reservations in an availability profile, knapsacks."""
