"""The study of stress: what a scheduler's settings do where users game them, load grows, or nothing is known yet.

Each scenario changes the same shaken log in one way, and every setting schedules it. Figures are relative to EASY in
the same scenario on the same shake.

* *requests halved*, *requests doubled*: a tenth of the users, drawn by seed, ask for half or twice the time. A job that
  runs beyond its halved request is killed there, and is not submitted again.
* *load 0.95*, *load 1.05*: arrivals are compressed or stretched by one factor, so that the work submitted is this share
  of what the machine can do between the first and the last submission.
* *four weeks, no history*: the jobs submitted in four weeks from the middle of the log, on a machine that begins with
  them: empty, and its estimates know nothing. *Four weeks, with history*: the same jobs in the schedule of the log.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from experiments.compare.measures import MEASURES
from experiments.compare.relative import RATIOS as WAITS
from experiments.compare.relative import over_seeds, with_intervals
from experiments.reports.figures import COLOURS, MARKERS, Axes, Picture, bar_lengths
from experiments.reports.report import Report
from experiments.runs.checkpoints import run_all
from experiments.runs.setting import Setting
from experiments.runs.simulate import run_by_name
from experiments.sweeps.sweep import Case
from predictors.core.arrays import Ints
from predictors.core.errors import JobcastError
from predictors.core.hash_random import uniform
from predictors.data.cleaning import clean
from predictors.data.joblog import JobLog
from schedsim.results.metrics import figures_of_waits
from schedsim.results.schedule import Schedule
from schedsim.workload.shaking import resubmitted, shaken

EASY: Final = "EASY"
CASES: Final = (
    Case(EASY, "easy"),
    Case("careful", "careful", "careful"),
    Case("balanced", "balanced", "balanced"),
    Case("bold", "careful", "bold"),
)
GAMERS: Final = 0.1  # share of the users who ask for another time than in the log
LOADS: Final = (0.95, 1.05)
WEEKS: Final = 28 * 86_400  # length of a machine's first weeks [s]
_GAMES: Final = 43  # purpose of the hash that draws the users who game

USUAL: Final = "as logged"
HALVED, DOUBLED = "requests halved", "requests doubled"
ALONE, WITHIN = "four weeks, no history", "four weeks, with history"
SCENARIOS: Final = (USUAL, HALVED, DOUBLED, *(f"load {load:g}" for load in LOADS), ALONE, WITHIN)

RATIOS: Final = {"slowdown": "mean_bounded_slowdown", **WAITS}  # columns relative to EASY: which figure of a schedule
GAMING: Final = ("gamers", "others")  # mean wait of those who game, and of others, relative to no gaming

QUESTION: Final = "What does each setting do when users game it, when load grows, and on a machine without history?"


def run(setting: Setting) -> Report:
    """Schedule each scenario by every setting on ten shakes (quick: three), or as many as asked for."""
    log, account = clean(setting.jobs(), setting.procs, drop_wide=True)
    if len(log) < 2 or not log.values["submit"][-1]:
        raise JobcastError(f"{log.name}: all jobs are submitted at one second: there is no load to change.")
    seeds = setting.drawn(10, quick=3)
    runs = pd.concat(run_all(setting, "Stressing by seed", runs_of, log, seeds), ignore_index=True)
    medians = over_seeds(runs, ["scenario", "case"])
    paint = partial(paint_stress, what=log.name)
    return Report(
        log=log.name, seeds=seeds, tables=dict(tables_of(medians)), data={f"runs_{log.name}": runs},
        pictures=(Picture(f"stress_{log.name}", medians, paint, 12.5, 8.5),), notes=tuple(_notes(runs, log)),
        verdict=tuple(_verdict(medians)), account=account.using(len(log)),
    )  # fmt: skip


# --- scenarios -------------------------------------------------------------------------------------------------------


def gamers(log: JobLog, seed: int) -> npt.NDArray[np.bool_]:
    """Return which jobs are of users who game: the share `GAMERS` of the known users, at least one, drawn by seed.

    >>> log = JobLog.from_columns({"job_id": [1, 2, 3], "submit": [0, 1, 2], "user": [4, 5, 4]}, {})
    >>> gamers(log, seed=1).tolist() in ([True, False, True], [False, True, False])
    True
    """
    known = log.known("user")
    users = np.unique(log.values["user"][known])
    drawn = np.empty(len(users))
    uniform(seed, users, _GAMES, drawn)
    chosen = users[np.argsort(drawn, kind="stable")[: max(1, round(GAMERS * len(users)))]]
    return known & np.isin(log.values["user"], chosen)


def with_requests(log: JobLog, rows: npt.NDArray[np.bool_], factor: float) -> JobLog:
    """Return a log with jobs that ask, in some rows, for so many times as long, in whole seconds from 1 s on."""
    asked = log.values["requested_time"]
    other = np.maximum(np.rint(asked * factor).astype(np.int64), 1)
    return log.replaced({"requested_time": np.where(rows, other, asked)})


def offered_load(log: JobLog) -> float:
    """Return processors x run time within the request, by what the machine can do from first to last submission."""
    run_time = np.minimum(log.values["run_time"], log.values["requested_time"])
    work = float((log.procs.astype(np.float64) * run_time).sum())
    return work / (float(log.values["submit"][-1]) * float(log.max_procs or 1))


def at_load(log: JobLog, load: float) -> JobLog:
    """Return a log with its submissions moved together or apart by one factor, so that the offered load is this one.

    >>> log = JobLog.from_columns({"job_id": [1, 2], "submit": [0, 100], "run_time": [40, 40],
    ...                            "requested_time": [60, 60], "requested_procs": [1, 1]}, {}, max_procs=1)
    >>> offered_load(log), at_load(log, 1.0)["submit"].tolist()
    (0.8, [0, 80])
    """
    submit = np.rint(log.values["submit"] * (offered_load(log) / load)).astype(np.int64)
    return resubmitted(log, submit)


def weeks_of(log: JobLog, length: int = WEEKS) -> npt.NDArray[np.bool_]:
    """Return the jobs submitted in the weeks that begin in the middle of the log; at most a quarter of its time."""
    submit = log.values["submit"]
    begin = int(submit[-1]) // 2
    return (submit >= begin) & (submit < begin + min(length, int(submit[-1]) // 4 + 1))


def runs_of(log: JobLog, seed: int) -> pd.DataFrame:
    """Return a row a scenario and setting of one shake, relative to EASY."""
    return pd.DataFrame(_runs(shaken(log, seed), seed))


def _runs(jobs: JobLog, seed: int) -> Iterator[dict[str, Any]]:
    usual = {case.name: _scheduled(jobs, case) for case in CASES}
    every = np.ones(len(jobs), dtype=np.bool_)
    yield from _rows(USUAL, seed, usual, every)
    if jobs.known("user").any():
        games = gamers(jobs, seed)
        for scenario, factor in ((HALVED, 0.5), (DOUBLED, 2.0)):
            changed = with_requests(jobs, games, factor)
            found = {case.name: _scheduled(changed, case) for case in CASES}
            for row in _rows(scenario, seed, found, every):
                waits = found[row["case"]].wait, usual[row["case"]].wait
                others = {"gamers": _quotient(*waits, games), "others": _quotient(*waits, ~games)}
                yield row | others | {"jobs_of_gamers": float(games.mean())}
    for load in LOADS:
        changed = at_load(jobs, load)
        found = {case.name: _scheduled(changed, case) for case in CASES}
        yield from _rows(f"load {load:g}", seed, found, every)
    weeks = weeks_of(jobs)
    if weeks.any():
        alone = jobs.select(weeks)
        found = {case.name: _scheduled(alone, case) for case in CASES}
        yield from _rows(ALONE, seed, found, np.ones(len(alone), dtype=np.bool_))
        yield from _rows(WITHIN, seed, usual, weeks)


def _scheduled(jobs: JobLog, case: Case) -> Schedule:
    return run_by_name(jobs, case.policy, case.estimates)[0]


def _rows(
    scenario: str, seed: int, found: dict[str, Schedule], rows: npt.NDArray[np.bool_]
) -> Iterator[dict[str, Any]]:
    """Yield the figures of some jobs in each setting's schedule, relative to EASY's."""
    own = {
        name: figures_of_waits(one.wait[rows], one.run_time[rows], one.workload.procs[rows])
        for name, one in found.items()
    }
    for name, figures in own.items():
        ratios = {column: _by(figures[figure], own[EASY][figure]) for column, figure in RATIOS.items()}
        killed = int(found[name].killed[rows].sum())
        nothing = dict.fromkeys((*GAMING, "jobs_of_gamers"), np.nan)
        about = {"scenario": scenario, "case": name, "seed": seed}
        yield about | ratios | {"killed": killed, "n_jobs": int(rows.sum())} | nothing


def _by(ours: float, theirs: float) -> float:
    return ours / theirs if theirs > 0 else float("nan")


def _quotient(now: Ints, before: Ints, rows: npt.NDArray[np.bool_]) -> float:
    """Return the mean wait of some jobs by what it was; NaN where there is none."""
    return _by(float(now[rows].mean()), float(before[rows].mean())) if rows.any() else float("nan")


# --- tables and pictures ---------------------------------------------------------------------------------------------


def tables_of(medians: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield a table of all scenarios with intervals, and one on gaming."""
    others = medians[medians["case"] != EASY]
    columns = {name: with_intervals(others, name, ".2f") for name in RATIOS}
    yield "relative to EASY in the same scenario", others[["scenario", "case"]].assign(**columns)
    games = medians[medians["scenario"].isin((HALVED, DOUBLED))]
    if len(games):
        columns = {name: with_intervals(games, name, ".2f") for name in GAMING}
        killed = with_intervals(games, "killed", ",.0f")
        yield "who games, compared with no gaming", games[["scenario", "case"]].assign(**columns, killed=killed)


def paint_stress(axes: Axes, table: pd.DataFrame, what: str) -> None:
    """Draw a panel a figure, scenarios across, a marker a setting, of a log by its name."""
    figure = axes.figure
    axes.remove()
    scenarios = [name for name in SCENARIOS if name in set(table["scenario"])]
    names = [case.name for case in CASES if case.name != EASY]
    panels = figure.subplots(2, 3, sharex=True).ravel()
    titles = {**{column: f"{MEASURES[name].title} / EASY's" for column, name in RATIOS.items()},
              "gamers": "mean wait of those who game / before"}  # fmt: skip
    for here, (column, title) in zip(panels, titles.items(), strict=True):
        for number, name in enumerate([*names, EASY] if column == "gamers" else names):
            part = table[table["case"] == name].set_index("scenario").reindex(scenarios)
            spread = bar_lengths(part, column, f"{column}_low", f"{column}_high")
            place = np.arange(len(scenarios)) + 0.18 * (number - 1)
            here.errorbar(place, part[column], yerr=spread, marker=MARKERS[number], color=COLOURS[number],
                          linestyle="none", elinewidth=1, label=name)  # fmt: skip
        here.axhline(1.0, color="#555555", linewidth=0.8)
        here.set(title=title)
        here.set_xticks(range(len(scenarios)), [name.replace(", ", ",\n") for name in scenarios], rotation=90)
    panels[1].set_title(f"{what}\n{titles['wait']}")
    panels[-1].legend(loc="center right", fontsize=9)


def _notes(runs: pd.DataFrame, log: JobLog) -> Iterator[str]:
    yield f"Offered load of the log as it is: {offered_load(log):.2f}."
    shares = runs["jobs_of_gamers"].dropna()
    if shares.empty:
        yield "The log has no users, so no one games."
    else:
        yield (
            f"Those who game are {100 * GAMERS:.0f} % of the users, drawn for each shake, and submit "
            f"{100 * shares.min():.0f} to {100 * shares.max():.0f} % of the jobs."
        )
    yield "Killed jobs are not submitted again: the work that they still had is lost to their users, and saves waits."


def _verdict(medians: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence a setting: in which scenario each figure is worst."""
    for case in CASES[1:]:
        own = medians[medians["case"] == case.name].set_index("scenario")
        worst = [
            f"{MEASURES[figure].title} x {own[column].max():.2f} ({own[column].idxmax()})"
            for column, figure in RATIOS.items()
            if own[column].notna().any()
        ]
        yield f"{case.name}, worst over the scenarios relative to EASY in the same one: {'; '.join(worst)}."
