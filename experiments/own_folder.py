"""Whose folder is this? One work's, as the sheet in it tells, and one process' while that is at work there."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from experiments.provenance import code_digest, versions
from predictors.data.errors import JobcastError
from predictors.data.files import whole_file
from predictors.data.joblog import JobLog

LOCK: Final = ".lock"


def made_by() -> dict[str, Any]:
    """Return which code is at work: versions, and a digest of jobcast's own source."""
    return {"versions": versions(), "code": code_digest()}


def identity_of(known: Any) -> str:
    """Return a digest of all that results depend on, plain values alone."""
    return sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def told_by(log: JobLog) -> dict[str, Any]:
    """Return what of a log results depend on: its jobs, and what it tells of the machine, its clock and names."""
    return {
        "name": log.name,
        "sha256": log.digest(),
        "procs": log.max_procs,
        "nodes": log.max_nodes,
        "epoch": log.epoch,
        "time_zone": log.time_zone,
        "names": identity_of(dict(log.categories)),
    }


@contextmanager
def owned(path: Path, what: str) -> Iterator[None]:
    """Keep a folder for a kind of work, made where it is missing, to this process while the block lasts.

    Raises
    ------
    JobcastError
        If another process is at work in it, or it holds something else: not even a lock is left in there then.
    """
    from filelock import FileLock, Timeout

    try:
        _refuse_foreign(path, what)
        path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path / LOCK, timeout=0)
        lock.acquire()
    except Timeout as error:
        raise JobcastError(
            f"{path}: another process is at work there; wait for it, or choose another folder with --out."
        ) from error
    except OSError as error:
        raise JobcastError(f"{path}: no folder of results can be made there ({error.strerror}).") from error
    try:
        yield
    finally:
        lock.release()


def claim(path: Path, what: str, identity: str, about: Mapping[str, Any]) -> None:
    """Write into an empty folder whose it is, as `WHAT.json`; leave one that is this very work's as it is.

    Parameters
    ----------
    path : Path
        The folder; it is `owned`.
    what : str
        Kind of work, such as "sweep".
    identity : str
        Tells the work from all others.
    about : mapping
        What the identity is of, as plain values: the most telling first, to say in what another work differs.

    Raises
    ------
    JobcastError
        If the folder holds something else.
    """
    sheet = path / f"{what}.json"
    if sheet.exists():
        _refuse_other(sheet, what, identity, about)
        return
    _refuse_foreign(path, what)
    with whole_file(sheet) as part:
        part.write_text(json.dumps({"identity": identity, **about}, indent=1), encoding="utf-8")


def _refuse_foreign(path: Path, what: str) -> None:
    inside = {entry.name for entry in path.iterdir()} if path.is_dir() else set()
    visible = {name for name in inside if not name.startswith(".")}  # nor what a kill cut short
    if visible and f"{what}.json" not in inside:
        raise JobcastError(f"{path}: holds {min(visible)}, but no {what}; choose an empty folder with --out.")


def _refuse_other(sheet: Path, what: str, identity: str, about: Mapping[str, Any]) -> None:
    try:
        kept = json.loads(sheet.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise JobcastError(f"{sheet}: cannot be read ({error}); choose another folder, or delete this one.") from error
    if not isinstance(kept, dict) or not isinstance(kept.get("identity"), str):
        raise JobcastError(f"{sheet}: does not say whose folder this is; choose another one, or delete it.")
    if kept["identity"] != identity:
        raise JobcastError(
            f"{sheet.parent}: holds the results of another {what}, which differs in {_difference(kept, about)}; "
            "choose another folder with --out, or delete this one."
        )


def _difference(kept: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Return the first thing in which two works differ, in words.

    Examples
    --------
    >>> _difference({"seeds": [1], "rest": {}}, {"seeds": [1, 2], "rest": {}})
    'seeds (1; here 1, 2)'
    >>> _difference({"rest": {"kill": True}}, {"rest": {"kill": False, "by": []}})
    'kill, by'
    """
    for key, value in wanted.items():
        other = kept.get(key)
        if other == value:
            continue
        if isinstance(value, dict) and isinstance(other, dict):
            return ", ".join(name for name, one in value.items() if name not in other or other[name] != one) or key
        said, here = _short(other), _short(value)
        return f"{key} ({said}; here {here})" if said != here else f"its {key}"
    return "what it runs"


def _short(value: Any) -> str:
    """Return a value in a few words; of tables in a list the first thing that each tells."""
    several = value if isinstance(value, list) else [value]
    text = ", ".join(str(next(iter(one.values()), "")) if isinstance(one, dict) else str(one) for one in several)
    return text if len(text) <= 60 else text[:57] + "…"
