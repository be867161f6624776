"""Who gains and who pays when backfilling plans with predictions? The frontier, over shaken logs, all beside EASY.

*Gap closed* = (EASY - ours) / (EASY - clairvoyant EASY-SJBF) in mean bounded slowdown; mean wait, 99th percentile,
longest wait and mean wait of the widest 5 % of jobs as multiples of EASY's. Each seed shakes the log anew and is
scheduled by every case, so that differences are paired. Medians over the seeds; their intervals are order
statistics that hold the median of all shakes with at least 95 % confidence (ten seeds: the second smallest to the
second largest).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import comb
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np
import pandas as pd

from experiments.backfilling_figures import frontier_of
from experiments.experiment import Report, Setting
from experiments.figures import draw, write_table
from experiments.simulation import estimates_by_name
from predictors.data.joblog import JobLog
from predictors.similar_runs import OUTLOOKS, SimilarRuns
from schedsim.engine import simulate
from schedsim.metrics import figures
from schedsim.policy import make_policy
from schedsim.shaking import shaken
from schedsim.workload import Workload


@dataclass(frozen=True)
class Case:
    """A way to schedule: names as of `jobcast simulate`, or the rule of an outlook that has no name."""

    name: str
    policy: str
    estimates: str | SimilarRuns = "requested"
    correction: str = "requested"


EASY: Final = "EASY"
CLAIRVOYANT: Final = "clairvoyant EASY-SJBF"
CASES: Final = (
    Case(EASY, "easy"),
    Case(CLAIRVOYANT, "easy-sjbf", "clairvoyant"),
    Case("clairvoyant EASY", "easy", "clairvoyant"),
    Case("EASY-SJBF", "easy-sjbf"),
    Case("EASY++", "easy-sjbf", "tsafrir"),
    Case("EASY++, incremental", "easy-sjbf", "tsafrir", "incremental"),
    Case("last-two", "easy-sjbf", "last-two"),
    Case("user-mean", "easy-sjbf", "user-mean"),
    Case("EASY++ + promise", "easy-sjbf+promise", "tsafrir"),
    Case("clairvoyant + promise", "easy-sjbf+promise", "clairvoyant"),
    Case("default", "default", "default"),
    Case("default, no promise", "easy-sjbf", "default"),
    Case("default, promise without slack", "easy-sjbf+promise", "default"),
    Case("default, factor 0.7", "default", SimilarRuns(factor=0.7)),
    Case("default, factor 1", "default", SimilarRuns(factor=1.0)),
    Case("bold", "default", "bold"),
)
QUICK: Final = (EASY, CLAIRVOYANT, "EASY-SJBF", "EASY++", "default", "bold")

RATIOS: Final = {
    "wait": "mean_wait_s",
    "p99": "p99_wait_s",
    "longest": "max_wait_s",
    "widest": "widest5_mean_wait_s",
}
"""Columns relative to EASY: which figure of a schedule."""
MEASURES: Final = ("gap_closed", *RATIOS)
AS_LOGGED: Final = -1
"""Stands for a seed where the log is not shaken."""


def run(setting: Setting) -> Report:
    """Schedule a log, as it is and shaken ten times (quick: three), by every case, and draw the frontier.

    Where the folder holds the runs of other logs, the frontier and a table over all of them are made as well.
    """
    begin = perf_counter()
    log, account = _part(setting).for_simulation(setting.procs, drop_wide=True)
    seeds = tuple(range(setting.seed + 1, setting.seed + (4 if setting.quick else 11)))
    cases = tuple(case for case in CASES if not setting.quick or case.name in QUICK)
    runs = pd.DataFrame(_runs(log, (AS_LOGGED, *seeds), cases))
    medians = over_seeds(runs)
    tables = _told(medians, "")
    written = [
        write_table(runs, setting.folder / f"runs_{log.name}.csv"),
        *draw(setting.folder, f"frontier_{log.name}", medians, frontier_of(log.name), width=8.5, height=6.0),
    ]
    everything = pd.concat([pd.read_csv(path) for path in sorted(setting.folder.glob("runs_*.csv"))], ignore_index=True)
    if everything["log"].nunique() > 1:
        pooled = over_logs(everything)
        tables |= _told(pooled, "all logs: ")
        about = f"mean of {everything['log'].nunique()} logs"
        written += draw(setting.folder, "frontier", pooled, frontier_of(about), width=8.5, height=6.0)
    return Report(
        "backfilling", log.name, seeds, tables, tuple(map(Path, written)), perf_counter() - begin,
        (account.summary(), *_who_pays(medians)),
    )  # fmt: skip


def _part(setting: Setting) -> JobLog:
    log, partition = setting.log, setting.partition
    return log if partition is None else log.select(log.known("partition") & (log.filled("partition") == partition))


def _told(table: pd.DataFrame, about: str) -> dict[str, pd.DataFrame]:
    """Return a wide table as several that fit on a screen."""
    parts = {
        "medians": "",
        "lower ends": "_low",
        "upper ends": "_high",
        "as logged": "_as_logged",
        "worst log": "_worst",
    }
    return {
        about + name: table[["case", *(measure + suffix for measure in MEASURES)]]
        for name, suffix in parts.items()
        if f"wait{suffix}" in table
    }


def _runs(log: JobLog, seeds: Iterable[int], cases: Iterable[Case]) -> Iterator[dict[str, object]]:
    """Yield one row a seed and case."""
    for seed in seeds:
        jobs = log if seed == AS_LOGGED else shaken(log, seed)
        found = {case.name: _figures(jobs, case) for case in cases}
        for name, own in found.items():
            yield {"log": log.name, "seed": seed, "case": name, **relative(own, found[EASY], found[CLAIRVOYANT])}


def _figures(log: JobLog, case: Case) -> dict[str, float]:
    workload, given = Workload.from_log(log), case.estimates
    estimates = given.forecast(log) if isinstance(given, SimilarRuns) else estimates_by_name(given, log, workload)
    return figures(simulate(workload, make_policy(case.policy), estimates, case.correction))


def relative(own: dict[str, float], easy: dict[str, float], best: dict[str, float]) -> dict[str, float]:
    """Return the share of the gap closed, and what is paid relative to EASY; NaN where EASY leaves nothing to gain.

    Examples
    --------
    >>> easy = {"mean_bounded_slowdown": 9.0, **dict.fromkeys(RATIOS.values(), 40)}
    >>> own, best = {**easy, "mean_bounded_slowdown": 6.0, "max_wait_s": 50}, {**easy, "mean_bounded_slowdown": 5.0}
    >>> relative(own, easy, best)
    {'slowdown': 6.0, 'gap_closed': 0.75, 'wait': 1.0, 'p99': 1.0, 'longest': 1.25, 'widest': 1.0}
    """
    slowdown = "mean_bounded_slowdown"
    gap = easy[slowdown] - best[slowdown]
    return {
        "slowdown": own[slowdown],
        "gap_closed": (easy[slowdown] - own[slowdown]) / gap if gap > 0 else np.nan,
        **{column: own[name] / easy[name] if easy[name] > 0 else np.nan for column, name in RATIOS.items()},
    }


def over_seeds(runs: pd.DataFrame) -> pd.DataFrame:
    """Return medians over the shaken seeds, one row a case, with intervals `_low`, `_high`, and `_as_logged` beside."""
    rows = []
    for name, group in runs.groupby("case", sort=False):
        shaken_runs, as_logged = group[group["seed"] != AS_LOGGED], group[group["seed"] == AS_LOGGED]
        row: dict[str, object] = {"case": name}
        for measure in MEASURES:
            low, high = interval(shaken_runs[measure].to_numpy())
            row |= {measure: shaken_runs[measure].median(), f"{measure}_low": low, f"{measure}_high": high}
        for measure in MEASURES:
            row[f"{measure}_as_logged"] = as_logged[measure].iloc[0] if len(as_logged) else np.nan
        rows.append(row)
    return pd.DataFrame(rows)


def over_logs(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the same for the means over logs: of each seed the mean over the logs, of these the median.

    Only seeds that every log has count. `_worst` is the worst log's median.
    """
    n_logs = runs["log"].nunique()
    means = runs.groupby(["case", "seed"], sort=False)[list(MEASURES)].mean().reset_index()
    complete = runs.groupby(["case", "seed"], sort=False)["log"].nunique().reset_index(drop=True) == n_logs
    table = over_seeds(means[complete])
    per_log = runs[runs["seed"] != AS_LOGGED].groupby(["case", "log"], sort=False)[list(MEASURES)].median()
    for measure in MEASURES:
        by_case = per_log[measure].groupby("case")
        table[f"{measure}_worst"] = table["case"].map(by_case.min() if measure == "gap_closed" else by_case.max())
    table.insert(1, "logs", n_logs)
    return table


def interval(values: "np.ndarray[tuple[int], np.dtype[np.float64]]", confidence: float = 0.95) -> tuple[float, float]:
    """Return the narrowest pair of order statistics that holds the median with this confidence; else least and largest.

    Examples
    --------
    >>> interval(np.arange(10.0))
    (1.0, 8.0)
    >>> interval(np.array([3.0, 1.0]))
    (1.0, 3.0)
    """
    ordered = np.sort(values)
    n, below, cut = len(ordered), 0.0, 0
    while n and cut < n // 2:
        below += comb(n, cut) / 2.0**n
        if 1 - 2 * below < confidence:
            break
        cut += 1
    first = max(cut - 1, 0)
    return (float(ordered[first]), float(ordered[n - 1 - first])) if n else (np.nan, np.nan)


def _who_pays(medians: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence on each named setting: what of it is worse than EASY."""
    for row in medians[medians["case"].isin(OUTLOOKS)].to_dict(orient="records"):
        worse = [f"{measure} {row[measure]:.2f}" for measure in RATIOS if row[measure] > 1.0]
        gap = row["gap_closed"]
        yield (f"{row['case']} closes {gap:.0%} of the gap" if gap == gap else f"{row['case']}: EASY leaves no gap") + (
            f"; worse than EASY in {', '.join(worse)}." if worse else "; no figure is worse than EASY's."
        )
