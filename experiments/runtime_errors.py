"""Tables of how well predictors do: errors by split, where errors fall and on which side, what predictors cost."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pandas as pd

from predictors.evaluation import Evaluation, Score

SPLITS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "strict": MappingProxyType({"train": 0.8, "protocol": "strict"}),
        "reis": MappingProxyType({"train": 0.8, "protocol": "reis"}),
        "prequential": MappingProxyType({"train": None, "protocol": "strict"}),
    }
)
"""What `evaluate` is told: the last 20 % under either protocol; or every job at its submission, learnt at its end."""


def errors(found: Mapping[str, Evaluation]) -> pd.DataFrame:
    """Return one row a split and predictor, the least squared error of each split first."""
    rows = [_errors(split, score) for split, one in found.items() for score in one.scores]
    table = pd.DataFrame(rows)
    order = {split: place for place, split in enumerate(found)}
    return table.sort_values(
        ["split", "ratio_to_last_two"], key=lambda column: column.map(order) if column.name == "split" else column
    ).reset_index(drop=True)


def least_error(table: pd.DataFrame) -> str:
    """Say which predictor has the least squared error on unseen jobs, and which are not told apart from it."""
    split = table["split"].iloc[0]
    part = table[(table["split"] == split) & table["ratio_to_last_two"].notna()].sort_values("ratio_to_last_two")
    if part.empty:
        return "No predictor has a squared error to compare."
    best = part.iloc[0]
    said = (
        f"Least squared error under the split {split}: {best['predictor']}, {best['ratio_to_last_two']:.3f} of "
        f"last-two's [{best['ratio_low']:.3f}, {best['ratio_high']:.3f}]."
    )
    near = part["predictor"][1:][part["ratio_low"][1:] <= best["ratio_high"]].tolist()
    return f"{said} Intervals overlap with {', '.join(near)}: no winner among these." if near else said


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
