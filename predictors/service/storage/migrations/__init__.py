"""How the database got its tables, step by step (Alembic)."""
