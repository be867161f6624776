"""Table of soft limits that plug-ins of schedulers read at submission: text, with a version and an expiry.

The first line names the cluster and the time it holds; the last one says that it is whole:

    jobcast-table 1 CLUSTER MODE WRITTEN EXPIRES RESERVATION MARGIN ROWS
    user<TAB>partition<TAB>procs<TAB>limit [min]<TAB>name<TAB>soft [min]<TAB>quantile [s]<TAB>ended jobs<TAB>model
    *<TAB>partition<TAB>procs<TAB>limit [min]<TAB>start<TAB>P50<TAB>P90<TAB>asked<TAB>-
    end ROWS

MODE is `set`, or `advise`: then no soft limit may be set by it. Times are Unix time; RESERVATION is when the first one
begins, 0 if none is coming, and no limit may end MARGIN seconds before it, or later. A row with `*` as partition, procs
and name stands for all other jobs of the user with that limit. A row of the user `*` is no soft limit: it says by when
a job of up to so many processors would have started, with a chance of one half and of nine in ten, had it been
submitted when that was asked; without a partition it stands for the default one. ROWS counts both. A reader takes a
table that is not of its cluster, not whole, or too old, for none.

This module needs the standard library only, so that a hook of a scheduler can use a copy of the file.
"""

from __future__ import annotations  # for the older Python of a scheduler's hooks

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field

VERSION = 1
ANY = "*"
_HEAD = "jobcast-table"
_SETS = "set"
_ADVISES = "advise"
_FIELDS = 9
_START = "start"


@dataclass(frozen=True)
class Row:
    """The soft limit of jobs that are alike."""

    user: str
    partition: str
    procs: str
    limit: int
    name: str
    minutes: int  # soft limit [min]
    seconds: int  # the quantile of their run times that it was made from [s]
    ended: int  # how many such jobs have been seen to end
    model: str  # who gave the quantile

    @property
    def key(self) -> tuple[str, str, str, int, str]:
        """What jobs that are alike have in common."""
        return self.user, self.partition, self.procs, self.limit, self.name


@dataclass(frozen=True)
class ExpectedStart:
    """When a job of one partition and width would start, had it been submitted at a second; times are Unix time."""

    partition: str  # empty: the cluster's default one
    procs: int  # of jobs that ask for so many processors, or fewer: a `width_class`
    limit: int  # the requested time that the job was given [min]
    # p50, p90: it has started by then with a chance of one half, and of nine in ten
    p50: int
    p90: int
    asked: int  # when that was asked

    @property
    def row(self) -> Row:
        return Row(ANY, self.partition, str(self.procs), self.limit, _START, self.p50, self.p90, self.asked, "-")


def width_class(procs: int) -> int:
    """Return the most processors of a job's class of widths: the power of four that it does not exceed.

    >>> [width_class(procs) for procs in (1, 2, 4, 5, 64, 65)]
    [1, 4, 4, 16, 64, 256]
    """
    found = 1
    while found < procs:
        found *= 4
    return found


@dataclass(frozen=True)
class Table:
    """A table of soft limits."""

    cluster: str  # the scheduler's name of the cluster
    # written, expires: in Unix time
    written: int
    expires: int
    reservation: int  # when the first coming reservation begins; 0: none
    margin: int  # so long before it no limit may end [s]
    sets: bool = False  # whether soft limits may be set by it; else it is for advice
    rows: Mapping[tuple[str, str, str, int, str], Row] = field(default_factory=dict)
    starts: tuple[ExpectedStart, ...] = ()  # when jobs submitted now would start

    def text(self) -> str:
        mode = _SETS if self.sets else _ADVISES
        times = (self.written, self.expires, self.reservation, self.margin)
        rows = [*self.rows.values(), *(one.row for one in self.starts)]
        head = (_HEAD, VERSION, self.cluster, mode, *times, len(rows))
        lines = ["\t".join(map(str, astuple(one))) for one in rows]
        return "\n".join([" ".join(map(str, head)), *lines, f"end {len(rows)}", ""])

    def find(self, user: str, partition: str, procs: int, limit: int, name: str) -> Row | None:
        """Return the row of a job with a limit of so many minutes; None if there is none."""
        exact = self.rows.get((user, partition, str(procs), limit, name))
        return exact or self.rows.get((user, ANY, ANY, limit, ANY))

    def reaches_reservation(self, now: int, limit: int) -> bool:
        """Return whether a job with a limit of so many seconds could reach a reservation."""
        return bool(self.reservation) and now + limit + self.margin >= self.reservation


def table_of(
    cluster: str,
    written: int,
    lasts: int,
    reservation: int | None,
    margin: int,
    rows: Iterable[Row],
    *,
    sets: bool = False,
    wide: bool = True,
    starts: Iterable[ExpectedStart] = (),
) -> Table:
    """Return the table of rows, with a row for all other jobs of each user and limit: the longest of theirs.

    Of rows that differ in what a table does not tell, such as the account, the longest soft limit counts. Without
    `wide` there are no rows for all other jobs: they would serve partitions that a site's rules leave out.

    Rows that cannot stand in a table, for a tab, a line break or a blank name of a user, are left out; so are starts.

    >>> made = table_of("c", 100, 60, None, 0, [Row("eve", "p", "4", 60, "fit", 9, 500, 3, "m@1")])
    >>> made.find("eve", "p", 4, 60, "fit").minutes, made.find("eve", "p", 8, 60, "other").minutes
    (9, 9)
    >>> parse(made.text(), "c", 120) == made
    True
    """
    kept: dict[tuple[str, str, str, int, str], Row] = {}
    for one in rows:
        if _sound(one):
            _keep_longest(kept, one.key, one)
    for one in list(kept.values()) if wide else ():
        _keep_longest(kept, (one.user, ANY, ANY, one.limit, ANY), one)
    told = tuple(one for one in starts if not _is_odd(one.row))
    return Table(cluster, written, written + lasts, reservation or 0, margin, sets, kept, told)


def _keep_longest(
    kept: dict[tuple[str, str, str, int, str], Row], key: tuple[str, str, str, int, str], one: Row
) -> None:
    before = kept.get(key)
    ended = one.ended + (before.ended if before else 0)
    longer = one if before is None or one.minutes > before.minutes else before
    kept[key] = Row(*key, longer.minutes, longer.seconds, ended, longer.model)


def parse(text: str, cluster: str, now: int) -> Table:
    r"""Return the table in a text; one that is damaged, expired or another cluster's raises ValueError.

    >>> parse("jobcast-table 1 other set 0 9 0 0 0\nend 0\n", "mine", 5)
    Traceback (most recent call last):
    ValueError: the table is of the cluster other, not of mine
    """
    lines = text.split("\n")
    head = lines[0].split(" ")
    if len(head) != 9 or head[:2] != [_HEAD, str(VERSION)] or head[3] not in (_SETS, _ADVISES):
        raise ValueError("this is no table of soft limits of this version")
    if head[2] != cluster:
        raise ValueError(f"the table is of the cluster {head[2]}, not of {cluster}")
    try:
        written, expires, reservation, margin, rows = map(int, head[4:])
    except ValueError:
        raise ValueError("the table's first line is damaged") from None
    if lines[-2:] != [f"end {rows}", ""] or len(lines) != rows + 3:
        raise ValueError(f"the table is not whole: {rows} rows were announced")
    if not written - 300 <= now <= expires:
        raise ValueError("the table has expired" if now > expires else "the table is from the future")
    found, starts = {}, []
    for line in lines[1:-2]:
        row = _row(line)
        if row.user == ANY:
            starts.append(_start(row))
        else:
            found[row.key] = row
    return Table(cluster, written, expires, reservation, margin, head[3] == _SETS, found, tuple(starts))


def _row(line: str) -> Row:
    parts = line.split("\t")
    if len(parts) != _FIELDS:
        raise ValueError("a row of the table is damaged")
    user, partition, procs, limit, name, minutes, seconds, ended, model = parts
    try:
        return Row(user, partition, procs, int(limit), name, int(minutes), int(seconds), int(ended), model)
    except ValueError:
        raise ValueError("a row of the table is damaged") from None


def _start(row: Row) -> ExpectedStart:
    if row.name != _START or not row.procs.isdecimal():
        raise ValueError("a row of the table is damaged")
    return ExpectedStart(row.partition, int(row.procs), row.limit, row.minutes, row.seconds, row.ended)


def _sound(row: Row) -> bool:
    named = row.user not in ("", ANY) and row.name != ANY
    return named and not _is_odd(row) and len(row.name) <= 256 and row.minutes >= 1


def _is_odd(row: Row) -> bool:
    texts = (row.user, row.partition, row.procs, row.name, row.model)
    return any(sign in text for text in texts for sign in "\t\n\r\0")
