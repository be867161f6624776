"""Provenance of results: command, versions, machine, digest of the source.

The command, the versions and the machine, as they stand in a report.
"""

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from predictors.entry_points import declared, package_of

LIBRARIES: Final = ("numpy", "numba", "pandas", "scikit-learn", "xgboost-cpu", "river", "matplotlib")
"""Libraries with versions that can move a figure, or a picture."""
ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("jobcast", "predictors", "schedsim", "experiments")


def provenance() -> dict[str, str]:
    """Return what a reader needs to make the same again: command, time, versions, machine; all of it text.

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
    """Return the versions of jobcast, Python, and the libraries and packages with own rules that can move a figure."""
    return {
        "jobcast": _version("jobcast"),
        "python": platform.python_version(),
        **{name: _version(name) for name in LIBRARIES},
        **_added_packages(),
    }


def _added_packages() -> dict[str, str]:
    """Return version and digest of the source of each package that adds names; an edit makes another digest."""
    modules: dict[str, set[str]] = {}
    for entry in declared():
        modules.setdefault(package_of(entry), set()).add(entry.module.partition(".")[0])
    found = {}
    for package, names in modules.items():
        specs = [spec for name in sorted(names) if (spec := find_spec(name)) is not None]
        homes = [Path(home) for spec in specs for home in spec.submodule_search_locations or [spec.origin or ""]]
        digests = [_digest(home.parent, [home] if home.is_file() else home.rglob("*.py")) for home in homes]
        found[package] = " ".join([_version(package), *(digest[:12] for digest in digests)])
    return found


@cache
def code_digest(root: Path = ROOT) -> str:
    """Return the SHA-256 of jobcast's own source as it lies on disk, with git or without; other edits, other digest."""
    paths = [path for package in PACKAGES for path in (root / package).rglob("*.py") if path.is_file()]
    assert paths, f"no source below {root}"
    return _digest(root, paths)


def _digest(root: Path, paths: Iterable[Path]) -> str:
    found = sha256()
    for path in sorted(paths):
        text = path.read_bytes()
        found.update(f"{path.relative_to(root).as_posix()}\0{len(text)}\0".encode() + text)
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
