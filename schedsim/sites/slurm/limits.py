"""Limits on the jobs, processors, nodes or GPUs in use at a time by a user, an account or a QOS.

A limit has a name, and a most that the running jobs that count against it may use. A waiting job that would exceed it
is held until others end: the policy passes it over, and it holds no reservation. See `schedsim.sites.slurm.passes`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from predictors.core.arrays import Bools, Ints, short_repr
from predictors.core.errors import JobcastError
from schedsim.kernels.records import Records
from schedsim.sites.slurm.records import CLAIM, LIMIT, Claim, Limit


class Claims(NamedTuple):
    """What jobs count against limits, one entry per job and limit."""

    # the job's row in the workload, the number of the limit, and how much of it the job uses while it runs, shape (n,)
    row: Ints
    limit: Ints
    amount: Ints
    holds: Bools  # whether the limit may hold the job; otherwise the job only counts, shape (n,)


@dataclass(frozen=True, eq=False)
class Quota:
    """How many jobs of each group, such as a user's, one run of the backfill loop tests.

    Parameters
    ----------
    most : int
        Of each group; the run passes over the jobs behind them.
    group_of : int64 array of shape (n_jobs,)
        The group of each job, from 0 on; -1: the job belongs to none.
    """

    most: int
    group_of: Ints

    __repr__ = short_repr


@dataclass(frozen=True, eq=False)
class Limits:
    """Limits, and what each job counts against them.

    Parameters
    ----------
    names : sequence of str
        Name of each limit, such as "QOS normal: MaxJobsPerUser=4 (alice)".
    most : int64 array of shape (n_limits,)
        The most that may be in use.
    claims : Claims
        Of all jobs.
    unreserved : bool array of shape (n_jobs,), optional
        Jobs that hold no reservation, whether or not a limit holds them.

    Raises
    ------
    JobcastError
        If a job alone uses more than a limit that may hold it: it could never start.

    Examples
    --------
    >>> claims = Claims(np.array([0, 1]), np.array([0, 0]), np.array([1, 1]), np.array([True, True]))
    >>> Limits(["MaxJobs=1 (alice)"], np.array([1]), claims, n_jobs=2).first_claim.tolist()
    [0, 1, 2]
    """

    names: Sequence[str]
    most: Ints
    claims: Claims
    n_jobs: int
    unreserved: Bools | None = None
    first_claim: Ints = field(init=False, repr=False)
    records: Records[Claim] = field(init=False, repr=False)

    __repr__ = short_repr

    def __post_init__(self) -> None:
        row, limit, amount, holds = self.claims
        never = np.flatnonzero(holds & (amount > np.asarray(self.most)[limit]))
        if never.size:
            one = int(never[0])
            raise JobcastError(
                f"The job in row {int(row[one])} alone uses {int(amount[one]):,}, more than the limit "
                f"{self.names[int(limit[one])]} allows: it could never start. Let the limit not hold it."
            )
        order = np.argsort(row, kind="stable")
        records: Any = np.empty(len(row), CLAIM)
        records["limit"], records["amount"], records["holds"] = limit[order], amount[order], holds[order]
        first = np.zeros(self.n_jobs + 1, dtype=np.int64)
        np.cumsum(np.bincount(row, minlength=self.n_jobs), out=first[1:])
        object.__setattr__(self, "first_claim", first)
        object.__setattr__(self, "records", records)

    def check_jobs(self, n_jobs: int) -> None:
        """Refuse limits made for another number of jobs."""
        if self.n_jobs != n_jobs:
            raise JobcastError(
                f"These limits are for {self.n_jobs:,} jobs, the workload has {n_jobs:,}: make them for its jobs."
            )

    @classmethod
    def none(cls, n_jobs: int) -> "Limits":
        """Return an instance without limits."""
        empty = np.empty(0, dtype=np.int64)
        return cls((), empty, Claims(empty, empty, empty, np.empty(0, dtype=np.bool_)), n_jobs)

    def table(self) -> Records[Limit]:
        """Return the limits as the kernels take them, with nothing in use."""
        records: Any = np.zeros(len(self.names), LIMIT)
        records["most"] = self.most
        return records  # type: ignore[no-any-return]


@dataclass
class LimitsBeingMade:
    """Collects limits, and what jobs count against them.

    Examples
    --------
    >>> made = LimitsBeingMade()
    >>> rows = np.array([0, 2])
    >>> made.add("account physics: GrpTRES=cpu=8", 8, rows, np.array([4, 9]), np.array([True, True]))
    1
    >>> limits = made.done(3)
    >>> limits.names, limits.records["holds"].tolist()
    (('account physics: GrpTRES=cpu=8',), [True, False])
    """

    names: list[str] = field(default_factory=list)
    most: list[int] = field(default_factory=list)
    parts: list[Claims] = field(default_factory=list)

    def add(self, name: str, most: int, rows: Ints, amounts: Ints, holds: Bools) -> int:
        """Add a limit for the jobs in some rows; return how many of these exceed it alone: it does not hold them."""
        uses = amounts > 0
        rows, amounts, holds = rows[uses], amounts[uses], holds[uses]
        fits = amounts <= most
        number = len(self.names)
        self.names.append(name)
        self.most.append(most)
        self.parts.append(Claims(rows, np.full(len(rows), number), amounts, holds & fits))
        return int((holds & ~fits).sum())

    def done(self, n_jobs: int, unreserved: Bools | None = None) -> Limits:
        """Return the limits."""
        if not self.parts:
            found = Limits.none(n_jobs)
            return Limits((), found.most, found.claims, n_jobs, unreserved)
        claims = Claims(*(np.concatenate(columns) for columns in zip(*self.parts, strict=True)))
        return Limits(tuple(self.names), np.array(self.most, dtype=np.int64), claims, n_jobs, unreserved)
