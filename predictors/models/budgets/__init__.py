"""An underestimation budget for each class of jobs."""
