"""Parameters that only `make test-slow` runs."""

import pytest


def slow_but(names, *quick):
    """Return parameters of a test, of which all but a few are slow."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]
