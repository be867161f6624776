"""Why did this job start when it did."""
