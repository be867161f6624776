"""CEIL over every month of a log: the month is the unit of the interval.

Two months can be chosen so that either sign comes out. Here every month of the log is scheduled by the base policy and
by CEIL in two readings of the paper: a head that the ceiling stops keeps a reservation, or is passed over. Seeds shake
the log, mark jobs and draw the dilation; a month's figure is the median of its seeds. Means over months have an
interval that resamples months, because months differ far more than seeds do.

A month of the log is paired with one of the paper's by what the paper tells of its months: the share of time that more
than 95 % of the machine is in use under the base policy.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pandas as pd

from experiments.papers.ceil.cases import (
    BASE,
    OURS,
    PASSED,
    SHARES,
    START,
    Case,
    Month,
    compared,
    marked,
    run_times_of,
)
from predictors.core.arrays import Floats
from predictors.core.intervals import drawn_means, expanded
from schedsim.engine.simulation import simulate
from schedsim.results.site_metrics import user_figures
from schedsim.workload.shaking import shaken
from schedsim.workload.workload import Workload

CASES: Final = (BASE, OURS, PASSED)
NAMES: Final = {OURS.name: "stopped head reserves", PASSED.name: "stopped head is passed over"}
"""Both readings as tables have them."""
PAPERS_MONTHS: Final = {"July 2017": 21.81, "January 2018": 45.20}
"""Share of time above 95 % under WFP [%], Table 6 of Li et al."""
SEEDS: Final = 3
QUICK_SEEDS: Final = 1
_CHANGES: Final = ("makespan", "user_wait", "slowdown")
_DAY: Final = 86_400


def month_runs(months: Sequence[Month], task: tuple[int, int]) -> pd.DataFrame:
    """Return one row a share and case for one month, by its place, and one seed."""
    place, seed = task
    month = months[place]
    workload = Workload.from_log(shaken(month.cleaned, seed))
    dilation = run_times_of(START, seed)

    def go(case: Case, jobs: Workload) -> Any:
        return simulate(jobs, case.policy, kill=False, run_times=dilation)

    plain, rows = go(BASE, workload), []
    for share in SHARES:
        jobs = marked(workload, share, seed)
        base = user_figures(replace(plain, workload=jobs))  # it looks at no deadline: one schedule for all shares
        for case in CASES:
            own = base if case is BASE else user_figures(go(case, jobs))
            about = {"month": month.name, "share": share, "case": case.name, "seed": seed}
            rows.append({**about, **compared(own, base)})
    return pd.DataFrame(rows)


def by_month(runs: pd.DataFrame, months: Sequence[Month]) -> pd.DataFrame:
    """Return one row a month: jobs, load, time above 95 % under WFP, and the change of user wait by share and reading.

    Load is the work of the month's jobs over what the machine can do between its first and last submission.
    """
    middle = runs.groupby(["month", "case", "share"]).median(numeric_only=True).reset_index()

    def of(month: str, case: Case) -> pd.DataFrame:
        return middle[(middle["month"] == month) & (middle["case"] == case.name)]

    rows = []
    for month in months:
        jobs = Workload.from_log(month.cleaned)
        room = jobs.machine_procs * max(1, int(np.ptp(jobs.submit)))
        wfp, ceil = of(month.name, BASE), of(month.name, OURS)
        row: dict[str, Any] = {
            "month": month.name,
            "jobs": len(jobs),
            "load": round(float((jobs.run_time * jobs.procs).sum() / room), 2),
            "above_95_WFP_%": wfp["above"].median(),
            "above_95_CEIL_%": ceil["above"].median(),
            "makespan_%": ceil["makespan_change"].median(),
        }
        for case in (OURS, PASSED):
            wait = dict(zip(SHARES, of(month.name, case)["user_wait_change"], strict=True))  # shares ascend
            row |= {f"user_wait_%, {share:.0%}, {NAMES[case.name]}": wait[share] for share in SHARES}
        rows.append(row)
    return pd.DataFrame(rows).round(2)


def over_months(runs: pd.DataFrame) -> pd.DataFrame:
    """Return means over the months of each month's median change [%], with 95 % intervals that resample months.

    Months are few, so the intervals are widened, see `predictors.core.intervals`; one month has none.
    """
    middle = runs.groupby(["month", "case", "share"], sort=False).median(numeric_only=True).reset_index()
    rows = []
    for case in (OURS, PASSED):
        for share in SHARES:
            own = middle[(middle["case"] == case.name) & (middle["share"] == share)]
            row: dict[str, Any] = {"reading": NAMES[case.name], "postponable": share, "months": len(own)}
            for name in _CHANGES:
                values = own[f"{name}_change"].to_numpy(dtype=np.float64)
                values = values[np.isfinite(values)]
                row[f"{name}_%"] = _mean_of(values)
                row[f"months_with_less_{name}"] = int((values < 0).sum())
            rows.append(row)
    return pd.DataFrame(rows)


def _mean_of(values: Floats) -> str:
    if len(values) < 2:
        return f"{values[0]:+.1f}" if len(values) else "-"
    low, high = expanded(drawn_means(values), len(values))
    return f"{values.mean():+.1f} [{low:+.1f}, {high:+.1f}]"


def like_the_papers(table: pd.DataFrame) -> pd.DataFrame:
    """Return for each month of the paper the two months of the log that are nearest in WFP's time above 95 %."""
    parts = []
    for name, above in PAPERS_MONTHS.items():
        nearest = (table["above_95_WFP_%"] - above).abs().argsort(kind="stable")[:2]
        part = table.iloc[nearest].copy()
        part.insert(0, "paper's month", name)
        part.insert(1, "paper's above_95_%", above)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)
