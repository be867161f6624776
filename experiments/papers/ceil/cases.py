"""Cases of the study of CEIL: policies, readings of the paper, months; and CEIL over every month of a log.

Two months can be chosen so that either sign comes out. So every month of the log is scheduled by the base policy and by
CEIL in two readings of the paper: a head that the ceiling stops keeps a reservation, or is passed over. Seeds shake the
log, mark jobs and draw the dilation; a month's figure is the median of its seeds. Means over months have an interval
that resamples months, because months differ far more than seeds do.

A month of the log is paired with one of the paper's by what the paper tells of its months: the share of time that more
than 95 % of the machine is in use under the base policy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pandas as pd

from predictors.core.arrays import Floats
from predictors.core.errors import JobcastError
from predictors.core.intervals import drawn_means, expanded
from predictors.data.cleaning import clean, within_requests
from predictors.data.joblog import JobLog
from predictors.data.report import ReadingReport
from predictors.data.synthetic.capability import generate_capability_log
from schedsim.engine.simulation import simulate
from schedsim.machine.dilation import Dilation
from schedsim.policies.ceil import Postponing
from schedsim.policies.policy import Policy, ceil, make_policy
from schedsim.results.site_metrics import user_figures
from schedsim.workload.deadlines import drawn, with_deadlines
from schedsim.workload.shaking import shaken
from schedsim.workload.workload import Workload

WFP: Final = make_policy("wfp3-easy")
CEIL: Final = ceil(WFP)

SHARES: Final = (0.3, 0.5, 0.7)  # of postponable jobs: workloads 1 to 3 in the first month, 4 to 6 in the second
MIDDLE: Final = 0.5

START, MEAN, NONE = "start", "mean", "none"
DILATIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        START: "runs dilated by the utilisation at their start",
        MEAN: "runs dilated by the mean utilisation over the run",
        NONE: "runs not dilated",
    }
)


@dataclass(frozen=True)
class Case:
    """A policy and what it believes."""

    name: str
    policy: Policy
    estimates: str = "requested"


BASE: Final = Case("WFP", WFP)
OURS: Final = Case("CEIL", CEIL)

PARTS: Final = (
    Case("CEIL without the ceiling", ceil(WFP, ceiling=1.0)),
    Case("CEIL without postponing", ceil(WFP, postpone=None)),
)
PASSED: Final = Case("a head that the ceiling stops is passed over", ceil(WFP, refused="passed over"))
"""The reading that is nearest to the paper's introduction: CEIL may "choose a smaller sized job" then."""
READINGS: Final = (
    Case("backfills from the queue only", ceil(WFP, postpone=Postponing(backfill=False))),
    Case("utilisation looked at before the pass", ceil(WFP, postpone=Postponing(looks="before"))),
    Case("utilisation looked at before and after it", ceil(WFP, postpone=Postponing(looks="both"))),
    PASSED,
    Case("released by an empty queue and by time only", ceil(WFP, postpone=Postponing(low=0.0))),
    Case("FCFS instead of WFP", ceil(make_policy("easy"))),
)
PREDICTED: Final = (
    Case("WFP, careful predictions", WFP, "careful"),
    Case("CEIL, careful predictions", CEIL, "careful"),
)
CEILINGS: Final = (0.85, 0.88, 0.90, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99, 1.0)
SWEPT: Final = tuple(Case(f"ceiling {share:.0%}", ceil(WFP, ceiling=share)) for share in CEILINGS)


def run_times_of(dilation: str, seed: int) -> Dilation | None:
    if dilation == NONE:
        return None
    return Dilation(seed=seed) if dilation == START else replace(Dilation(seed=seed), by="mean")


COLUMNS: Final = {  # columns relative to the base policy: which figure of a schedule
    "makespan": "makespan_s", "user_wait": "mean_user_wait_s", "slowdown": "mean_user_slowdown",
    "slowdown_undilated": "mean_user_slowdown_undilated", "wait_regular": "mean_user_wait_regular_s",
}  # fmt: skip


def marked(workload: Workload, share: float, seed: int) -> Workload:
    """Return the workload with so many postponable jobs, drawn by seed."""
    return with_deadlines(workload, drawn(workload, share, seed))


def compared(own: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a schedule, and by how much they differ from the base policy's [%]."""
    row: dict[str, Any] = {name: own[column] for name, column in COLUMNS.items()}
    row["above"] = 100 * own["time_above_share"]
    row |= {name: own[name] for name in ("late", "dilated", "postponable")}
    row |= {
        f"{name}_change": 100 * (own[column] / base[column] - 1) if base[column] else float("nan")
        for name, column in COLUMNS.items()
    }
    return row


SPAN: Final = 30 * 86_400  # a month of a log that does not tell the date [s]
LEAST: Final = 20  # jobs of a month that can be studied


@dataclass(frozen=True)
class Month:
    """The jobs submitted in one month, cleaned for simulation, run times within the requests; and the whole log."""

    name: str
    cleaned: JobLog
    log: JobLog


def default_log(seed: int) -> tuple[JobLog, ReadingReport]:
    """Return the log of those who give none: two months on 4,392 nodes, an early one and a full one."""
    return generate_capability_log(seed=seed), ReadingReport("synthetic log of a capability centre")


def months_of(log: JobLog, procs: int | None = None) -> list[Month]:
    """Return the months of a log (UTC, or 30 days where it has no date) that have enough jobs, in the order of time."""
    cleaned = within_requests(clean(log, procs, drop_wide=True)[0])
    names = _names(cleaned)
    found = [name for name in np.unique(names) if (names == name).sum() >= LEAST]
    if not found:
        raise JobcastError(f"{log.name}: no month has {LEAST} jobs that can be simulated.")
    return [Month(str(name), cleaned.select(names == name), log) for name in found]


def busiest(log: JobLog, procs: int | None = None, most: int = 2) -> list[Month]:
    """Return the months with jobs that need most of the machine, in order of time; see `months_of`."""
    months = months_of(log, procs)
    area = {month.name: int((month.cleaned.values["run_time"] * month.cleaned.procs).sum()) for month in months}
    chosen = set(sorted(area, key=lambda name: -area[name])[:most])
    return [month for month in months if month.name in chosen]


def _names(log: JobLog) -> "np.ndarray[tuple[int], np.dtype[np.str_]]":
    submit = log.values["submit"]
    if log.epoch is None:
        return np.array([f"month {1 + n:03d}" for n in ((submit + log.origin) // SPAN).tolist()])
    return np.array([f"{datetime.fromtimestamp(log.epoch + s, UTC):%Y-%m}" for s in submit.tolist()])


MONTH_CASES: Final = (BASE, OURS, PASSED)
READING_NAMES: Final = {OURS.name: "stopped head reserves", PASSED.name: "stopped head is passed over"}
"""Both readings as tables have them."""
PAPERS_MONTHS: Final = {"July 2017": 21.81, "January 2018": 45.20}  # WFP's time above 95 % [%], Table 6 of Li et al
MONTH_SEEDS: Final = 3
QUICK_MONTH_SEEDS: Final = 1
_CHANGES: Final = ("makespan", "user_wait", "slowdown")


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
        for case in MONTH_CASES:
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
            "month": month.name, "jobs": len(jobs), "load": round(float((jobs.run_time * jobs.procs).sum() / room), 2),
            "above_95_WFP_%": wfp["above"].median(), "above_95_CEIL_%": ceil["above"].median(),
            "makespan_%": ceil["makespan_change"].median(),
        }  # fmt: skip
        for case in (OURS, PASSED):
            wait = dict(zip(SHARES, of(month.name, case)["user_wait_change"], strict=True))  # shares ascend
            row |= {f"user_wait_%, {share:.0%}, {READING_NAMES[case.name]}": wait[share] for share in SHARES}
        rows.append(row)
    return pd.DataFrame(rows).round(2)


def over_months(runs: pd.DataFrame) -> pd.DataFrame:
    """Return means of the months' median changes [%], with 95 % intervals that resample the few months."""
    middle = runs.groupby(["month", "case", "share"], sort=False).median(numeric_only=True).reset_index()
    rows = []
    for case in (OURS, PASSED):
        for share in SHARES:
            own = middle[(middle["case"] == case.name) & (middle["share"] == share)]
            row: dict[str, Any] = {"reading": READING_NAMES[case.name], "postponable": share, "months": len(own)}
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
