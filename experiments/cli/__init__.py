"""The command `jobcast`."""
