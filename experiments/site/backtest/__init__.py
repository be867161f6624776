"""What soft limits would have done on a log, month by month."""
