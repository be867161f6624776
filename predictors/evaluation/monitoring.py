"""Monitoring of a model in use: its errors and last-two's on the same jobs, and its P10, P50 and P90.

A prediction is judged when its job has ended: it is compared with that of last-two at the same submission, by the same
as-of rule, and its quantiles by whether they held. To follow a model for months use
`predictors.evaluation.drift`, a test that may be checked at any time. One look, at a log or at the newest jobs, calls a
model **worse** than last-two by a rule that leaves room for noise. The newest 2,000 ended jobs, at least 400, are cut
into twenty blocks in the order of their ends. The ratio of the sums of errors, ours over last-two's, gets a standard
error from what the blocks say of it [1]_. One of the two, squared or absolute error, must lie above 1 by three standard
errors, and the other must not lie below 1: what is learnt for squared errors may pay with absolute ones, and the median
the other way round.

.. [1] W. G. Cochran. Sampling Techniques, third edition. Wiley, 1977: the variance of a ratio, chapter 6.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, short_repr
from predictors.core.errors import JobcastError
from predictors.core.events import ENDED, SUBMITTED
from predictors.core.model_files import part
from predictors.data.joblog import JobLog
from predictors.evaluation.drift import ALARMS_PER_YEAR, Drift, DriftTest
from predictors.evaluation.metrics import coverage, ratio
from predictors.evaluation.weekly import WeeklyErrors
from predictors.history.features import families_of
from predictors.history.history import JobHistory, as_of_rule
from predictors.history.keyed_rows import KeyedRows
from predictors.history.replay import log_events
from predictors.models.base import Predictor
from predictors.models.baselines import LastTwo
from predictors.models.conformal import LEVELS, ConformalQuantiles, Triple

RECENT: Final = 2000  # newest ended jobs that a model is judged by
LEAST: Final = 400  # ended jobs before it is judged
BLOCKS: Final = 20
EVERY: Final = 50  # a model is judged again after so many more jobs have ended
SURE: Final = 3.0  # standard errors by which a ratio must lie off 1 to be sure


class ErrorRatio(NamedTuple):
    """A sum of errors over last-two's on the same jobs, and the ends three standard errors away."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, ours: Floats, theirs: Floats) -> "ErrorRatio":
        """Return the ratio of two columns of errors, in the order of the jobs' ends."""
        above, below = _sums(ours), _sums(theirs)
        value = ratio(float(above.sum()), float(below.sum()))
        if not (np.isfinite(value) and below.sum() > 0):
            return cls(value, value, value)
        spread = SURE * np.sqrt(BLOCKS / (BLOCKS - 1) * ((above - value * below) ** 2).sum()) / below.sum()
        return cls(value, max(value - float(spread), 0.0), value + float(spread))

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


def _sums(errors: Floats) -> Floats:
    return np.array([block.sum() for block in np.array_split(errors, BLOCKS)])


@dataclass(frozen=True)
class Standing:
    """How a model compares with last-two on the same ended jobs."""

    n_jobs: int  # ended jobs that it is judged by
    # squared, absolute: of the squared and of the absolute errors
    squared: ErrorRatio
    absolute: ErrorRatio

    @property
    def worse(self) -> bool:
        """Whether the model is worse than last-two: significantly by one figure, and not better by the other."""
        one, other = self.squared, self.absolute
        return (one.low > 1 and not other.value < 1) or (other.low > 1 and not one.value < 1)

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values; None for a ratio that is no number."""
        found: dict[str, Any] = {"n_jobs": self.n_jobs}
        for name, one in (("squared_error", self.squared), ("absolute_error", self.absolute)):
            value, low, high = (end if np.isfinite(end) else None for end in one)
            found |= {f"{name}_ratio_to_last_two": value, f"{name}_ratio_interval": [low, high]}
        return found | {"worse_than_last_two": self.worse}

    def sentence(self, which: str, name: str) -> str:
        """Return what to say of a model of that name, judged by `which` of the ended jobs."""
        about = (
            f"Compared with last-two on {which} {self.n_jobs:,} ended jobs: squared error x {self.squared}, "
            f"absolute error x {self.absolute}."
        )
        return f"{about} {name} is worse than last-two there." if self.worse else about


def standing_of(
    # predicted, baseline, ran: shape (n_jobs,); what was predicted, what last-two said, how long the jobs ran [s], in
    # the order of their ends
    predicted: Floats,
    baseline: Floats,
    ran: Floats,
) -> Standing | None:
    """Return how predictions compare with last-two's; None where fewer than `LEAST` jobs have ended.

    >>> ran = np.exp(np.random.default_rng(1).normal(6, 1, 1000))
    >>> found = standing_of(3 * ran, 1.5 * ran, ran)
    >>> found.absolute.value, found.worse
    (4.0, True)
    >>> standing_of(ran, 1.5 * ran, ran).worse, standing_of(ran[:9], ran[:9], ran[:9])
    (False, None)
    """
    if len(ran) < LEAST:
        return None
    ours, theirs = predicted - ran, baseline - ran
    squared, absolute = ErrorRatio.of(ours**2, theirs**2), ErrorRatio.of(np.abs(ours), np.abs(theirs))
    return Standing(len(ran), squared, absolute)


class _Issued(NamedTuple):
    """What was issued at a submission [s]; NaN is an unknown request."""

    predicted: float
    baseline: float
    request: float
    quantiles: Triple | None

    @classmethod
    def of(cls, predicted: float, baseline: float, request: float, low: float, middle: float, high: float) -> Self:
        return cls(predicted, baseline, request, None if low != low else (low, middle, high))

    @property
    def row(self) -> tuple[float, ...]:
        return (*self[:3], *(self.quantiles or _NO_QUANTILES))


_NO_QUANTILES: Final = (np.nan,) * len(LEVELS)
_WIDTH: Final = 3 + len(LEVELS)


class _Ended(NamedTuple):
    """An end that is not known yet by the as-of rule."""

    time: int
    seconds: float
    issued: _Issued


class Monitor:
    """Follows a model's predictions from their issue to the jobs' ends.

    >>> monitor = Monitor()
    >>> monitor.submitted(1, 60.0, baseline=80.0, request=600.0) is None  # no quantiles yet
    True
    >>> monitor.ended(1, time=90, seconds=70.0)
    >>> monitor.outcomes, monitor.errors()[0].tolist()
    (1, [60.0])
    """

    def __init__(
        self,
        # what the quantiles go on from: it is changed. Default: nothing is known.
        quantiles: ConformalQuantiles | None = None,
        *,
        as_of: str = "strict",  # {"strict", "reis"}: what counts as ended at a submission
        drift_alarms: float = ALARMS_PER_YEAR,  # false alarms of drift a year at most
    ) -> None:
        self.quantiles = ConformalQuantiles() if quantiles is None else quantiles
        self.outcomes = 0  # ended jobs that had a prediction
        self.weeks = WeeklyErrors()  # errors and coverage by week
        self.drift: Final = DriftTest(drift_alarms)  # whether the model has become worse than last-two
        self._standing: Standing | None = None
        self._judged_at = 0
        self._same_second: Final = as_of_rule(as_of).same_second
        self._live: KeyedRows[float] = KeyedRows(_WIDTH, np.float64)
        self._due: list[_Ended] = []
        self._recent: deque[tuple[float, float, float, float]] = deque(maxlen=RECENT)

    def submitted(
        self, job: int, predicted: float, baseline: float, request: float, *, by_model: bool = True
    ) -> Triple | None:
        """Note what was predicted for a job, and what last-two says; return P10, P50 and P90, once there are any.

        Where the model failed and another answered in its place (`by_model` is false) there are none, so that the
        share within P10 to P90 is that of the model's own answers.
        """
        quantiles = self.quantiles.one(predicted, request) if by_model else None
        self._live.put(job, (predicted, baseline, request, *(quantiles or _NO_QUANTILES)))
        return quantiles

    def ended(self, job: int, time: int, seconds: float) -> None:
        """Learn from an end, now or when its second is over; a job without a known submission is left out."""
        found = self._live.pop(job)
        if found is not None:
            self._due.append(_Ended(time, seconds, _Issued.of(*found)))
            if self._same_second:
                self._learn_due()

    def cancelled(self, job: int) -> None:
        """Forget a job that left the queue."""
        self._live.pop(job)

    def catch_up(self, now: int) -> None:
        """Learn from the ends that may be known at a second."""
        if self.is_due(now):
            self._learn_due()

    def is_due(self, now: int) -> bool:
        """Return whether `catch_up` would learn anything."""
        return bool(self._due) and self._due[0].time < now

    def quantiles_at(self, now: int) -> ConformalQuantiles:
        """Return the quantiles with all learnt that may be known at a second; of that nothing is kept."""
        if not self.is_due(now):
            return self.quantiles
        found = self.quantiles.copy()
        for end in self._due:
            found.learn(end.issued.predicted, end.issued.request, end.seconds, end.issued.quantiles)
        return found

    def errors(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return of the newest ended jobs: predicted, last-two's, run time [s]; 1 where P10 to P90 held, 0, or NaN."""
        newest = list(self._recent)  # at once: other threads ask while the one that learns goes on
        table = np.array(newest, dtype=np.float64).reshape(-1, 4)
        return table[:, 0], table[:, 1], table[:, 2], table[:, 3]

    @property
    def standing(self) -> Standing | None:
        """How the model compares with last-two; judged again when `EVERY` more jobs have ended."""
        when = self.outcomes // EVERY
        if when != self._judged_at:
            self._standing, self._judged_at = self.judged(), when
        return self._standing

    def judged(self) -> Standing | None:
        """Return how the model compares with last-two now, by the newest ended jobs."""
        predicted, baseline, ran, _ = self.errors()
        return standing_of(predicted, baseline, ran)

    def _learn_due(self) -> None:
        for time, seconds, issued in self._due:
            self.quantiles.learn(issued.predicted, issued.request, seconds, issued.quantiles)
            ends = issued.quantiles
            held = float("nan") if ends is None else float(ends[0] <= seconds <= ends[2])
            self._recent.append((issued.predicted, issued.baseline, seconds, held))
            self.weeks.add(time, issued.predicted, issued.baseline, seconds, held)
            self.drift.add(time, issued.predicted - seconds, issued.baseline - seconds)
            self.outcomes += 1
        self._due.clear()

    # --- state --------------------------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, npt.NDArray[Any]]:
        return {
            **{f"quantiles_{name}": array for name, array in self.quantiles.get_state().items()},
            "jobs": self._live.keys(),
            "issued": self._live.rows(),
            "due": np.array([(end.time, end.seconds) for end in self._due], dtype=np.float64).reshape(-1, 2),
            "due_issued": np.array([end.issued.row for end in self._due], dtype=np.float64).reshape(-1, _WIDTH),
            "recent": np.array(self._recent, dtype=np.float64).reshape(-1, 4),
            "outcomes": np.array(self.outcomes, dtype=np.int64),
            "weeks": self.weeks.table(),
            "drift": self.drift.get_state(),
        }

    def set_state(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Go on from what `get_state` returned; whether the site kills stays as this monitor has it.

        A state from before there was a test of drift begins that test. Arrays of anything else raise JobcastError,
        KeyError or ValueError.
        """
        found = ConformalQuantiles.from_state(part(arrays, "quantiles_"))
        found.set_kills(self.quantiles.kills)
        self._live = KeyedRows(_WIDTH, np.float64)
        self._live.put_many(arrays["jobs"], arrays["issued"])
        due = zip(arrays["due"].tolist(), arrays["due_issued"].tolist(), strict=True)
        self._due = [_Ended(int(time), seconds, _Issued.of(*row)) for (time, seconds), row in due]
        if "drift" in arrays:
            self.drift.set_state(arrays["drift"])
        self._recent.clear()
        self._recent.extend((one, two, three, four) for one, two, three, four in arrays["recent"].tolist())
        self.quantiles, self.outcomes = found, int(arrays["outcomes"])
        self.weeks = WeeklyErrors.from_table(arrays["weeks"])
        self._standing, self._judged_at = self.judged(), self.outcomes // EVERY


@dataclass(frozen=True, eq=False)
class Monitored:
    """What became of a model's predictions of a log."""

    quantiles: Floats  # shape (n_jobs, 3); P10, P50 and P90 as of each submission [s]; NaN before enough jobs had ended
    # standing, newest: comparison with last-two, by all ended jobs of the log and by the newest of them
    standing: Standing | None
    newest: Standing | None
    covered: float  # share of the jobs with a known run time that ran for P10 to P90; NaN if there is none
    layer: ConformalQuantiles  # with all learnt that the log tells
    drift: Drift  # whether the model has become worse than last-two, as of the log's end

    __repr__ = short_repr

    @property
    def worse(self) -> bool:
        """Whether the model is significantly worse than last-two, on all ended jobs or the newest, or has become so."""
        return self.drift.stands or any(one is not None and one.worse for one in (self.standing, self.newest))

    def sentences(self, name: str, epoch: int | None = None) -> list[str]:
        """Return sentences that compare a model of that name with last-two; none where too few jobs ended.

        The log's second 0 is `epoch` in Unix time, if that is known.
        """
        if self.standing is None or self.newest is None:
            return []
        newest = [self.newest.sentence("the newest", name)] if self.newest.n_jobs < self.standing.n_jobs else []
        drift = [self.drift.sentence(name, epoch)] if self.drift.stands else []
        return [self.standing.sentence("all", name), *newest, *drift]

    @property
    def typical_width(self) -> float:
        """Geometric mean of P90 / P10; NaN if there are none."""
        known = self.quantiles[~np.isnan(self.quantiles[:, 0])]
        return float(np.exp(np.log(known[:, 2] / known[:, 0]).mean())) if len(known) else float("nan")

    def to_json(self) -> dict[str, float]:
        """Return how the quantiles held: the share of jobs from P10 to P90, and how far these lie apart."""
        return {"covered_share": self.covered, "p90_over_p10": self.typical_width}


def monitored(
    log: JobLog,  # its own starts and ends are the clock; a job without a known run time is predicted and never judged
    predicted: Floats,  # predicted, baseline: shape (n_jobs,); the model's predictions and last-two's [s]
    baseline: Floats,
    *,
    as_of: str = "strict",  # {"strict", "reis"}: what counts as ended at a submission
    layer: ConformalQuantiles | None = None,  # what the quantiles go on from; it stays as it is
) -> Monitored:
    """Follow predictions of a log's jobs, each issued at its submission and judged from its end on."""
    monitor = Monitor(None if layer is None else layer.copy(), as_of=as_of)
    requests = np.where(log.known("requested_time"), log.filled("requested_time"), np.nan).tolist()
    run_time = log.filled("run_time").astype(np.float64)
    ours, theirs, ran = predicted.tolist(), baseline.tolist(), run_time.tolist()
    quantiles, ends = np.full((len(log), len(LEVELS)), np.nan), list[int]()
    for time, kind, row in log_events(log).tolist():
        monitor.catch_up(time)
        if kind == SUBMITTED:
            issued = monitor.submitted(row, ours[row], theirs[row], requests[row])
            if issued is not None:
                quantiles[row] = issued
        elif kind == ENDED:
            monitor.ended(row, time, ran[row])
            ends.append(row)
    at_end = np.array(ends, dtype=np.int64)
    standing = standing_of(predicted[at_end], baseline[at_end], run_time[at_end])
    told = at_end[~np.isnan(quantiles[at_end, 0])]
    covered = coverage(run_time[told], quantiles[told, 0], quantiles[told, 2])
    return Monitored(quantiles, standing, monitor.judged(), covered, monitor.quantiles, monitor.drift.now)


def last_two_of(predictor: Predictor, log: JobLog, *, warm: bool) -> Floats:
    """Return what last-two says of a log's jobs [s], by a predictor's as-of rule, cap and usable history."""
    base = LastTwo(cap=predictor.cap, as_of=predictor.as_of)
    history: JobHistory | None = vars(predictor).get("history_")
    if warm and history is not None and not families_of(base.features) & ~families_of(history.features):
        base.history_, base.codes_ = history, vars(predictor).get("codes_", {})
        return base.predict(log, warm=True)
    return base.predict(log)


def refuse_worse(
    what: str,  # the model and the jobs, to begin the sentence with
    # sum of its squared errors over last-two's on the same jobs; no number where last-two makes no error
    sse_ratio: float,
    alias: str,  # the alias that it is to get
) -> None:
    """Raise unless a model's squared error on the last part of its log is below last-two's.

    >>> refuse_worse("forest on kth", 0.4, "champion")
    >>> refuse_worse("forest on kth", 1.39, "champion")
    Traceback (most recent call last):
        ...
    predictors.core.errors.JobcastError: forest on kth: the squared error is 1.390 times last-two's ...
    """
    if sse_ratio < 1:
        return
    found = f"the squared error is {sse_ratio:.3f} times last-two's on the same jobs"
    if not np.isfinite(sse_ratio):
        found = "last-two makes no error on the same jobs"
    raise JobcastError(
        f"{what}: {found}, so the model does not get "
        f"the alias {alias!r}. Compare predictors with `jobcast evaluate`, or give --even-if-worse."
    )


def refit_with(predictor: str, name: str | None, alias: str | None) -> str:
    """Return the command that trains such a model again.

    >>> refit_with("forest", "runtime", "champion")
    'Refit with: jobcast train LOG --predictor forest --register runtime --alias champion'
    >>> refit_with("average", None, None)
    'Refit with: jobcast train LOG --predictor average'
    """
    kept = "" if name is None else f" --register {name}" + (f" --alias {alias}" if alias else "")
    return f"Refit with: jobcast train LOG --predictor {predictor}{kept}"
