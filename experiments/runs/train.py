"""A predictor that has learnt from a whole log, until when it did, and the figures that are shown of it."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from experiments.reports.figures import Axes, draw, write_table
from predictors.data.joblog import JobLog
from predictors.models.base import Predictor
from predictors.models.stream import keep_full_history
from predictors.registry import make_predictor, seeded

if TYPE_CHECKING:
    from predictors.evaluation.results import Evaluation, Score


def fitted(log: JobLog, predictor: str, seed: int) -> tuple[Predictor, int]:
    """Return a predictor that has learnt from all jobs of a log and remembers them, and the last end of one [s]."""
    found = make_predictor(predictor, **seeded(predictor, seed)).fit(log)
    keep_full_history(found, log)
    return found, learnt_until(log)[0]


def learnt_until(log: JobLog) -> tuple[int, int]:
    """Return the last end of a job that ran [s since the log's first submission], and how many did.

    Examples
    --------
    >>> from predictors.data.joblog import JobLog
    >>> columns = {"job_id": [1, 2, 3], "submit": [0, 5, 9], "wait": [2, 0, 0], "run_time": [60, 20, 0]}
    >>> learnt_until(JobLog.from_columns(columns, {}))
    (62, 2)
    """
    ran = log.filled("run_time") > 0
    ends = log.filled("submit") + log.filled("wait", 0) + log.filled("run_time")
    return int(ends[ran].max(initial=0)), int(ran.sum())


def figures_of(score: "Score", n_train: int) -> dict[str, Any]:
    """Return what a run shows: the figures, the interval's ends, how P10 to P90 held if they were asked for, times."""
    low, high = score.interval
    held = {} if score.followed is None else score.followed.to_json()
    return {
        **score.figures.to_dict(),
        "sse_ratio_low": low,
        "sse_ratio_high": high,
        **held,
        "n_train": n_train,
        "fit_seconds": score.fit_seconds,
        "predict_us_per_job": score.predict_us_per_job,
    }


def files_of_run(found: "Evaluation", predictor: str, folder: Path) -> list[Path]:
    """Write the tables and the picture that a training's run keeps into a folder; return their paths.

    The scores compared with last-two, the slices of the predictor, and its error by run time.
    """
    scores = pd.DataFrame({"predictor": score.name, **score.figures.to_dict()} for score in found.scores)
    parts = [{"by": part.by, "slice": part.label, **part.figures.to_dict()} for part in found[predictor].slices]
    slices = pd.DataFrame(parts)
    by_run_time = slices[slices["by"] == "run time"] if len(slices) else slices
    return [
        write_table(scores, folder / "scores.csv"),
        write_table(slices, folder / "slices.csv"),
        *draw(folder, "error_by_run_time", by_run_time, partial(_paint, predictor=predictor)),
    ]


def _paint(axes: Axes, table: pd.DataFrame, predictor: str) -> None:
    """Draw the error of each slice relative to last-two."""
    table = table[np.isfinite(table["sse_ratio_to_last_two"])]  # there is no ratio to an error of 0
    axes.barh(table["slice"], table["sse_ratio_to_last_two"], color="#4477aa")
    axes.axvline(1.0, color="black", linewidth=1)
    axes.invert_yaxis()
    axes.set(title=f"{predictor}, by run time", xlabel="squared error / last-two (left of 1 is better)")
