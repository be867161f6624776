"""A backtest: a log's jobs by requested times, and by soft limits that were learnt from earlier jobs alone.

Both schedules are simulated over the whole log. The soft limits are on from the first day, and each is learnt in the
loop, from what has ended in the simulation by the job's submission. Then the jobs of each month are compared one by
one. Nothing is known in the first month, so it stands apart. Shaken copies of the log tell how much is chance.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from experiments.compare.measures import AS_LOGGED
from experiments.compare.result import LEAST
from experiments.runs.checkpoints import code_identity, digest_of_values, log_identity, run_all, run_directory
from experiments.runs.clusters import Pool
from experiments.runs.pool import HERE
from experiments.runs.setting import Setting
from experiments.runs.simulate import (
    estimates_by_name,
    learnt_from,
    loaded,
    soft_limits_by_name,
    table_by,
    usual_correction,
)
from experiments.site.advise.advice import CLASSES
from experiments.sweeps.sweep import Case, first_seeds
from predictors.core.arrays import Bools, Floats, Ints
from predictors.core.errors import JobcastError
from predictors.core.validation import known_zone
from predictors.data.joblog import JobLog
from predictors.data.report import ReadingReport
from schedsim.engine.simulation import simulate
from schedsim.policies.policy import Policy
from schedsim.results.metrics import figures_of_waits
from schedsim.results.schedule import Schedule
from schedsim.sites.slurm.files import is_slurm
from schedsim.workload.shaking import shaken
from schedsim.workload.soft_limits import USUAL, Looks
from schedsim.workload.workload import Workload

if TYPE_CHECKING:
    import pandas as pd

TODAY: Final = "requests"  # the case of the hard limits alone
NOTICED: Final = 60  # a start that moves by no more [s] counts as the same
CLAIRVOYANT: Final = "clairvoyant"  # refused: it looks ahead
RUNS, GROUPS, MONTHS = "runs", "groups", "months"  # tables of a backtest


@dataclass(frozen=True, eq=False)
class Backtest:
    """What is asked of a cleaned log: its waits with the soft limits of a predictor, month by month."""

    log: JobLog  # cleaned by `predictors.data.cleaning.clean`
    predictor: str = "cesnet"  # a registered predictor: it starts knowing nothing
    budget: float | None = None  # share of the jobs that may run longer than predicted; soft limits are padded
    soft_limits: str = "slurm"  # how the scheduler holds them, see `schedsim.workload.soft_limits`
    policy: str = "easy"
    seeds: int = 10  # how many shaken copies
    looks: Looks = USUAL  # of the adapter that sets them
    as_read: JobLog | None = None  # the log before it was cleaned, which a kept model may have learnt from

    def __post_init__(self) -> None:
        if self.seeds < LEAST:
            raise JobcastError(
                f"Of {self.seeds} shaken copies of a log nothing can be said; take --seeds {LEAST} or more."
            )
        for case in self.cases:
            case.check()
        if self.predictor == CLAIRVOYANT:
            raise JobcastError(
                f"The predictor {CLAIRVOYANT} knows the run times, so no site could have had its soft limits: a "
                "backtest learns from earlier jobs alone. Take another --predictor; the page of names lists them."
            )

        if learnt_from(loaded(self.predictor), self.as_read or self.log, self.log):
            raise JobcastError(
                f"The model {self.predictor} has learnt from this log, so its soft limits would look ahead: a backtest "
                "learns from earlier jobs alone. Take a model of an earlier log, or a predictor's name."
            )

    @cached_property
    def cases(self) -> tuple[Case, Case]:
        """The hard limits alone, and with the soft limits."""
        within = "" if self.budget is None else f" within {self.budget:g}"
        correction = usual_correction(self.soft_limits)
        soft = Case(
            f"{self.predictor}{within}", self.policy, self.predictor, correction,
            budget=self.budget, soft_limits=self.soft_limits,
        )  # fmt: skip
        return Case(TODAY, self.policy), soft

    @property
    def of_policy(self) -> ReadingReport:
        """What the policy does not use of its files."""
        return self.cases[0].named.of_log(self.log)[1]

    @property
    def after(self) -> str:
        """The name of the case with soft limits."""
        return self.cases[1].name

    def run(self, folder: Path, pool: Pool = HERE) -> "Found":
        """Do the runs; what is done is kept in a folder within `folder`, and started again it goes on there."""
        import pandas as pd

        log = log_identity(self.log)
        about = {
            "cases": [case.to_row() for case in self.cases],
            "seeds": self.seeds,
            "log": log,
            "looks": asdict(self.looks),
            **code_identity(),
        }
        named = self.cases[0].named
        about |= {} if named.digest is None else {"slurm" if is_slurm(named.name) else "agent": named.digest}
        identity = digest_of_values(about)
        kept = folder / f"runs-{identity[:12]}"
        seeds = [AS_LOGGED, *first_seeds(self.seeds)]
        with run_directory(kept, "backtest", identity, about):
            setting = Setting(self.log, folder, pool=pool, checkpoints=kept)
            parts = run_all(setting, "Simulating", _compared, (self.log, self.cases, self.looks), seeds)
        whole = pd.concat(parts, ignore_index=True)
        tables = {name: part.dropna(axis="columns", how="all") for name, part in whole.groupby("table", sort=False)}
        return Found(tables[RUNS], tables[GROUPS], tables[MONTHS])


@dataclass(frozen=True, eq=False)
class Found:
    """The tables of a backtest, as far as they can be compared: without the first month where there are others."""

    runs: "pd.DataFrame"  # a row a seed and case: the figures of the waits over all months but the first
    groups: "pd.DataFrame"  # a row a seed, case and group of jobs, `by` size, run time and user: jobs and mean wait
    # a row a seed and month: figures `before_…` and `after_…`, `earlier` and `later` (jobs with a start that moves by
    # more than `NOTICED`), and how many jobs have a soft limit (`set`), outlive it (`short`), and by how much [s]
    months: "pd.DataFrame"


def _compared(shared: tuple[JobLog, tuple[Case, Case], Looks], seed: int) -> "pd.DataFrame":
    """Return all rows of one seed; the column `table` distinguishes them."""
    import pandas as pd

    log, cases, looks = shared
    jobs = log if seed == AS_LOGGED else shaken(log, seed)
    workload, months = Workload.from_log(jobs), Months.of(jobs)
    rule, _ = cases[0].named.of_log(jobs)
    before, _ = _scheduled(jobs, workload, cases[0], rule, looks)
    after, limit = _scheduled(jobs, workload, cases[1], rule, looks)
    counted = months.of_job > 0 if len(months.names) > 1 else np.ones(len(jobs), dtype=np.bool_)
    rows: list[dict[str, Any]] = []
    leading = {"log": jobs.name, "seed": seed}
    for case, schedule in zip(cases, (before, after), strict=True):
        names = leading | {"case": case.name}
        rows.append({"table": RUNS} | names | _figures(schedule, counted))
        rows += [{"table": GROUPS} | names | group for group in _groups(schedule, counted)]
    for number, name in enumerate(months.names):
        here = months.of_job == number
        if here.any():
            rows.append({"table": MONTHS} | leading | {"month": name} | _moved(before, after, limit, here))
    return pd.DataFrame(rows)


def _scheduled(jobs: JobLog, workload: Workload, case: Case, rule: Policy, looks: Looks) -> tuple[Schedule, Floats]:
    """Return a case's schedule under a policy, and each job's soft limit [s], NaN where there is none."""
    assert isinstance(case.estimates, str)
    if case.soft_limits is None:
        estimates = estimates_by_name(case.estimates, jobs, workload, case.budget)
        return simulate(workload, rule, estimates), np.full(len(jobs), np.nan)
    limits = soft_limits_by_name(case.estimates, jobs, workload, case.soft_limits, case.budget, looks)
    return simulate(workload, rule, limits, case.correction), limits.seconds


def _figures(schedule: Schedule, here: Bools) -> dict[str, float]:
    return figures_of_waits(schedule.wait[here], schedule.run_time[here], schedule.workload.procs[here])


def _groups(schedule: Schedule, here: Bools) -> Iterator[dict[str, Any]]:
    """Yield the jobs and mean wait of each class and user, of some of the jobs."""
    part = schedule.of_rows(np.flatnonzero(here))
    for by in (*CLASSES, "user"):
        for group, found in table_by(part, by).items():
            yield {"by": by, "group": group, "n_jobs": found["n_jobs"], "mean_wait_s": found["mean_wait_s"]}


def _moved(before: Schedule, after: Schedule, limit: Floats, here: Bools) -> dict[str, float]:
    moved, short = (after.start - before.start)[here], (after.run_time - limit)[here]
    earlier, later, beyond = moved < -NOTICED, moved > NOTICED, short > 0
    found: dict[str, float] = {
        "jobs": int(here.sum()),
        "earlier": int(earlier.sum()),
        "later": int(later.sum()),
        "earlier_median_s": _median(-moved[earlier]),
        "later_median_s": _median(moved[later]),
        "set": int((~np.isnan(limit[here])).sum()),
        "short": int(beyond.sum()),
        "short_median_s": _median(short[beyond]),
        "short_most_s": float(short[beyond].max(initial=0)),
    }
    for side, schedule in (("before", before), ("after", after)):
        figures = _figures(schedule, here)
        found |= {f"{side}_{name}": figures[name] for name in MONTHLY}
    return found


MONTHLY: Final = (
    "mean_bounded_slowdown", "mean_wait_s", "p99_wait_s", "max_wait_s", "widest5_mean_wait_s",
    "area_weighted_mean_wait_s", "area_weighted_mean_bounded_slowdown",
)  # fmt: skip
"""The five figures of the waits, and those weighted by area."""


def _median(seconds: Ints | Floats) -> float:
    return float(np.median(seconds)) if len(seconds) else 0.0


DAYS: Final = 30  # days of a month where the log does not tell its date


@dataclass(frozen=True, eq=False)
class Months:
    """The months of a log, and the one in which each of its jobs was submitted.

    >>> log = JobLog.from_columns({"job_id": [1, 2], "submit": [0, 40 * 86400]}, {}, epoch=1_756_684_800)
    >>> Months.of(log).names, Months.of(log).of_job.tolist()
    (('2025-09', '2025-10'), [0, 1])
    """

    names: tuple[str, ...]  # such as 2025-09, or days 1-30
    of_job: Ints  # number of each job's month, from 0, shape (n_jobs,)

    @classmethod
    def of(cls, log: JobLog) -> Self:
        """Return the months of a log, in its time zone, UTC if that is unknown."""
        submit = log.values["submit"]
        if log.epoch is None:
            number = submit // (DAYS * 86400)
            names = [f"days {DAYS * k + 1}-{DAYS * (k + 1)}" for k in range(int(number.max(initial=0)) + 1)]
            return cls(tuple(names), number)
        zone = UTC if log.time_zone is None else known_zone(log.time_zone)
        first = datetime.fromtimestamp(log.epoch + int(submit.min(initial=0)), zone)
        last = log.epoch + int(submit.max(initial=0))
        names, begins, year, month = list[str](), list[int](), first.year, first.month
        while not begins or begins[-1] <= last:
            names.append(f"{year}-{month:02}")
            begins.append(int(datetime(year, month, 1, tzinfo=zone).timestamp()))
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
        number = np.searchsorted(np.array(begins), submit + log.epoch, side="right") - 1
        return cls(tuple(names[: int(number.max(initial=0)) + 1]), number.astype(np.int64))
