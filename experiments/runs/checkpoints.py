"""Checkpoints: a run directory with identity and lock, and in it a Parquet file for each part that is done.

A sweep is kept in its folder of results. An experiment is kept in a folder `unfinished-…` of its report folder, which
goes when the report has been written. That name is a digest of all that results depend on: the same command goes on
there, another one (other options, log, versions, code) starts in a folder of its own.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any, Final, TypeVar

from experiments.console import progress
from experiments.reports.provenance import code_digest, versions
from experiments.runs.pool import JOB_BYTES, each
from experiments.runs.setting import WITHOUT_LOG, Setting
from predictors.core.errors import JobcastError, counted
from predictors.core.files import drop_unfinished, whole_file
from predictors.core.parquet import damage_named
from predictors.data.joblog import JobLog

if TYPE_CHECKING:
    import pandas as pd

LOCK: Final = ".lock"


def code_identity() -> dict[str, Any]:
    """Return which code is at work: versions, and a digest of jobcast's own source."""
    return {"versions": versions(), "code": code_digest()}


def digest_of_values(known: Any) -> str:
    """Return a digest of all that results depend on, plain values alone."""
    return sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def log_identity(log: JobLog) -> dict[str, Any]:
    """Return the parts of a log that results depend on: its jobs, machine, clock and names."""
    return {
        "name": log.name,
        "sha256": log.digest(),
        "procs": log.max_procs,
        "nodes": log.max_nodes,
        "epoch": log.epoch,
        "time_zone": log.time_zone,
        "names": digest_of_values(dict(log.categories)),
    }


@contextmanager
def run_directory(
    path: Path,  # the folder; it is made where it is missing
    what: str,  # kind of work, such as "sweep"; the file `WHAT.json` says which run owns the folder
    identity: str,  # differs for all other works
    # what the identity is of, as plain values: the most telling first, to say in what another work differs
    about: Mapping[str, Any],
) -> Iterator[None]:
    """Keep a folder for one work and for this process while the block lasts.

    It is refused where another process is at work in it, or it holds something else: not even a lock is left in there
    then.
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
        sheet = path / f"{what}.json"
        if sheet.exists():
            _refuse_other(sheet, what, identity, about)
        else:
            with whole_file(sheet) as part:
                part.write_text(json.dumps({"identity": identity, **about}, indent=1), encoding="utf-8")
        for inside in (entry for entry in path.iterdir() if entry.is_dir()):  # a report is written without the lock
            drop_unfinished(inside)
        yield
    finally:
        lock.release()


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
        raise JobcastError(f"{sheet}: does not say which run owns this folder; choose another one, or delete it.")
    if kept["identity"] != identity:
        raise JobcastError(
            f"{sheet.parent}: holds the results of another {what}, which differs in {_difference(kept, about)}; "
            "choose another folder with --out, or delete this one."
        )


def _difference(kept: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Return the first thing in which two works differ, in words.

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
        there, here = _short(other), _short(value)
        return f"{key} ({there}; here {here})" if there != here else f"its {key}"
    return "what it runs"


def _short(value: Any) -> str:
    """Return a value in a few words; of tables in a list the first value of each."""
    several = value if isinstance(value, list) else [value]
    text = ", ".join(str(next(iter(one.values()), "")) if isinstance(one, dict) else str(one) for one in several)
    return text if len(text) <= 60 else text[:57] + "…"


PARTS: Final = "parts"


class Parts:
    """Tables of finished work in a run directory, each a Parquet file named by a digest of what produced it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / PARTS

    def path(self, *about: Any) -> Path:
        """Return where the result of plain values is kept."""
        return self.folder / f"{digest_of_values(about)[:24]}.parquet"

    def keep(self, table: "pd.DataFrame", path: Path) -> "pd.DataFrame":
        """Write a table down, and return it as it is read later: the same whether anything was killed in between."""
        self.folder.mkdir(exist_ok=True)
        with whole_file(path) as part, part.open("wb") as file:  # Arrow refuses paths that are not UTF-8
            table.to_parquet(file, index=False, compression="zstd", write_page_checksum=True)
        return self.read(path)

    def read(self, path: Path) -> "pd.DataFrame":
        import pandas as pd

        with damage_named(path, "delete it, and it is done again"):
            return pd.read_parquet(BytesIO(path.read_bytes()), page_checksum_verification=True)

    def all(self) -> "Iterator[tuple[Path, pd.DataFrame]]":
        """Yield every table that was kept, with its file."""
        for path in sorted(self.folder.glob("*.parquet")):
            yield path, self.read(path)

    def drop(self) -> None:
        """Remove all of them."""
        rmtree(self.folder, ignore_errors=True)


def kept_in(folder: Path, done: int, runs: int) -> str:
    """Return a sentence about what is kept of a work that stops."""
    return f"{done:,} of {counted(runs, 'run')} are kept in {folder}: the same command goes on there."


Task = TypeVar("Task")

NEEDS: Final = 700e6
"""Memory without which a worker cannot do them [bytes]; half a year of RUSH's control jobs takes most."""


def run_all(
    setting: Setting,  # the workers, and where to keep what is done
    what: str,  # what is being done, a word or two for the progress bar, unique within the experiment
    # of a module's top level; draws nothing by chance but by seeds in its task
    function: "Callable[[Any, Task], pd.DataFrame]",
    shared: Any,  # what tasks have in common; goes to each worker once
    tasks: Sequence[Task],  # small; their `repr` identifies them
    about: Mapping[str, str] | None = None,  # what else results depend on
) -> "list[pd.DataFrame]":
    """Return `function(shared, task)` for each task, in order: the same for any workers and after interruptions.

    If a task raises an error, or workers fail, what is done stays kept.
    """
    parts = None if setting.checkpoints is None else Parts(setting.checkpoints)
    paths = [] if parts is None else [parts.path(what, repr(task), dict(about or {})) for task in tasks]
    found = {number: parts.read(path) for number, path in enumerate(paths) if parts is not None and path.is_file()}
    missing = [number for number in range(len(tasks)) if number not in found]
    needs = NEEDS + JOB_BYTES * len(setting.log)
    try:
        with progress(what, len(tasks)) as advance:
            advance(len(found))
            work = [("", tasks[number]) for number in missing]
            for place, table in each(function, {"": shared}, work, setting.pool, needs=needs):
                number = missing[place]
                found[number] = table if parts is None else parts.keep(table, paths[number])
                advance(1)
    except JobcastError as error:
        if not found or setting.checkpoints is None:
            raise
        raise type(error)(f"{error} {kept_in(setting.checkpoints, len(found), len(tasks))}") from error
    return [found[number] for number in range(len(tasks))]


def _options(setting: Setting) -> dict[str, Any]:
    """Return what an experiment is run with apart from its log, as plain values; neither who works, nor where."""
    names = {one.name for one in fields(setting)} - {"log", "folder", "checkpoints", "pool"}
    given = {name: getattr(setting, name) for name in names}
    given["machine"] = None if setting.machine is None else setting.machine.plain
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
    return {name: str(value) if isinstance(value, Path) else value for name, value in plain.items()}


@contextmanager
def with_checkpoints(name: str, setting: Setting) -> Iterator[Setting]:
    """Yield the setting with a folder for what is done; the folder is removed if the block succeeds."""
    about = {"experiment": name, **_options(setting)}
    about |= {"log": {} if name in WITHOUT_LOG else log_identity(setting.log), **code_identity()}
    identity = digest_of_values(about)
    folder = setting.folder / f"unfinished-{identity[:12]}"
    with run_directory(folder, "experiment", identity, about):
        try:
            yield replace(setting, checkpoints=folder)
        except BaseException:
            if not any(entry.is_dir() for entry in folder.iterdir()):  # nothing is kept
                rmtree(folder, ignore_errors=True)
            raise
        rmtree(folder, ignore_errors=True)
