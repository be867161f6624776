"""The features of one submission, each family one small compiled function that writes its part of `facts`.

The arrays are laid out in `predictors._history_layout`; what the features mean is told in `predictors.features`.
"""

import numpy as np
import numpy.typing as npt

from predictors import _history_layout as at
from predictors._history_layout import NONE
from predictors.data.compiled import compiled
from predictors.data.joblog import Ints

Floats = npt.NDArray[np.float64]


@compiled
def write_facts(facts: Floats, job: Ints, now: int, jobs: Ints, users: Ints, clock: Ints) -> None:
    """Write the facts of the families in use, for a submission of `job` at `now`."""
    families = clock[at.FAMILIES]
    if families & at.JOB_FAMILY:
        write_job(facts, job)
    if families & at.CALENDAR_FAMILY:
        write_calendar(facts, now, clock)
    if families & at.ENDED_FAMILY:
        write_ended(facts, job, now, users, clock)
    if families & at.RUNNING_FAMILY:
        write_running(facts, job, now, jobs, users)


@compiled
def known(value: int) -> float:
    """Return a value that cannot be negative, missing where it is unknown."""
    return float(value) if value >= 0 else np.nan


@compiled
def write_job(facts: Floats, job: Ints) -> None:
    """What the submission itself tells."""
    facts[at.F_PROCS] = known(job[at.PROCS])
    facts[at.F_REQUESTED] = known(job[at.REQUESTED])
    facts[at.F_USER] = known(job[at.USER])
    facts[at.F_GROUP] = known(job[at.GROUP])
    facts[at.F_EXECUTABLE] = known(job[at.EXECUTABLE])
    facts[at.F_QUEUE] = known(job[at.QUEUE])
    facts[at.F_PARTITION] = known(job[at.PARTITION])


@compiled
def write_calendar(facts: Floats, now: int, clock: Ints) -> None:
    """Local day of the week and time of day."""
    if not clock[at.HAS_EPOCH]:
        facts[at.F_WEEKDAY] = np.nan
        facts[at.F_HOUR] = np.nan
        return
    unix = clock[at.EPOCH] + now
    calendar = clock[clock[at.CALENDAR] :].reshape(-1, 2)
    low, high = 0, len(calendar)
    while high - low > 1:
        middle = (low + high) // 2
        if calendar[middle, 0] <= unix:
            low = middle
        else:
            high = middle
    local = unix + calendar[low, 1]
    facts[at.F_WEEKDAY] = (local // 86400 + 3) % 7  # 1 January 1970 was a Thursday
    facts[at.F_HOUR] = (local % 86400) / 3600.0


@compiled
def write_ended(facts: Floats, job: Ints, now: int, users: Ints, clock: Ints) -> None:
    """What the user's ended jobs tell."""
    for k in range(at.F_LAST_TWO_MEAN, at.F_ENDED_MEAN + 1):
        facts[k] = np.nan
    if job[at.USER] < 0:
        return
    facts[at.F_ENDED_COUNT] = 0.0
    slot = job[at.USER_SLOT]
    if slot == NONE or users[slot, at.ENDED_COUNT] == 0:
        return
    count = users[slot, at.ENDED_COUNT]
    last = users[slot, at.LAST_RUN]
    facts[at.F_ENDED_COUNT] = count
    facts[at.F_ENDED_MEAN] = users[slot, at.RUN_SUM] / count
    facts[at.F_THINK_TIME] = now - users[slot, at.LAST_END]
    facts[at.F_LAST_RUN] = last
    facts[at.F_LAST_STATUS] = known(users[slot, at.LAST_STATUS])
    if count >= 2:
        second = users[slot, at.SECOND_RUN]
        facts[at.F_SECOND_RUN] = second
        facts[at.F_SECOND_STATUS] = known(users[slot, at.SECOND_STATUS])
        facts[at.F_LAST_TWO_MEAN] = (last + second) / 2.0
    elif clock[at.LEAST_ENDED] <= 1:
        facts[at.F_LAST_TWO_MEAN] = last


@compiled
def write_running(facts: Floats, job: Ints, now: int, jobs: Ints, users: Ints) -> None:
    """What the user has running and waiting now; running jobs tell their elapsed time only."""
    slot = job[at.USER_SLOT]
    nothing = np.nan if job[at.USER] < 0 else 0.0
    facts[at.F_LONGEST_RUNNING] = np.nan
    facts[at.F_RUNNING_MEAN] = np.nan
    facts[at.F_RUNNING_SUM] = nothing
    facts[at.F_RUNNING_COUNT] = nothing
    facts[at.F_PROCS_HELD] = nothing
    facts[at.F_PENDING_COUNT] = nothing
    if slot == NONE:
        return
    facts[at.F_PENDING_COUNT] = users[slot, at.PENDING_COUNT]
    running = users[slot, at.RUNNING_COUNT]
    if running == 0:
        return
    elapsed = running * now - users[slot, at.START_SUM]
    facts[at.F_LONGEST_RUNNING] = now - jobs[users[slot, at.OLDEST], at.START]
    facts[at.F_RUNNING_SUM] = elapsed
    facts[at.F_RUNNING_COUNT] = running
    facts[at.F_RUNNING_MEAN] = elapsed / running
    facts[at.F_PROCS_HELD] = users[slot, at.PROCS_HELD]
