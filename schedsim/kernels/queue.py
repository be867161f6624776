"""The queue: a job enters it and leaves it; its record is given back; events are logged.

Where a forecast revises the estimates of a group of jobs as one, a revision touches the group, not its jobs, however
many wait. Where the queue is FCFS, the list BACKFILL, in which each of them would have to find a new place, is replaced
by two: GROUPED, with the jobs by group and row, which no revision changes, and GROUPS, with the groups by the key that
all their jobs have. A job's own record is brought up to date when it is looked at (see `refresh`). Under other orders,
and for postponed jobs, all are brought up to date at once before the next pass (see `revisions.update_waiting`).
"""

import schedsim.kernels.records as at
from predictors.core.jit import step
from schedsim.kernels.keys import SCORE, score_key, static_key
from schedsim.kernels.ordered_lists import fewest_procs, first_narrow, insert, next_fitting, remove
from schedsim.kernels.profile import most_that_clear
from schedsim.kernels.records import Arrays, JobNow, State


@step
def enqueue(sim: Arrays, slot: int) -> None:
    """Put a waiting job into the queue, by its keys."""
    job, lists, state = sim.jobs_now[slot], sim.lists, sim.state[0]
    if state.order == SCORE:
        job.keys[at.QUEUE] = score_key(job, state)
    insert(lists, state, at.QUEUE, job.keys[at.QUEUE], job.row, slot, job.procs, job.candidate_estimate)
    if state.candidates == at.BACKFILL:
        if state.backfill_order == SCORE:
            job.keys[at.BACKFILL] = score_key(job, state)
        insert(lists, state, at.BACKFILL, job.keys[at.BACKFILL], job.row, slot, job.procs, job.candidate_estimate)
    if state.grouped and job.group >= 0:
        sim.groups[job.group].n_waiting += 1
        if state.candidates == at.GROUPED:
            _join_group(sim, slot)
    elif state.by_row:
        insert(lists, state, at.GROUPED, at.NOTHING, job.row, slot, job.procs, at.NOTHING)
    state.n_queued += 1


@step
def leave_queue(sim: Arrays, job: JobNow) -> None:
    """Take a job that starts, or waits no more, out of the lists of waiting jobs."""
    lists, state = sim.lists, sim.state[0]
    remove(lists, state, at.QUEUE, job.keys[at.QUEUE], job.row)
    if state.candidates == at.BACKFILL:
        remove(lists, state, at.BACKFILL, job.keys[at.BACKFILL], job.row)
    if state.grouped and job.group >= 0:
        sim.groups[job.group].n_waiting -= 1
        if state.candidates == at.GROUPED:
            _leave_group(sim, job)
    elif state.by_row:
        remove(lists, state, at.GROUPED, at.NOTHING, job.row)
    state.n_queued -= 1


@step
def _join_group(sim: Arrays, slot: int) -> None:
    """Put a job among the waiting ones of its group, where it is counted already."""
    job, lists, state = sim.jobs_now[slot], sim.lists, sim.state[0]
    group = sim.groups[job.group]
    insert(lists, state, at.GROUPED, job.group, job.row, slot, job.procs, at.NOTHING)
    if job.procs < group.least_procs:
        if group.n_waiting > 1:
            remove(lists, state, at.GROUPS, group.key, job.group)
        group.least_procs = job.procs
        list_group(sim, job.group)


@step
def _leave_group(sim: Arrays, job: JobNow) -> None:
    """Take a job from the waiting ones of its group, where it is not counted any more."""
    lists, state, number = sim.lists, sim.state[0], job.group
    group = sim.groups[number]
    remove(lists, state, at.GROUPED, number, job.row)
    least = at.NEVER
    if group.n_waiting > 0:
        least = group.least_procs
        if job.procs == least:
            least = fewest_procs(lists, state, at.GROUPED, number, least)
        if least == group.least_procs:
            return
    remove(lists, state, at.GROUPS, group.key, number)
    group.least_procs = least
    if group.n_waiting > 0:
        list_group(sim, number)


@step
def first_step(sim: Arrays, slot: int) -> None:
    """Let a job have all its estimate steps before it."""
    job = sim.jobs_now[slot]
    job.steps_done = 0
    job.next_step = sim.steps[slot, 0].elapsed if sim.steps.shape[1] > 0 else at.NEVER


@step
def refresh(sim: Arrays, slot: int) -> None:
    """Give a waiting job the estimates and steps of its group, if these were revised since it had them."""
    job = sim.jobs_now[slot]
    if not sim.state[0].grouped or job.group < 0:
        return
    group = sim.groups[job.group]
    if job.revision == group.revision:
        return
    job.current_estimate = group.current_estimate
    job.first_estimate = group.current_estimate
    job.candidate_estimate = group.candidate_estimate
    job.order_estimate = group.order_estimate
    for i in range(sim.steps.shape[1]):
        sim.steps[slot, i].elapsed = sim.group_steps[job.group, i].elapsed
        sim.steps[slot, i].estimate = sim.group_steps[job.group, i].estimate
    first_step(sim, slot)
    job.revision = group.revision


@step
def list_group(sim: Arrays, number: int) -> None:
    """Put a group into the list of groups, by its key."""
    group = sim.groups[number]
    insert(sim.lists, sim.state[0], at.GROUPS, group.key, number, number, group.least_procs, group.candidate_estimate)


@step
def next_in_groups(sim: Arrays, free: int, slack: int, extra: int, promise: int, extra_at_promise: int) -> int:
    """Return the next candidate behind the last tried that fits, or -1: as `next_fitting`, where jobs are in groups.

    One whose requested time exceeds `promise` also needs at most `extra_at_promise` processors. Unless everything fits
    (`free` is NEVER), one that would run into what is reserved of the machine is left out.
    """
    lists, state = sim.lists, sim.state[0]
    found, key, number = -1, state.after_key, at.FIRST_TIE
    while True:
        number = next_fitting(lists, state, at.GROUPS, key, number, free, slack, extra)
        if number < 0:
            return found
        group = sim.groups[number]
        if found >= 0 and group.key > sim.groups[sim.jobs_now[found].group].key:
            return found
        most = free if group.candidate_estimate <= slack else min(free, extra)
        if group.requested_time > promise:
            most = min(most, extra_at_promise)
        if free != at.NEVER:
            most = min(most, most_that_clear(sim, group.requested_time))
        if group.least_procs <= most:
            tie = state.after_tie if group.key == state.after_key else at.FIRST_TIE
            slot = first_narrow(lists, state, at.GROUPED, number, tie, most)
            if slot >= 0 and (found < 0 or sim.jobs_now[slot].row < sim.jobs_now[found].row):
                found = slot
        key = group.key
        number += 1


@step
def dequeue(sim: Arrays, slot: int) -> None:
    """Take a job that goes on waiting out of the queue; if it was the head, there is none for now."""
    state = sim.state[0]
    leave_queue(sim, sim.jobs_now[slot])
    if state.head == slot:
        state.head = -1
        state.stale = True


@step
def candidate_key(job: JobNow, state: State) -> int:
    """Return a waiting job's own key among the candidates for backfills."""
    return job.keys[state.candidate_kind]


@step
def key_as_candidate(sim: Arrays, job: JobNow) -> int:
    """Return a waiting job's key in the list that is searched for backfills now."""
    return sim.groups[job.group].key if sim.state[0].searched == at.GROUPED else candidate_key(job, sim.state[0])


@step
def give_back(sim: Arrays, slot: int) -> None:
    """Give a record back."""
    state = sim.state[0]
    sim.jobs_now[slot].next_spare = state.spare_slot
    state.spare_slot = slot


@step
def record(sim: Arrays, kind: int, row: int, note: int) -> None:
    """Append an event to the log."""
    state = sim.state[0]
    i = state.n_logged
    sim.log[i, 0] = state.now
    sim.log[i, 1] = kind
    sim.log[i, 2] = row
    sim.start_notes[i] = note
    state.n_logged += 1
    state.n_events += 1


@step
def end_tie(sim: Arrays, job: JobNow) -> int:
    """Return the place of a running job among those that end at the same second: by start, then by job id."""
    return job.start * len(sim.jobs) + sim.jobs[job.row].rank


@step
def static_key_of(sim: Arrays, job: JobNow, kind: int) -> int:
    """Return a job's key in the queue, or in the list searched for backfills, under an order that does not change."""
    state, since = sim.state[0], max(1, sim.jobs[job.row].submit - sim.jobs[0].submit)
    code, seed = state.order, state.seed
    if kind == at.BACKFILL:
        code, seed = state.backfill_order, state.backfill_seed
    return static_key(code, job.row, since, job.procs, job.order_estimate, seed, sim.jobs[job.row].job_id)
