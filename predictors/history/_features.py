"""The features of one submission, each family one small compiled function that writes its part of `facts`.

The arrays are laid out in `predictors.history._layout`; the features are defined in
`predictors.history.features`.
"""

import math

import numpy as np

from predictors.core.arrays import Floats, Ints
from predictors.core.jit import compiled
from predictors.history import _layout as at
from predictors.history._layout import NONE


@compiled
def write_facts(facts: Floats, job: Ints, now: int, jobs: Ints, users: Ints, clock: Ints, recent: Floats) -> None:
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
    if families & at.SUBMISSIONS_FAMILY:
        write_submissions(facts, job, now, users)
    if families & at.MACHINE_FAMILY:
        write_machine(facts, clock)
    if families & at.SIMILAR_FAMILY:
        write_most_specific(facts, job, now, users, at.BACK_OFF, at.F_SIMILAR)
    if families & at.GROUPS_FAMILY:
        write_groups(facts, job, now, users)
    if families & at.KERNEL_FAMILY:
        write_kernels(facts, job, now, users, recent)
    if families & at.NAMED_FAMILY:
        write_most_specific(facts, job, now, users, at.NAMED_BACK_OFF, at.F_NAMED)
    if families & at.TEXT_FAMILY:
        write_near_text(facts, job, users, recent)
    if families & at.LOGGED_FAMILY:
        facts[at.F_SOFT] = float(job[at.SOFT]) if job[at.SOFT] > 0 else np.nan
    if families & at.PRODUCTION_FAMILY:
        write_production(facts, job, now, users, recent)


@compiled
def known(value: int) -> float:
    """Return a value that cannot be negative, missing where it is unknown."""
    return float(value) if value >= 0 else np.nan


@compiled
def write_job(facts: Floats, job: Ints) -> None:
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
    """The user's running and waiting jobs; of running jobs only the elapsed time is known."""
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


@compiled
def write_submissions(facts: Floats, job: Ints, now: int, users: Ints) -> None:
    """Compare a submission with the previous one of the same user."""
    for k in range(at.F_SINCE_SUBMIT, at.F_SAME_EXECUTABLE + 1):
        facts[k] = np.nan
    slot = job[at.USER_SLOT]
    if job[at.USER] >= 0:
        facts[at.F_BURST] = 0.0
    if slot == NONE or users[slot, at.SUBMIT_COUNT] == 0:
        return
    since = now - users[slot, at.LAST_SUBMIT]
    facts[at.F_SINCE_SUBMIT] = since
    facts[at.F_BURST] = users[slot, at.BURST] if since <= at.BURST_GAP else 0.0
    facts[at.F_SAME_PROCS] = same(job[at.PROCS], users[slot, at.LAST_PROCS])
    facts[at.F_SAME_REQUESTED] = same(job[at.REQUESTED], users[slot, at.LAST_REQUESTED])
    facts[at.F_SAME_EXECUTABLE] = same(job[at.EXECUTABLE], users[slot, at.LAST_EXECUTABLE])


@compiled
def same(one: int, other: int) -> float:
    """Return 1 if two values are equal, 0 if not, missing if either is unknown."""
    if one < 0 or other < 0:
        return np.nan
    return 1.0 if one == other else 0.0


@compiled
def write_machine(facts: Floats, clock: Ints) -> None:
    """The waiting and running jobs of the whole machine."""
    for k in range(4):
        facts[at.F_MACHINE_PENDING + k] = clock[at.MACHINE_PENDING + k]
    size = clock[at.MACHINE_PROCS]
    facts[at.F_MACHINE_FREE_PROCS] = max(size - clock[at.MACHINE_RUNNING_PROCS], 0) if size > 0 else np.nan


@compiled
def group_slot(job: Ints, kind: int) -> int:
    return int(job[at.USER_SLOT] if kind == 0 else job[at.JOB_COLUMNS + kind - 1])


@compiled
def write_most_specific(facts: Floats, job: Ints, now: int, users: Ints, kinds: tuple[int, ...], first: int) -> None:
    """Features of the first group among `kinds` with history, from the place `first` on, and then its rank."""
    for k in range(first, first + at.GROUP_FACTS + 1):
        facts[k] = np.nan
    rank = 0.0
    for kind in kinds:
        slot = group_slot(job, kind)
        if slot != NONE and users[slot, at.ENDED_COUNT] > 0:
            write_group(facts, first, now, users[slot])
            facts[first + at.GROUP_FACTS] = rank
            return
        rank += 1.0


@compiled
def write_near_text(facts: Floats, job: Ints, users: Ints, recent: Floats) -> None:
    """Mean of the nearest of the user's newest runs, by their names, requests and processors."""
    facts[at.F_NEAR_TEXT] = np.nan
    slot = job[at.USER_SLOT]
    if slot == NONE or users[slot, at.ENDED_COUNT] == 0:
        return
    runs, count = recent[users[slot, at.RECENT]], users[slot, at.ENDED_COUNT]
    request, procs = log_of(job[at.REQUESTED]), log_of(job[at.PROCS])
    nearest = np.full(at.NEIGHBOURS, np.inf)
    seconds = np.zeros(at.NEIGHBOURS)
    for age in range(min(count, at.AMONG)):  # the newest first: of equally near runs the newer ones count
        i = (count - 1 - age) % at.MEMORY
        far = abs(request - runs[at.R_LOG_REQUEST + i]) / at.NEAR_REQUEST
        far += abs(procs - runs[at.R_LOG_PROCS + i]) / at.NEAR_PROCS
        far += apart(job[at.SIGNATURE], int(runs[at.R_SIGNATURE + i])) / at.BITS_APART
        far += apart(job[at.SIGNATURE_2], int(runs[at.R_SIGNATURE_2 + i])) / at.BITS_APART
        k = at.NEIGHBOURS - 1
        if far >= nearest[k]:
            continue
        while k > 0 and far < nearest[k - 1]:
            nearest[k], seconds[k] = nearest[k - 1], seconds[k - 1]
            k -= 1
        nearest[k], seconds[k] = far, runs[at.R_RUN + i]
    size = min(count, at.NEIGHBOURS)
    total = 0.0
    for k in range(size):
        total += seconds[k]
    facts[at.F_NEAR_TEXT] = total / size


@compiled
def apart(one: int, other: int) -> int:
    """Return the bits in which two words of signatures differ: none if both are unknown, half of all if one is.

    Half of all, too, if one is of names and the other of a vector.
    """
    if one < 0 or other < 0:
        return 0 if one < 0 and other < 0 else 26
    bits, count = one ^ other, 0
    if bits >> at.SIGNATURE_BITS:
        return 26
    while bits:
        bits &= bits - 1
        count += 1
    return count


@compiled
def write_groups(facts: Floats, job: Ints, now: int, users: Ints) -> None:
    """Features of each kind of group."""
    for kind in range(at.N_KINDS):
        first = at.F_GROUPS + kind * at.GROUP_FACTS
        slot = group_slot(job, kind)
        if slot != NONE and users[slot, at.ENDED_COUNT] > 0:
            write_group(facts, first, now, users[slot])
        else:
            for k in range(first, first + at.GROUP_FACTS):
                facts[k] = np.nan


@compiled
def write_group(facts: Floats, first: int, now: int, group: Ints) -> None:
    """Write the facts of one group with history, from position `first` on."""
    floats = group.view(np.float64)
    count = group[at.ENDED_COUNT]
    size = min(count, at.RING_SIZE)
    total, logs = 0, 0.0
    for i in range(size):  # insertion sort into the scratch behind the facts
        value = group[at.RING + i]
        total += value
        logs += math.log(max(value, 1))
        k = at.N_FACTS + i
        while k > at.N_FACTS and facts[k - 1] > value:
            facts[k] = facts[k - 1]
            k -= 1
        facts[k] = value
    facts[first + at.OF_COUNT] = count
    facts[first + at.OF_LAST] = group[at.LAST_RUN]
    facts[first + at.OF_WEIGHTED] = floats[at.RUN_WEIGHTED]
    facts[first + at.OF_RATIO] = floats[at.RATIO_WEIGHTED] if group[at.RATIO_COUNT] > 0 else np.nan
    facts[first + at.OF_MEAN] = total / size
    facts[first + at.OF_GEOMETRIC] = math.exp(logs / size)
    facts[first + at.OF_MIN] = facts[at.N_FACTS]
    facts[first + at.OF_LOWER] = quantile(facts, size, 1)
    facts[first + at.OF_MEDIAN] = quantile(facts, size, 2)
    facts[first + at.OF_UPPER] = quantile(facts, size, 3)
    facts[first + at.OF_MAX] = facts[at.N_FACTS + size - 1]
    facts[first + at.OF_AGE] = now - group[at.LAST_END]


@compiled
def log_of(value: int) -> float:
    """Return the logarithm of a number; of one that is unknown or below 1, that of 1."""
    return math.log(max(value, 1))


@compiled
def write_kernels(facts: Floats, job: Ints, now: int, users: Ints, recent: Floats) -> None:
    """Means over the user's newest runs, each weighing by how close it is to the job."""
    for k in range(at.F_KERNEL, at.F_KERNEL + len(at.KERNELS)):
        facts[k] = np.nan
    slot = job[at.USER_SLOT]
    if slot == NONE or users[slot, at.ENDED_COUNT] == 0:
        return
    runs, count = recent[users[slot, at.RECENT]], users[slot, at.ENDED_COUNT]
    request, procs = log_of(job[at.REQUESTED]), log_of(job[at.PROCS])
    size = min(count, at.MEMORY)
    away = np.empty(at.MEMORY)
    for k in range(len(at.KERNELS)):
        of_request, of_procs, of_runs, of_hours = at.KERNELS[k]
        nearest = np.inf
        for i in range(size):
            far = abs(request - runs[at.R_LOG_REQUEST + i]) / of_request
            far += abs(procs - runs[at.R_LOG_PROCS + i]) / of_procs
            far += (count - 1 - i) % at.MEMORY / of_runs
            if of_hours < np.inf:
                far += math.log(1.0 + max(now - runs[at.R_END + i], 0.0) / 3600.0) / of_hours
            away[i] = far
            nearest = min(nearest, far)
        total, weights = 0.0, 0.0
        for i in range(size):  # the nearest weighs 1: far ones may vanish, all of them never
            weight = math.exp(nearest - away[i])
            weights += weight
            total += weight * runs[at.R_RUN + i]
        facts[at.F_KERNEL + k] = total / weights


@compiled
def coded(value: int) -> float:
    """Return a number or code as a user's newest runs hold it: 1 if it is unknown, never 0."""
    return value + 2.0 if value >= 0 else 1.0


@compiled
def write_production(facts: Floats, job: Ints, now: int, users: Ints, recent: Floats) -> None:
    """What predictors in production read off the user's newest runs, the newest first."""
    for k in range(at.F_WORST_RATIO, at.F_PLACE_MEAN + 1):
        facts[k] = np.nan
    slot = job[at.USER_SLOT]
    if slot == NONE or users[slot, at.ENDED_COUNT] == 0:
        return
    runs, count = recent[users[slot, at.RECENT]], users[slot, at.ENDED_COUNT]
    request, procs = coded(job[at.REQUESTED]), coded(job[at.PROCS])
    queue, partition = coded(job[at.QUEUE]), coded(job[at.PARTITION])
    worst, alike, n_alike, place, n_place = -1.0, 0.0, 0, 0.0, 0
    for newer in range(min(count, at.MEMORY)):
        i = (count - 1 - newer) % at.MEMORY
        run = runs[at.R_RUN + i]
        asked = runs[at.R_REQUEST + i] - 2.0
        if newer < at.RATIO_RUNS and asked > 0.0:
            worst = max(worst, min(run / asked, 1.0))
        if runs[at.R_QUEUE + i] != queue or runs[at.R_PARTITION + i] != partition:
            continue
        if n_place < at.PLACE_RUNS:
            place += run
            n_place += 1
        if (
            runs[at.R_REQUEST + i] == request
            and runs[at.R_PROCS + i] == procs
            and now - runs[at.R_END + i] <= at.ALIKE_AGE
        ):
            alike += run
            n_alike += 1
    if worst >= 0.0:
        facts[at.F_WORST_RATIO] = worst
    if n_alike > 0:
        facts[at.F_ALIKE_MEAN] = alike / n_alike
    if n_place > 0:
        facts[at.F_PLACE_MEAN] = place / n_place


@compiled
def quantile(facts: Floats, size: int, quarters: int) -> float:
    """Return a quartile of the sorted scratch, linear between neighbours."""
    place = quarters * (size - 1)
    low, rest = place // 4, place % 4
    value = facts[at.N_FACTS + low]
    return float(value + (facts[at.N_FACTS + low + 1] - value) * rest / 4.0 if rest else value)
