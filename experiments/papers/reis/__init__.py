"""Reis: learning job run-times."""
