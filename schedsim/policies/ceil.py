"""CEIL: a ceiling on utilisation, and postponed jobs.

CEIL [1]_ is both on any order. Read here as follows:

* *Ceiling.* No start, of the head or of a backfill, may lift the processors in use above the ceiling; equal is allowed.
  A job that alone needs at least that share of the machine is exempt. A head that the ceiling stops holds its
  reservation like any blocked head; its shadow time and the extra processors are those of a machine as large as the
  ceiling allows. With `refused="passed over"` it holds none, and the policy tries the next job in its place.
* *Postponing.* A job with a deadline is postponed when it is submitted. All such jobs join the queue, with their old
  submissions, at a scheduling instant at which the queue is empty, or less than `low` of the machine is in use.
  Utilisation counts after the pass: the jobs that still wait then are too wide for the free processors, which is the
  paper's reason for the rule, and the pass continues with those that joined. (With `looks="before"` the pass, every
  wide job that ends releases all: the machine has not been filled again yet.) A single one joins at (deadline -
  requested time - `lead`), which is a scheduling instant. Backfills come from the queue first, then from the postponed
  jobs, by the same rules.

>>> from schedsim.engine.simulation import simulate
>>> from schedsim.machine.dilation import Dilation
>>> from schedsim.policies.policy import make_policy
>>> from schedsim.results.site_metrics import user_figures
>>> from schedsim.workload.workload import Workload
>>> five = 5 * 3600
>>> w = Workload.from_columns(range(1, 19), submit=[0] * 18, procs=[9] * 9 + [1] * 9, requested=[five] * 18,
...                           run_time=[five] * 18, machine_procs=10)
>>> for name in ("easy", "easy+ceil"):  # the paper's Figure 1: 54 hours, and 50
...     schedule = simulate(w, make_policy(name), kill=False, run_times=Dilation(low=1.2, high=1.2))
...     print(name, user_figures(schedule)["makespan_s"] / 3600, user_figures(schedule)["time_above_share"])
easy 54.0 0.9814814814814815
easy+ceil 50.0 0.0

.. [1] Li, Chunduri, Harms, Fan, Lan. The effect of system utilization on application performance variability. ROSS
   2019. doi:10.1145/3322789.3328743
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, isfinite
from numbers import Integral, Real
from typing import Final, Literal

from predictors.core.errors import JobcastError

Refused = Literal["reserves", "passed over"]
Looks = Literal["after", "before", "both"]

HOUR: Final = 3600
CEILING: Final = 0.95
LOW: Final = 0.60
LEAD: Final = 3 * HOUR
LONGEST_LEAD: Final = 10**9


@dataclass(frozen=True)
class Postponing:
    """When jobs with a deadline are postponed, and until when.

    >>> Postponing(low=1.5)
    Traceback (most recent call last):
    predictors.core.errors.JobcastError: Postponed jobs are released below a share of the machine, 0 to 1; got 1.5.
    """

    low: float = LOW  # all join the queue while less than this share of the machine is in use
    # a single one joins this long before it must start to end by its deadline, if it runs as long as requested [s]
    lead: int = LEAD
    # whether postponed jobs may be backfilled behind those of the queue; else only jobs of the queue start
    backfill: bool = True
    looks: Looks = "after"  # {"after", "before", "both"}: when utilisation counts: after the pass, before it, or both

    def __post_init__(self) -> None:
        if not (isinstance(self.low, Real) and isfinite(self.low) and 0 <= self.low <= 1):
            raise JobcastError(f"Postponed jobs are released below a share of the machine, 0 to 1; got {self.low!r}.")
        if not (isinstance(self.lead, Integral) and 0 <= self.lead <= LONGEST_LEAD):
            raise JobcastError(
                f"Postponed jobs join the queue 0 to {LONGEST_LEAD:,} s before they must start; got {self.lead!r}."
            )
        if self.looks not in ("after", "before", "both"):
            raise JobcastError(f"Utilisation counts 'after', 'before' or 'both'; got looks={self.looks!r}.")

    @property
    def before(self) -> bool:
        """Whether utilisation counts before the pass."""
        return self.looks != "after"

    @property
    def after(self) -> bool:
        """Whether it counts after the pass."""
        return self.looks != "before"


@dataclass(frozen=True)
class Ceiling:
    """A limit on how much of the machine may be in use."""

    # share of the machine that no start may lift utilisation above, except starts of jobs that alone need as much
    share: float = CEILING
    # {"reserves", "passed over"}: whether a head that only the ceiling stops holds its reservation, or the policy tries
    # the next job
    refused: Refused = "reserves"

    def __post_init__(self) -> None:
        if not (isinstance(self.share, Real) and isfinite(self.share) and 0 < self.share <= 1):
            raise JobcastError(
                f"A ceiling on utilisation is a share of the machine, above 0 and at most 1; got {self.share!r}."
            )
        if self.refused not in ("reserves", "passed over"):
            raise JobcastError(
                f"A head that the ceiling stops 'reserves' or is 'passed over'; got refused={self.refused!r}."
            )


def most_in_use(ceiling: float, procs: int) -> int:
    """Return how many processors may be in use under a ceiling.

    The share counts as the decimal number that it is written as.

    >>> most_in_use(0.95, 4392), most_in_use(0.57, 100)
    (4172, 57)
    """
    return floor(Fraction(str(ceiling)) * procs)


def share_of(share: float, procs: int) -> int:
    """Return the smallest number of processors that is at least a share of the machine.

    >>> share_of(0.95, 4392), share_of(0.6, 10)
    (4173, 6)
    """
    return ceil(Fraction(str(share)) * procs)
