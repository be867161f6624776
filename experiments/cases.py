"""What is tried in a sweep? One way to schedule, or one predictor, by a name of its own."""

from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from experiments.simulation import GIVEN, check_names
from predictors.data.errors import JobcastError
from predictors.similar_runs import SimilarRuns

NEVER_EXPIRE: Final = tuple(GIVEN)
"""Estimates that no correction ever meets, since jobs are killed at their request."""


@dataclass(frozen=True)
class Case:
    """A way to schedule: names as of `jobcast simulate`, or the rule of an outlook that has no name.

    With `shaken=False` it is run on the log as it is alone: to see where it stands, not how sure that is.
    """

    name: str
    policy: str
    estimates: str | SimilarRuns = "requested"
    correction: str = "requested"
    shaken: bool = True
    budget: float | None = None

    def __post_init__(self) -> None:
        for name in ("name", "policy", "correction"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise JobcastError(f"A case's {name} must be a name; got {getattr(self, name)!r}.")
        if not self.name.isprintable():
            raise JobcastError(f"A case's name is shown: no line breaks or control characters; got {self.name!r}.")
        if not isinstance(self.estimates, str | SimilarRuns) or not isinstance(self.shaken, bool):
            raise JobcastError(f"Case {self.name!r}: estimates must be a name and shaken true or false.")
        if self.budget is not None and (isinstance(self.budget, bool) or not isinstance(self.budget, int | float)):
            raise JobcastError(f"Case {self.name!r}: budget must be a share; got {self.budget!r}.")

    def check(self, kill: bool = True) -> None:
        """Raise JobcastError unless there is such a policy, estimates and correction, and they go together."""
        try:
            check_names(self.policy, self.estimates, self.correction, self.budget)
            if not kill and self.correction not in ("requested", "doubling"):
                raise JobcastError(
                    f"jobs that are not killed at their request double their estimates: the correction "
                    f"{self.correction} does not go with kill = false."
                )
        except JobcastError as error:
            raise JobcastError(f"Case {self.name!r}: {error}") from error

    def told(self) -> dict[str, Any]:
        """Return what stands in a table."""
        estimates = self.estimates if isinstance(self.estimates, str) else repr(self.estimates)
        return {
            "case": self.name,
            "policy": self.policy,
            "estimates": estimates,
            "correction": self.correction,
            "budget": self.budget,
        }


@dataclass(frozen=True)
class Learner:
    """A predictor to be evaluated or trained."""

    name: str
    predictor: str
    budget: float | None = None

    def told(self) -> dict[str, Any]:
        """Return what stands in a table."""
        return {"case": self.name, "predictor": self.predictor, "budget": self.budget}


@dataclass(frozen=True)
class Cell:
    """One run of a sweep: a log by its digest, a case, a seed."""

    log: str
    case: Case | Learner
    seed: int

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells the runs of a sweep apart."""
        return self.log, self.case.name, self.seed


def crossed(
    policies: tuple[str, ...], estimates: tuple[str, ...], corrections: tuple[str, ...], budget: float | None = None
) -> tuple[Case, ...]:
    """Return a case for every combination, named by what tells it from the others.

    Estimates that never expire are combined with one correction only: the others would give the same schedule.

    Examples
    --------
    >>> [case.name for case in crossed(("easy", "easy-sjbf"), ("requested",), ("requested",))]
    ['easy', 'easy-sjbf']
    >>> [case.name for case in crossed(("easy",), ("requested", "tsafrir"), ("requested", "doubling"))]
    ['easy, requested', 'easy, tsafrir, requested', 'easy, tsafrir, doubling']
    """
    cases = []
    for policy, believed, correction in product(policies, estimates, corrections):
        if believed in NEVER_EXPIRE and correction != corrections[0]:
            continue
        fixed = believed in NEVER_EXPIRE
        names = [policy, *([believed] if len(estimates) > 1 else []),
                 *([correction] if len(corrections) > 1 and not fixed else [])]  # fmt: skip
        cases.append(Case(", ".join(names), policy, believed, "requested" if fixed else correction, budget=budget))
    return tuple(cases)
