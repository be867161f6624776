"""The ground that every package stands on. It imports nothing else of ours."""
