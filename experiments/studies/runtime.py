"""Every predictor on one log: errors, where they fall, costs, and what they buy.

Errors under three splits with intervals over users; each predictor in the simulator's loop, by what becomes of expired
estimates and under a promise, learning as jobs end; how often budgets are kept, month by month. So the reader sees
where a lower error buys a lower slowdown and where it does not. And what V. Reis's report leaves open: forests that
learn online, full splits on categories, distributions, and what squared and signed errors do to schedules.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pandas as pd

from experiments.reports.figures import Paint, Picture
from experiments.reports.report import Report
from experiments.runs.clusters import PoolError
from experiments.runs.setting import Setting
from experiments.studies import runtime_figures as pictures
from experiments.studies.reis_open_questions import (
    calibration,
    category_splits,
    distributions,
    in_words,
    online_forests,
    paint_calibration,
    paint_reliability,
)
from experiments.studies.runtime_scheduling import errors_to_order, scheduling, what_error_buys
from predictors.core.errors import JobcastError
from predictors.data.cleaning import clean
from predictors.data.joblog import JobLog
from predictors.evaluation.evaluate import check, evaluate, jobs_that_count
from predictors.evaluation.importances import permuted
from predictors.evaluation.results import Evaluation, Score
from predictors.history.replay import replay
from predictors.registry import PREDICTORS

SPLITS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "strict": MappingProxyType({"train": 0.8, "protocol": "strict"}),
        "reis": MappingProxyType({"train": 0.8, "protocol": "reis"}),
        "prequential": MappingProxyType({"train": None, "protocol": "strict"}),
    }
)
"""What `evaluate` receives: the last 20 % under either protocol; or every job at its submission, learnt at its end."""


def errors(found: Mapping[str, Evaluation]) -> pd.DataFrame:
    """Return one row a split and predictor, the least squared error of each split first."""
    rows = [_errors(split, score) for split, one in found.items() for score in one.scores]
    table = pd.DataFrame(rows)
    order = {split: place for place, split in enumerate(found)}
    return table.sort_values(
        ["split", "ratio_to_last_two"], key=lambda column: column.map(order) if column.name == "split" else column
    ).reset_index(drop=True)


def least_error(table: pd.DataFrame) -> str:
    """Return a sentence on which predictor has the least squared error, and which intervals overlap with its own."""
    split = table["split"].iloc[0]
    part = table[(table["split"] == split) & table["ratio_to_last_two"].notna()].sort_values("ratio_to_last_two")
    if part.empty:
        return "No predictor has a squared error to compare."
    best = part.iloc[0]
    if part["ratio_low"].isna().all():
        return (
            f"Least squared error under the split {split}: {best['predictor']}, {best['ratio_to_last_two']:.3f} of "
            "last-two's; there is one user, so this tells nothing about others."
        )
    low, high = (part[name].fillna(part["ratio_to_last_two"]) for name in ("ratio_low", "ratio_high"))
    sentence = (
        f"Least squared error under the split {split}: {best['predictor']}, {best['ratio_to_last_two']:.3f} of "
        f"last-two's [{low.iloc[0]:.3f}, {high.iloc[0]:.3f}]."
    )
    near = part["predictor"][1:][low[1:] <= high.iloc[0]].tolist()
    return f"{sentence} Intervals overlap with {', '.join(near)}: no winner among these." if near else sentence


def _errors(split: str, score: Score) -> dict[str, object]:
    figures = score.figures
    return {
        "split": split,
        "predictor": score.name,
        "ratio_to_last_two": figures.sse_ratio_to_last_two,
        "ratio_low": score.interval[0],
        "ratio_high": score.interval[1],
        "mae_s": figures.mae_s,
        "median_ae_s": figures.median_ae_s,
        "mean_accuracy": figures.mean_accuracy,
        "within_10_min": figures.within_10_min,
        "too_short": figures.underestimation_rate,
        "r2": figures.r2,
    }


def signed(found: Evaluation) -> pd.DataFrame:
    """Return how each predictor's errors divide into predictions that are too long and too short [s]."""
    return pd.DataFrame([_signed(score, found) for score in found.scores])


def _signed(score: Score, found: Evaluation) -> dict[str, object]:
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


def sliced(found: Evaluation, by: str) -> pd.DataFrame:
    """Return each predictor's errors on every slice of one kind: `run time`, `user` or `month`."""
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


def costs(found: Mapping[str, Evaluation]) -> pd.DataFrame:
    """Return what each predictor costs on one core.

    Columns: fit_s and learn_rows_per_s, of one fit on the first 80 % of the jobs, the features not included;
    predict_us and predict_rows_per_s, in bulk, features not included; stream_us, of a job that is predicted alone and
    learnt from at its end, features and refits included (NaN: not followed so); jobs_per_s in such a stream.
    """
    split, stream = found["strict"], found["prequential"]
    alone = {s.name: s.predict_us_per_job + s.fit_seconds / stream.n_test * 1e6 for s in stream.scores}
    rows = []
    for score in split.scores:
        in_stream = alone.get(score.name, np.nan)
        rows.append(
            {
                "predictor": score.name,
                "fit_s": score.fit_seconds,
                "learn_rows_per_s": split.n_train / max(score.fit_seconds, 1e-9),
                "predict_us": score.predict_us_per_job,
                "predict_rows_per_s": 1e6 / max(score.predict_us_per_job, 1e-9),
                "stream_us": in_stream,
                "jobs_per_s": 1e6 / in_stream,
            }
        )
    return pd.DataFrame(rows)


QUESTION: Final = (
    "Which predictor for what? Every registered predictor on one log: errors, where they fall, costs, "
    "and what they buy."
)

QUICK: Final = ("last-two", "requested", "user-mean", "similar", "online-linear", "forest")  # what `--quick` looks at
EXPLAINED: Final = ("forest", "boosted", "average")  # predictors with permuted attributes
CALIBRATED: Final = ("similar", "boosted")  # who is moved to keep budgets
LARGE: Final = 20_000
"""Jobs from which on the slowest are not followed job by job, neither over the log nor in the simulator."""
SLOWEST: Final = ("online-tree", "average", "stack", "chain", "censored")

Makers = Mapping[str, Callable[[], pd.DataFrame]]


def run(setting: Setting) -> Report:
    """Evaluate and simulate every predictor on a log, and draw what they gain and cost."""
    names = setting.predictors or (QUICK if setting.quick else tuple(PREDICTORS.built_in))
    check(names, 0.8, "strict")
    log = setting.jobs()
    counted, account = jobs_that_count(log)
    account = account.using(len(counted))
    left_out = tuple(name for name in names if name in SLOWEST and len(log) >= LARGE)
    followed = tuple(name for name in names if name not in left_out)
    found = {
        split: evaluate(log, followed if how["train"] is None else names, seed=setting.seed, **how)
        for split, how in SPLITS.items()
    }
    tables, notes = dict[str, pd.DataFrame](), list[str]()
    if left_out:
        notes.append(f"Not followed job by job on so many jobs: {', '.join(left_out)}.")
    for name, make in _makers(setting, log, followed, found).items():
        try:
            tables[name] = make()
        except PoolError:
            raise
        except JobcastError as error:
            notes.append(f"No table {name}: {error}")
    return Report(
        log=log.name,
        seeds=(setting.seed,),
        tables=tables,
        pictures=tuple(
            Picture(f"figure_{name}", table, paint, 8.0, height) for name, table, paint, height in _figures(tables)
        ),
        notes=tuple(notes),
        verdict=tuple(_sentences(tables)),
        account=account,
    )


def _makers(setting: Setting, log: JobLog, names: tuple[str, ...], found: Mapping[str, Evaluation]) -> Makers:
    strict, quick, seed = found["strict"], setting.quick, setting.seed
    place = setting.checkpoints and setting.checkpoints / "sweep"
    makers: dict[str, Callable[[], pd.DataFrame]] = {
        "errors": lambda: errors(found),
        "signed_errors": lambda: signed(strict),
        "by_run_time": lambda: sliced(strict, "run time"),
        "by_user": lambda: sliced(strict, "user"),
        "by_month": lambda: sliced(strict, "month"),
        "costs": lambda: costs(found),
        "scheduling": lambda: scheduling(_cleaned(setting, log), names, setting.pool, place),
        "importances": lambda: _importances(log, strict, seed),
    }
    questions: dict[str, Callable[[], pd.DataFrame]] = {
        "calibration": lambda: _calibration(log, quick, seed),
        "errors_to_order": lambda: errors_to_order(_cleaned(setting, log), seed, quick=quick),
        "category_splits": lambda: category_splits(log, seed, quick=quick),
        "distributions": lambda: distributions(log, seed),
        "online_forests": lambda: online_forests(log, seed, quick=quick),
    }
    return makers if setting.predictors else makers | questions


def _cleaned(setting: Setting, log: JobLog) -> JobLog:
    return clean(log, setting.procs, drop_wide=True)[0]


def _importances(log: JobLog, found: Evaluation, seed: int) -> pd.DataFrame:
    ran = log.select(log.filled("run_time") > 0)
    explained = [score for score in found.scores if score.name in EXPLAINED]
    if not explained:
        raise JobcastError(f"attributes are permuted for {', '.join(EXPLAINED)}.")
    parts = []
    for score in explained:
        rows = replay(ran, score.predictor.features)[-found.n_test :]
        parts.append(permuted(score.predictor, rows, found.run_time, seed))
    return pd.concat(parts, ignore_index=True)


def _calibration(log: JobLog, quick: bool, seed: int) -> pd.DataFrame:
    names = CALIBRATED[:1] if quick else CALIBRATED
    return pd.concat([calibration(log, name, quick=quick, seed=seed) for name in names], ignore_index=True)


def _figures(tables: Mapping[str, pd.DataFrame]) -> Iterator[tuple[str, pd.DataFrame, Paint, float]]:
    """Yield of each picture its name, table, painter and height [inches]."""
    strict = tables["errors"][tables["errors"]["split"] == "strict"]
    yield "errors", tables["errors"], pictures.paint_errors, 6.5
    yield "by_run_time", tables["by_run_time"], pictures.paint_slices, 5.0
    yield "cost", strict.merge(tables["costs"], on="predictor"), pictures.paint_cost, 5.0
    if "importances" in tables:
        yield "importances", tables["importances"], pictures.paint_importances, 6.5
    if "calibration" in tables:
        yield "reliability", tables["calibration"], paint_reliability, 5.0
        for name, part in tables["calibration"].groupby("predictor", sort=False):
            yield f"calibration_{name}", part, paint_calibration, 5.0
    if "scheduling" in tables:
        yield "frontier", tables["scheduling"], pictures.paint_frontier, 6.5
        plain = tables["scheduling"][tables["scheduling"]["way"] == "request"]
        yield "error_and_gain", plain.merge(strict[["predictor", "ratio_to_last_two"]]), pictures.paint_gain, 5.0
    if "errors_to_order" in tables:
        for policy, part in tables["errors_to_order"].groupby("policy", sort=False):
            yield f"errors_to_order_{policy}", part, pictures.paint_errors_to_order, 5.0


def _sentences(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    sentences = [least_error(tables["errors"])]
    sentences += what_error_buys(tables["scheduling"]) if "scheduling" in tables else []
    if "calibration" in tables:
        sentences += [in_words(part) for _, part in tables["calibration"].groupby("predictor", sort=False)]
    return sentences
