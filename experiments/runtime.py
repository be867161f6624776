"""Which predictor for what? Every registered predictor on one log: errors, where they fall, costs, and what they buy.

Errors on the last 20 % of the jobs, protocol strict, with intervals over users; and each predictor in the simulator's
loop (EASY, shortest job first in backfilling, an expired estimate falls back to the request), learning as jobs end. So
the reader sees where a lower error buys a lower slowdown and where it does not: the open question of V. Reis's report.
"""

from time import perf_counter
from typing import Final

import numpy as np
import pandas as pd

from experiments.calibration import calibration, in_words, paint_calibration
from experiments.experiment import Report, Setting
from experiments.figures import draw, write_table
from experiments.runtime_figures import paint_cost, paint_errors, paint_gain, paint_slices
from experiments.simulation import run_by_name
from predictors.data.errors import JobcastError
from predictors.data.joblog import JobLog
from predictors.evaluate import evaluate
from predictors.evaluation import Evaluation, Score
from predictors.registry import PREDICTORS

QUICK: Final = ("last-two", "requested", "user-mean", "similar", "online-linear", "forest")
"""What `--quick` looks at."""
WHO_PAYS: Final = ("mean_wait_s", "p99_wait_s", "max_wait_s", "widest5_mean_wait_s")


def run(setting: Setting) -> Report:
    """Evaluate and simulate every predictor on a log, and draw what they gain and cost."""
    begin = perf_counter()
    names = QUICK if setting.quick else tuple(PREDICTORS)
    found = evaluate(setting.log, names, partition=setting.partition, seed=setting.seed)
    errors = pd.DataFrame([_errors(score) for score in found.scores]).sort_values("ratio_to_last_two")
    tables = {
        "errors": errors,
        "signed_errors": pd.DataFrame([_signed(score, found) for score in found.scores]),
        "by_run_time": _slices(found, "run time"),
        "by_user": _slices(found, "user"),
        "by_month": _slices(found, "month"),
    }
    notes = []
    try:
        tables["scheduling"] = _scheduling(setting.jobs(), names, setting.procs)
        notes.append(_what_error_buys(errors, tables["scheduling"]))
    except JobcastError as error:
        notes.append(f"Not simulated: {error}")
    try:
        tables["calibration"] = calibration(setting.jobs(), quick=setting.quick, seed=setting.seed)
        notes.append(in_words(tables["calibration"]))
    except JobcastError as error:
        notes.append(f"Not calibrated: {error}")
    paths = [write_table(table, setting.folder / f"{name}.csv") for name, table in tables.items()]
    paths += draw(setting.folder, "figure_errors", errors, paint_errors, height=5.0)
    paths += draw(setting.folder, "figure_by_run_time", tables["by_run_time"], paint_slices, height=5.0)
    paths += draw(setting.folder, "figure_cost", errors, paint_cost, height=5.0)
    if "calibration" in tables:
        paths += draw(setting.folder, "figure_calibration", tables["calibration"], paint_calibration, height=5.0)
    if "scheduling" in tables:
        both = tables["scheduling"].merge(errors[["predictor", "ratio_to_last_two"]], on="predictor")
        paths += draw(setting.folder, "figure_error_and_gain", both, paint_gain, height=5.0)
    return Report("runtime", found.log, (setting.seed,), tables, tuple(paths), perf_counter() - begin, tuple(notes))


def _errors(score: Score) -> dict[str, object]:
    figures = score.figures
    return {
        "predictor": score.name,
        "ratio_to_last_two": figures.sse_ratio_to_last_two,
        "ratio_low": score.interval[0],
        "ratio_high": score.interval[1],
        "mae_s": figures.mae_s,
        "median_ae_s": figures.median_ae_s,
        "mean_accuracy": figures.mean_accuracy,
        "within_10_min": figures.within_10_min,
        "r2": figures.r2,
        "fit_seconds": score.fit_seconds,
        "predict_us_per_job": score.predict_us_per_job,
    }


def _signed(score: Score, found: Evaluation) -> dict[str, object]:
    """Return how errors divide into predictions that are too long and too short; the mean of each kind [s]."""
    error = score.predicted - found.run_time
    over, under = error[error > 0], -error[error < 0]
    squared = float((error**2).sum()) or 1.0
    return {
        "predictor": score.name,
        "too_long": len(over) / len(error),
        "too_short": len(under) / len(error),
        "mean_too_long_s": float(over.mean()) if len(over) else 0.0,
        "mean_too_short_s": float(under.mean()) if len(under) else 0.0,
        "bias_s": float(error.mean()),
        "squared_error_from_too_short": float((under**2).sum()) / squared,
    }


def _slices(found: Evaluation, by: str) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"predictor": score.name, "slice": part.label, "jobs": part.figures.n_test,
             "ratio_to_last_two": part.figures.sse_ratio_to_last_two, "mae_s": part.figures.mae_s,
             "too_short": part.figures.underestimation_rate}
            for score in found.scores
            for part in score.slices
            if part.by == by
        ]
    )  # fmt: skip


def _scheduling(log: JobLog, names: tuple[str, ...], procs: int | None) -> pd.DataFrame:
    """Return each predictor's gap closed and who pays, relative to EASY on requested times."""
    cleaned, _ = log.for_simulation(procs)
    easy = run_by_name(cleaned, "easy")[1]
    best = run_by_name(cleaned, "easy-sjbf", "clairvoyant")[1]
    gap = easy["mean_bounded_slowdown"] - best["mean_bounded_slowdown"]
    rows = []
    for name in (*names, "clairvoyant"):
        ours = run_by_name(cleaned, "easy-sjbf", name)[1]
        closed = (easy["mean_bounded_slowdown"] - ours["mean_bounded_slowdown"]) / gap if gap > 0 else np.nan
        shares = {f"{key.removesuffix('_s')}_to_easy": ours[key] / max(easy[key], 1e-9) for key in WHO_PAYS}
        rows.append(
            {"predictor": name, "mean_bounded_slowdown": ours["mean_bounded_slowdown"], "gap_closed": closed, **shares}
        )
    return pd.DataFrame(rows)


def _what_error_buys(errors: pd.DataFrame, scheduling: pd.DataFrame) -> str:
    both = scheduling.merge(errors[["predictor", "ratio_to_last_two"]], on="predictor")
    rank = both["ratio_to_last_two"].rank().corr(-both["gap_closed"].rank())
    return (
        f"Rank correlation over {len(both)} predictors between a lower squared error and more of the gap closed: "
        f"{rank:.2f} (1: the same order; one unshaken run each)."
    )
