"""The history's one compiled step: events in, one feature row a submission out.

A replay of a log, a simulation and the live service all call `consume`, on slices of many events or of one; a question
without consequences is `rows_at`. The arrays are laid out in `predictors.history._layout`; other compiled code may call
both.
"""

import numpy as np

from predictors.core.arrays import Floats, Ints
from predictors.core.events import CANCELLED, ENDED, FORGOTTEN, RETURNED, STARTED, SUBMITTED
from predictors.core.jit import compiled
from predictors.history import _layout as at
from predictors.history._features import coded, log_of, write_facts
from predictors.history._layout import NONE


@compiled
def consume(
    events: Ints,  # shape (n_events, 3); (time [s], kind, slot in `jobs`), as in `predictors.core.events`
    rows: Floats,  # shape (n_slots, n_features); changed at the slots of submitted jobs
    jobs: Ints,  # jobs, users, clock: the history, changed; see `predictors.history._layout`
    users: Ints,
    clock: Ints,
    recent: Floats,  # its other part: the newest runs of each user
) -> int:
    """Take in events in order; write `rows[job]` as of each submission among them.

    Returns -1, or the position of the first event that cannot follow from those before: it and all later ones were not
    taken in.
    """
    return take_in(events, False, rows, jobs, users, clock, recent)


@compiled
def consume_live(events: Ints, rows: Floats, jobs: Ints, users: Ints, clock: Ints, recent: Floats) -> int:
    """Take in events like `consume`, but write the row of a submission at its place among the events.

    `rows` has the shape (n_events, n_features).
    """
    return take_in(events, True, rows, jobs, users, clock, recent)


@compiled
def take_in(events: Ints, in_order: bool, rows: Floats, jobs: Ints, users: Ints, clock: Ints, recent: Floats) -> int:
    """Take in events; write rows at the submissions' slots, or, if `in_order`, at their places among the events."""
    facts = np.empty(at.N_FACTS + at.SCRATCH)
    plan = clock[at.CLOCK_FIELDS : at.CLOCK_FIELDS + rows.shape[1]]
    for i in range(len(events)):
        time, kind, job = events[i, 0], events[i, 1], events[i, 2]
        if job < 0 or job >= len(jobs) or not may_follow(time, kind, jobs[job]):
            return i
        if time < clock[at.NOW]:
            clock[at.LATE_EVENTS] += 1
        else:
            clock[at.NOW] = time
        settle(clock[at.NOW], jobs, users, clock, recent)
        if kind == SUBMITTED:
            write_facts(facts, jobs[job], clock[at.NOW], jobs, users, clock, recent)
            row = i if in_order else job
            for k in range(len(plan)):
                rows[row, k] = facts[plan[k]]
            submitted(job, jobs, users, clock)
        elif kind == STARTED:
            started(job, time, jobs, users, clock)
        elif kind == ENDED:
            jobs[job, at.END] = time
            if clock[at.SAME_SECOND]:
                ended(job, jobs, users, clock, recent)
            else:
                defer(job, jobs, clock)
        elif kind == RETURNED:
            leave(job, jobs, users, clock)
            jobs[job, at.START] = NONE
            wait(job, jobs, users, clock)
        elif kind == FORGOTTEN and jobs[job, at.STATE] == at.RUNNING:
            leave(job, jobs, users, clock)
            count_live(job, -1, jobs, users)
            release(job, jobs, clock)
        else:
            cancelled(job, jobs, users, clock)
        clock[at.EVENTS] += 1
        user = jobs[job, at.USER_SLOT]
        if user != NONE:
            users[user, at.LAST_EVENT] = clock[at.EVENTS]
        for column in range(at.JOB_COLUMNS, min(jobs.shape[1], at.SLOTS_END)):
            if jobs[job, column] != NONE:
                users[jobs[job, column], at.LAST_EVENT] = clock[at.EVENTS]
    return -1


@compiled
def rows_at(now: int, asked: Ints, rows: Floats, jobs: Ints, users: Ints, clock: Ints, recent: Floats) -> None:
    """Write the rows of jobs as if they were submitted at `now`; nothing else changes.

    `asked` are records laid out as those of `jobs`; deferred ends before `now` must have been settled.
    """
    facts = np.empty(at.N_FACTS + at.SCRATCH)
    plan = clock[at.CLOCK_FIELDS : at.CLOCK_FIELDS + rows.shape[1]]
    moment = max(now, clock[at.NOW])
    for i in range(len(asked)):
        write_facts(facts, asked[i], moment, jobs, users, clock, recent)
        for k in range(len(plan)):
            rows[i, k] = facts[plan[k]]


@compiled
def may_follow(time: int, kind: int, job: Ints) -> bool:
    """Return whether an event can happen to a job in its state: submitted, started, ended, in this order."""
    state = job[at.STATE]
    if kind == SUBMITTED:
        return bool(state == at.NEW)
    if kind in (STARTED, CANCELLED):
        return bool(state == at.PENDING)
    if kind == FORGOTTEN and state == at.PENDING:
        return True
    if kind in (FORGOTTEN, RETURNED):
        return bool(state == at.RUNNING and job[at.END] == NONE)
    return bool(kind == ENDED and state == at.RUNNING and job[at.END] == NONE and time >= job[at.START])


@compiled
def submitted(job: int, jobs: Ints, users: Ints, clock: Ints) -> None:
    wait(job, jobs, users, clock)
    user = jobs[job, at.USER_SLOT]
    if user != NONE and users.shape[1] > at.USER_COLUMNS:
        note_submission(jobs[job], clock[at.NOW], users[user])
    count_live(job, 1, jobs, users)


@compiled
def wait(job: int, jobs: Ints, users: Ints, clock: Ints) -> None:
    """Let a job be one that waits."""
    jobs[job, at.STATE] = at.PENDING
    clock[at.MACHINE_PENDING] += 1
    clock[at.MACHINE_PENDING_PROCS] += max(jobs[job, at.PROCS], 0)
    user = jobs[job, at.USER_SLOT]
    if user != NONE:
        users[user, at.PENDING_COUNT] += 1


@compiled
def started(job: int, time: int, jobs: Ints, users: Ints, clock: Ints) -> None:
    """Move a job from the queue to its user's running jobs, which are linked in order of start."""
    jobs[job, at.STATE] = at.RUNNING
    jobs[job, at.START] = time
    procs = max(jobs[job, at.PROCS], 0)
    clock[at.MACHINE_PENDING] -= 1
    clock[at.MACHINE_PENDING_PROCS] -= procs
    clock[at.MACHINE_RUNNING] += 1
    clock[at.MACHINE_RUNNING_PROCS] += procs
    user = jobs[job, at.USER_SLOT]
    if user == NONE:
        return
    users[user, at.PENDING_COUNT] -= 1
    users[user, at.RUNNING_COUNT] += 1
    users[user, at.START_SUM] += time
    users[user, at.PROCS_HELD] += procs
    older = users[user, at.NEWEST]
    newer = NONE
    while older != NONE and jobs[older, at.START] > time:  # only when the event comes late
        newer = older
        older = jobs[older, at.OLDER]
    link(older, job, jobs, users[user])
    link(job, newer, jobs, users[user])


@compiled
def ended(job: int, jobs: Ints, users: Ints, clock: Ints, recent: Floats) -> None:
    """Turn a running job into the last ended one of its user and its groups, and free its slot."""
    run_time = jobs[job, at.END] - jobs[job, at.START]
    leave(job, jobs, users, clock)
    user = jobs[job, at.USER_SLOT]
    if user != NONE:
        if len(recent):
            keep_run(run_time, jobs[job], users[user, at.ENDED_COUNT], recent[users[user, at.RECENT]])
        remember(run_time, jobs[job], users[user])
    count_live(job, -1, jobs, users)
    for column in range(at.JOB_COLUMNS, min(jobs.shape[1], at.SLOTS_END)):
        if jobs[job, column] != NONE:
            remember(run_time, jobs[job], users[jobs[job, column]])
    release(job, jobs, clock)


@compiled
def leave(job: int, jobs: Ints, users: Ints, clock: Ints) -> None:
    """Take a job off the machine, and out of its user's running jobs."""
    procs = max(jobs[job, at.PROCS], 0)
    clock[at.MACHINE_RUNNING] -= 1
    clock[at.MACHINE_RUNNING_PROCS] -= procs
    user = jobs[job, at.USER_SLOT]
    if user != NONE:
        users[user, at.RUNNING_COUNT] -= 1
        users[user, at.START_SUM] -= jobs[job, at.START]
        users[user, at.PROCS_HELD] -= procs
        link(jobs[job, at.OLDER], jobs[job, at.NEWER], jobs, users[user])


@compiled
def cancelled(job: int, jobs: Ints, users: Ints, clock: Ints) -> None:
    """Take a job out of the queue: it has no run time, so its user's history does not change."""
    clock[at.MACHINE_PENDING] -= 1
    clock[at.MACHINE_PENDING_PROCS] -= max(jobs[job, at.PROCS], 0)
    user = jobs[job, at.USER_SLOT]
    if user != NONE:
        users[user, at.PENDING_COUNT] -= 1
    count_live(job, -1, jobs, users)
    release(job, jobs, clock)


@compiled
def link(older: int, newer: int, jobs: Ints, user: Ints) -> None:
    """Make two running jobs of a user neighbours; `NONE` stands for the list's ends."""
    if older == NONE:
        user[at.OLDEST] = newer
    else:
        jobs[older, at.NEWER] = newer
    if newer == NONE:
        user[at.NEWEST] = older
    else:
        jobs[newer, at.OLDER] = older


@compiled
def count_live(job: int, change: int, jobs: Ints, users: Ints) -> None:
    """Count a job in, or out of, those of its groups that are queued or running."""
    for column in range(at.JOB_COLUMNS, min(jobs.shape[1], at.SLOTS_END)):
        if jobs[job, column] != NONE:
            users[jobs[job, column], at.PENDING_COUNT] += change


@compiled
def remember(run_time: int, job: Ints, group: Ints) -> None:
    """Add an ended job to its user, or to another group."""
    group[at.SECOND_RUN], group[at.LAST_RUN] = group[at.LAST_RUN], run_time
    group[at.SECOND_STATUS], group[at.LAST_STATUS] = group[at.LAST_STATUS], job[at.STATUS]
    group[at.LAST_END] = job[at.END]
    if len(group) > at.USER_COLUMNS:
        floats = group.view(np.float64)
        group[at.RING + group[at.ENDED_COUNT] % at.RING_SIZE] = run_time
        add_weighted(run_time, group[at.ENDED_COUNT] + 1, floats, at.RUN_WEIGHTED)
        if job[at.REQUESTED] > 0:
            group[at.RATIO_COUNT] += 1
            add_weighted(run_time / job[at.REQUESTED], group[at.RATIO_COUNT], floats, at.RATIO_WEIGHTED)
    group[at.ENDED_COUNT] += 1
    group[at.RUN_SUM] += run_time


@compiled
def keep_run(run_time: int, job: Ints, count: int, runs: Floats) -> None:
    """Put an ended job among the newest runs of its user, with `count` jobs ended before."""
    place = count % at.MEMORY
    runs[at.R_RUN + place] = run_time
    runs[at.R_LOG_REQUEST + place] = log_of(job[at.REQUESTED])
    runs[at.R_LOG_PROCS + place] = log_of(job[at.PROCS])
    runs[at.R_END + place] = job[at.END]
    if len(runs) > at.RECENT_COLUMNS:
        runs[at.R_REQUEST + place], runs[at.R_PROCS + place] = coded(job[at.REQUESTED]), coded(job[at.PROCS])
        runs[at.R_QUEUE + place], runs[at.R_PARTITION + place] = coded(job[at.QUEUE]), coded(job[at.PARTITION])
    if len(runs) > at.CODED_RUN_COLUMNS:
        runs[at.R_SIGNATURE + place] = job[at.SIGNATURE]
        runs[at.R_SIGNATURE_2 + place] = job[at.SIGNATURE_2]


@compiled
def add_weighted(value: float, count: int, floats: Floats, field: int) -> None:
    """Add the value number `count` to a weighted mean."""
    if count == 1:
        floats[field] = value
    else:
        floats[field] += max(1.0 / count, at.LEAST_WEIGHT) * (value - floats[field])


@compiled
def note_submission(job: Ints, now: int, user: Ints) -> None:
    """Keep what a user's submission asked for, and how many came in a row."""
    near = user[at.SUBMIT_COUNT] > 0 and now - user[at.LAST_SUBMIT] <= at.BURST_GAP
    user[at.BURST] = user[at.BURST] + 1 if near else 1
    user[at.SUBMIT_COUNT] += 1
    user[at.LAST_SUBMIT] = now
    user[at.LAST_PROCS], user[at.LAST_REQUESTED] = job[at.PROCS], job[at.REQUESTED]
    user[at.LAST_EXECUTABLE] = job[at.EXECUTABLE]


@compiled
def release(job: int, jobs: Ints, clock: Ints) -> None:
    """Mark a job as over and put its slot in front of the free ones."""
    jobs[job, at.STATE] = at.OVER
    jobs[job, at.NEXT] = clock[at.FREE]
    clock[at.FREE] = job


@compiled
def defer(job: int, jobs: Ints, clock: Ints) -> None:
    """Keep an end back until the second in which it happened is over."""
    jobs[job, at.NEXT] = NONE
    if clock[at.DEFERRED_FIRST] == NONE:
        clock[at.DEFERRED_FIRST] = job
    else:
        jobs[clock[at.DEFERRED_LAST], at.NEXT] = job
    clock[at.DEFERRED_LAST] = job


@compiled
def settle(now: int, jobs: Ints, users: Ints, clock: Ints, recent: Floats) -> None:
    """Let the deferred ends before `now` count."""
    while clock[at.DEFERRED_FIRST] != NONE and jobs[clock[at.DEFERRED_FIRST], at.END] < now:
        job = clock[at.DEFERRED_FIRST]
        clock[at.DEFERRED_FIRST] = jobs[job, at.NEXT]
        if clock[at.DEFERRED_FIRST] == NONE:
            clock[at.DEFERRED_LAST] = NONE
        ended(job, jobs, users, clock, recent)
