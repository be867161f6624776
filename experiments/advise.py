"""What should this site change? The short list of ways to backfill, on its own log, beside what it runs today."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from experiments.advice import CLASSES, MEASURE, Advice, advise
from experiments.cases import Case
from experiments.crew import HERE
from experiments.hiring import Crew
from experiments.judgement import LEAST, MEASURES, PRICES
from experiments.sweep import Sweep
from experiments.sweep_plan import Plan, plan
from experiments.sweep_results import Results
from experiments.sweep_run import run_plan
from predictors.data.errors import JobcastError, unknown_name
from predictors.data.joblog import JobLog

SHORT_LIST: Final = (
    Case("EASY", "easy"),
    Case("EASY-SJBF", "easy-sjbf"),
    Case("EASY++", "easy-sjbf", "tsafrir"),
    Case("default", "default", "default"),
    Case("conservative", "conservative-compress"),
    Case("WFP", "wfp3-easy"),
)
"""What centres run or could run tomorrow."""
PERFECT: Final = Case("EASY-SJBF with run times known", "easy-sjbf", "clairvoyant")
ADDS: Final = (("EASY++", "EASY-SJBF"),)
"""A case with a predictor, and the same policy without."""
MEASURES_OF_SCHEDULES: Final = tuple(name for name in MEASURES if name in (MEASURE, *PRICES["simulate"]))
"""What can decide."""


def cases_with(current: str) -> tuple[Case, tuple[Case, ...]]:
    """Return what the site runs today, and all cases, that one first and perfect knowledge last.

    Raises
    ------
    JobcastError
        If there is no such policy.

    Examples
    --------
    >>> cases_with("easy")[0].name, cases_with("sjf-easy")[1][0].name, len(cases_with("sjf-easy")[1])
    ('EASY', 'sjf-easy', 8)
    """
    for case in SHORT_LIST:
        if current.lower() in (case.name.lower(), case.policy if case.estimates in ("requested", "default") else ""):
            return case, (case, *(other for other in SHORT_LIST if other is not case), PERFECT)
    own = Case(current, current)
    own.check()
    return own, (own, *SHORT_LIST, PERFECT)


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked of a cleaned log: the runs of the short list, as logged and shaken, and what they shall decide.

    Parameters
    ----------
    log : JobLog
        Cleaned by `JobLog.for_simulation`.
    current : str
        What the site runs today: a name of the short list, or any policy by requested times.
    seeds : int
        How many shakes.
    measure : str
        Figure that decides.

    Raises
    ------
    JobcastError
        If there is no such policy or measure, or too few seeds to say anything.
    """

    log: JobLog
    current: str = "easy"
    seeds: int = 20
    measure: str = MEASURE

    def __post_init__(self) -> None:
        if self.measure not in MEASURES_OF_SCHEDULES:
            raise unknown_name("measure", self.measure, MEASURES_OF_SCHEDULES)
        if self.seeds < LEAST:
            raise JobcastError(
                f"Of {self.seeds} shaken copies of a log nothing can be said; take --seeds {LEAST} or more."
            )
        cases_with(self.current)

    @cached_property
    def plan(self) -> Plan:
        """The runs."""
        today, cases = cases_with(self.current)
        seeds = tuple(range(1, self.seeds + 1))
        return plan(Sweep(cases=cases, seeds=seeds, by=(*CLASSES, "user"), beside=today.name), [self.log])

    def run(self, folder: Path, crew: Crew = HERE) -> Results:
        """Do the runs; what is done is kept in a folder within `folder`, and started again it goes on there."""
        return run_plan(self.plan, crew, folder / f"runs-{self.plan.identity()[:12]}")

    def advice(self, found: Results) -> Advice:
        """Say what the runs say."""
        today, _ = cases_with(self.current)
        return advise(found.runs, found.groups, today.name, perfect=PERFECT.name, adds=ADDS, measure=self.measure)
