"""Commands of users and operators: holds, releases, alterations and big runs, each at its second."""

import csv
import os
from dataclasses import dataclass
from typing import Final, Literal, get_args

from predictors.core.compressed import read_text
from predictors.core.errors import JobcastError, unknown_name
from predictors.core.validation import LATEST, check_whole

Action = Literal["hold", "release", "alter", "big-run"]
ACTIONS: Final = get_args(Action)
COLUMNS: Final = ("time", "job", "action", "procs", "requested")
EVERYBODY: Final = 0


@dataclass(frozen=True)
class Command:
    """One command."""

    time: int  # when [s], on the workload's clock
    # `hold`; `release`, also of jobs with a failed parent; `alter` processors or requested time; `big-run`: the waiting
    # capability jobs of accounts that are not spent come first, by size
    action: Action
    job: int = EVERYBODY  # its job id; none for a big run
    # procs, requested: the new values; None: unchanged; an alteration also releases a job with a failed parent
    procs: int | None = None
    requested: int | None = None

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise unknown_name("command", self.action, ACTIONS)
        for what, whole in (
            ("second of a command", self.time),
            ("job of a command", self.job),
            ("number of processors that a command gives", self.procs),
            ("requested time that a command gives", self.requested),
        ):
            if whole is not None:
                check_whole(whole, f"the {what}", most=LATEST if what != "job of a command" else (1 << 63) - 1)
        if self.time < 0:
            raise JobcastError(f"A command must come at 0 s or later; {self.action!r} comes at {self.time} s.")
        if (self.procs is not None or self.requested is not None) and self.action != "alter":
            raise JobcastError(f"Only 'alter' takes processors or a requested time; {self.action!r} at {self.time} s.")
        for what, value in (("processors", self.procs), ("s requested", self.requested)):
            if value is not None and value < 1:
                raise JobcastError(f"Job {self.job} is altered to {value} {what} at {self.time} s; 1 is the least.")
        if (self.job == EVERYBODY) != (self.action == "big-run"):
            raise JobcastError(
                f"{self.action!r} at {self.time} s: names {self.job or 'no'} job; only a big run names none."
            )


def read_commands(path: str | os.PathLike[str], origin: int = 0) -> tuple[Command, ...]:
    """Read commands from a CSV file with the columns `time,job,action,procs,requested`, times by the log's clock.

    Empty cells leave values unchanged. The order within a second is the file's.
    """
    reader = csv.DictReader(read_text(path, "a CSV file of commands").splitlines())
    try:
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise JobcastError(f"{path}:{reader.line_num + 1}: is not CSV: {error}.") from error
    names = list(reader.fieldnames or ())
    missing = [name for name in COLUMNS[:3] if name not in names]
    if missing:
        raise JobcastError(f"{path}: has no column {', '.join(missing)}; needed are {', '.join(COLUMNS[:3])}.")
    for name in names:
        if name not in COLUMNS:
            raise JobcastError(f"{path}:1: {unknown_name('column', name, COLUMNS)}")
        if names.count(name) > 1:
            raise JobcastError(f"{path}:1: names the column {name!r} {names.count(name)} times; once is needed.")
    commands = []
    for line, row in rows:
        if None in row or None in row.values():
            raise JobcastError(f"{path}:{line}: has not one value for each of the {len(names)} columns.")
        try:
            job, procs, requested = (int(row.get(name) or 0) for name in ("job", "procs", "requested"))
            time, name = int(row["time"]) - origin, row["action"] or ""
        except (TypeError, ValueError) as error:
            raise JobcastError(f"{path}:{line}: {error}; whole numbers are needed.") from error
        try:
            action: Action = name.strip()  # type: ignore[assignment]
            given = {key: value for key, value in (("procs", procs), ("requested", requested)) if row.get(key)}
            commands.append(Command(time, action, job, **given))
        except JobcastError as error:
            raise JobcastError(f"{path}:{line}: {error}") from error
    return tuple(sorted(commands, key=lambda command: command.time))
