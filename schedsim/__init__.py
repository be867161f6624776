"""What would the machine do with these predictions? A resumable, compiled scheduling simulator."""
