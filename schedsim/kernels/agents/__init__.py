"""Agents inside the pass: which job they pick, the networks that score jobs, and what an agent outside sees."""
