"""What may a job run? A distribution drawn from its user's recent jobs, for forecasts of starts."""

from collections import defaultdict, deque

import numpy as np
import numpy.typing as npt

from predictors.data.events import ENDED, STARTED
from predictors.data.joblog import Ints, JobLog

Floats = npt.NDArray[np.float64]


class RecentRatios:
    """Run times drawn as (run time / requested time) of recent jobs times the request.

    Each of the user's last ended jobs counts as one, all others' last ones together as `weight`. Of a job that runs,
    only what lies beyond the time it has run already is possible. Jobs of one user take the same quantile in a draw,
    since they tend to run long or short together.

    Parameters
    ----------
    log : JobLog
        Whose rows the events speak of; its waits and run times are not read.
    own : int
        How many ended jobs of the user to remember.
    everybody : int
        How many ended jobs in all to remember.
    weight : float
        For how many of the user's jobs everybody's count together.

    Raises
    ------
    ValueError
        If a number is not positive.

    Examples
    --------
    >>> from predictors.data.synthetic import generate_log
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
                ratio = (time - self._start[row]) / self._requested[row]
                self._everybody.append(ratio)
                if self._user[row] >= 0:
                    self._own[int(self._user[row])].append(ratio)

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
