"""Estimates by role from similar jobs: the revised estimates `careful`, `balanced` and `bold`.

Nothing is trained. The last runs of similar jobs are a sample of how long a job may take. Each role reads its own value
from that sample: the order of the queue a low one, so that short jobs pass; a candidate for backfilling a higher one,
so that the head of the queue is seldom delayed; a running job the median of what is left, *given that it still runs*.
"""

import copy
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, Self

import numpy as np

from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError, unknown_name
from predictors.core.events import ENDED, STARTED
from predictors.data.joblog import JobLog
from predictors.models import _similar_jobs as kernel


@dataclass(frozen=True)
class SimilarRuns:
    """Estimates from the last runs of the same user and requested time.

    The *sample* of a job, as of now: the run times of the last `runs` ended jobs of the same user and requested time,
    each of weight 1. If there is none: the user's last `runs` ended jobs, each as its run time / its request x this
    job's request, rounded down. Values lie in [1 s, request]. The requested time joins with weight `request_weight`;
    alone, for users without history, with weight 1.

    * Order: the weighted geometric mean.
    * Candidate: `factor` x the weighted mean, by `candidate`.
    * Running: the weighted `quantile` of the sample's values above the elapsed time, re-read as each of them is passed;
      the requested time when none is left.

    Means are rounded down to whole seconds and kept in [1 s, request]. While a job waits, its estimates follow the
    sample; at its start the sample is frozen.

    >>> log = JobLog.from_columns({"job_id": [1, 2], "submit": [0, 60], "run_time": [40, 50], "user": [7, 7],
    ...                            "requested_procs": [1, 1], "requested_time": [600, 600]}, {})
    >>> revised, answers = SimilarRuns().forecast(log), np.empty((1, 24))
    >>> revised.advance(np.array([[0, 0, 0]]), answers), answers[0, :5].tolist()  # job 0 is submitted: no history
    (1, [0.0, 600.0, 510.0, 600.0, inf])
    >>> events = np.array([[0, 1, 0], [40, 2, 0], [60, 0, 1]])  # it starts, ends after 40 s, job 1 is submitted
    >>> revised.advance(events, answers), answers[0, :7].tolist()
    (1, [1.0, 40.0, 77.0, 51.0, 40.0, 600.0, inf])
    """

    runs: int = 10  # ended jobs to keep of each user, and of each (user, requested time)
    request_weight: float = 0.1  # weight of the requested time among them, above 0
    candidate: Literal["mean", "geometric"] = "mean"  # which mean a candidate is tried with
    factor: float = 0.85  # what it is multiplied by, above 0
    quantile: float = 0.5  # of the running jobs, above 0, at most 1

    def __post_init__(self) -> None:
        if self.runs < 1:
            raise JobcastError(f"SimilarRuns remembers at least 1 run; got runs={self.runs}.")
        if self.candidate not in ("mean", "geometric"):
            raise unknown_name("mean", self.candidate, ("mean", "geometric"))
        for name in ("request_weight", "factor"):
            if not 0 < getattr(self, name) < float("inf"):
                raise JobcastError(f"SimilarRuns needs {name} above 0; got {getattr(self, name)}.")
        if not 0 < self.quantile <= 1:
            raise JobcastError(f"SimilarRuns needs a quantile above 0 and at most 1; got {self.quantile}.")

    def forecast(self, log: JobLog) -> "SimilarRunsForecast":
        """Return the revised estimates on the jobs of `log` while its events go by; it starts knowing nothing."""
        return SimilarRunsForecast(self, log)


class SimilarRunsForecast:
    """The `RevisedEstimates` of `SimilarRuns` on one log: events name its rows, of which user and request are read."""

    def __init__(self, about: SimilarRuns, log: JobLog) -> None:
        request = log.values["requested_time"]
        if (request < 1).any():
            job = int(log.values["job_id"][np.argmax(request < 1)])
            raise JobcastError(
                f"{log.name}: job {job} has no requested time; clean the log: predictors.data.cleaning.clean(log)."
            )
        self.n_steps: Final = about.runs
        self._tables = _tables(log, about.runs)
        self._by_group = False
        self._rule = (about.request_weight, about.quantile, about.candidate == "geometric", about.factor)

    def advance(self, events: Ints, answers: Floats) -> int:
        """Take in the events since the last call; write the answers on waiting jobs, and return how many they are."""
        return kernel.advance(events, answers, *self._tables, *self._rule, self._by_group)

    def by_group(self) -> None:
        """Let one answer stand for all waiting jobs of its group from now on."""
        self._by_group = True

    @property
    def group_of(self) -> Ints:
        """The number of each job's group: one user and requested time, hence one sample and the same estimates."""
        group, alone = self._tables[0][:, kernel.GROUP].copy(), self._tables[0][:, kernel.GROUP] == kernel.NONE
        group[alone] = len(self._tables[1]) + np.unique(self._tables[0][alone, kernel.REQUEST], return_inverse=True)[1]
        return group

    def fork(self) -> Self:
        """Return a copy that goes on by itself; it costs memory by the jobs of the whole log."""
        new = copy.copy(self)
        jobs, groups, users, todo, room = self._tables
        new._tables = (jobs.copy(), groups.copy(), users.copy(), todo.copy(), room.copy())
        return new


def _tables(log: JobLog, runs: int) -> tuple[Ints, Ints, Ints, Ints, Floats]:
    known, request = log.known("user"), log.values["requested_time"]
    names, user = np.unique(log.values["user"][known], return_inverse=True)
    asked, time = np.unique(request[known], return_inverse=True)
    pairs, group = np.unique(user * len(asked) + time, return_inverse=True)
    jobs = np.full((len(log), kernel.JOB_COLUMNS), kernel.NONE, dtype=np.int64)
    jobs[known, kernel.USER], jobs[known, kernel.GROUP], jobs[:, kernel.REQUEST] = user, group, request
    jobs[:, kernel.BASIS] = kernel.NOT_WAITING
    groups = np.zeros((len(pairs), kernel.GROUP_RUNS + runs), dtype=np.int64)
    groups[:, kernel.OF_USER] = pairs // max(len(asked), 1)
    users = np.zeros((len(names), kernel.USER_RUNS + 2 * runs), dtype=np.int64)
    groups[:, kernel.FIRST] = users[:, kernel.FIRST] = kernel.NONE
    return jobs, groups, users, np.zeros(1 + len(users), dtype=np.int64), np.zeros((2, runs + 1))


REVISED_ESTIMATES: Final[Mapping[str, SimilarRuns]] = MappingProxyType(
    {
        "careful": SimilarRuns(),
        "balanced": SimilarRuns(),
        "bold": SimilarRuns(request_weight=0.03, candidate="geometric", factor=0.5, quantile=0.75),
    }
)
"""Rules of revised estimates by name: `careful` and `balanced`, the same for the policies of these names and for all
machines; and `bold`, which favours short jobs more."""

ALIASES: Final[Mapping[str, str]] = MappingProxyType({"default": "careful"})  # older names, and those that results give


def estimates_name(name: str) -> str:
    """Return the name of estimates as results show it: an older one is replaced by today's.

    >>> estimates_name("default"), estimates_name("bold"), estimates_name("last-two")
    ('careful', 'bold', 'last-two')
    """
    return ALIASES.get(name, name)


def make_revised_estimates(name: str) -> SimilarRuns:
    """Return a rule of revised estimates by its name.

    >>> make_revised_estimates("careful").factor
    0.85
    """
    name = estimates_name(name)
    if name not in REVISED_ESTIMATES:
        raise unknown_name("kind of revised estimates", name, REVISED_ESTIMATES)
    return REVISED_ESTIMATES[name]


class RecentRatios:
    """Run times drawn as (run time / requested time) of recent jobs times the request.

    Each of the user's last ended jobs counts as one, all others' last ones together as `weight`. Of a job that runs,
    only what lies beyond the time it has run already is possible. Jobs of one user take the same quantile in a draw,
    since they tend to run long or short together.

    Parameters
    ----------
    log : JobLog
        The events name its rows; its waits and run times are not read.
    own : int
        How many ended jobs of the user to keep.
    everybody : int
        How many ended jobs in all to keep.
    weight : float
        For how many of the user's jobs everybody's count together.

    Examples
    --------
    >>> from predictors.data.synthetic.generate import generate_log
    >>> ratios = RecentRatios(generate_log(3, seed=1))
    >>> ratios.run_times(np.array([0]), np.array([-1]), np.array([[0.5]])).tolist() == [
    ...     generate_log(3, seed=1).values["requested_time"][:1].tolist()]
    True
    """

    def __init__(self, log: JobLog, own: int = 20, everybody: int = 500, weight: float = 5.0) -> None:
        if own < 1 or everybody < 1 or not weight > 0:
            raise ValueError(f"own, everybody and weight must be positive; got {own}, {everybody} and {weight}.")
        self._user = log.values["user"]
        self._requested = log.values["requested_time"]
        self._start = np.zeros(len(log), dtype=np.int64)
        self._weight = weight
        self._own: defaultdict[int, deque[float]] = defaultdict(lambda: deque(maxlen=own))
        self._everybody: deque[float] = deque(maxlen=everybody)

    def advance(self, events: Ints) -> None:
        """Take in the events since the last call, int64 of shape (n, 3): rows (time, kind, job row)."""
        for time, kind, row in events.tolist():
            if kind == STARTED:
                self._start[row] = time
            elif kind == ENDED:
                self.ended(int(self._user[row]), (time - self._start[row]) / self._requested[row])

    def ended(self, user: int, ratio: float) -> None:
        """Take in the run time / requested time of a user's job that ended; -1 is unknown."""
        self._everybody.append(ratio)
        if user >= 0:
            self._own[user].append(ratio)

    def run_times(self, rows: Ints, elapsed: Ints, uniform: Floats) -> Ints:
        """Return one run time [s] for each draw and job, shape (n_draws, n_live), beyond `elapsed` (-1: it waits)."""
        everybody = np.array(self._everybody)
        drawn = np.empty(uniform.shape, dtype=np.int64)
        together = uniform[:, self._first_of_user(rows)]
        for column, (row, passed) in enumerate(zip(rows.tolist(), elapsed.tolist(), strict=True)):
            seconds, share = self._possible(row, passed, everybody)
            drawn[:, column] = seconds[np.searchsorted(share, together[:, column] * share[-1], side="right")]
        return drawn

    def _first_of_user(self, rows: Ints) -> Ints:
        """Return for each job the place of its user's first one among them; unknown users' jobs are alone."""
        place: dict[int, int] = {}
        users = enumerate(self._user[rows].tolist())
        return np.array([place.setdefault(user, i) if user >= 0 else i for i, user in users], dtype=np.int64)

    def _possible(self, row: int, passed: int, everybody: Floats) -> tuple[Ints, Floats]:
        """Return the run times that a job may still have [s], ascending, and their summed weights."""
        requested = int(self._requested[row])
        own = np.array(self._own.get(int(self._user[row]), ()))
        seconds = np.ceil(np.concatenate([own, everybody]) * requested).astype(np.int64)
        weight = np.ones(len(seconds))
        beyond = seconds > passed
        weight[len(own) :] = self._weight / max(1, int(np.count_nonzero(beyond[len(own) :])))
        if not beyond.any():
            return np.array([max(requested, passed + 1)], dtype=np.int64), np.ones(1)
        seconds, weight = seconds[beyond], weight[beyond]
        order = np.argsort(seconds, kind="stable")
        return seconds[order], np.cumsum(weight[order])
