"""Predictors that read their answer off the feature row: requested, last-two, tsafrir, user-mean, similar.

With them the rules of two schedulers in production: `cesnet` and `metastack`.
"""

import copy
import math
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from predictors.core.arrays import Floats, Ints
from predictors.core.events import JOB, KIND, SUBMITTED
from predictors.core.jit import compiled
from predictors.data.joblog import JobLog
from predictors.history._step import consume
from predictors.history.features import REQUESTED_TIME
from predictors.history.history import JobHistory
from predictors.history.replay import LogHistory
from predictors.models.base import Estimator, Predictor
from predictors.models.prediction import in_range_one, is_none


@compiled
def column_mean(row: Floats, first: int, whole: bool) -> float:
    """Mean of the row's columns from `first` on, rounded down if `whole`; NaN if one is missing."""
    total = 0.0
    for k in range(first, len(row)):
        total += row[k]
    mean = total / (len(row) - first)
    return math.floor(mean) if whole and not np.isnan(mean) else mean


@compiled
def column_answers(rows: Floats, first: int, whole: bool, code: int, out: Floats) -> None:
    """`column_answer` of each row."""
    for i in range(len(rows)):
        out[i] = column_answer(rows[i], first, whole, code)


MEAN: Final = 0
CESNET: Final = 1
METASTACK: Final = 2
RATIO_PAD: Final = 900.0  # what `cesnet` adds [s]
LONG_REQUEST: Final = 86400.0  # requests above it [s] get twice as much


@compiled
def padded_ratio(row: Floats) -> float:
    """Return `cesnet` of a row (request, worst ratio) [s]; missing if one of them is, or the request is not above 0."""
    request, ratio = float(row[0]), float(row[1])
    if not request > 0 or np.isnan(ratio):
        return np.nan
    seconds = request * ratio + RATIO_PAD
    return min(request, 2.0 * seconds if request > LONG_REQUEST else seconds)


@compiled
def alike_or_half(row: Floats) -> float:
    """Return `metastack` of a row (request, mean of alike jobs, mean of the place, the user's ended jobs) [s]."""
    request, seconds = float(row[0]), float(row[1] if not np.isnan(row[1]) else row[2])
    if np.isnan(row[3]):  # nothing is known, not even who submits it
        return np.nan
    if np.isnan(seconds) or seconds > request:
        return request / 2.0 if request > 0 else seconds
    return seconds


@compiled
def column_answer(row: Floats, first: int, whole: bool, code: int) -> float:
    """Return the answer of a rule by its code for one row [s]; NaN if it has none."""
    if code == CESNET:
        return padded_ratio(row)
    if code == METASTACK:
        return alike_or_half(row)
    return column_mean(row, first, whole)


@compiled
def advance(
    events: Ints, seconds: Floats, rows: Floats, jobs: Ints, users: Ints, clock: Ints, recent: Floats, rule: Floats
) -> int:
    """Take in events, and write the capped answer for each submitted job; column 0 is the requested time.

    `rule` holds the first column of the mean, whether to round it, whether to cap it, and the code of the rule; its
    last number counts the jobs that had no answer. It is one array, since each argument of a compiled call costs time.

    Returns what `consume` does: -1, or the position of an event that cannot be.
    """
    bad = consume(events, rows, jobs, users, clock, recent)
    if bad >= 0:
        return bad
    first, whole, cap, code = int(rule[0]), rule[1] != 0, rule[2] != 0, int(rule[3])
    for i in range(len(events)):
        if events[i, KIND] == SUBMITTED:
            job = events[i, JOB]
            answer = column_answer(rows[job], first, whole, code)
            rule[4] += is_none(answer)
            seconds[job] = in_range_one(answer, rows[job, 0], cap)
    return -1


@dataclass(frozen=True)
class ColumnMean:
    """The mean of a row's columns from `first` on, missing if one of them is; or the answer of another rule."""

    first: int  # first column of the mean
    whole: bool = False  # whether the mean is rounded down to whole seconds
    code: int = MEAN  # `MEAN`, or another rule of this module

    def predict(self, rows: Floats) -> Floats:
        out = np.empty(len(rows))
        column_answers(rows, self.first, self.whole, self.code, out)
        return out

    def predict_one(self, row: Floats) -> float:
        return column_answer(row, self.first, self.whole, self.code)


class ColumnPredictor(Predictor):
    """Base of predictors that need no fit: they predict from `estimator`, the same always.

    The first feature is the requested time.
    """

    estimator: ClassVar[ColumnMean]

    @property
    def estimator_(self) -> Estimator:
        return self.estimator

    @estimator_.setter
    def estimator_(self, learnt: Estimator) -> None:
        """Nothing is learnt: the setter is there for `fit`."""

    def learn(self, rows: Floats, seconds: Floats) -> Estimator:
        return self.estimator

    def own_forecast(self, log: JobLog, *, learns: bool, after: JobHistory | None) -> "ColumnForecast":
        return ColumnForecast(self, log, after)


class ColumnForecast:
    """A `Forecast` that reads the estimate off the history's row."""

    def __init__(self, predictor: ColumnPredictor, log: JobLog, after: JobHistory | None = None) -> None:
        assert predictor.features[0] == REQUESTED_TIME
        self._history = LogHistory(log, predictor.features, predictor.as_of, after)
        rows = np.full((len(log), len(predictor.features)), np.nan)
        rule = predictor.estimator
        about = (rule.first, rule.whole, predictor.cap, rule.code, 0.0)
        self._rule = np.array(about, dtype=np.float64)
        self._arguments = (rows, *self._history.arrays, self._rule)

    @property
    def n_fallback(self) -> int:
        """Jobs so far that were answered by their request, since there was no estimate."""
        return int(self._rule[4])

    def advance(self, events: Ints, seconds: Floats) -> None:
        """Take in the events since the last call; write `seconds[job]` for each submission among them."""
        bad = advance(events, seconds, *self._arguments)
        if bad >= 0:
            self._history.consume(events[bad:], self._arguments[0])  # tells which event cannot be, and why

    def fork(self) -> "ColumnForecast":
        """Return a copy that goes on by itself; it costs memory by the jobs of the whole log."""
        return copy.deepcopy(self, {id(self._history.log): self._history.log})


class Requested(ColumnPredictor):
    """A job runs as long as its user asked for; one hour where that is unknown.

    >>> import numpy as np
    >>> Requested().predict_one(np.array([600.0])).seconds
    600.0
    """

    name = "requested"
    features = (REQUESTED_TIME,)
    estimator = ColumnMean(first=0)


class LastTwo(ColumnPredictor):
    """Mean run time of the user's last two ended jobs.

    One ended job only: by the rule `strict` that one, by the rule `reis` the requested time. None: the requested time.

    .. [1] D. Tsafrir, Y. Etsion, D. G. Feitelson. Backfilling using system-generated predictions rather than user
       runtime estimates. IEEE Transactions on Parallel and Distributed Systems 18(6), 2007. doi:10.1109/TPDS.2007.70606

    >>> import numpy as np
    >>> LastTwo().predict_rows(np.array([[600.0, 75.5], [600.0, np.nan], [60.0, 75.5]])).tolist()
    [75.5, 600.0, 60.0]
    """

    name = "last-two"
    features = (REQUESTED_TIME, "last_two_mean")
    estimator = ColumnMean(first=1)


class Tsafrir(ColumnPredictor):
    """Integer mean of the user's last two ended run times; fewer than two: the requested time.

    As the paper has it, where `LastTwo` keeps fractions and takes one ended job too.

    .. [1] D. Tsafrir, Y. Etsion, D. G. Feitelson. Backfilling using system-generated predictions rather than user
       runtime estimates. IEEE Transactions on Parallel and Distributed Systems 18(6), 2007. doi:10.1109/TPDS.2007.70606

    >>> import numpy as np
    >>> Tsafrir().predict_rows(np.array([[600.0, 75.0, 76.0], [600.0, 75.0, np.nan]])).tolist()
    [75.0, 600.0]
    """

    name = "tsafrir"
    features = (REQUESTED_TIME, "last_run_time", "second_last_run_time")
    estimator = ColumnMean(first=1, whole=True)


class UserMean(ColumnPredictor):
    """Mean run time of all the user's ended jobs; none: the requested time.

    >>> import numpy as np
    >>> UserMean().predict_rows(np.array([[600.0, 40.0], [600.0, np.nan]])).tolist()
    [40.0, 600.0]
    """

    name = "user-mean"
    features = (REQUESTED_TIME, "ended_mean")
    estimator = ColumnMean(first=1)


class Similar(ColumnPredictor):
    """Median of the last ten run times of the most specific group with history: the least absolute error.

    Groups, the most specific first: ended jobs of the same user, processors and requested time; of the same user and
    requested time; user and processors; user; all users' processors and requested time. None: the requested time.

    .. [1] W. Smith, I. Foster, V. Taylor. Predicting application run times using historical information. JSSPP 1998,
       LNCS 1459. doi:10.1007/BFb0053984

    >>> import numpy as np
    >>> Similar().predict_rows(np.array([[600.0, 75.5], [600.0, np.nan], [60.0, 75.5]])).tolist()
    [75.5, 600.0, 60.0]
    """

    name = "similar"
    features = (REQUESTED_TIME, "similar_median")
    estimator = ColumnMean(first=1)


class SimilarMean(Similar):
    """Exponentially weighted mean run time of the group that `Similar` takes: less squared error than its median."""

    name = "similar-mean"
    features = (REQUESTED_TIME, "similar_weighted")


class SimilarLow(Similar):
    """Lower quartile of the run times that `Similar` takes: low on purpose, for backfilling.

    Three jobs of four run longer, so it suits only a scheduler that corrects estimates that expire.
    """

    name = "similar-low"
    features = (REQUESTED_TIME, "similar_lower")


class Cesnet(ColumnPredictor):
    """Request x worst run time / request of the user's last 15 jobs, padded: CESNET's rule.

    15 minutes are added; requests above 24 hours get twice the sum. No ended job of the user: the requested time. The
    rule never exceeds the request.

    .. [1] D. Klusáček, V. Chlumský. Real-life experience with soft walltimes in a production batch system. JSSPP 2022.
       doi:10.1007/978-3-031-22698-4_10. The padding is that of the deployed hook of 2022,
       https://github.com/CESNET/softwalltime-predictor

    >>> import numpy as np
    >>> rows = np.array([[7200.0, 0.25], [100_000.0, 0.25], [7200.0, 1.0], [7200.0, np.nan]])
    >>> Cesnet().predict_rows(rows).tolist()
    [2700.0, 51800.0, 7200.0, 7200.0]
    """

    name = "cesnet"
    features = (REQUESTED_TIME, "worst_ratio")
    estimator = ColumnMean(first=1, code=CESNET)


class Metastack(ColumnPredictor):
    """Mean of alike jobs, else of the queue's last ten, else half the request: METASTACK's rule.

    Alike are the user's jobs of the last 90 days with the same partition, processors and requested time, among the last
    64 that ended. Memory and nodes, which METASTACK compares as well, are not in the history. A mean beyond the request
    is replaced by half the request. Where not even the user is known, the requested time is predicted.

    .. [1] METASTACK, a fork of Slurm: contribs/predictor. https://github.com/cluslab/metastack

    >>> import numpy as np
    >>> gone = np.nan
    >>> rows = np.array([[600.0, 75.5, 90.0, 3.0], [600.0, gone, 90.0, 3.0], [60.0, 75.5, 90.0, 3.0],
    ...                  [600.0, gone, gone, 0.0], [600.0, gone, gone, gone]])
    >>> Metastack().predict_rows(rows).tolist()
    [75.5, 90.0, 30.0, 300.0, 600.0]
    """

    name = "metastack"
    features = (REQUESTED_TIME, "alike_mean", "place_mean", "ended_count")
    estimator = ColumnMean(first=1, code=METASTACK)


class SimilarNames(Similar):
    """As `Similar`, with groups by the stem of job names before the others.

    A stem is a name without digits, dates and ids (`predictors.history.names`). The first group with history
    counts: the same user, stems of job name, command and directory, processors and requested time; the user,
    processors and requested time; the user and requested time; the user and the stem of the job name, else of the
    command, else of the directory; then as `Similar`. On logs without names the predictions are those of `Similar`.
    """

    name = "similar-names"
    features = (REQUESTED_TIME, "named_median")


class SimilarNamesMean(Similar):
    """Exponentially weighted mean run time of the group that `SimilarNames` takes."""

    name = "similar-names-mean"
    features = (REQUESTED_TIME, "named_weighted")


class KnnText(ColumnPredictor):
    """Mean run time of the five nearest of the user's last fifty ended jobs, by names, request and processors.

    Names are compared by hashed groups of three letters: nothing is trained and nothing downloaded. Of jobs
    with vectors, such as embeddings, the angles between these count in the place of names. Without either only request
    and processors count. No ended job: the requested time.

    .. [1] F. Antici, A. Borghesi, Z. Kiziltan. Online job failure and power prediction by nearest neighbours of a job's
       text among a user's last jobs: `francescoantici/UoPC`.

    >>> import numpy as np
    >>> KnnText().predict_rows(np.array([[600.0, 75.5], [600.0, np.nan], [60.0, 75.5]])).tolist()
    [75.5, 600.0, 60.0]
    """

    name = "knn-text"
    features = (REQUESTED_TIME, "near_text")
    estimator = ColumnMean(first=1)


class Logged(ColumnPredictor):
    """The run time that the site's own system predicted, as its log has it; else the requested time.

    With it a log of a production predictor (JSSPP's soft walltimes, PBS's `soft_walltime`, SWF of 21 fields) is the
    baseline on the same jobs.

    .. [1] D. Klusáček, V. Chlumský. Improving accuracy of walltime estimates in PBS Professional using soft walltimes.
       JSSPP 2022. doi:10.1007/978-3-031-22698-4_10

    >>> log = JobLog.from_columns({"job_id": [1, 2], "submit": [0, 5], "requested_time": [600, 600],
    ...                            "soft_walltime": [90, -1]}, {"soft_walltime": [False, True]})
    >>> Logged().predict(log).tolist()
    [90.0, 600.0]
    """

    name = "logged"
    features = (REQUESTED_TIME, "soft_walltime")
    estimator = ColumnMean(first=1)
