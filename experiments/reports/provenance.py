"""Provenance of results: command, versions, machine, digest of the source.

The command, the versions and the machine, as they stand in a report.
"""

import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

LIBRARIES: Final = ("numpy", "numba", "pandas", "scikit-learn", "xgboost-cpu", "river", "matplotlib")
"""Libraries with versions that can move a figure, or a picture."""
ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("jobcast", "predictors", "schedsim", "experiments")


def provenance() -> dict[str, str]:
    """Return what a reader needs to make the same again: command, time, versions, machine; all of it text.

    Examples
    --------
    >>> sorted({"command", "made", "jobcast", "python", "numpy", "machine"} - set(provenance()))
    []
    """
    return {
        "command": command(),
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        **versions(),
        "jobcast": _version("jobcast") + _commit(),
        "machine": f"{platform.system()} on {platform.machine()}, {os.cpu_count()} processors",
    }


def versions() -> dict[str, str]:
    """Return the versions of jobcast, Python, and the libraries that can move a figure."""
    return {
        "jobcast": _version("jobcast"),
        "python": platform.python_version(),
        **{name: _version(name) for name in LIBRARIES},
    }


@cache
def code_digest(root: Path = ROOT) -> str:
    """Return the SHA-256 of jobcast's own source as it lies on disk, with git or without; other edits, other digest."""
    found, n_files = sha256(), 0
    for path in sorted(path for package in PACKAGES for path in (root / package).rglob("*.py") if path.is_file()):
        text = path.read_bytes()
        n_files += 1
        found.update(f"{path.relative_to(root).as_posix()}\0{len(text)}\0".encode() + text)
    assert n_files, f"no source below {root}"
    return found.hexdigest()


def command() -> str:
    """Return the command line of this process, as it could be typed again."""
    return shlex.join(["jobcast", *sys.argv[1:]]) if sys.argv else ""


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    """Return the commit of a checkout, marked where files differ from it; nothing where it is none."""
    if not (ROOT / ".git").exists():
        return ""
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=, modified"],
            capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return f" (commit {done.stdout.strip()})"
