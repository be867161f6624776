"""What repeated runs of real applications tell: how slow-downs coincide, and how well they are foreseen.

A table of runs of a few applications that were started again and again, with columns of what ran next to them if these
are known. No counters are needed. Two questions, each with the slow drift of an application left in and taken out:

* *Coincidence*: how often a run is slow if another run, so long before it, was slow: of the same application, and of
  another. It is compared with how often a run is slow anyway. Intervals resample days, since runs of a day are alike.
* *F1*: how well a forest and AdaBoost foresee slow runs from what ran next to them, from how the last runs went, and
  from both; with whole days left out, with one application left out, and on the last 30 %.

A run is slow if its time is more than 1.5 standard deviations above the mean of its application and number of nodes.
Where too few runs are alike to say so, or all took the same time, a run has no label: it is counted, and in no figure.
Drift is taken out by dividing each time by the median of its application within seven days before and after.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np
import pandas as pd

from experiments.reports.report import Report
from experiments.runs.setting import Setting
from predictors.core.arrays import Bools, Floats
from predictors.core.errors import JobcastError
from predictors.core.intervals import drawn_times, percentiles
from predictors.data.report import Finding, ReadingReport
from predictors.data.runs import NEAR, Runs, read_runs
from predictors.variability.classifiers.registry import seeded
from predictors.variability.labels import LEAST_RUNS, REASONS
from predictors.variability.labels import label as label_runs
from predictors.variability.selection.compare import answer
from predictors.variability.selection.scores import scores
from predictors.variability.splits import Fold, chronological, days_left_out, leave_one_application_out

QUESTION: Final = "Do slow runs of repeated applications come together, and can they be foreseen without counters?"

DAY: Final = 86_400
HALF_WINDOW: Final = 7 * DAY  # drift is the median of an application within so long before and after a run [s]
LAGS: Final = (0, 900, 3600, 8 * 3600, DAY, 2 * DAY, 4 * DAY)  # bounds of the lags between two starts [s]
MODELS: Final = ("decision-forest", "adaboost")
FOLDS: Final = 5
LEAST: Final = 50  # runs that the study needs
DRIFT: Final = {"left in": False, "taken out": True}


def run(setting: Setting) -> Report:
    """Read the table, and study coincidence and F1 with drift left in and taken out."""
    if setting.runs is None:
        raise JobcastError("repeated-runs needs a table of runs: give it with --runs TABLE.")
    read, account = read_runs(setting.runs)
    runs = read.select(np.argsort(read.start, kind="stable"))
    unlabelled = check(runs, str(setting.runs))
    together, foreseen = [], []
    for name, out in DRIFT.items():
        part = without_drift(runs) if out else runs
        together.append(coincidence(part, setting.seed).assign(drift=name))
        foreseen.append(foreseen_by(part, setting.seed, setting.quick).assign(drift=name))
    tables = {
        "runs": about(runs),
        "coincidence by lag": _leading(pd.concat(together, ignore_index=True), "drift"),
        "F1 of slow runs": _leading(pd.concat(foreseen, ignore_index=True), "drift"),
    }
    best = tables["F1 of slow runs"]["f1"].max()
    return Report(
        log=setting.runs.name,
        seeds=(setting.seed,),
        tables=tables,
        notes=(
            (account + unlabelled).summary(),
            *(f"{one.count:,} without a label: {one.text} ({one.where()})." for one in unlabelled.findings),
        ),
        verdict=(
            f"The highest F1 of any model, inputs and split is {best:.2f}: an upper figure, since it is the best of "
            f"{len(tables['F1 of slow runs'])}.",
        ),
    )


def check(runs: Runs, source: str) -> ReadingReport:
    """Return the account of the runs that have no label, by reason."""
    if (runs.run_time <= 0).any():
        raise JobcastError(f"{source}: a run of no length cannot be compared with others; leave such runs out.")
    found = label_runs(runs.application, runs.node_count, runs.run_time)
    labelled, names = int(found.known.sum()), np.unique(runs.application[found.known])
    if labelled < LEAST or len(names) < 2:
        raise JobcastError(
            f"{source}: has {labelled} of {len(runs)} runs, of {len(names)} applications, with at least {LEAST_RUNS} "
            f"of the same application and number of nodes that differ in time; the study needs {LEAST} runs of two "
            "applications or more."
        )
    findings = [
        Finding(f"no-label-{reason}", "noted", f"{REASONS[reason]}: in no figure", count,
                tuple(runs.job_id[found.reason == reason].tolist()), "job")
        for reason, count in found.abstained().items()
    ]  # fmt: skip
    return ReadingReport(source, tuple(findings))


def _leading(table: pd.DataFrame, column: str) -> pd.DataFrame:
    return table[[column, *(name for name in table.columns if name != column)]]


def about(runs: Runs) -> pd.DataFrame:
    """Return one row an application: runs, median, and how far they spread."""
    table = pd.DataFrame({"application": runs.application, "seconds": runs.run_time})
    groups = table.groupby("application")["seconds"]
    found = groups.agg(runs="size", median_s="median", longest_over_shortest=lambda s: s.max() / s.min())
    found["p95_over_median"] = groups.quantile(0.95) / groups.median()
    return found.reset_index().round(3)


def without_drift(runs: Runs) -> Runs:
    """Return the runs, times over their application's median within a week: to measure, not to forecast."""
    times = runs.run_time.copy()
    for name in np.unique(runs.application):
        own = np.flatnonzero(runs.application == name)
        start, seconds = runs.start[own], runs.run_time[own]
        middle = np.median(seconds)
        for place, now in zip(own.tolist(), start.tolist(), strict=True):
            near = seconds[np.abs(start - now) <= HALF_WINDOW]
            times[place] *= middle / np.median(near)
    return replace(runs, region_time=times)


# --- coincidence ------------------------------------------------------------------------------------------------------


def slow(runs: Runs) -> tuple[Bools, Bools]:
    """Return which runs are slow, and of which that can be said."""
    found = label_runs(runs.application, runs.node_count, runs.run_time)
    return found.classes == 1, found.known


def coincidence(runs: Runs, seed: int) -> pd.DataFrame:
    """Return how often a run is slow if one so long before it was slow, by lag and kind of pair.

    `p_slow_after_slow` is over the pairs with a slow earlier run; `base` is the share of slow runs. The interval
    resamples the days of the earlier runs. Runs without a label are in no pair and not in the base.
    """
    is_slow, known = slow(runs)
    runs, is_slow = runs.select(np.flatnonzero(known)), is_slow[known]
    base, rows = float(is_slow.mean()), []
    start, names = runs.start, runs.application
    first, second = _pairs(start, LAGS[-1])
    lag, day = start[second] - start[first], (start[first] // DAY).astype(np.int64)
    same = names[first] == names[second]
    for kind, of_kind in (("same application", same), ("another application", ~same)):
        for low, high in pairwise(LAGS):
            chosen = of_kind & (lag >= low) & (lag < high) & is_slow[first]
            after = is_slow[second[chosen]]
            ends = _interval(after, day[chosen], seed)
            p = float(after.mean()) if after.size else float("nan")
            rows.append({"pairs of": kind, "lag_from_s": low, "lag_to_s": high, "pairs": int(after.size),
                         "p_slow_after_slow": p, "low": ends[0], "high": ends[1], "base": base})  # fmt: skip
    return pd.DataFrame(rows).round(3)


def _pairs(start: Floats, longest: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of all pairs, the earlier first, that started less than `longest` apart."""
    ends = np.searchsorted(start, start + longest, side="left")
    counts = ends - np.arange(len(start)) - 1
    first = np.repeat(np.arange(len(start)), counts)
    offset = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return first, first + 1 + offset


def _interval(after: Bools, day: np.ndarray, seed: int) -> tuple[float, float]:
    """Return the 95 % interval of a share, days resampled; NaN of fewer than two days."""
    days, place = np.unique(day, return_inverse=True)
    if len(days) < 2:
        return float("nan"), float("nan")
    hits, counts = np.bincount(place, after), np.bincount(place)
    times = drawn_times(len(days), seed=seed)
    return percentiles((times @ hits) / np.maximum(times @ counts, 1))


# --- F1 ---------------------------------------------------------------------------------------------------------------


def inputs_of(runs: Runs) -> dict[str, tuple[Floats, tuple[str, ...]]]:
    """Return the sets of inputs by name, each with its columns: what ran next to a run, how the last runs went, both.

    The last runs are those that had ended when the run started. A z is against the runs of the same application that
    had ended by then, so that nothing looks ahead; it is missing until there are five.
    """
    near = tuple(name for name in runs.truth if name.startswith(NEAR))
    beside = np.column_stack([runs.truth[name] for name in near]) if near else np.empty((len(runs), 0))
    last, names = last_runs(runs)
    sets = {"last runs": (last, names)}
    if near:
        sets = {"beside": (beside, near), **sets, "both": (np.hstack([beside, last]), (*near, *names))}
    return sets


_LAST: Final = ("last_z", "last_age_s", "second_last_z", "other_z", "other_age_s")


def last_runs(runs: Runs) -> tuple[Floats, tuple[str, ...]]:
    """Return z and age of the last two runs of the application, and of the last of another one, as of each start."""
    n = len(runs)
    z, out = np.full(n, np.nan), np.full((n, len(_LAST)), np.nan)
    by_end = np.argsort(runs.end, kind="stable")
    for place in by_end.tolist():  # z of each run against those of its application that had ended when it ended
        alike = (runs.application == runs.application[place]) & (runs.end < runs.end[place])
        if alike.sum() >= LEAST_RUNS:
            spread = runs.run_time[alike].std(ddof=1)
            z[place] = (runs.run_time[place] - runs.run_time[alike].mean()) / spread if spread > 0 else np.nan
    for place in range(n):
        ended = by_end[: np.searchsorted(runs.end[by_end], runs.start[place], side="right")]
        own = ended[runs.application[ended] == runs.application[place]]
        other = ended[runs.application[ended] != runs.application[place]]
        if own.size:
            out[place, :2] = z[own[-1]], runs.start[place] - runs.end[own[-1]]
        if own.size > 1:
            out[place, 2] = z[own[-2]]
        if other.size:
            out[place, 3:] = z[other[-1]], runs.start[place] - runs.end[other[-1]]
    return out, _LAST


def foreseen_by(runs: Runs, seed: int, quick: bool = False) -> pd.DataFrame:
    """Return F1 of slow runs by inputs, model and split, with the base rate of the rows judged."""
    splits: dict[str, Sequence[Fold]] = {
        "days left out": days_left_out(runs, 2 if quick else FOLDS, seed),
        "application left out": leave_one_application_out(runs),
        "last 30 %": chronological(runs),
    }
    rows = []
    for name, (table, columns) in inputs_of(runs).items():
        for model in MODELS:
            for split, folds in splits.items():
                rows.append(
                    {"inputs": name, "model": model, "split": split, **_judged(folds, table, columns, model, seed)}
                )
    return pd.DataFrame(rows).round(3)


def _judged(folds: Sequence[Fold], table: Floats, columns: tuple[str, ...], model: str, seed: int) -> dict[str, object]:
    """Return F1 over the rows of all folds that teach, joined."""
    truth, said, probability = [], [], []
    for fold in folds:
        if not fold.teaches:
            continue
        predicted, found, _ = answer(seeded(model, seed), (table, columns), fold)
        truth.append(fold.classes[fold.test] == 1)
        said.append(predicted)
        probability.append(np.nan_to_num(found))
    if not truth:
        return {"runs": 0, "base_rate": float("nan"), "f1": float("nan"), "pr_auc": float("nan")}
    found_all = scores(np.concatenate(truth), np.concatenate(said), np.concatenate(probability))
    return {"runs": found_all.n_test, "base_rate": found_all.base_rate, "f1": found_all.f1, "pr_auc": found_all.pr_auc}
