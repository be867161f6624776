"""Waiting for what comes true in another thread or process."""

import time


def until(true, seconds=60.0, told="it did not come true"):
    """Wait until a function returns something, and return that; fail with a text, or with what a function says."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, told if isinstance(told, str) else told()
        time.sleep(0.05)
    return found
