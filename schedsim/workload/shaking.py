"""Shaken logs: submissions and run times moved a little, by seed.

A schedule is chaotic: moving one job by a second can change single figures by a tenth or more. So compare policies on
the same shaken logs, over several seeds, by medians with intervals (Tsafrir, Ouaknine & Feitelson, Reducing
performance evaluation sensitivity and variability by input shaking, MASCOTS 2007).
"""

from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Ints
from predictors.core.hash_random import uniform
from predictors.core.validation import check_whole
from predictors.data.cleaning import overran, within_requests
from predictors.data.joblog import JobLog

MOVE: Final = 60  # most that a submission moves, earlier or later [s]
STRETCH: Final = 0.03  # largest change of a run time, as a share

_SUBMIT: Final = 1
_RUN_TIME: Final = 2


def shaken(
    log: JobLog,  # a log cleaned by `predictors.data.cleaning.clean`
    seed: int,  # which shake, 0 or more
    kill: bool = True,  # whether the simulation stops jobs at their requested time
) -> JobLog:
    """Return a cleaned log with each submission moved by up to 60 s and each run time changed by up to 3 %.

    Both are uniform, in whole seconds, and depend on nothing but (seed, job id). Run times stay at least 1 s, and those
    within the requested time stay within it; rows are sorted again.

    With `kill`, a job that ran past its requested time counts as run until then, and that time is shaken: under about
    half of the seeds it ends a little before its request and is not stopped. Without, its logged run time is shaken.

    >>> log = JobLog.from_columns({"job_id": [1, 2], "submit": [0, 500], "run_time": [1000, 2000],
    ...                            "requested_time": [3600, 2000]}, {})
    >>> shaken(log, 1)["submit"].tolist(), shaken(log, 1)["run_time"].tolist()
    ([0, 533], [986, 2000])
    """
    check_whole(seed, "the seed of a shake", 0, (1 << 63) - 1)
    job_id, run_time = log.values["job_id"], log.values["run_time"]
    submit = log.values["submit"] + np.rint(MOVE * (2 * _draw(seed, job_id, _SUBMIT) - 1)).astype(np.int64)
    factor = 1 + STRETCH * (2 * _draw(seed, job_id, _RUN_TIME) - 1)
    beyond = overran(log) & ((factor >= 1) | (not kill))
    seen = within_requests(log).values["run_time"]
    within = np.clip(np.rint(seen * factor).astype(np.int64), 1, log.values["requested_time"])
    run_time = np.where(beyond, np.maximum(np.rint(run_time * factor).astype(np.int64), 1), within)
    return resubmitted(log, submit, run_time=run_time)


def resubmitted(log: JobLog, submit: Ints, **values: Ints) -> JobLog:
    """Return a log with other submissions [s], and other values of whole columns, sorted again: the first is second 0.

    >>> from predictors.data.synthetic.generate import generate_log
    >>> log = generate_log(3, seed=1)
    >>> later = resubmitted(log, np.array([7, 20, 5]))
    >>> later.values["submit"].tolist(), (later.values["job_id"] - log.values["job_id"][0]).tolist()
    ([0, 2, 15], [2, 0, 1])
    """
    order = np.lexsort((log.values["job_id"], submit))
    first = int(submit[order[0]]) if len(log) else 0
    values = {**log.values, **values, "submit": submit - first}
    return replace(
        log,
        values={column: array[order] for column, array in values.items()},
        unknown={column: mask[order] for column, mask in log.unknown.items()},
        origin=log.origin + first,
        epoch=None if log.epoch is None else log.epoch + first,
    )


def _draw(seed: int, job_id: npt.NDArray[np.int64], purpose: int) -> npt.NDArray[np.float64]:
    """Return a number in [0, 1) for each job."""
    out = np.empty(len(job_id))
    uniform(seed, job_id, purpose, out)
    return out
