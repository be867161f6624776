"""Which jobs may be postponed, and until when? Marks at random by seed, and deadlines of those marked.

References
----------
.. [1] Li, Chunduri, Harms, Fan, Lan. The effect of system utilization on application performance variability. ROSS
   2019. doi:10.1145/3322789.3328743
.. [2] N'takpe, Suter. Don't hurry be happy: a deadline-based backfilling approach. JSSPP 2017.
   doi:10.1007/978-3-319-77398-8_4
"""

from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from predictors.data.errors import JobcastError
from schedsim._kernels_draws import unit
from schedsim.given import check_whole
from schedsim.workload import Workload

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

LEAST: Final = 24 * 3600
"""From the submission to the deadline at least [s]."""
TIMES: Final = 10
"""So many requested times, if that is more."""

_PURPOSE: Final = 73


def drawn(workload: Workload, share: float, seed: int = 0) -> Bools:
    """Draw which jobs may be postponed: each with the same chance, by (seed, job id).

    By one seed, a smaller share's jobs are among a larger one's.

    Raises
    ------
    JobcastError
        If the share is not from 0 to 1.

    Examples
    --------
    >>> w = Workload.from_columns(range(1, 101), submit=[0] * 100, procs=[1] * 100, requested=[60] * 100,
    ...                           run_time=[60] * 100, machine_procs=8)
    >>> int(drawn(w, 0.3).sum()), bool((drawn(w, 0.3) <= drawn(w, 0.5)).all())
    (30, True)
    """
    if not 0 <= share <= 1:
        raise JobcastError(f"The share of jobs that may be postponed is from 0 to 1; got {share}.")
    check_whole(seed, "the seed of which jobs may be postponed", 0, (1 << 62) - 1)
    return np.array([unit(seed, job, _PURPOSE) < share for job in workload.job_id.tolist()], dtype=np.bool_)


def with_deadlines(workload: Workload, postponable: Bools, least: int = LEAST, times: float = TIMES) -> Workload:
    """Return the workload with deadlines: submission + max(least, times x requested time) for jobs marked.

    Parameters
    ----------
    workload : Workload
        The jobs.
    postponable : bool array of shape (n_jobs,)
        Which jobs may be postponed.
    least : int
        From the submission to the deadline at least [s].
    times : float
        So many requested times, if that is more.

    Examples
    --------
    >>> w = Workload.from_columns([1, 2, 3], submit=[0, 0, 5], procs=[1] * 3, requested=[3600, 36000, 60],
    ...                           run_time=[60] * 3, machine_procs=8)
    >>> (with_deadlines(w, np.array([True, True, False])).deadline / 3600).round(2).tolist()
    [24.0, 100.0, -0.0]
    """
    if least < 0 or not 0 <= times < float("inf"):
        raise JobcastError(f"A deadline lies 0 s or more after the submission; got {least} s and {times} requests.")
    after = np.maximum(least, np.floor(times * workload.requested)).astype(np.int64)
    return replace(workload, deadline=np.where(postponable, workload.submit + after, -1))
