"""`make explore`: hypothesis draws new examples for a given time, which its tests share equally."""

import functools
import os
import time

import pytest
from hypothesis import is_hypothesis_test


def pytest_addoption(parser):
    parser.addoption("--minutes", type=float, required=True, help="how long all tests together draw new examples")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a test again and again until its part of the time is over, and count its examples."""
    if not is_hypothesis_test(pyfuncitem.obj):
        return None
    handle = pyfuncitem.obj.hypothesis
    inner, count = handle.inner_test, 0

    @functools.wraps(inner)
    def counting(*args, **kwargs):
        nonlocal count
        count += 1
        return inner(*args, **kwargs)

    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    seconds = pyfuncitem.config.getoption("minutes") * 60 * workers / len(pyfuncitem.session.items)
    end = time.monotonic() + seconds
    handle.inner_test = counting
    try:
        while True:
            pyfuncitem.obj(**arguments)
            if time.monotonic() >= end:
                return True
    finally:
        handle.inner_test = inner
        pyfuncitem.user_properties.append(("examples", count))


def pytest_terminal_summary(terminalreporter):
    reports = [one for kind in ("passed", "failed") for one in terminalreporter.getreports(kind) if one.when == "call"]
    examples = sum(dict(one.user_properties).get("examples", 0) for one in reports)
    minutes = sum(one.duration for one in reports) / 60
    terminalreporter.write_line(f"{examples:,} new examples of {len(reports)} tests in {minutes:.1f} worker minutes")
