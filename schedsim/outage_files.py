"""When is the machine reserved, and which nodes fail? Read from a CSV or TOML file.

A CSV has a line of names, `time,until,kind,count,nodes` in any order, and a line for each thing that happens:

```text
time,until,kind,count,nodes
2017-01-02T09:00:00-06:00,2017-01-02T17:00:00-06:00,maintenance,,
1483370000,1483380000,reserve,512,
1483390000,,fail,,0-31 77
1483397200,,repair,,0-31 77
```

Times are seconds on the log's own clock or dates with their offset from UTC, of one sort throughout. `until` is for
`maintenance` and `reserve`. Without `count` and `nodes`, maintenance is of the whole machine.

A TOML file has a `[[window]]` for each reservation, which may be repeated, and names a CSV for the rest:

```toml
interrupted = "requeue"     # or "drop": what becomes of a job on a node that fails
failures = "failures.csv"   # beside this file
[[window]]
kind = "maintenance"
time = "2017-01-02T09:00:00-06:00"
hours = 8
every_days = 14
until = "2017-12-31T00:00:00-06:00"
```
"""

import csv
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

from predictors.data.errors import JobcastError, unknown_name
from predictors.data.sources import read_text
from schedsim.outages import RULES, Change, Outages, Pieces, Reservation

COLUMNS: Final = ("time", "until", "kind", "count", "nodes")
KINDS: Final = ("maintenance", "reserve", "fail", "repair")
TOP: Final = ("interrupted", "seed", "failures", "window")
WINDOW: Final = ("kind", "time", "hours", "every_days", "until", "count", "nodes")
MOST_WINDOWS: Final = 10_000
DAY: Final = 86_400
WHAT: Final = "a CSV or TOML file of outages"

Sort = Literal["seconds", "dates"]


@dataclass
class Clock:
    """Turns times as written into seconds on the workload's clock.

    Parameters
    ----------
    origin : int
        What the log's own clock showed at the workload's second 0.
    epoch : int, optional
        When that was, in seconds since 1970, where the log tells.
    sort : {"seconds", "dates"}, optional
        How times are written, once one was read.
    first : str
        Where that was.
    """

    origin: int = 0
    epoch: int | None = None
    sort: Sort | None = None
    first: str = ""

    def read(self, text: object, at: str) -> int:
        """Return a time.

        Raises
        ------
        JobcastError
            If it is none, has no offset from UTC, is of another sort than the first, or a date where the log has none.
        """
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
            raise JobcastError(f"{at}: time {word!r} is a date, but the log does not tell when it began; give seconds.")
        return int(moment.timestamp()) - self.epoch


def read_outages(path: str | os.PathLike[str], origin: int = 0, epoch: int | None = None) -> Outages:
    """Return what a CSV or TOML file tells of a machine's reservations and failures.

    Parameters
    ----------
    path : path
        The file; TOML by its suffix, else CSV.
    origin, epoch : int
        Of the log that is simulated, see `Clock`.

    Raises
    ------
    JobcastError
        If the file cannot be read; the message names file and line, the rule and the value.
    """
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
    """Return what a line tells."""
    kind, until = row["kind"], row.get("until", "")
    if kind not in KINDS:
        raise JobcastError(f"{at}: {unknown_name('kind', kind, KINDS)}")
    time = clock.read(row["time"], at)
    count, nodes = _count(row.get("count", ""), at), _nodes(row.get("nodes", ""), at)
    if kind == "fail" or kind == "repair":
        if until:
            raise JobcastError(
                f"{at}: until {until!r}: of a failure nobody knows its end; give the repair its own line."
            )
        return Change(time, "fail" if kind == "fail" else "repair", count, nodes, at)
    if not until:
        raise JobcastError(f"{at}: {kind} needs the column 'until', when it ends.")
    if kind == "reserve" and count is None and nodes is None:
        raise JobcastError(f"{at}: reserve needs a count of nodes, or nodes; the whole machine is kind 'maintenance'.")
    return Reservation(time, clock.read(until, at), count, nodes, at)


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


def _from_toml(path: Path, text: str, clock: Clock) -> Outages:
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise JobcastError(f"{path}: is not TOML: {error}.") from None
    _known(table, TOP, str(path))
    rule, seed, windows = table.get("interrupted", "requeue"), table.get("seed", 0), table.get("window", [])
    if rule not in RULES:
        raise JobcastError(f"{path}: {unknown_name('rule for interrupted jobs', str(rule), RULES)}")
    if not isinstance(windows, list) or not all(isinstance(window, dict) for window in windows):
        raise JobcastError(f"{path}: windows are written [[window]].")
    found = Outages(seed=seed)
    if "failures" in table:
        if not isinstance(table["failures"], str):
            raise JobcastError(f"{path}: failures names a CSV file beside this one; got {table['failures']!r}.")
        other = path.parent / table["failures"]
        found = _from_csv(other, read_text(other, WHAT), clock)
    more: list[Reservation] = []
    for number, window in enumerate(windows, start=1):
        more += _windows(window, f"{path}: window {number}", clock)
    return replace(found.with_reservations(more), interrupted=rule, seed=seed)


def _known(table: Mapping[str, Any], keys: tuple[str, ...], at: str) -> None:
    for key in table:
        if key not in keys:
            raise JobcastError(f"{at}: {unknown_name('key', key, keys)}")


def _windows(window: Mapping[str, Any], at: str, clock: Clock) -> list[Reservation]:
    """Return a window and its repetitions."""
    _known(window, WINDOW, at)
    hours, every = window.get("hours"), window.get("every_days")
    if window.get("kind") not in KINDS[:2]:
        raise JobcastError(f"{at}: {unknown_name('kind', str(window.get('kind')), KINDS[:2])}")
    if not isinstance(hours, int | float) or isinstance(hours, bool) or not 0 < hours < 1e6:
        raise JobcastError(f"{at}: hours is how long it lasts; got {hours!r}.")
    if "time" not in window:
        raise JobcastError(f"{at}: needs `time`, when it first begins.")
    begin, length = clock.read(window["time"], at), round(3600 * hours)
    count, nodes = _count(str(window.get("count", "")), at), _nodes(str(window.get("nodes", "")), at)
    if window["kind"] == "reserve" and count is None and nodes is None:
        raise JobcastError(f"{at}: reserve needs a count of nodes, or nodes; the whole machine is kind 'maintenance'.")
    if every is None:
        if "until" in window:
            raise JobcastError(f"{at}: until is for windows that are repeated; give every_days, or leave it out.")
        return [Reservation(begin, begin + length, count, nodes, at)]
    if not isinstance(every, int) or isinstance(every, bool) or every < 1 or every * DAY < length:
        raise JobcastError(
            f"{at}: every_days is how many days lie between two begins, longer than hours; got {every!r}."
        )
    if "until" not in window:
        raise JobcastError(f"{at}: a window that is repeated needs `until`, after which none begins.")
    last = clock.read(window["until"], at)
    starts = range(begin, last + 1, every * DAY)
    if len(starts) > MOST_WINDOWS:
        raise JobcastError(f"{at}: {len(starts):,} repetitions are more than {MOST_WINDOWS:,}.")
    return [Reservation(start, start + length, count, nodes, at) for start in starts]
