"""Advice as a value, which claims no more than the runs show.

Every way is compared with what the site runs today, over the same shaken logs (`experiments.compare.compare`). A class
of jobs gains or loses where the whole interval of its mean wait's ratio lies beyond 5 %, a user where every single
shake agrees; both only from a minute on, and never for a few jobs.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from experiments.compare.compare import NOBODY, WAIT, choose, compare, paired_ratio
from experiments.compare.measures import AS_LOGGED
from experiments.compare.result import COST, LEVEL, TOLERATED, Choice, Comparison, Outcome, Ratio, of_each
from experiments.compare.sentences import document
from predictors.core.arrays import Floats
from predictors.data.summary import Lack

if TYPE_CHECKING:
    import pandas as pd

MEASURE: Final = "mean_bounded_slowdown"
CLASSES: Final = ("size", "run-time")
FEWEST: Final = 30  # jobs of a class or a user, below which nothing is said of it
NOTICED: Final = 60.0  # a change of the mean wait that no one would notice [s]
UNTESTED: Final = ("no-queue", "made-limit", "nothing-known", "same-schedules")
"""Lacks by which the simulations test nothing; by others they test another workload, or another site."""


@dataclass(frozen=True)
class Change:
    """What becomes of the mean wait of a class of jobs, or of a user's."""

    # `size`, `run-time` or `user`, and which one
    by: str
    group: str
    n_jobs: int  # how many jobs it has in the log
    # mean wait today and then: geometric means over the shakes [s], so that one by the other is the ratio
    before_s: float
    after_s: float
    ratio: Ratio  # then / today, and its interval (of users: the least and the greatest over the shakes)
    outcome: Outcome  # `open`: not sure, too small to notice, or too few jobs


@dataclass(frozen=True)
class Option:
    """One way compared with today's: the judgement over all jobs, and the effect on classes and users."""

    case: str
    comparison: Comparison
    changes: tuple[Change, ...]

    def who(self, outcome: Outcome, *kinds: str) -> tuple[Change, ...]:
        """Return who gains or loses, of these kinds, the most first."""
        found = [change for change in self.changes if change.outcome == outcome and change.by in kinds]
        return tuple(sorted(found, key=lambda change: change.ratio.value, reverse=outcome == "worse"))

    def compared(self, kind: str) -> int:
        """Return the number of classes, or users, with enough jobs to compare."""
        return sum(change.by == kind and change.n_jobs >= FEWEST for change in self.changes)


@dataclass(frozen=True)
class Advice:
    """What the runs say; the judgements have intervals so wide that all of them hold together."""

    current: str  # what the site runs today
    choice: Choice  # of all ways, today's among them; no winner inside the noise
    options: tuple[Option, ...]  # the other ways, the lowest figure first
    adds: tuple[Comparison, ...]  # what predictors add: a policy with one compared with the same policy without
    # perfect knowledge of run times compared with today's: what no predictor can beat under that policy
    most: Comparison | None
    lacks: tuple[Lack, ...] = ()  # what the log lacks; where one forbids a verdict, nothing is advised

    @classmethod
    def none(cls, current: str, lacks: tuple[Lack, ...]) -> Self:
        return cls(current, Choice(None, current, ()), (), (), None, lacks)

    @property
    def forbidden(self) -> tuple[Lack, ...]:
        """Why the log carries no verdict, if it does not."""
        return tuple(lack for lack in self.lacks if lack.forbids_verdict)

    @property
    def untested(self) -> bool:
        """Whether the log carries no verdict since nothing could be tested on it."""
        return any(lack.name in UNTESTED for lack in self.forbidden)

    @property
    def lead(self) -> Option:
        """The way that the verdict is about: the winner, else the lowest without certain cost, at a cost, or at all."""
        for outcome in ("better", COST):
            for option in self.options:
                if option.case == self.choice.case or option.comparison.outcome == outcome:
                    return option
        return self.options[0]

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        return (*(option.comparison for option in self.options), *self.adds, *((self.most,) if self.most else ()))

    def to_json(self) -> dict[str, Any]:
        return {
            "current": self.current,
            "choice": None if self.forbidden else document(self.choice),
            "no_verdict_since": [lack.name for lack in self.forbidden],
            "options": [
                {
                    "case": option.case,
                    "judgement": document(option.comparison),
                    "changes": [asdict(change) for change in option.changes],
                }
                for option in self.options
            ],
            "predictors_add": [document(comparison) for comparison in self.adds],
            "perfect_knowledge": document(self.most) if self.most else None,
        }


def advise(
    runs: "pd.DataFrame",
    groups: "pd.DataFrame",
    current: str,
    *,
    perfect: str | None = None,
    adds: Iterable[tuple[str, str]] = (),
    measure: str = MEASURE,
    lacks: tuple[Lack, ...] = (),
) -> Advice:
    """Say what the runs of one log say.

    Parameters
    ----------
    runs, groups : DataFrame
        A row a run, and a row a run and group, as in `experiments.sweeps.results`.
    perfect : str, optional
        A case with perfect knowledge: shown with the others, never chosen.
    adds : pairs of str
        A case with a predictor, and the same policy without.
    """
    real = runs[runs["case"] != perfect] if perfect else runs
    names = [name for name in dict.fromkeys(real["case"]) if name != current]
    added = [(with_it, without) for with_it, without in adds if {with_it, without} <= set(real["case"])]
    level = of_each(LEVEL, len(names) + len(added) + bool(perfect))
    found = [
        Option(
            name,
            compare(real, name, current, measure, groups=groups, level=level),
            tuple(changes(groups, name, current)),
        )
        for name in names
    ]
    return Advice(
        current,
        choose(real, measure=measure),
        tuple(sorted(found, key=lambda option: option.comparison.ratio.value)),
        tuple(compare(real, with_it, without, measure, level=level) for with_it, without in added),
        compare(runs, perfect, current, measure, level=level) if perfect else None,
        lacks,
    )


def changes(groups: "pd.DataFrame", case: str, beside: str) -> Iterator[Change]:
    """Yield what becomes of each class and each user, in the order of the table."""
    nobody = (groups["by"] == "user") & (groups["group"] == NOBODY)
    both = groups.loc[groups["case"].isin((case, beside)) & ~nobody, ["by", "group", "seed", "case", WAIT, "n_jobs"]]
    found: dict[tuple[str, str], dict[int, dict[str, tuple[float, int]]]] = {}
    for by, group, seed, which, wait, n_jobs in both.itertuples(index=False, name=None):
        found.setdefault((by, group), {}).setdefault(seed, {})[which] = wait, n_jobs
    for (by, group), seeds in found.items():
        used = [seeds[seed] for seed in sorted(seeds) if seed != AS_LOGGED] or [*seeds.values()]
        pairs = np.array([(one[case][0], one[beside][0]) for one in used if {case, beside} <= set(one)])
        if not len(pairs):
            continue
        jobs = round(np.mean([one[beside][1] for one in used if beside in one]))
        after, before = map(geometric_mean, pairs.T)
        ratio = _spread(*pairs.T) if by == "user" else paired_ratio(pairs, WAIT)
        noticed = jobs >= FEWEST and abs(after - before) >= NOTICED and len(pairs) > 1
        outcome: Outcome = "open"
        if noticed and ratio.above(TOLERATED):
            outcome = "worse"
        elif noticed and ratio.high < 1 / TOLERATED:
            outcome = "better"
        yield Change(str(by), str(group), jobs, before, after, ratio, outcome)


def geometric_mean(values: "pd.Series[float] | Floats") -> float:
    """Return the geometric mean of figures over the shakes; below 1 (s) they count as 1, as in the ratios."""
    return float(np.exp(np.log(np.maximum(values, 1.0)).mean()))


def _spread(ours: Floats, theirs: Floats) -> Ratio:
    """Return the mean ratio of two waits, and the least and greatest over the shakes; waits below 1 s count as 1 s."""
    ratios = np.log(np.maximum(ours, 1.0)) - np.log(np.maximum(theirs, 1.0))
    return Ratio(*(float(np.exp(value)) for value in (ratios.mean(), ratios.min(), ratios.max())))
