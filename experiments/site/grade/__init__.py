"""How near a site's twin comes to the waits that its log records."""
