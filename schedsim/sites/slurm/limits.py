"""Limits on the jobs, processors, nodes or GPUs in use by a user, an account or a QOS: at a time, or by the minute.

A limit has a name, and a most that the jobs that count against it may use. A waiting job that would exceed it is held
until others end, or what was used has decayed: the policy passes it over, and it holds no reservation. See
`schedsim.sites.slurm.passes` and `usage`.

Limits on submissions hold no job. Slurm would refuse a job at its submission; here it runs, and is counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from predictors.core.arrays import Bools, Floats, Ints, short_repr
from predictors.core.errors import JobcastError
from schedsim.kernels.records import Records
from schedsim.sites.slurm.records import AT_A_TIME, CLAIM, LIMIT, PLANNED, SAFE, SPENT, Claim, Limit

Kind = Literal["at a time", "planned", "spent", "safe", "submitted"]
KINDS: Final[Mapping[Kind, int]] = MappingProxyType(
    {"at a time": AT_A_TIME, "planned": PLANNED, "spent": SPENT, "safe": SAFE}
)


class Claims(NamedTuple):
    """What jobs count against limits, one entry per job and limit."""

    # the job's row in the workload, the number of the limit, and how much of it the job uses while it runs, or by the
    # minute in all, shape (n,)
    row: Ints
    limit: Ints
    amount: Ints
    holds: Bools  # whether the limit may hold the job; otherwise the job only counts, shape (n,)
    rate: Floats | None = None  # what it spends a second; by default nothing, shape (n,)


@dataclass(frozen=True, eq=False)
class Quota:
    """How many jobs of each group, such as a user's, one run of a loop tests."""

    most: int  # of each group; the run passes over the jobs behind them
    group_of: Ints  # shape (n_jobs,); the group of each job, from 0 on; -1: the job belongs to none
    of_main: bool = False  # of the main loop; else of the backfill loop

    __repr__ = short_repr


@dataclass(frozen=True, eq=False)
class Submissions:
    """How many jobs may be submitted and not have ended."""

    name: str
    most: int
    rows: Ints  # jobs that count
    holds: Bools  # which of them the limit refuses, shape (n,)


@dataclass(frozen=True, eq=False)
class Limits:
    """Limits, and what each job counts against them.

    >>> claims = Claims(np.array([0, 1]), np.array([0, 0]), np.array([1, 1]), np.array([True, True]))
    >>> Limits(["MaxJobs=1 (alice)"], np.array([1]), claims, n_jobs=2).first_claim.tolist()
    [0, 1, 2]
    """

    names: Sequence[str]  # name of each limit, such as "QOS normal: MaxJobsPerUser=4 (alice)"
    most: Ints  # shape (n_limits,); the most that may be in use
    claims: Claims  # of all jobs
    n_jobs: int
    unreserved: Bools | None = None  # shape (n_jobs,); jobs that hold no reservation, whether or not a limit holds them
    # shape (n_limits,); values of `KINDS`; by default all are at a time. Of what has been used nothing counts without a
    # fair share
    kinds: Ints | None = None
    decays: Bools | None = None  # shape (n_limits,); whether what is spent decays, as usage does; by default it does
    submissions: Sequence[Submissions] = ()  # limits on submissions
    first_claim: Ints = field(init=False, repr=False)
    records: Records[Claim] = field(init=False, repr=False)

    __repr__ = short_repr

    def __post_init__(self) -> None:
        row, limit, amount, holds, rate = self.claims
        kinds = np.zeros(len(self.names), dtype=np.int64) if self.kinds is None else self.kinds
        never = np.flatnonzero(holds & ~_may_start(kinds[limit], amount, np.asarray(self.most)[limit]))
        if never.size:
            one = int(never[0])
            raise JobcastError(
                f"The job in row {int(row[one])} alone uses {int(amount[one]):,}, more than the limit "
                f"{self.names[int(limit[one])]} allows: it could never start. Let the limit not hold it."
            )
        order = np.argsort(row, kind="stable")
        records: Any = np.empty(len(row), CLAIM)
        records["limit"], records["amount"], records["holds"] = limit[order], amount[order], holds[order]
        records["rate"] = 0.0 if rate is None else rate[order]
        first = np.zeros(self.n_jobs + 1, dtype=np.int64)
        np.cumsum(np.bincount(row, minlength=self.n_jobs), out=first[1:])
        object.__setattr__(self, "first_claim", first)
        object.__setattr__(self, "records", records)

    @property
    def spends(self) -> bool:
        """Whether some limit is on what has been used."""
        return self.kinds is not None and bool((self.kinds >= SPENT).any())

    def check_jobs(self, n_jobs: int) -> None:
        if self.n_jobs != n_jobs:
            raise JobcastError(
                f"These limits are for {self.n_jobs:,} jobs, the workload has {n_jobs:,}: make them for its jobs."
            )

    @classmethod
    def none(cls, n_jobs: int) -> "Limits":
        """Return an instance without limits."""
        empty = np.empty(0, dtype=np.int64)
        return cls((), empty, Claims(empty, empty, empty, np.empty(0, dtype=np.bool_)), n_jobs)

    def table(self, left: float = 1.0) -> Records[Limit]:
        """Return the limits as the kernels take them, with nothing in use; so much of usage is left after a second."""
        records: Any = np.zeros(len(self.names), LIMIT)
        records["most"], records["kind"] = self.most, 0 if self.kinds is None else self.kinds
        records["left"] = np.where(True if self.decays is None else self.decays, left, 1.0)
        return records  # type: ignore[no-any-return]

    def refused(self, submit: Ints, end: Ints) -> Bools:
        """Return which jobs Slurm would refuse at their submission, shape (n_jobs,); those do not count from then on.

        Jobs are in the order of their submission. In a second jobs end first.
        """
        refused = np.zeros(self.n_jobs, dtype=np.bool_)
        limits: list[list[tuple[int, bool]]] = [[] for _ in range(self.n_jobs if self.submissions else 0)]
        for number, one in enumerate(self.submissions):
            for row, holds in zip(one.rows.tolist(), one.holds.tolist(), strict=True):
                limits[row].append((number, holds))
        inside, ends = [0] * len(self.submissions), list[tuple[int, int]]()
        for row, own in enumerate(limits):
            while ends and ends[0][0] <= submit[row]:
                for number, _ in limits[heappop(ends)[1]]:
                    inside[number] -= 1
            refused[row] = any(holds and inside[number] >= self.submissions[number].most for number, holds in own)
            if not refused[row]:
                heappush(ends, (int(end[row]), row))
                for number, _ in own:
                    inside[number] += 1
        return refused


def _may_start(kinds: Ints, amounts: Ints, most: Ints) -> Bools:
    """Return which jobs could start if no other job ran before or at the same time."""
    found: Bools = np.where(kinds == SPENT, most > 0, (amounts <= most) & ((kinds != SAFE) | (most > 0)))
    return found


@dataclass
class LimitsBeingMade:
    """Collects limits, and what jobs count against them.

    >>> made = LimitsBeingMade()
    >>> rows = np.array([0, 2])
    >>> made.add("account physics: GrpTRES=cpu=8", 8, rows, np.array([4, 9]), np.array([True, True]))
    1
    >>> limits = made.done(3)
    >>> limits.names, limits.records["holds"].tolist()
    (('account physics: GrpTRES=cpu=8',), [True, False])

    A job with minutes that round to none is not held, and counts.

    >>> made.add("GrpTRESMins=cpu=9", 9, rows, np.array([0, 9]), np.array([True, True]), "spent", np.ones(2) / 2)
    0
    >>> made.done(3).records["limit"].tolist(), made.done(3).records["holds"].tolist()
    ([0, 1, 0, 1], [True, False, False, True])
    """

    names: list[str] = field(default_factory=list)
    most: list[int] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    decays: list[bool] = field(default_factory=list)
    parts: list[Claims] = field(default_factory=list)
    submissions: list[Submissions] = field(default_factory=list)

    def add(
        self,
        name: str,
        most: int,
        rows: Ints,
        amounts: Ints,
        holds: Bools,
        kind: Kind = "at a time",
        rates: Floats | None = None,
        decays: bool = True,
    ) -> int:
        """Add a limit for the jobs in some rows; return how many of these exceed it alone: it does not hold them.

        By the minute amounts are those of the whole limit of each job, and rates what it spends a second.
        """
        if kind == "submitted":
            self.submissions.append(Submissions(name, most, rows, holds))
            return 0
        uses = amounts > 0 if rates is None else (amounts > 0) | (rates > 0)
        rows, amounts, holds = rows[uses], amounts[uses], (holds & (amounts > 0))[uses]
        number, code = np.full(len(rows), len(self.names)), KINDS[kind]
        fits = _may_start(np.full(len(rows), code), amounts, np.full(len(rows), most))
        self.names.append(name)
        self.most.append(most)
        self.kinds.append(code)
        self.decays.append(decays)
        self.parts.append(
            Claims(rows, number, amounts, holds & fits, np.zeros(len(rows)) if rates is None else rates[uses])
        )
        return int((holds & ~fits).sum())

    def done(self, n_jobs: int, unreserved: Bools | None = None) -> Limits:
        if not self.parts:
            found = Limits.none(n_jobs)
            return Limits((), found.most, found.claims, n_jobs, unreserved, submissions=tuple(self.submissions))
        columns: Any = zip(*self.parts, strict=True)
        claims = Claims(*(np.concatenate(column) for column in columns))
        most, kinds = np.array(self.most, dtype=np.int64), np.array(self.kinds, dtype=np.int64)
        decays, submissions = np.array(self.decays, dtype=np.bool_), tuple(self.submissions)
        return Limits(tuple(self.names), most, claims, n_jobs, unreserved, kinds, decays, submissions)
