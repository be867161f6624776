"""Migrations of the database, step by step (Alembic)."""
