"""What would the machine do with these predictions? The scheduling simulator."""
