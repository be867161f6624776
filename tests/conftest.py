"""Real logs and reference schedules, where the machine has them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

Finder = Callable[[str], Path]


def _finder(variable: str, suffixes: tuple[str, ...]) -> Finder:
    def find(name: str) -> Path:
        folder = os.environ.get(variable)
        if not folder:
            pytest.skip(f"{variable} is not set: it names the folder that holds {name}")
        for suffix in suffixes:
            path = Path(folder) / f"{name}{suffix}"
            if path.is_file():
                return path
        pytest.skip(f"{variable}={folder} does not hold {name}")

    return find


@pytest.fixture(scope="session")
def trace() -> Finder:
    """Path of a real job log by its archive name, such as `KTH-SP2-1996-2.1-cln`."""
    return _finder("JOBCAST_TRACES", ("", ".swf.gz", ".swf"))


@pytest.fixture(scope="session")
def reference() -> Finder:
    """Path of a reference file, such as `kth_easy.csv.gz` or `kth.swf.gz`."""
    return _finder("JOBCAST_REFERENCE", ("", ".csv.gz"))
