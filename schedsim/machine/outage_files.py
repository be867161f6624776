"""Outages read from CSV or TOML; docs/machine.md shows both.

Times of a CSV are all seconds on the log's own clock, or all dates with their offset from UTC. `until` is for
`maintenance` and `reserve`. Without `count` and `nodes`, maintenance is of the whole machine. A TOML file has a
`[[window]]` for each reservation, which may be repeated, and names a CSV for the rest.
"""

import csv
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, cast

from predictors.core.compressed import read_text
from predictors.core.declarations import STRICT, declared, parse_toml
from predictors.core.errors import JobcastError, unknown_name
from predictors.data.slurm.site import is_site, read_site
from schedsim.machine.outages import RULES, Change, Interrupted, Outages, Pieces, Reservation
from schedsim.machine.slurm_nodes import outages_of

COLUMNS: Final = ("time", "until", "kind", "count", "nodes")
KINDS: Final = ("maintenance", "reserve", "fail", "repair")
MOST_WINDOWS: Final = 10_000
DAY: Final = 86_400
WHAT: Final = "a CSV or TOML file of outages"

Sort = Literal["seconds", "dates"]


@dataclass
class Clock:
    """Converts times of a file into seconds on the workload's clock."""

    origin: int = 0  # what the log's own clock showed at the workload's second 0
    epoch: int | None = None  # the same second in seconds since 1970, if the log has it
    sort: Sort | None = None  # how times are written, once one has been read
    first: str = ""  # place of that first time

    def read(self, text: object, at: str) -> int:
        """Return a time; it must be of the same sort as the first one."""
        word = str(text).strip()
        sort: Sort = "seconds" if re.fullmatch(r"-?[0-9]+", word) else "dates"
        if self.sort is None:
            self.sort, self.first = sort, at
        if sort != self.sort:
            raise JobcastError(
                f"{at}: time {word!r}: times are seconds or dates, not both; {self.first} has {self.sort}."
            )
        if sort == "seconds":
            if len(word) > 15:
                raise JobcastError(f"{at}: time {word!r} is no second that a log can reach.")
            return int(word) - self.origin
        try:
            moment = text if isinstance(text, datetime) else datetime.fromisoformat(word)
        except ValueError:
            raise JobcastError(
                f"{at}: time {word!r} is neither seconds nor a date such as 2017-01-02T09:00:00-06:00."
            ) from None
        if moment.tzinfo is None:
            raise JobcastError(f"{at}: time {word!r} has no offset from UTC, such as Z or -06:00; dates need one.")
        if self.epoch is None:
            raise JobcastError(f"{at}: time {word!r} is a date, but the log has no start date; give seconds.")
        return int(moment.timestamp()) - self.epoch


def read_outages(
    path: str | os.PathLike[str],  # the file; TOML by its suffix, else CSV; or a site's file with reservations
    # origin, epoch: of the log that is simulated, see `Clock`
    origin: int = 0,
    epoch: int | None = None,
) -> Outages:
    """Return a machine's reservations and failures from a CSV or TOML file."""
    if is_site(path):
        return outages_of(read_site(path), os.fspath(path), epoch)
    clock = Clock(origin, epoch)
    text = read_text(path, WHAT)
    return _from_toml(Path(path), text, clock) if Path(path).suffix == ".toml" else _from_csv(path, text, clock)


def _from_csv(path: str | os.PathLike[str], text: str, clock: Clock) -> Outages:
    reader = csv.DictReader(text.splitlines(), restkey="", strict=True)
    try:
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise JobcastError(f"{path}:{reader.line_num}: is not CSV: {error}.") from None
    names = [name.strip() for name in reader.fieldnames or ()]
    reader.fieldnames = names
    for name in names:
        if name not in COLUMNS:
            raise JobcastError(f"{path}:1: {unknown_name('column', name, COLUMNS)}")
        if names.count(name) > 1:
            raise JobcastError(f"{path}:1: names the column {name!r} {names.count(name)} times; once is needed.")
    for needed in ("time", "kind"):
        if needed not in names:
            raise JobcastError(f"{path}:1: has no column {needed!r}; the first line names {', '.join(COLUMNS)}.")
    reservations: list[Reservation] = []
    changes: list[Change] = []
    for line, raw in rows:
        at = f"{path}:{line}"
        if "" in raw:
            raise JobcastError(f"{at}: has more values than the {len(names)} columns.")
        row = {key.strip(): (value or "").strip() for key, value in raw.items()}
        part = _part(row, at, clock)
        if isinstance(part, Reservation):
            reservations.append(part)
        else:
            changes.append(part)
    return Outages(tuple(reservations), tuple(changes))


def _part(row: Mapping[str, str], at: str, clock: Clock) -> Reservation | Change:
    kind, until = row["kind"], row.get("until", "")
    if kind not in KINDS:
        raise JobcastError(f"{at}: {unknown_name('kind', kind, KINDS)}")
    time = clock.read(row["time"], at)
    count, nodes = _count(row.get("count", ""), at), _nodes(row.get("nodes", ""), at)
    if kind == "fail" or kind == "repair":
        if until:
            raise JobcastError(
                f"{at}: until {until!r}: a failure's end is not known in advance; give the repair a line of its own."
            )
        return Change(time, "fail" if kind == "fail" else "repair", count, nodes, at)
    if not until:
        raise JobcastError(f"{at}: {kind} needs the column 'until', when it ends.")
    if kind == "reserve" and count is None and nodes is None:
        raise JobcastError(f"{at}: reserve needs a count of nodes, or nodes; the whole machine is kind 'maintenance'.")
    end = clock.read(until, at)
    _check_order(row["time"], time, until, end, at)
    return Reservation(time, end, count, nodes, at)


def _check_order(time: object, start: int, until: object, end: int, at: str) -> None:
    """Refuse an end that is not after its begin, in the words of the file."""
    if end <= start:
        raise JobcastError(f"{at}: until {str(until)!r} must be later than time {str(time)!r}; correct one.")


def _count(text: str, at: str) -> int | None:
    if not text:
        return None
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise JobcastError(f"{at}: count {text!r} is no number of nodes.")
    return int(text)


def _nodes(text: str, at: str) -> Pieces | None:
    """Return nodes such as `0-31 77` as pieces."""
    if not text:
        return None
    pieces = []
    for word in text.replace(",", " ").split():
        first, _, last = word.partition("-")
        if not re.fullmatch(r"[0-9]+(-[0-9]+)?", word) or len(word) > 19:
            raise JobcastError(f"{at}: nodes {word!r} are unknown; nodes are numbers from 0, such as 0-31 77.")
        end = int(last or first) + 1
        if end <= int(first):
            raise JobcastError(f"{at}: nodes {word!r} end before they begin.")
        pieces.append((int(first), end))
    return tuple(pieces)


@dataclass(frozen=True)
class _Window:
    """A `[[window]]` of a TOML file: a reservation that may repeat."""

    __pydantic_config__: ClassVar[Any] = STRICT

    kind: str
    time: int | str
    hours: float
    every_days: int | None = None
    until: int | str | None = None
    count: int | str = ""
    nodes: int | str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS[:2]:
            raise unknown_name("kind", self.kind, KINDS[:2])
        if not 0 < self.hours < 1e6:
            raise JobcastError(f"hours is how long it lasts; got {self.hours!r}.")
        if self.kind == "reserve" and self.count == "" and self.nodes == "":
            raise JobcastError("reserve needs a count of nodes, or nodes; the whole machine is kind 'maintenance'.")
        if self.every_days is None:
            if self.until is not None:
                raise JobcastError("until is for windows that are repeated; give every_days, or leave it out.")
            return
        if self.every_days < 1 or self.every_days * DAY < round(3600 * self.hours):
            raise JobcastError(
                f"every_days is the number of days from begin to begin, longer than hours; got {self.every_days!r}."
            )
        if self.until is None:
            raise JobcastError("a window that is repeated needs `until`, after which none begins.")

    def reservations(self, at: str, clock: Clock) -> list[Reservation]:
        begin, length = clock.read(self.time, at), round(3600 * self.hours)
        count, nodes = _count(str(self.count), at), _nodes(str(self.nodes), at)
        if self.every_days is None:
            return [Reservation(begin, begin + length, count, nodes, at)]
        last = clock.read(self.until, at)
        _check_order(self.time, begin, self.until, last, at)
        starts = range(begin, last + 1, self.every_days * DAY)
        if len(starts) > MOST_WINDOWS:
            raise JobcastError(f"{at}: {len(starts):,} repetitions are more than {MOST_WINDOWS:,}.")
        return [Reservation(start, start + length, count, nodes, at) for start in starts]


@dataclass(frozen=True)
class _File:
    """A TOML file of outages."""

    __pydantic_config__: ClassVar[Any] = STRICT

    interrupted: str = "requeue"
    seed: int = 0
    failures: str | None = None
    window: tuple[_Window, ...] = ()

    def __post_init__(self) -> None:
        if self.interrupted not in RULES:
            raise unknown_name("rule for interrupted jobs", self.interrupted, RULES)


def _from_toml(path: Path, text: str, clock: Clock) -> Outages:
    given = declared(_File, parse_toml(text, str(path)), str(path))
    found = Outages(seed=given.seed)
    if given.failures is not None:
        other = path.parent / given.failures
        found = _from_csv(other, read_text(other, WHAT), clock)
    more: list[Reservation] = []
    for number, window in enumerate(given.window, start=1):
        more += window.reservations(f"{path}: window {number}", clock)
    return replace(found.with_reservations(more), interrupted=cast("Interrupted", given.interrupted), seed=given.seed)
