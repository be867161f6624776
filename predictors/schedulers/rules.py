"""A site's rules and its list of users, read from files."""

import os
from typing import Any, Final

from predictors.core.compressed import read_text
from predictors.core.declarations import declared, read_toml
from predictors.core.errors import JobcastError, printable
from predictors.schedulers.hold import HoldRules
from predictors.schedulers.soft_limit import SiteRules

_TABLE: Final = "soft_limits"
_HOLDS: Final = "variability"


def read_rules(path: str | os.PathLike[str]) -> SiteRules:
    r"""Return the site's rules in the table `[soft_limits]` of a TOML file.

    >>> import tempfile
    >>> from pathlib import Path
    >>> file = Path(tempfile.mkdtemp()) / "site.toml"
    >>> size = file.write_text('[soft_limits]\npad_minutes = 20\nwithout_users = ["root"]\n')
    >>> read_rules(file).pad_minutes
    20
    >>> size = file.write_text('[soft_limits]\npad_minute = 20\n')
    >>> read_rules(file)
    Traceback (most recent call last):
    predictors.core.errors.JobcastError: ...[soft_limits]: No key 'pad_minute'; did you mean 'pad_minutes'? ...
    """
    return declared(SiteRules, _tables(path).get(_TABLE, {}), f"{path} [{_TABLE}]")


def read_hold_rules(path: str | os.PathLike[str]) -> HoldRules:
    r"""Return the rules for holding jobs in the table `[variability]` of the same file.

    >>> import tempfile
    >>> from pathlib import Path
    >>> file = Path(tempfile.mkdtemp()) / "site.toml"
    >>> size = file.write_text('[variability]\nmost_minutes = 5\n[variability.workloads]\n"amg*" = "network"\n')
    >>> read_hold_rules(file).workload_of("amg-large")
    'network'
    """
    return declared(HoldRules, _tables(path).get(_HOLDS, {}), f"{path} [{_HOLDS}]")


def _tables(path: str | os.PathLike[str]) -> dict[str, Any]:
    document: dict[str, Any] = read_toml(path, "the site's rules")
    others = sorted(document.keys() - {_TABLE, _HOLDS})
    if others:
        raise JobcastError(
            f"{path}: has {printable(others[0])!r}; a site's rules are the tables [{_TABLE}] and [{_HOLDS}]."
        )
    return document


def read_whitelist(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the users in a file, one a line; what follows a # is a comment."""
    found = []
    for number, line in enumerate(read_text(path, "the list of users").splitlines(), 1):
        words = line.partition("#")[0].split()
        if len(words) > 1:
            raise JobcastError(f"{path}:{number}: a line has one user; got {printable(line)[:60]!r}.")
        found += words
    if not found:
        raise JobcastError(f"{path}: names no user, so no job would be touched. Use `jobcast slurm shadow`.")
    return tuple(dict.fromkeys(found))
