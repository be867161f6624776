"""What would change if the settings, nodes or policy of a site were others."""
