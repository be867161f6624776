"""Kernel of `predictors.models.similar_jobs`: the last runs of each (user, request), and what follows from them.

Layout, all int64 but for the answers:

* `jobs` (n_jobs, JOB_COLUMNS): one record a job of the log; the waiting ones of a group are linked.
* `groups` (n_groups, GROUP_RUNS + K): one a (user, requested time), with its newest K run times [s] as a ring.
* `users` (n_users, USER_RUNS + 2 K): newest K run times and their requests [s]. Groups with waiting jobs are linked.
* `todo` (1 + n_users,): the number of users with jobs that ended since the last answers, then these.
* `room` (2, K + 1) float64: a sample and its weights, ascending.

Does not handle a requested time that is unknown.
"""

import math
from typing import Final

import numpy as np

from predictors.core.arrays import Floats, Ints
from predictors.core.events import ENDED, JOB, KIND, STARTED, SUBMITTED, TIME
from predictors.core.jit import compiled, step

NONE: Final = -1
NOT_WAITING: Final = 0

# jobs
USER: Final = 0  # row in `users`, or NONE
GROUP: Final = 1
REQUEST: Final = 2
START: Final = 3
BASIS: Final = 4  # what its answer rests on, see `basis`; NOT_WAITING before the submission and from the start on
NEXT: Final = 5  # waiting jobs of the group
PREVIOUS: Final = 6
JOB_COLUMNS: Final = 7

# groups
ENDED_JOBS: Final = 0  # also of users
FIRST: Final = 1  # the group's first waiting job; the user's first group with one
OF_USER: Final = 2
NEXT_GROUP: Final = 3
PREVIOUS_GROUP: Final = 4
TOLD: Final = 5  # what the group's answer rests on, see `basis`, where one answer is for all that wait
GROUP_RUNS: Final = 6

# users
IS_TODO: Final = 2
USER_RUNS: Final = 3

# answers
ROW: Final = 0
RUNNING: Final = 1
CANDIDATE: Final = 2
ORDER: Final = 3
STEPS: Final = 4

UP: Final = 1.0 + 1e-12  # keeps a mean of equal whole numbers from falling below them by rounding


@compiled
def advance(
    events: Ints, answers: Floats, jobs: Ints, groups: Ints, users: Ints, todo: Ints, room: Floats,
    request_weight: float, quantile: float, geometric: bool, factor: float, by_group: bool,
) -> int:  # fmt: skip
    """Take in events, write the answers on jobs that wait, new ones first, as far as there is room; return how many.

    With `by_group` one answer, on any job of a group, is for all that wait of it.
    """
    n = 0
    for i in range(len(events)):
        kind, job = events[i, KIND], events[i, JOB]
        if kind == SUBMITTED:
            if n < len(answers):
                size = sample(jobs[job], groups, users, room, request_weight)
                answer(answers[n], job, jobs[job, REQUEST], room, size, quantile, geometric, factor)
                n += 1
            queue(job, jobs, groups, users)
        elif kind == ENDED:
            end(job, events[i, TIME], jobs, groups, users, todo)
        else:
            leave(job, jobs, groups, users)
            if kind == STARTED:
                jobs[job, START] = events[i, TIME]
    for i in range(todo[0]):
        user = todo[1 + i]
        users[user, IS_TODO] = 0
        n = revise(user, answers, n, jobs, groups, users, room, request_weight, quantile, geometric, factor, by_group)
    todo[0] = 0
    return n


@step
def revise(
    user: int, answers: Floats, n: int, jobs: Ints, groups: Ints, users: Ints, room: Floats,
    request_weight: float, quantile: float, geometric: bool, factor: float, by_group: bool,
) -> int:  # fmt: skip
    """Update outdated answers on a user's waiting jobs; return the number of answers."""
    group = users[user, FIRST]
    while group != NONE:
        first, job, now = n, groups[group, FIRST], basis(group, groups, users)
        if by_group and groups[group, TOLD] == now:
            job = NONE
        groups[group, TOLD] = now
        while job != NONE:
            if (by_group or jobs[job, BASIS] != now) and n < len(answers):
                if n == first:
                    size = sample(jobs[job], groups, users, room, request_weight)
                    answer(answers[n], job, jobs[job, REQUEST], room, size, quantile, geometric, factor)
                else:
                    for k in range(answers.shape[1]):
                        answers[n, k] = answers[first, k]
                    answers[n, ROW] = job
                jobs[job, BASIS] = now
                n += 1
            job = NONE if by_group else jobs[job, NEXT]
        group = groups[group, NEXT_GROUP]
    return n


@step
def basis(group: int, groups: Ints, users: Ints) -> int:
    """Return a number that changes whenever the sample of a group's jobs does."""
    ended = groups[group, ENDED_JOBS]
    return int(ended if ended > 0 else -1 - users[groups[group, OF_USER], ENDED_JOBS])


@step
def queue(job: int, jobs: Ints, groups: Ints, users: Ints) -> None:
    """Put a job in front of its group's waiting ones."""
    group = jobs[job, GROUP]
    if group == NONE:
        return
    jobs[job, BASIS] = basis(group, groups, users)
    if groups[group, FIRST] == NONE:
        groups[group, TOLD] = jobs[job, BASIS]
    first, user = groups[group, FIRST], groups[group, OF_USER]
    jobs[job, NEXT], jobs[job, PREVIOUS] = first, NONE
    groups[group, FIRST] = job
    if first != NONE:
        jobs[first, PREVIOUS] = job
        return
    other = users[user, FIRST]
    groups[group, NEXT_GROUP], groups[group, PREVIOUS_GROUP] = other, NONE
    users[user, FIRST] = group
    if other != NONE:
        groups[other, PREVIOUS_GROUP] = group


@step
def leave(job: int, jobs: Ints, groups: Ints, users: Ints) -> None:
    """Take a job out of its group's waiting ones."""
    group = jobs[job, GROUP]
    if jobs[job, BASIS] == NOT_WAITING:
        return
    jobs[job, BASIS] = NOT_WAITING
    before, after = jobs[job, PREVIOUS], jobs[job, NEXT]
    if after != NONE:
        jobs[after, PREVIOUS] = before
    if before != NONE:
        jobs[before, NEXT] = after
        return
    groups[group, FIRST] = after
    if after != NONE:
        return
    before, after = groups[group, PREVIOUS_GROUP], groups[group, NEXT_GROUP]
    if after != NONE:
        groups[after, PREVIOUS_GROUP] = before
    if before != NONE:
        groups[before, NEXT_GROUP] = after
    else:
        users[groups[group, OF_USER], FIRST] = after


@step
def end(job: int, time: int, jobs: Ints, groups: Ints, users: Ints, todo: Ints) -> None:
    user, group = jobs[job, USER], jobs[job, GROUP]
    if user == NONE or jobs[job, START] == NONE:
        return
    run_time = max(1, time - jobs[job, START])
    kept = groups.shape[1] - GROUP_RUNS
    groups[group, GROUP_RUNS + groups[group, ENDED_JOBS] % kept] = run_time
    groups[group, ENDED_JOBS] += 1
    place = USER_RUNS + users[user, ENDED_JOBS] % kept
    users[user, place] = run_time
    users[user, place + kept] = jobs[job, REQUEST]
    users[user, ENDED_JOBS] += 1
    if users[user, IS_TODO] == 0:
        users[user, IS_TODO] = 1
        todo[1 + todo[0]] = user
        todo[0] += 1


@step
def sample(job: Ints, groups: Ints, users: Ints, room: Floats, request_weight: float) -> int:
    """Write the sample of a job, ascending, and its weights; return its size."""
    request, user, group = job[REQUEST], job[USER], job[GROUP]
    kept = groups.shape[1] - GROUP_RUNS
    size = 0
    if user != NONE:
        size = min(groups[group, ENDED_JOBS], kept)
        for k in range(size):
            room[0, k] = min(groups[group, GROUP_RUNS + k], request)
        if size == 0:
            size = min(users[user, ENDED_JOBS], kept)
            for k in range(size):
                run_time, asked = users[user, USER_RUNS + k], users[user, USER_RUNS + kept + k]
                room[0, k] = min(max(1, run_time * request // asked), request)
    room[1, :size] = 1.0
    for k in range(1, size):  # few: numba's sort would take longer to compile than all else here
        seconds, place = room[0, k], k
        while place > 0 and room[0, place - 1] > seconds:
            room[0, place] = room[0, place - 1]
            place -= 1
        room[0, place] = seconds
    room[0, size] = request  # no run is longer
    room[1, size] = request_weight if size > 0 else 1.0
    return int(size + 1)


@step
def answer(
    row: Floats, job: int, request: int, room: Floats, size: int, quantile: float, geometric: bool, factor: float
) -> None:
    """Write what follows from a sample: the estimate for each role and the steps."""
    weight, total, total_log = 0.0, 0.0, 0.0
    for k in range(size):
        weight += room[1, k]
        total += room[1, k] * room[0, k]
        total_log += room[1, k] * math.log(room[0, k])
    low = math.exp(total_log / weight)
    row[ROW] = job
    row[ORDER] = within(low, request)
    row[CANDIDATE] = within(factor * (low if geometric else total / weight), request)
    row[RUNNING] = beyond(0.0, room, size, quantile, request)
    place = STEPS
    for k in range(size - 1):
        if room[0, k] < min(room[0, k + 1], request):
            row[place] = room[0, k]
            row[place + 1] = beyond(room[0, k], room, size, quantile, request)
            place += 2
    if place < len(row):
        row[place] = np.inf


@step
def within(seconds: float, request: int) -> float:
    """Return an estimate in whole seconds, from 1 to the requested time."""
    return max(1.0, min(math.floor(seconds * UP), float(request)))


@step
def beyond(elapsed: float, room: Floats, size: int, quantile: float, request: int) -> float:
    """Return the weighted quantile of those of the sample that are longer than `elapsed`, else the requested time."""
    weight = 0.0
    for k in range(size):
        if room[0, k] > elapsed:
            weight += room[1, k]
    reached = 0.0
    for k in range(size):
        if room[0, k] > elapsed:
            reached += room[1, k]
            if reached >= quantile * weight - 1e-9:
                return float(room[0, k])
    return float(request)
