"""What of a sweep is done already? Batches as they came back, whole files in a folder that belongs to one sweep."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

from experiments.sweep_plan import Plan
from experiments.sweep_results import TABLE
from experiments.sweep_work import Done
from predictors.data.errors import JobcastError
from predictors.data.files import whole_file

SHEET: Final = "sweep.json"
PARTS: Final = "parts"
MODELS: Final = "models"


class SweepFolder:
    """A folder that keeps a sweep's runs while it goes on.

    Parameters
    ----------
    path : Path
        New, empty, or of this very sweep.
    plan : Plan
        The sweep.

    Raises
    ------
    JobcastError
        If the folder cannot be made, or holds something else.
    """

    def __init__(self, path: Path, plan: Plan) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            inside = [entry.name for entry in path.iterdir() if entry.name != LOCK]
        except OSError as error:
            raise JobcastError(f"{path}: no folder of results can be made there ({error.strerror}).") from error
        if SHEET in inside:
            self._refuse_other(plan)
        elif inside:
            raise JobcastError(f"{path}: holds {min(inside)}, but no sweep; choose an empty folder with --out.")
        (path / PARTS).mkdir(exist_ok=True)
        if SHEET not in inside:
            with whole_file(path / SHEET) as part:
                part.write_text(json.dumps({"identity": plan.identity(), **plan.about()}, indent=1), encoding="utf-8")

    def _refuse_other(self, plan: Plan) -> None:
        try:
            kept = json.loads((self.path / SHEET).read_text(encoding="utf-8"))
            identity = kept["identity"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise JobcastError(f"{self.path / SHEET}: cannot be read ({error}); choose another folder.") from error
        if identity != plan.identity():
            raise JobcastError(
                f"{self.path}: holds the results of another sweep, which differs in {_difference(kept, plan.about())}; "
                "choose another folder with --out, or delete this one."
            )

    @property
    def finished(self) -> bool:
        """Whether the table has been written."""
        return (self.path / TABLE).is_file()

    def kept(self) -> Done:
        """Return what is done already, models left out: they lie in their folders."""
        found = Done()
        for path in sorted((self.path / PARTS).glob("*.json")):
            try:
                part = json.loads(path.read_text(encoding="utf-8"))
                rows, groups = part["rows"], part["groups"]
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise JobcastError(f"{path}: is damaged ({error}); delete it, and its runs are done again.") from error
            found.rows.extend(rows)
            found.groups.extend(groups)
        return found

    def keep(self, done: Done) -> None:
        """Write down what came back, the models first."""
        for name, files in done.models.items():
            for file, content in files.items():
                target = self.model(name) / file
                target.parent.mkdir(parents=True, exist_ok=True)
                with whole_file(target) as part:
                    part.write_bytes(content)
        if done.rows:
            text = json.dumps({"rows": done.rows, "groups": done.groups})
            with whole_file(self.path / PARTS / f"{sha256(text.encode()).hexdigest()[:24]}.json") as part:
                part.write_text(text, encoding="utf-8")

    def model(self, name: str) -> Path:
        """Return the folder of a trained model."""
        return self.path / MODELS / name

    def drop_parts(self) -> None:
        """Remove what the table holds now."""
        rmtree(self.path / PARTS, ignore_errors=True)


LOCK: Final = ".lock"


@contextmanager
def owned(path: Path) -> Iterator[None]:
    """Keep a folder to this process while the block lasts.

    Raises
    ------
    JobcastError
        If another process is at work in it.
    """
    from filelock import FileLock, Timeout

    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path / LOCK, timeout=0)
        lock.acquire()
    except Timeout as error:
        raise JobcastError(f"{path}: another sweep is at work there; wait for it, or choose another folder.") from error
    except OSError as error:
        raise JobcastError(f"{path}: no folder of results can be made there ({error.strerror}).") from error
    try:
        yield
    finally:
        lock.release()


def _difference(kept: Any, wanted: Any) -> str:
    """Return the first thing in which two sweeps differ, in words."""
    for key in ("kind", "cases", "seeds", "logs", "versions", "code"):
        if kept.get(key) != wanted[key]:
            return _of(key, kept.get(key), wanted[key])
    other = [key for key, value in wanted["sweep"].items() if kept.get("sweep", {}).get(key) != value]
    return ", ".join(other) or "what it runs"


def _of(key: str, kept: Any, wanted: Any) -> str:
    if key in ("cases", "logs"):
        told = "case" if key == "cases" else "name"
        kept, wanted = ([one.get(told) for one in several] for several in (kept, wanted))
    return f"{key} ({_short(kept)}; here {_short(wanted)})" if kept != wanted else f"its {key}"


def _short(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 60 else text[:57] + "…"
