"""Advice for a site: which change of scheduling would help, and who would wait longer."""
