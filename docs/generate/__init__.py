"""The pages of the site that are made from the code, so that they cannot grow old."""
