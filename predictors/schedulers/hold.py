"""The decision on a job's start: hold it for a while, or let it start, by a classifier of variability.

It asks RUSH's question from outside the scheduler. RUSH asks at the moment of a start, and delays that job alone;
an adapter sees the queue once a minute, so it can only hold a job that waits, before the scheduler would start it. So
far that is done in shadow: what would have been held is noted, and no job is.

This module needs the standard library only, as the decision on soft limits does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from predictors.schedulers.soft_limit import (
    LEAVE,
    MINUTE,
    PENDING,
    Decision,
    QueuedJob,
    SiteRules,
    SiteState,
    forbidden,
)

HOLD = "hold"
START = "start"
VARIATION = "variation"  # what a classifier calls the class of which jobs are held
WORKLOADS = ("compute", "network", "io")


@dataclass(frozen=True)
class HoldRules:
    """A site's rules for holding jobs.

    >>> HoldRules(workloads={"lammps*": "network"}).workload_of("lammps-7")
    'network'
    """

    # of variation, from which on a job is held; None: where the classifier says variation
    least_probability: float | None = None
    most_minutes: int = 10  # no job is held longer
    # whether jobs compute, speak over the network or read and write (compute, network, io), by patterns of their names;
    # the first that fits counts. A classifier does not answer where it is not known.
    workloads: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.least_probability is not None and not 0 < self.least_probability <= 1:
            raise ValueError(f"least_probability must be above 0 and at most 1; got {self.least_probability}.")
        if not 1 <= self.most_minutes <= 1440:
            raise ValueError(f"most_minutes must be from 1 to 1440; got {self.most_minutes}.")
        for pattern, word in self.workloads.items():
            if word not in WORKLOADS:
                raise ValueError(f"workloads: {pattern!r} must be one of {', '.join(WORKLOADS)}; got {word!r}.")

    def is_bad(self, answer: Answer) -> bool:
        """Return whether an answer speaks against a start now."""
        if answer.probability is None:
            return False
        if self.least_probability is None:
            return answer.label == VARIATION
        return answer.probability >= self.least_probability

    def workload_of(self, name: str) -> str:
        """Return the workload of jobs with a name; empty where no pattern fits."""
        return next((word for pattern, word in self.workloads.items() if fnmatchcase(name, pattern)), "")


@dataclass(frozen=True)
class Answer:
    """What a classifier says of a start now."""

    probability: float | None  # of variation; None where the classifier abstains, or there is no answer
    label: str = ""
    model: str = ""
    version: str = ""
    why: str = ""  # why there is none


def decide_start(
    job: QueuedJob, answer: Answer, held: int, site: SiteState, rules: SiteRules, hold: HoldRules
) -> Decision:
    """Return whether a waiting job, `held` for so many seconds already, would be held now, or may start.

    Jobs that may have no soft limit are never held, either: heterogeneous ones, with a deadline, in a reservation or
    before one, and those of users or partitions that the site leaves out. It uses nothing but the arguments.

    >>> job, site = QueuedJob(1, limit=3600), SiteState(now=0)
    >>> decide_start(job, Answer(0.8, "variation"), 0, site, SiteRules(), HoldRules()).action
    'hold'
    >>> decide_start(job, Answer(0.8, "variation"), 600, site, SiteRules(), HoldRules()).code
    'long-enough'
    >>> decide_start(job, Answer(None, why="no telemetry"), 0, site, SiteRules(), HoldRules()).why
    'no telemetry'
    """
    if job.state != PENDING:
        return Decision(LEAVE, "not-pending", f"it is {job.state or 'in an unknown state'}, not pending")
    never = forbidden(job, site, rules)
    if never is not None:
        return Decision(START, never[0], f"its soft limit is left alone, and so is its start: {never[1]}")
    if answer.probability is None:
        return Decision(START, "no-answer", answer.why or "the classifier does not answer")
    told = f"variation has a probability of {answer.probability:.2f}"
    if not hold.is_bad(answer):
        return Decision(START, "quiet", told)
    if held >= hold.most_minutes * MINUTE:
        return Decision(START, "long-enough", f"{told}, and it has been held for {held // MINUTE} min")
    return Decision(HOLD, "variation", told)
