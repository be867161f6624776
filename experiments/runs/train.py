"""A predictor that has learnt from a whole log, until when it did, and the figures that are shown of it."""

from typing import TYPE_CHECKING, Any

from predictors.data.joblog import JobLog
from predictors.models.base import Predictor
from predictors.models.stream import keep_full_history
from predictors.registry import make_predictor, seeded

if TYPE_CHECKING:
    from predictors.evaluation.results import Score


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
