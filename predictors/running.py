"""Which jobs run at a moment, as a predictor may learn from them: with how long they have run until then."""

import numpy as np
import numpy.typing as npt

from predictors.answers import REQUESTED_TIME
from predictors.data.joblog import JobLog
from predictors.history import Outcomes
from predictors.replay import LogHistory

Floats = npt.NDArray[np.float64]


def running_at(log: JobLog, rows: Floats, among: npt.NDArray[np.bool_], now: int) -> Outcomes:
    """Return those `among` the jobs of a log that have started by `now`, censored then; their ends are not read.

    Parameters
    ----------
    log : JobLog
        By whose own submissions and waits jobs start.
    rows : float64 array of shape (n_jobs, n_features)
        Features as of each job's submission.
    among : bool array of shape (n_jobs,)
        Jobs of which the caller knows that they have not ended.
    """
    start = log.filled("submit") + log.filled("wait", 0)
    runs = np.flatnonzero(among & (start <= now))
    elapsed, unknown = (now - start[runs]).astype(np.float64), np.full(len(runs), np.nan)
    return Outcomes(rows[runs], unknown, elapsed, np.zeros(len(runs), dtype=np.bool_), np.full(len(runs), now))


def still_running(history: LogHistory, rows: Floats) -> Outcomes | None:
    """Return the jobs of a log gone through that started and whose end it does not tell, censored at its newest event.

    One that would have outrun its request by then (or, without a request, all ended jobs) was lost, and is left out.

    Parameters
    ----------
    history : LogHistory
        After all events of the log.
    rows : float64 array of shape (n_jobs, n_features)
        What it has written; one feature is the requested time.
    """
    run_time = history.log.filled("run_time")
    if history.log.known("run_time").all() or not (run_time > 0).any():
        return None
    known = history.training_set(rows, history.now)
    asked = known.rows[:, history.features.index(REQUESTED_TIME)]
    there = ~known.observed & (known.seconds <= np.where(asked > 0, asked, run_time.max()))
    return known.select(np.flatnonzero(there))
