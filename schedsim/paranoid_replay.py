"""Which laws does a schedule keep at each of its instants? One walk through it, by what it shows alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import groupby
from math import log10, sqrt
from types import MappingProxyType
from typing import Final

from schedsim.schedule import BACKFILLED, Schedule

Key = Callable[[int, int, int, int], float]

# n processors, p estimate [s], submission [s], age: submission after the first one, at least 1 [s]
STATIC_KEYS: Final[Mapping[str, Key]] = MappingProxyType(
    {
        "fcfs": lambda n, p, submit, age: submit,
        "sjf": lambda n, p, submit, age: p,
        "ljf": lambda n, p, submit, age: -p,
        "saf": lambda n, p, submit, age: p * n,
        "laf": lambda n, p, submit, age: -p * n,
        "f1": lambda n, p, submit, age: log10(p) * n + 870 * log10(age),
        "f2": lambda n, p, submit, age: sqrt(p) * n + 25_600 * log10(age),
        "f3": lambda n, p, submit, age: p * n + 6_860_000 * log10(age),
        "f4": lambda n, p, submit, age: p * sqrt(n) + 530_000 * log10(age),
    }
)
"""Orders whose head can be told from the schedule: their keys do not change while a job waits."""

IN_ORDER: Final = "with no backfilling, jobs start in the order of the queue"
NO_IDLE_HEAD: Final = "the first job of the queue starts as soon as it fits"
HARMLESS: Final = "no backfill delays the head's shadow time"
FIRST_SHADOW: Final = "the head starts by its first shadow time"
PROMISE: Final = "the head starts by its promise"
KIND: Final = "a job that passes a blocked one is backfilled, and no other"
NOTHING_FITS: Final = "a greedy rule leaves no job waiting that fits"


class Broken(Exception):
    """A job breaks a law: the law, the job's row, and what was found. Its one catcher makes it a `JobcastError`."""

    def __init__(self, law: str, row: int, found: str) -> None:
        super().__init__(law, row, found)
        self.law, self.row, self.found = law, row, found


class PlannedEnds:
    """Processors by planned end, a binary indexed tree: adding a job and finding a shadow time cost O(log n).

    >>> ends = PlannedEnds([100, 200, 100])
    >>> ends.add(0, 3), ends.add(1, 4), ends.add(2, 1)
    (None, None, None)
    >>> ends.shadow(free=2, need=6), ends.shadow(free=2, need=7)
    (100, 200)
    """

    def __init__(self, ends: list[int]) -> None:
        self.seconds = sorted(set(ends))
        place = {second: i + 1 for i, second in enumerate(self.seconds)}
        self.place = [place[end] for end in ends]
        self.tree = [0] * (len(self.seconds) + 1)
        self.top = 1 << (len(self.seconds).bit_length() - 1)

    def add(self, row: int, procs: int) -> None:
        """Add processors (negative: take them away) at the planned end of a job."""
        i = self.place[row]
        while i < len(self.tree):
            self.tree[i] += procs
            i += i & -i

    def shadow(self, free: int, need: int) -> int:
        """Return the first planned end at which `need` processors are free."""
        i, step, lacking = 0, self.top, need - free
        while step:
            if i + step < len(self.tree) and self.tree[i + step] < lacking:
                i += step
                lacking -= self.tree[i]
            step >>= 1
        return self.seconds[i]


@dataclass
class Replay:
    """A walk through a schedule.

    Parameters
    ----------
    schedule : Schedule
        What is checked.
    laws : frozenset of str
        Which of this module's laws to check.
    order : str or None
        A key of `STATIC_KEYS`; None where the queue's order is not known.
    window : int
        How many jobs at the front of the queue a greedy rule sees.
    slack : int
        How much later than its shadow time by requested times a head's promise lies [s].
    """

    schedule: Schedule
    laws: frozenset[str]
    order: str | None
    window: int
    slack: int
    free: int = field(init=False)
    queue: list[tuple[float, int]] = field(default_factory=list)  # a heap by (key, row); rows sort like (submit, id)
    narrow: list[tuple[int, int]] = field(default_factory=list)  # a heap by (processors, row)
    waiting: int = 0

    def __post_init__(self) -> None:
        workload = self.schedule.workload
        self.free = workload.machine_procs
        self.procs: list[int] = workload.procs.tolist()
        self.start: list[int] = self.schedule.start.tolist()
        self.end: list[int] = self.schedule.end.tolist()
        self.by: list[int] = self.schedule.started_by.tolist()
        self.planned = PlannedEnds((self.schedule.start + self.schedule.estimate).tolist())
        self.latest = PlannedEnds((self.schedule.start + workload.requested).tolist())
        plans = ((self.planned, {HARMLESS, FIRST_SHADOW}), (self.latest, {PROMISE}))
        self.kept_up = [plan for plan, users in plans if users & self.laws]
        self.seen_head = [False] * len(workload)
        self.keys = self._keys()

    def _keys(self) -> list[float]:
        if self.order is None:
            return []
        key, workload = STATIC_KEYS[self.order], self.schedule.workload
        columns = (workload.procs.tolist(), self.schedule.estimate.tolist(), workload.submit.tolist())
        first = int(workload.submit[0])
        return [key(n, p, submit, max(1, submit - first)) for n, p, submit in zip(*columns, strict=True)]

    def run(self) -> None:
        """Walk through all instants.

        Raises
        ------
        Broken
            At the first job that breaks a law.
        """
        rows, submit = range(len(self.start)), self.schedule.workload.submit.tolist()
        events = [(self.end[row], 0, row) for row in rows if self.end[row] > self.start[row]]
        events += [(submit[row], 1, row) for row in rows]
        events += [(self.start[row], 2, row) for row in rows]
        events.sort()
        for now, here in groupby(events, key=lambda event: event[0]):
            starting: list[int] = []
            for _, kind, row in here:
                if kind == 0:
                    self._occupy(row, -1)
                elif kind == 1:
                    self._arrive(row)
                else:
                    starting.append(row)
            self._instant(now, starting)

    def _occupy(self, row: int, sign: int) -> None:
        """Take a job's processors, or give them back (sign -1)."""
        procs = sign * self.procs[row]
        self.free -= procs
        for plan in self.kept_up:
            plan.add(row, procs)

    def _arrive(self, row: int) -> None:
        self.waiting += 1
        if self.order is not None:
            heappush(self.queue, (self.keys[row], row))
        if NOTHING_FITS in self.laws:
            heappush(self.narrow, (self.procs[row], row))

    def _instant(self, now: int, starting: list[int]) -> None:
        passed = set(starting)
        self.waiting -= len(starting)
        while self.queue and self.start[self.queue[0][1]] <= now:  # in turn, or backfilled before
            row = heappop(self.queue)[1]
            if row in passed:
                passed.remove(row)
                self._begin(now, row)
        if self.queue:
            self._head(now, self.queue[0][1], passed)
        for row in passed:
            if self.order is not None:
                self._check(IN_ORDER, row, f"passes job {self._id(self.queue[0][1])}")
                if self.by[row] != BACKFILLED:
                    self._check(KIND, row, f"passes job {self._id(self.queue[0][1])}, and is not called backfilled")
            if self.order is None:
                self._begin(now, row)
        if NOTHING_FITS in self.laws:
            self._nothing_fits(now)

    def _begin(self, now: int, row: int) -> None:
        """Start a job; one that was not backfilled must not be called so."""
        if self.end[row] > now:
            self._occupy(row, 1)
        if self.order is not None and self.by[row] == BACKFILLED:
            self._check(KIND, row, "is called backfilled, but nobody before it was waiting")

    def _head(self, now: int, head: int, passed: set[int]) -> None:
        """Check a blocked head, and start those that pass it."""
        need = self.procs[head]
        if need <= self.free:
            self._check(NO_IDLE_HEAD, head, f"could start at {now} s: {self.free} processors are free")
        elif not self.seen_head[head]:
            self.seen_head[head] = True
            self._reservation(head)
        if not passed:
            return
        before = self.planned.shadow(self.free, need) if HARMLESS in self.laws else 0
        for row in passed:
            if self.end[row] > now:
                self._occupy(row, 1)
        after = self.planned.shadow(self.free, need) if HARMLESS in self.laws else 0
        if after > before:
            names = ", ".join(str(self._id(row)) for row in sorted(passed)[:3])
            self._check(HARMLESS, head, f"is delayed at {now} s from {before} to {after} s by job(s) {names}")

    def _reservation(self, head: int) -> None:
        """Check the shadow time and the promise of a job that first heads the queue blocked."""
        start, need = self.start[head], self.procs[head]
        if FIRST_SHADOW in self.laws and start > (shadow := self.planned.shadow(self.free, need)):
            self._check(FIRST_SHADOW, head, f"starts at {start} s; its first shadow time was {shadow} s")
        if PROMISE in self.laws and start > (promise := self.latest.shadow(self.free, need) + self.slack):
            self._check(PROMISE, head, f"starts at {start} s; it was promised {promise} s")

    def _nothing_fits(self, now: int) -> None:
        while self.narrow and self.start[self.narrow[0][1]] <= now:
            heappop(self.narrow)
        if self.narrow and self.narrow[0][0] <= self.free and self.waiting <= self.window:
            row = self.narrow[0][1]
            self._check(NOTHING_FITS, row, f"waits at {now} s while {self.free} processors are free")

    def _check(self, law: str, row: int, found: str) -> None:
        if law in self.laws:
            raise Broken(law, row, found)

    def _id(self, row: int) -> int:
        return int(self.schedule.workload.job_id[row])
