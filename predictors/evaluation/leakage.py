"""Leakage audit: the future of a log is changed, and the predictions of its past must stay.

At an instant t everything that a submission of second t could not know yet is replaced: how and when the jobs end that
have not ended, when those start that wait, and all about the jobs submitted later. A predictor that keeps to the as-of
rule gives every job submitted until t the same prediction as before, to the last bit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats
from predictors.core.errors import JobcastError
from predictors.data.joblog import COLUMNS, JobLog

_STATUSES: Final = np.array([0, 1, 5])
_LONGEST: Final = 200_000  # new run times and waits go up to more than two days [s]
_SHOWN: Final = 20  # leaks that a report spells out, of each instant


class _Predictor(Protocol):
    def predict(self, log: JobLog, /) -> npt.ArrayLike: ...


@dataclass(frozen=True)
class Leak:
    """One prediction, or feature, that moved when only its future was changed."""

    job_id: int
    submit: int  # second of the prediction [s]
    column: str
    before: float
    after: float
    instant: int  # second after which the log was changed

    def __str__(self) -> str:
        """Return the leak as a sentence."""
        return (
            f"{self.column} of job {self.job_id}, submitted at {self.submit} s, moved from {self.before:g} to "
            f"{self.after:g} when what came after {self.instant} s was changed"
        )


@dataclass(frozen=True)
class LeakageReport:
    """The result of an audit."""

    instants: tuple[int, ...]  # seconds after which the future was changed
    n_compared: int  # predictions, or feature values, that had to stay
    n_moved: int  # of these, the ones that moved
    leaks: tuple[Leak, ...]  # the first that moved at each instant, by submission

    @property
    def clean(self) -> bool:
        """Whether nothing moved."""
        return self.n_moved == 0

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the features that moved, each once."""
        return tuple(dict.fromkeys(leak.column for leak in self.leaks))

    def __str__(self) -> str:
        """Return the finding, and the first leak in words."""
        compared = f"{self.n_compared} values compared over {len(self.instants)} changed futures"
        if self.clean:
            return f"No look-ahead found: {compared}, none moved."
        return f"Look-ahead: of {compared}, {self.n_moved} moved; {self.leaks[0]}."


def audit_leakage(
    predictor: _Predictor | Callable[[JobLog], npt.ArrayLike],
    log: JobLog,
    *,
    instants: int | Sequence[int] = 8,
    columns: Sequence[str] = (),
    seed: int = 0,
) -> LeakageReport:
    """Change the future of a log several times and demand that no past prediction moves.

    Parameters
    ----------
    predictor : object with `predict(log)`, or a function of a log
        Gives one row a job: shape (n_jobs,) or (n_jobs, n_features). It is asked twice for the unchanged log.
    log : JobLog
        Best a piece of a real log with ties; each instant costs a prediction of the whole log.
    instants : int or sequence of int
        Seconds after which to change the future, or how many to take, spread evenly over the submissions.
    columns : sequence of str
        Names of the features, for the report.
    seed : int
        Of the changed futures.

    Examples
    --------
    >>> log = JobLog.from_columns({"job_id": [1, 2, 3], "submit": [0, 5, 9], "wait": [0, 0, 0],
    ...                            "run_time": [3, 7, 8], "status": [1, 0, 1]}, {})
    >>> print(audit_leakage(lambda log: log["submit"], log))
    No look-ahead found: 6 values compared over 3 changed futures, none moved.
    >>> audit_leakage(lambda log: log["status"], log, columns=["status"]).columns
    ('status',)
    """
    predict = predictor.predict if hasattr(predictor, "predict") else predictor
    first = _table(predict(log), log)
    again = _table(predict(log), log)
    if not _same(first, again).all():
        raise JobcastError("The predictor gives other values when asked twice for the same log: fix its seed first.")
    submit, job_id = log.filled("submit"), log.filled("job_id")
    names = columns or (["prediction"] if first.shape[1] == 1 else [f"feature {k}" for k in range(first.shape[1])])
    chosen = _spread(submit, instants) if isinstance(instants, int) else instants
    leaks: list[Leak] = []
    n_compared = n_moved = 0
    for instant in chosen:
        n_past = int(np.searchsorted(submit, instant, side="right"))
        after = _table(predict(different_future(log, instant, seed)), log)
        moved = np.argwhere(~_same(first[:n_past], after[:n_past]))
        n_compared, n_moved = n_compared + first[:n_past].size, n_moved + len(moved)
        leaks += [
            Leak(int(job_id[i]), int(submit[i]), names[k], float(first[i, k]), float(after[i, k]), int(instant))
            for i, k in moved[:_SHOWN].tolist()
        ]
    return LeakageReport(tuple(int(t) for t in chosen), n_compared, n_moved, tuple(leaks))


def different_future(log: JobLog, instant: int, seed: int = 0) -> JobLog:
    """Return the log with everything changed that a submission of second `instant` cannot know.

    Rows and job ids stay. Known are: the submissions until then, the starts before it, and the ends until then of jobs
    that had started before it (of a zero-length job the end follows the start, which comes after submissions).
    """
    random = np.random.default_rng([seed, abs(instant)])
    n_jobs = len(log)
    values = {column: log.filled(column).copy() for column in COLUMNS}
    unknown = {column: ~log.known(column) for column in COLUMNS}
    has_wait, has_run = log.known("wait"), log.known("run_time")
    submit = values["submit"]
    start = submit + np.where(has_wait, values["wait"], 0)
    is_later = submit > instant
    has_started = (has_wait | has_run) & (start < instant)
    has_ended = has_started & has_run & (start + values["run_time"] <= instant)

    def change(column: str, rows: npt.NDArray[np.bool_], new: npt.NDArray[np.int64]) -> None:
        new = np.where(new == values[column], new + 1, new)
        values[column][rows], unknown[column][rows] = new[rows], False

    like = random.integers(0, n_jobs, n_jobs)  # later jobs become like any others of the log …
    for column in _OF_SUBMISSION:
        values[column][is_later] = log.filled(column)[like][is_later]
        unknown[column][is_later] = ~log.known(column)[like][is_later]
    values["submit"] = np.where(is_later, instant + 2 * (submit - instant), submit)  # … and come later
    least_wait = np.where(is_later, 0, instant - submit)
    least_run = np.where(has_started, instant - start + 1, 0)
    change("wait", ~has_started, least_wait + _lengths(random, n_jobs))
    change("run_time", ~has_ended, least_run + _lengths(random, n_jobs))
    change("cpu_time", ~has_ended, _lengths(random, n_jobs))
    change("used_memory", ~has_ended, _lengths(random, n_jobs))
    status = random.integers(0, len(_STATUSES), n_jobs)
    same = _STATUSES[status] == values["status"]
    change("status", ~has_ended, _STATUSES[(status + same) % len(_STATUSES)])
    asked = values["requested_procs"] > 0  # where a log does not tell the request, the allocation stands for it
    change("allocated_procs", ~has_started & ~is_later & asked, random.integers(1, 1000, n_jobs))
    return replace(log, values=values, unknown=unknown)


_OF_SUBMISSION: Final = (
    "requested_time",
    "requested_procs",
    "allocated_procs",
    "requested_memory",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding_job",
    "think_time",
)


def _lengths(random: np.random.Generator, n_jobs: int) -> npt.NDArray[np.int64]:
    """Return run times or waits of all orders of magnitude [s]."""
    return np.expm1(random.uniform(0, np.log(_LONGEST), n_jobs)).astype(np.int64)


def _spread(submit: npt.NDArray[np.int64], number: int) -> list[int]:
    if not len(submit):
        return []
    rows = np.linspace(0, len(submit) - 1, number + 1)[1:].round().astype(np.int64)
    return [int(t) for t in np.unique(submit[rows])]


def _table(predictions: npt.ArrayLike, log: JobLog) -> Floats:
    table: Floats = np.ma.array(predictions, dtype=np.float64).filled(np.nan)
    if table.ndim not in (1, 2) or len(table) != len(log):
        raise JobcastError(f"A prediction for {len(log)} jobs must have one row each; got shape {table.shape}.")
    return table if table.ndim == 2 else table[:, np.newaxis]


def _same(left: Floats, right: Floats) -> npt.NDArray[np.bool_]:
    if left.shape[1:] != right.shape[1:]:
        raise JobcastError(
            f"The predictor gives {left.shape[1]} columns for a log and {right.shape[1]} for another one."
        )
    same: npt.NDArray[np.bool_] = (left == right) | (np.isnan(left) & np.isnan(right))
    return same
