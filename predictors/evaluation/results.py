"""Scores of an evaluation, as table and JSON, and which predictor they recommend for which purpose."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Bools, Floats, Ints
from predictors.core.errors import counted, percent, unknown_name
from predictors.core.intervals import drawn_medians, drawn_ratios, percentiles
from predictors.data.joblog import JobLog
from predictors.data.report import ReadingReport
from predictors.data.summary import Lack
from predictors.evaluation.metrics import Figures, figures
from predictors.evaluation.monitoring import Monitored
from predictors.history._tables import utc_offsets
from predictors.models.base import Predictor
from predictors.models.baselines import ColumnPredictor, LastTwo, Requested

RUN_TIME_BINS: Final[Mapping[str, float]] = MappingProxyType(  # upper ends [s], included; longer jobs are one more bin
    {"<= 10 min": 600, "<= 1 h": 3600, "<= 4 h": 14_400, "<= 12 h": 43_200, "<= 24 h": 86_400, "<= 10 d": 864_000}
)


@dataclass(frozen=True)
class Slice:
    """The figures of one predictor on some of the test jobs."""

    by: str  # {"run time", "user", "month"}: what the jobs were sliced by
    label: str  # which slice
    figures: Figures  # of these jobs alone; the ratio is to last-two on the same jobs


def slices(
    log: JobLog,
    rows: Bools,
    # shape (n_jobs,); ended jobs of the user at the submission; NaN for unknown users. Users without one are cold
    ended_count: Floats,
    predicted: Floats,  # predicted, baseline: shape (n_jobs,); predictions [s]; only those of `rows` are read
    baseline: Floats,
) -> tuple[Slice, ...]:
    """Return the figures of `predicted` on every slice that has jobs."""
    run_time = log.filled("run_time").astype(np.float64)
    return tuple(
        Slice(by, label, figures(run_time[chosen], predicted[chosen], baseline[chosen]))
        for by, label, where in _parts(log, run_time, ended_count)
        if (chosen := where & rows).any()
    )


def _parts(log: JobLog, run_time: Floats, ended_count: Floats) -> Iterator[tuple[str, str, Bools]]:
    low = -np.inf
    for label, high in RUN_TIME_BINS.items():
        yield "run time", label, (run_time > low) & (run_time <= high)
        low = high
    yield "run time", "> 10 d", run_time > low
    warm = ended_count > 0
    yield "user", "warm", warm
    yield "user", "cold", ~warm
    months = months_of(log)
    for label in np.unique(months):
        yield "month", str(label), months == label


def months_of(log: JobLog) -> npt.NDArray[np.str_]:
    """Return the month of each submission in the machine's time zone; without an epoch, months of 30 days from 01 on.

    >>> log = JobLog.from_columns({"job_id": [1, 2], "submit": [0, 86400]}, {}, epoch=1_706_659_200)
    >>> months_of(log).tolist()
    ['2024-01', '2024-02']
    """
    submit = log.filled("submit")
    if log.epoch is None:
        return np.char.zfill((submit // (30 * 86400) + 1).astype(np.str_), 2)
    unix = log.epoch + submit
    offsets = utc_offsets(log.time_zone)
    which = np.maximum(np.searchsorted(offsets[:, 0], unix, side="right") - 1, 0)
    local = (unix + offsets[which, 1]).astype("datetime64[s]")
    names: npt.NDArray[np.str_] = np.datetime_as_string(local.astype("datetime64[M]"))
    return names


JSON_FIGURES: Final = (
    "n_test", "sse_s2", "sse_ratio_to_last_two", "mae_s", "rmse_s", "median_ae_s", "r2", "mean_accuracy",
    "underestimation_rate",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Score:
    """The score of one predictor."""

    name: str  # the predictor's registered name, or what the caller calls it
    figures: Figures  # on all test jobs
    # 95 % interval of the ratio to last-two, resampling what `blocks_of` says; NaN of too few of these, and of last-two
    interval: tuple[float, float]
    fit_seconds: float  # CPU time spent learning, by all threads, the features not included [s]
    predict_us_per_job: float  # time spent predicting, a job [µs]; prequential: history included
    slices: tuple[Slice, ...] = field(repr=False)  # by run time, cold and warm users, and month
    predicted: Floats = field(repr=False)  # shape (n_test,); predictions [s]
    predictor: Predictor = field(repr=False)  # as fitted here
    # test jobs that were answered by their request, since the predictor had no estimate; None if not counted
    n_fallback: int | None = None
    # P10, P50 and P90 of the predictions and how they held, where they were asked for
    followed: Monitored | None = field(default=None, repr=False)

    def to_json(self, detailed: bool = False) -> dict[str, Any]:
        """Return the figures and the interval by name; `detailed` adds the remaining figures and the slices."""
        found = self.figures.to_dict()
        short = {"name": self.name, **{name: found[name] for name in JSON_FIGURES}}
        short["sse_ratio_interval"] = list(self.interval)
        times: dict[str, Any] = {
            "fit_seconds": self.fit_seconds,
            "predict_us_per_job": self.predict_us_per_job,
            "n_fallback": self.n_fallback,
        }
        if self.followed is not None:
            times |= self.followed.to_json()
        if not detailed:
            return short | times
        more = {name: value for name, value in found.items() if name not in JSON_FIGURES}
        parts = [{"by": part.by, "slice": part.label, **part.figures.to_dict()} for part in self.slices]
        return short | times | more | {"slices": parts}


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """The predictor that serves one purpose best on the scored jobs."""

    purpose: str  # one of `PURPOSES`
    predictor: str  # name of the best one
    figure: str  # what was compared: a figure of `Figures`; less is better
    value: float  # that figure of the best one
    # its 95 % interval, resampling `resampled`; None if there are too few of these
    interval: tuple[float, float] | None
    resampled: str  # such as `214 users` or `35 weeks`
    # the others that may be as good: the 95 % interval of what they lack reaches 0. The least figure comes first.
    within_noise: tuple[str, ...]
    beats_last_two: bool  # whether it is significantly better than last-two by that figure

    @property
    def sentence(self) -> str:
        """The recommendation in words."""
        said = _SAID[self.figure](self.value)
        if self.interval is None:
            between = f" (no interval: the scored jobs have only {self.resampled})"
        else:
            low, high = self.interval
            between = (
                f" (95 % interval over {self.resampled}: {_BOUND[self.figure](low)} to {_BOUND[self.figure](high)})"
            )
        near = f" Within the noise: {', '.join(self.within_noise)}." if self.within_noise else ""
        others = self.predictor != LastTwo.name and LastTwo.name not in self.within_noise
        doubt = (
            ""
            if self.interval is None or self.beats_last_two or not others
            else " It is not significantly better than last-two."
        )
        return f"{PURPOSES[self.purpose]}: {self.predictor}. {said}{between}.{near}{doubt}"

    def to_json(self) -> dict[str, Any]:
        """Return everything by name, the sentence too."""
        lists = {"interval": self.interval and list(self.interval), "within_noise": list(self.within_noise)}
        return {**vars(self), **lists, "sentence": self.sentence}


PURPOSES: Final[Mapping[str, str]] = MappingProxyType(  # what a predictor may be wanted for, and how advice begins
    {
        "squared error": "Least squared error",
        "typical job": "Typical job",
        "never too short": "Least often too short",
        "no training": "Cheapest, nothing to train",
    }
)

_SAID: Final[Mapping[str, Callable[[float], str]]] = MappingProxyType(
    {
        "sse_ratio_to_last_two": lambda value: f"Its squared error is {value:.2f} of last-two's",
        "median_ae_s": lambda value: f"Half of the jobs end within {value:,.0f} s of its prediction",
        "underestimation_rate": lambda value: f"{percent(value, 1)} of the jobs run longer than it predicts",
    }
)
_BOUND: Final[Mapping[str, Callable[[float], str]]] = MappingProxyType(
    {
        "sse_ratio_to_last_two": lambda value: f"{value:.2f}",
        "median_ae_s": lambda value: f"{value:,.0f} s",
        "underestimation_rate": lambda value: percent(value, 1),
    }
)
FEWEST_BLOCKS: Final = 10  # users or weeks below which resampling them says nothing
WEEK: Final = 7 * 86400


def blocks_of(user: Ints, submit: Ints) -> tuple[Ints, str, bool]:
    """Return what is resampled, one number a job; its name and count; and whether there is enough of it.

    Users, since the jobs of one user err together. Weeks of submission where there are fewer than ten users.

    >>> blocks_of(np.arange(12), np.zeros(12, dtype=np.int64))[1:]
    ('12 users', True)
    >>> blocks_of(np.full(12, -1), np.arange(12) * 604_800)[1:]
    ('12 weeks', True)
    >>> blocks_of(np.full(3, 7), np.arange(3))[1:]
    ('1 user and 1 week', False)
    >>> blocks_of(np.full(3, -1), np.arange(3))[1:]
    ('1 week, and no known user', False)
    """
    n_users, weeks = len(np.unique(user)), submit // WEEK
    n_weeks = len(np.unique(weeks))
    if n_users >= FEWEST_BLOCKS:
        return user, counted(n_users, "user"), True
    if n_weeks >= FEWEST_BLOCKS:
        return weeks, counted(n_weeks, "week"), True
    if (user < 0).all():
        return user, f"{counted(n_weeks, 'week')}, and no known user", False
    return user, f"{counted(n_users, 'user')} and {counted(n_weeks, 'week')}", False


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The scores of all predictors on one log, split and protocol."""

    log: str  # log, split, protocol: name of the log, the split in words, the protocol's name
    split: str
    protocol: str
    partition: str | int | None  # the partition that the log was cut down to
    capped: bool  # whether predictions were capped at the request
    n_train: int  # n_train, n_test: jobs learnt from and scored
    n_test: int
    n_overran: int  # jobs scored that ran past their requested time
    # jobs of the log that were left out, by rule; and those neither learnt from nor scored
    account: ReadingReport = field(repr=False)
    lacks: tuple[Lack, ...]  # what the log lacks, so that these scores may mislead
    run_time: Floats = field(repr=False)  # shape (n_test,); true run times of the test jobs [s]
    user: Ints = field(repr=False)  # shape (n_test,); user of each job; -1 is unknown
    submit: Ints = field(repr=False)  # shape (n_test,); when they were submitted [s]
    scores: tuple[Score, ...]  # the baseline, last-two, is always among them, and first

    def __getitem__(self, name: str) -> Score:
        for score in self.scores:
            if score.name == name:
                return score
        raise unknown_name("score of a predictor", name, [score.name for score in self.scores])

    @property
    def no_interval(self) -> str:
        """Why a score has no interval, where it has none."""
        users = np.unique(self.user)
        if self.resampled or not self[LastTwo.name].figures.sse_s2 > 0:
            return "no error"  # of last-two, so that there is no ratio to it
        if len(users) > 1:
            return f"{len(users)} users only"
        return "one user" if (users >= 0).all() else "no users"

    @property
    def resampled(self) -> str:
        """What the intervals resample, such as `214 users` or `35 weeks`; empty where there is too little of it."""
        _, what, enough = blocks_of(self.user, self.submit)
        return what if enough else ""

    @property
    def _lacks_requests(self) -> bool:
        return any(lack.name == "no-requests" for lack in self.lacks)

    def recommendations(
        self,
        *,
        seed: int = 0,  # of the resamples; equal seeds, equal intervals
    ) -> tuple[Recommendation, ...]:
        """Return which predictor serves each of `PURPOSES` best, as far as the scored jobs can tell.

        A predictor that lacks a prediction for a scored job is left out. `no training` is the least squared error of
        those that read their answer off the history, last-two among them. Where the log has no requests, `requested`
        answers one hour for each job, which is no advice: it is left out too.
        """
        blocks, resampled, enough = blocks_of(self.user, self.submit)
        errors: dict[str, Floats] = {
            s.name: np.abs(s.predicted - self.run_time)
            for s in self.scores
            if np.isfinite(s.predicted).all() and not (self._lacks_requests and isinstance(s.predictor, Requested))
        }
        baseline = errors.get(LastTwo.name)
        if baseline is None:
            return ()
        drawn: dict[str, dict[str, Floats]] = {
            "sse_ratio_to_last_two": {},
            "median_ae_s": {},
            "underestimation_rate": {},
        }
        if enough:
            ones = np.ones(self.n_test)
            short = {s.name: (s.predicted < self.run_time).astype(np.float64) for s in self.scores}
            for name, error in errors.items():
                drawn["sse_ratio_to_last_two"][name] = drawn_ratios(blocks, error**2, baseline**2, seed=seed)
                drawn["median_ae_s"][name] = drawn_medians(blocks, error, seed=seed)
                drawn["underestimation_rate"][name] = drawn_ratios(blocks, short[name], ones, seed=seed)
        untrained = [s.name for s in self.scores if isinstance(s.predictor, ColumnPredictor) and s.name in errors]
        asked = (
            ("squared error", "sse_ratio_to_last_two", list(errors)),
            ("typical job", "median_ae_s", list(errors)),
            ("never too short", "underestimation_rate", list(errors)),
            ("no training", "sse_ratio_to_last_two", untrained),
        )
        return tuple(self._best(purpose, figure, names, drawn[figure], resampled) for purpose, figure, names in asked)

    def _best(
        self, purpose: str, figure: str, names: list[str], drawn: Mapping[str, Floats], resampled: str
    ) -> Recommendation:
        """Return the one with the least figure among some, and who may be as good."""
        value = {name: float(getattr(self[name].figures, figure)) for name in names}
        first, *others = sorted(names, key=lambda name: (np.isnan(value[name]), value[name]))
        near = [name for name in others if drawn and percentiles(drawn[name] - drawn[first])[0] <= 0]
        better = bool(drawn) and percentiles(drawn[LastTwo.name] - drawn[first])[0] > 0
        return Recommendation(
            purpose=purpose, predictor=first, figure=figure, value=value[first],
            interval=percentiles(drawn[first]) if drawn else None, resampled=resampled, within_noise=tuple(near),
            beats_last_two=better,
        )  # fmt: skip

    def to_json(self, detailed: bool = False) -> dict[str, Any]:
        """Return the document that `jobcast evaluate --json` prints; NaN stands for figures that do not exist."""
        return {
            "lacks": [lack.to_dict() for lack in self.lacks], "log": self.log, "split": self.split,
            "protocol": self.protocol, "n_train": self.n_train, "n_test": self.n_test, "n_overran": self.n_overran,
            "baseline": {"name": LastTwo.name, "capped": self.capped, "rows": self.n_test},
            "predictors": [score.to_json(detailed) for score in self.scores],
        }  # fmt: skip
