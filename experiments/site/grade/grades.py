"""The grade of a twin by its figures: A, B, C, refused, or none."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan
from typing import Final, Literal

from experiments.site.grade.statistics import Interval, Spread
from predictors.core.errors import counted, percent

FEWEST_BLOCKS: Final = 8
FEWEST_JOBS: Final = 500
MOST_UNREAD: Final = 0.05

Letter = Literal["A", "B", "C", "refused", "ungraded"]
MEANS: Final[Mapping[Letter, str]] = {
    "A": "its figures may be used as they are",
    "B": "differences between settings may be used",
    "C": "it shows directions, and no figures",
    "refused": "it answers nothing",
    "ungraded": "without a slurm.conf there is no twin, and these figures are those of EASY",
}


@dataclass(frozen=True)
class GroupFigures:
    """Figures of a group of jobs."""

    name: str  # partition x, width 2-4 or heavy users
    jobs: int
    work_share: float
    ratio: Interval  # Σ twin / Σ wait
    error_share: float  # of Σ |twin - wait|
    mean_wait: float
    mean_twin: float

    @property
    def off(self) -> float:
        """How far its interval reaches from 1; endless where no wait is logged."""
        far = max(abs(self.ratio.low - 1), abs(self.ratio.high - 1))
        return float("inf") if isnan(far) else far


@dataclass(frozen=True)
class Figures:
    """Figures of a twin, over the jobs that count."""

    jobs: int
    blocks: int
    agreement: Interval  # P
    ratio: Interval  # R
    error: Interval  # M [s]
    correlation: float  # of weekly means
    groups: tuple[GroupFigures, ...]
    spread: Spread
    better_than: Mapping[str, bool]  # whether M is below that of other policies for certain
    unread: float  # share of the work that is unread, or under rules that the twin lacks
    load: float  # as logged, of the machine

    @property
    def of_spread(self) -> Interval:
        """P over that of the twin next to itself."""
        return self.agreement.over(max(self.spread.agreement, 1e-9))

    @property
    def worst(self) -> GroupFigures | None:
        return max(self.groups, key=lambda one: one.off, default=None)


@dataclass(frozen=True)
class Criterion:
    """A condition of a grade, and whether it holds."""

    grade: Letter
    text: str
    found: str
    holds: bool


def refusals(figures: Figures) -> list[str]:
    """Return why a twin has no grade at all, a clause each."""
    found = []
    if figures.blocks < FEWEST_BLOCKS:
        found.append(f"{counted(figures.blocks, 'block')} of weeks behind the warm-up, and {FEWEST_BLOCKS} are needed")
    if figures.jobs < FEWEST_JOBS:
        found.append(f"{counted(figures.jobs, 'job')} that waited, and {FEWEST_JOBS} are needed")
    if figures.unread > MOST_UNREAD:
        found.append(f"{percent(figures.unread, 1)} of the work is unread or under rules that the twin lacks")
    if figures.load > 1:
        found.append(f"the logged load is {figures.load:.2f}, above all of the machine")
    return found


def criteria(figures: Figures) -> list[Criterion]:
    share, ratio, spread = figures.of_spread, figures.ratio, figures.spread
    wide, of_groups = max(0.10, spread.ratio), max(0.20, 2 * spread.ratio)
    worst, rho = figures.worst, "unknown" if isnan(figures.correlation) else f"{figures.correlation:.2f}"
    off = "no group" if worst is None else f"{worst.name} {shown(worst.ratio)}"
    beaten = [name for name, is_better in figures.better_than.items() if not is_better]

    def groups(margin: float) -> bool:
        return all(one.ratio.within(margin) for one in figures.groups)

    return [
        Criterion("A", "interval of P / P_S above 0.8, P / P_S at least 0.9", shown(share),
                  share.low > 0.8 and share.value >= 0.9),
        Criterion("A", f"R within 1 ± {wide:.2f}", shown(ratio), ratio.within(wide)),
        Criterion("A", f"R of each group within 1 ± {of_groups:.2f}", off, groups(of_groups)),
        Criterion("B", "interval of P / P_S above 0.5", shown(share), share.low > 0.5),
        Criterion("B", "R within 1 ± 0.20", shown(ratio), ratio.within(0.20)),
        Criterion("B", "R of each group within 1 ± 0.40", off, groups(0.40)),
        Criterion("B", "ρ at least 0.7", rho, figures.correlation >= 0.7),
        Criterion("B", "M certainly below that of EASY and conservative backfilling",
                  f"not below {', '.join(beaten)}" if beaten else "below both", not beaten),
        Criterion("C", "R within 1 ± 0.50", shown(ratio), ratio.within(0.50)),
        Criterion("C", "ρ at least 0.4", rho, figures.correlation >= 0.4),
    ]  # fmt: skip


def grade_of(figures: Figures) -> Letter:
    if refusals(figures):
        return "refused"
    found = criteria(figures)
    for letter in ("A", "B", "C"):
        if all(one.holds for one in found if one.grade == letter):
            return letter
    return "refused"


def shown(one: Interval) -> str:
    """Return an interval as text.

    >>> shown(Interval(1.0, 0.925, 1.1))
    '1.00 (0.93 to 1.10)'
    """
    return "unknown" if isnan(one.value) else f"{one.value:.2f} ({one.low:.2f} to {one.high:.2f})"
