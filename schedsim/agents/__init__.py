"""Agents as files: what was tuned or learnt, with its frame and its origin."""
