"""Forecasts of start times compared with the actual starts: how often they hold.

EASY backfilling by requested times, as most centres run it. Jobs that do not start at once are asked about in the
second of their submission: run times of the live jobs are drawn from what their users' jobs used of their requests
lately, and the queue is rolled forward. It is compared with the forecast that schedulers print, which takes the
requested times for granted.
"""

from typing import Any, Final

import numpy as np
import pandas as pd

from experiments.reports.figures import COLOURS, Axes, Picture
from experiments.reports.report import Report
from experiments.runs.setting import Setting
from predictors.core.errors import percent
from predictors.data.cleaning import clean
from predictors.data.joblog import JobLog
from predictors.models.similar_jobs import RecentRatios
from schedsim.engine.simulation import Simulation, simulate
from schedsim.engine.start_times import Requested, draws, when_will_it_start
from schedsim.policies.policy import make_policy
from schedsim.results.schedule import Schedule
from schedsim.workload.workload import Workload

QUESTION: Final = (
    "Can the start of a waiting job be forecast? How often P10 to P90 hold, and how far P50 is off, by horizon."
)

POLICY: Final = "easy"
JOBS: Final = 1000
QUICK_JOBS: Final = 60
DRAWS: Final = 100
QUICK_DRAWS: Final = 40
HORIZONS: Final = (900, 3600, 4 * 3600, 12 * 3600)
NOTES: Final = ("Jobs submitted later are not foreseen, and pass some that wait.",)
LABELS: Final = ("< 15 min", "< 1 h", "< 4 h", "< 12 h", "longer")


def run(setting: Setting) -> Report:
    """Ask when jobs will start, wait, and compare."""
    log, account = clean(setting.jobs(), setting.procs)
    asked = ask(log, QUICK_JOBS if setting.quick else JOBS, QUICK_DRAWS if setting.quick else DRAWS, setting.seed)
    table = by_horizon(asked)
    return Report(
        log=log.name, seeds=(setting.seed,), tables={"start_times": table}, data={"asked": asked},
        pictures=(Picture("coverage", table, paint_coverage), Picture("error", table, paint_error)), notes=NOTES,
        verdict=_verdict(asked), account=account.using(len(log)),
    )  # fmt: skip


def ask(
    log: JobLog,  # a cleaned log
    n_jobs: int,  # how many jobs to ask about, chosen by hash(seed, job id); all, if there are fewer
    n_draws: int,  # draws of run times for each
    seed: int,  # of the choice and of the draws
) -> pd.DataFrame:
    """Return, for jobs that do not start at once, what was forecast at their submission and when they started.

    Waits are in seconds since the submission: `wait` (the truth), `p10`, `p50`, `p90`, `by_requests`.
    """
    workload, policy = Workload.from_log(log), make_policy(POLICY)
    simulation, sampler, by_requests = Simulation(workload, policy), RecentRatios(log), Requested(workload.requested)
    schedule, known, rows = simulate(workload, policy), 0, []
    for row in _chosen(schedule, n_jobs, seed).tolist():
        submit, job = int(workload.submit[row]), int(workload.job_id[row])
        simulation.run(until=submit)
        events = simulation.events()
        sampler.advance(events[known:])
        known = len(events)
        found = when_will_it_start(simulation, job, sampler, n_draws, seed)
        requested = when_will_it_start(simulation, job, by_requests, 1).p50
        rows.append((job, int(schedule.wait[row]), *(t - submit for t in (found.p10, found.p50, found.p90, requested))))
    return pd.DataFrame(rows, columns=["job_id", "wait", "p10", "p50", "p90", "by_requests"])


def _chosen(schedule: Schedule, n_jobs: int, seed: int) -> np.ndarray:
    """Return rows of jobs that wait, chosen by hash, in the order of their submission."""
    waits = np.flatnonzero(schedule.wait > 0)
    lot = draws(schedule.workload.job_id[waits], 1, seed)[0]
    return np.sort(waits[np.argsort(lot, kind="stable")[:n_jobs]])


def by_horizon(asked: pd.DataFrame) -> pd.DataFrame:
    """Return how often the intervals hold and how far the medians are off, by the median that was forecast."""
    place = np.digitize(asked["p50"], HORIZONS)
    parts = [(label, asked[place == i]) for i, label in enumerate(LABELS)]
    return pd.DataFrame([_figures(label, part) for label, part in [*parts, ("all", asked)] if len(part)])


def _figures(label: str, part: pd.DataFrame) -> dict[str, Any]:
    wait = part["wait"]
    error, requested = (part["p50"] - wait).abs(), (part["by_requests"] - wait).abs()
    return {
        "horizon": label, "jobs": len(part), "p10_to_p90_holds": float(wait.between(part["p10"], part["p90"]).mean()),
        "earlier_than_p10": float((wait < part["p10"]).mean()), "later_than_p90": float((wait > part["p90"]).mean()),
        "median_width_s": float((part["p90"] - part["p10"]).median()), "p50_median_error_s": float(error.median()),
        "p50_mean_error_s": float(error.mean()), "by_requests_median_error_s": float(requested.median()),
        "by_requests_mean_error_s": float(requested.mean()),
    }  # fmt: skip


def _verdict(asked: pd.DataFrame) -> tuple[str, ...]:
    whole = _figures("all", asked)
    held = percent(whole["p10_to_p90_holds"], 1)
    return (
        f"P10 to P90, which should hold for 80 % of the jobs, held for {held}.",
        f"P50 was off by {whole['p50_mean_error_s']:,.0f} s on average; by requested times alone it would be "
        f"{whole['by_requests_mean_error_s']:,.0f} s.",
    )


def paint_coverage(axes: Axes, table: pd.DataFrame) -> None:
    """Share of jobs that started within P10 to P90, and on which side the others missed."""
    at, bottom = np.arange(len(table)), np.zeros(len(table))
    parts = (("earlier_than_p10", "earlier", 4, "//"), ("p10_to_p90_holds", "within", 2, ""),
             ("later_than_p90", "later", 1, "\\\\"))  # fmt: skip
    for column, label, colour, hatch in parts:
        share = table[column].to_numpy()
        axes.bar(at, share, 0.7, bottom=bottom, color=COLOURS[colour], label=label, hatch=hatch, edgecolor="white")
        bottom = bottom + share
    for level in (0.1, 0.9):
        axes.axhline(level, color=COLOURS[7], linestyle="--", linewidth=1)
    _label(axes, table)
    axes.set(title="Starts earlier than P10, within P10 to P90, later than P90", ylabel="share of jobs")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3)
    axes.set_ylim(0, 1)


def paint_error(axes: Axes, table: pd.DataFrame) -> None:
    """Mean error of the forecast median, and that of the requested times."""
    at = np.arange(len(table))
    axes.bar(at - 0.2, table["p50_mean_error_s"] / 3600, 0.38, color=COLOURS[0], label="P50 of the draws")
    axes.bar(at + 0.2, table["by_requests_mean_error_s"] / 3600, 0.38, color=COLOURS[1], hatch="//",
             edgecolor="white", label="by requested times")  # fmt: skip
    _label(axes, table)
    axes.set(title="How far the forecast start is off", ylabel="mean absolute error [h]")
    axes.legend()


def _label(axes: Axes, table: pd.DataFrame) -> None:
    ticks = [f"{row[0]}\n({row[1]:,})" for row in table[["horizon", "jobs"]].itertuples(index=False)]
    axes.set_xticks(np.arange(len(table)), ticks)
    axes.set_xlabel("forecast median of the wait (jobs)")
