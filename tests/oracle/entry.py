"""A job as the oracle's scheduler knows it, and what replaces an estimate that it has outlived."""

from dataclasses import dataclass, field
from itertools import count

MINUTE, HOUR = 60, 3600
RUNGS = [1 * MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE] + [h * HOUR for h in (1, 2, 5, 10, 20, 50, 100)]


@dataclass(eq=False)
class Entry:
    """A job as the scheduler knows it: three estimates [s], and when it started."""

    row: int
    job_id: int
    submit: int
    procs: int
    requested: int
    run_time: int
    user: int
    ordering: int
    candidate: int
    first: int  # the running estimate as first given
    running: int  # the same, as corrected
    start: int = -1
    key: tuple = ()
    overdue: bool = False  # it has outlived its estimate
    steps: list = field(default_factory=list)  # (seconds since its start, running estimate from then on)
    ladder: list = field(default_factory=list)  # those that are still to come
    job: object = None
    place: dict | None = None
    end: int = -1
    length: int = 0  # how long it would run, were it not killed
    holds: int = 0  # by a gate
    base: float = 0.0  # of its score: what it had, the squares gained since, and since when it gains
    squares: int = 0
    growth: float = 0.0
    since: int = 0
    ticked: int = -1

    @property
    def planned_end(self) -> int:
        """Second at which a running job ends as planned."""
        return self.start + self.running

    @property
    def score(self) -> float:
        """What it is served by under Cobalt's score."""
        return self.base + self.growth * float(self.squares)


def corrected(entry: Entry, elapsed: int, correction: str, kill: bool) -> int:
    """Return an estimate beyond `elapsed` for a running job that outlived the one it had."""
    estimate = entry.running
    while estimate <= elapsed:
        if estimate >= entry.requested and not kill:
            estimate *= 2
        elif correction == "requested":
            estimate = entry.requested
        elif correction == "doubling":
            estimate = min(2 * estimate, entry.requested)
        elif correction == "incremental":
            higher = [entry.first + rung for rung in RUNGS if entry.first + rung > estimate]
            estimate = min(higher[0] if higher else entry.requested, entry.requested)
        elif correction == "slurm":
            left = entry.requested - elapsed
            estimate = elapsed + max(1, left // 2) if left > 0 else entry.requested
        elif correction == "pbs":
            estimate = min(next(k * entry.first for k in count(1) if k * entry.first > elapsed), entry.requested)
        elif correction == "plus-hour":
            estimate = min(estimate + HOUR, entry.requested)
        else:
            raise ValueError(correction)
    return estimate
