"""The page at `/`: what the service does now, for people; read only."""
