"""One walk through a schedule by its starts and ends: who headed the queue, who passed it, and what that did to it."""

from bisect import bisect_left, insort
from heapq import heappop, heappush
from itertools import groupby

import numpy as np

from schedsim.kernels.keys import static_key
from schedsim.results.schedule import BACKFILLED, Schedule
from schedsim.validate import laws as known


class Broken(Exception):
    """A job breaks a law: the law, the job's row, and what was found. Its one catcher makes it a `JobcastError`."""

    def __init__(self, law: str, row: int, found: str) -> None:
        super().__init__(law, row, found)
        self.law, self.row, self.found = law, row, found


Ends = list[tuple[int, int]]


def shadow_time(ends: Ends, free: int, need: int) -> int:
    """Return the first of the ends (second, processors), ascending, at which `need` processors are free.

    >>> shadow_time([(100, 3), (100, 1), (200, 4)], free=2, need=7)
    200
    """
    for end, procs in ends:
        free += procs
        if free >= need:
            return end
    raise ValueError(f"{need} processors are never free.")


class Replay:
    """A walk through a schedule; of the laws given it checks those that need one."""

    def __init__(self, run: known.Run, laws: frozenset[str]) -> None:
        schedule, policy = run.schedule, run.policy
        workload = schedule.workload
        self.schedule, self.laws, self.free = schedule, laws, workload.machine_procs
        self.window = policy.window if policy.kind == "knapsack" else len(schedule.start)
        self.slack = policy.promise.slack if policy.promise else 0
        self.procs: list[int] = workload.procs.tolist()
        self.start: list[int] = schedule.start.tolist()
        self.end: list[int] = schedule.end.tolist()
        self.by: list[int] = schedule.started_by.tolist()
        self.planned_end: list[int] = (schedule.start + schedule.estimate).tolist()
        self.latest_end: list[int] = (schedule.start + workload.requested).tolist()
        self.nodes = schedule.nodes
        self.holder = np.full(0 if self.nodes is None else int(self.nodes.last.max(initial=-1)) + 1, -1)
        self.planned: Ends = []  # of the running jobs
        self.latest: Ends = []
        self.seen_head = [False] * len(workload)
        self.keys = _keys(schedule, policy.order.code) if run.is_static and known.KIND in laws else None
        self.queue: list[tuple[int, int]] = []  # a heap by (key, row)
        self.narrow: list[tuple[int, int]] = []  # a heap by (processors, row)
        self.waiting = 0

    def run(self) -> None:
        """Walk through all instants.

        Raises
        ------
        Broken
            At the first job that breaks a law.
        """
        rows, submit = range(len(self.start)), self.schedule.workload.submit.tolist()
        events = [(self.end[row], 0, row) for row in rows if self.end[row] > self.start[row]]
        events += [(submit[row], 1, row) for row in rows] + [(self.start[row], 2, row) for row in rows]
        for now, here in groupby(sorted(events), key=lambda event: event[0]):
            starting = set[int]()
            for _, kind, row in here:
                if kind == 0:
                    self._occupy(row, -1)
                elif kind == 1:
                    self._arrive(row)
                else:
                    starting.add(row)
            self._instant(now, starting)

    def _occupy(self, row: int, sign: int) -> None:
        """Take a job's processors, or give them back (sign -1)."""
        self.free -= sign * self.procs[row]
        if self.nodes is not None:
            mine = self.nodes[row]
            if sign > 0 and (self.holder[mine] >= 0).any():
                node = int(mine[np.argmax(self.holder[mine])])
                other = int(self.holder[node])
                found = f"on node {node}, which job {self._id(other)} holds until {self.end[other]} s"
                raise Broken(known.NODES, row, f"starts at {self.start[row]} s {found}")
            self.holder[mine] = row if sign > 0 else -1
        for ends, end in ((self.planned, self.planned_end[row]), (self.latest, self.latest_end[row])):
            if sign > 0:
                insort(ends, (end, self.procs[row]))
            else:
                del ends[bisect_left(ends, (end, self.procs[row]))]

    def _arrive(self, row: int) -> None:
        self.waiting += 1
        if self.keys is not None:
            heappush(self.queue, (self.keys[row], row))
        if known.NOTHING_FITS in self.laws:
            heappush(self.narrow, (self.procs[row], row))

    def _instant(self, now: int, passing: set[int]) -> None:
        """Start the jobs of a second: those in turn, then those that pass the head."""
        self.waiting -= len(passing)
        while self.queue and self.start[self.queue[0][1]] <= now:  # in turn, or backfilled before
            row = heappop(self.queue)[1]
            if row in passing:
                passing.remove(row)
                self._begin(now, row)
                if self.by[row] == BACKFILLED:
                    self._check(known.KIND, row, "is called backfilled, but nobody before it was waiting")
        if self.queue:
            self._head(now, self.queue[0][1], passing)
        for row in passing:
            if self.keys is None:
                self._begin(now, row)
                continue
            head = self._id(self.queue[0][1])
            self._check(known.IN_ORDER, row, f"passes job {head}")
            if self.by[row] != BACKFILLED:
                self._check(known.KIND, row, f"passes job {head}, and is not called backfilled")
        while self.narrow and self.start[self.narrow[0][1]] <= now:
            heappop(self.narrow)
        if self.narrow and self.narrow[0][0] <= self.free and self.waiting <= self.window:
            row = self.narrow[0][1]
            self._check(known.NOTHING_FITS, row, f"waits at {now} s while {self.free} processors are free")

    def _begin(self, now: int, row: int) -> None:
        if self.end[row] > now:
            self._occupy(row, 1)

    def _head(self, now: int, head: int, passing: set[int]) -> None:
        """Check a blocked head, and start those that pass it."""
        need = self.procs[head]
        if need <= self.free:
            self._check(known.NO_IDLE_HEAD, head, f"could start at {now} s: {self.free} processors are free")
        elif not self.seen_head[head]:
            self.seen_head[head] = True
            self._reservation(head, self.start[head])
        looks = bool(passing) and known.HARMLESS in self.laws
        before = shadow_time(self.planned, self.free, need) if looks else 0
        for row in passing:
            self._begin(now, row)
        after = shadow_time(self.planned, self.free, need) if looks else 0
        if after > before:
            names = ", ".join(str(self._id(row)) for row in sorted(passing)[:3])
            self._check(known.HARMLESS, head, f"is delayed at {now} s from {before} to {after} s by job(s) {names}")

    def _reservation(self, head: int, start: int) -> None:
        """Check the shadow time and the promise of a job that first heads the queue blocked."""
        need = self.procs[head]
        if known.FIRST_SHADOW in self.laws and start > (shadow := shadow_time(self.planned, self.free, need)):
            self._check(known.FIRST_SHADOW, head, f"starts at {start} s; its first shadow time was {shadow} s")
        if known.PROMISE in self.laws and start > (promise := shadow_time(self.latest, self.free, need) + self.slack):
            self._check(known.PROMISE, head, f"starts at {start} s; it was promised {promise} s")

    def _check(self, law: str, row: int, found: str) -> None:
        if law in self.laws:
            raise Broken(law, row, found)

    def _id(self, row: int) -> int:
        return int(self.schedule.workload.job_id[row])


def _keys(schedule: Schedule, order: int) -> list[int]:
    """Return the jobs' keys in the queue, by the estimates with which they started."""
    workload, first = schedule.workload, int(schedule.workload.submit[0])
    columns = (workload.submit.tolist(), workload.procs.tolist(), schedule.estimate.tolist())
    jobs = enumerate(zip(*columns, strict=True))
    return [static_key(order, row, max(1, submit - first), n, p, 0, 0) for row, (submit, n, p) in jobs]
