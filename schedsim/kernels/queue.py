"""The queue: jobs enter and leave it, records are given back, events are logged.

Where a forecast revises the estimates of a group of jobs as one, a revision touches the group, not its jobs, however
many wait. The jobs of a group, which have as many processors and one requested time, stay among themselves in the order
of their rows under every order that depends on these, the estimate and the submission. So the candidates for backfills
are merged from groups: GROUPED holds the jobs by group and row, which no revision changes, and GROUPS the first of each
group. Where one job may not start, none of its group may; unless a gate or a ceiling has stopped that very job, and the
next one stands for the group for the rest of the pass. A job's own record is brought up to date when a pass examines it
(see `refresh`), or all at once before the next pass (see `revisions.update_waiting`).
"""

import schedsim.kernels.records as at
from predictors.core.jit import rare, step
from schedsim.kernels.keys import SCORE, score_key, static_key
from schedsim.kernels.ordered_lists import insert, next_fitting, remove, slot_from
from schedsim.kernels.places.records import NodeArrays
from schedsim.kernels.records import Arrays, Changes, JobNow, State


@step
def enqueue(sim: Arrays, slot: int) -> None:
    """Put a waiting job into the queue, by its keys."""
    job, lists, state = sim.jobs_now[slot], sim.lists, sim.state[0]
    queue = state.queue
    _enter(sim, sim.changes, slot)
    insert(lists, state, at.QUEUE, job.keys[at.QUEUE], job.row, slot, job.procs, job.candidate_estimate)
    if queue.candidates == at.BACKFILL:
        insert(lists, state, at.BACKFILL, job.keys[at.BACKFILL], job.row, slot, job.procs, job.candidate_estimate)
    queue.n_queued += 1


@step
def _enter(sim: Arrays, changes: Changes | None, slot: int) -> None:
    """Give a job that enters the queue its score now, and its place among those of its group."""
    if changes is None:
        return
    job, state = sim.jobs_now[slot], sim.state[0]
    queue, rules = state.queue, state.rules
    if rules.order == SCORE:
        job.keys[at.QUEUE] = score_key(job, state)
    if rules.backfill_order == SCORE:
        job.keys[at.BACKFILL] = score_key(job, state)
    if queue.grouped and job.group >= 0:
        changes.groups[job.group].n_waiting += 1
        if queue.candidates == at.GROUPED:
            join_group(sim, slot)
    elif queue.by_row:
        insert(sim.lists, state, at.GROUPED, at.NOTHING, job.row, slot, job.procs, at.NOTHING)


@step
def leave_queue(sim: Arrays, job: JobNow) -> None:
    """Take a job that starts, or waits no more, out of the lists of waiting jobs."""
    lists, state = sim.lists, sim.state[0]
    queue = state.queue
    remove(lists, state, at.QUEUE, job.keys[at.QUEUE], job.row)
    if queue.candidates == at.BACKFILL:
        remove(lists, state, at.BACKFILL, job.keys[at.BACKFILL], job.row)
    _leave(sim, sim.changes, job)
    queue.n_queued -= 1


@step
def _leave(sim: Arrays, changes: Changes | None, job: JobNow) -> None:
    """Take a job that leaves the queue from those of its group."""
    if changes is None:
        return
    queue = sim.state[0].queue
    if queue.grouped and job.group >= 0:
        changes.groups[job.group].n_waiting -= 1
        if queue.candidates == at.GROUPED:
            leave_group(sim, job)
    elif queue.by_row:
        remove(sim.lists, sim.state[0], at.GROUPED, at.NOTHING, job.row)


@rare
def join_group(sim: Arrays, slot: int) -> None:
    """Put a job among the waiting ones of its group."""
    job, lists, state = sim.jobs_now[slot], sim.lists, sim.state[0]
    group = sim.changes.groups[job.group]
    insert(lists, state, at.GROUPED, job.group, job.row, slot, job.procs, at.NOTHING)
    if group.listed < 0 or job.row < group.row:
        list_group(sim, job.group, slot)


@rare
def leave_group(sim: Arrays, job: JobNow) -> None:
    """Take a job from the waiting ones of its group."""
    group = sim.changes.groups[job.group]
    remove(sim.lists, sim.state[0], at.GROUPED, job.group, job.row)
    if group.listed >= 0 and group.row == job.row:
        list_group(sim, job.group, _first_of_group(sim, job.group, job.row))


@step
def _first_of_group(sim: Arrays, number: int, row: int) -> int:
    """Return the first waiting job of a group from a row on, or -1."""
    slot = slot_from(sim.lists, sim.state[0], at.GROUPED, number, row)
    return slot if slot >= 0 and sim.jobs_now[slot].group == number else -1


@rare
def list_group(sim: Arrays, number: int, slot: int) -> None:
    """Let a job stand for its group in the list of groups, in the place of another; or none, for -1."""
    group, lists, state = sim.changes.groups[number], sim.lists, sim.state[0]
    which = at.GROUPS if number < state.queue.n_groups else at.POSTPONED_GROUPS
    if group.listed >= 0:
        remove(lists, state, which, group.key, group.row)
    group.listed = slot
    if slot < 0:
        return
    job, lead = sim.jobs_now[slot], sim.changes.groups[group.lead]
    job.candidate_estimate = lead.candidate_estimate
    job.order_estimate = lead.order_estimate
    group.key = static_key_of(sim, job, at.BACKFILL)
    group.row = job.row
    insert(lists, state, which, group.key, job.row, number, job.procs, job.candidate_estimate)


@step
def move_group_on(sim: Arrays, changes: Changes | None, slot: int) -> None:
    """Let the next job of a group stand for it for the rest of the pass, if this one could not start."""
    if changes is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
        if (
            sim.state[0].queue.candidates == at.GROUPED
            and sim.jobs_now[slot].tried_in_pass == sim.state[0].clock.n_passes
        ):
            _move_group_on(sim, slot)


@rare
def _move_group_on(sim: Arrays, slot: int) -> None:
    job, queue = sim.jobs_now[slot], sim.state[0].queue
    group, number = sim.changes.groups[job.group], queue.first_moved
    while number >= 0 and number != job.group:
        number = sim.changes.groups[number].next_moved
    if number < 0:
        group.next_moved = queue.first_moved
        queue.first_moved = job.group
    list_group(sim, job.group, _first_of_group(sim, job.group, job.row + 1))


@step
def move_groups_back(sim: Arrays, changes: Changes | None) -> None:
    """Let the first of its jobs stand for each group again, after a pass."""
    if changes is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
        if sim.state[0].queue.first_moved >= 0:
            _move_groups_back(sim)


@rare
def _move_groups_back(sim: Arrays) -> None:
    queue = sim.state[0].queue
    while queue.first_moved >= 0:
        number = queue.first_moved
        list_group(sim, number, _first_of_group(sim, number, at.FIRST_TIE))
        queue.first_moved = sim.changes.groups[number].next_moved


@step
def first_step(sim: Arrays, slot: int) -> None:
    """Let a job have all its estimate steps before it."""
    job = sim.jobs_now[slot]
    job.steps_done = 0
    job.next_step = sim.changes.steps[slot, 0].elapsed if sim.changes.steps.shape[1] > 0 else at.NEVER


@step
def refresh(sim: Arrays, changes: Changes | None, slot: int) -> None:
    """Give a waiting job the estimates and steps of its group, if these were revised since it had them."""
    if changes is None:
        return
    job = sim.jobs_now[slot]
    if not sim.state[0].queue.grouped or job.group < 0:
        return
    if job.revision != sim.changes.groups[sim.changes.groups[job.group].lead].revision:
        _take_over(sim, slot)


@rare
def _take_over(sim: Arrays, slot: int) -> None:
    """Give a waiting job the estimates and steps of its group."""
    job = sim.jobs_now[slot]
    lead = sim.changes.groups[job.group].lead
    group = sim.changes.groups[lead]
    job.current_estimate = group.current_estimate
    job.first_estimate = group.current_estimate
    job.candidate_estimate = group.candidate_estimate
    job.order_estimate = group.order_estimate
    for i in range(sim.changes.steps.shape[1]):
        sim.changes.steps[slot, i].elapsed = sim.changes.group_steps[lead, i].elapsed
        sim.changes.steps[slot, i].estimate = sim.changes.group_steps[lead, i].estimate
    first_step(sim, slot)
    job.revision = group.revision


@step
def next_candidate(
    sim: Arrays,
    changes: Changes | None,
    which: int,
    free: int,
    slack: int,
    extra: int,
    places: NodeArrays | None = None,
) -> int:
    """Return the next job of a list, behind the last tried, that may be backfilled, or -1: see `next_fitting`."""
    lists, state = sim.lists, sim.state[0]
    queue = state.queue
    if changes is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
        if queue.candidates == at.GROUPED:
            groups = at.GROUPS if which == at.GROUPED else at.POSTPONED_GROUPS
            number = next_fitting(lists, state, groups, queue.after_key, queue.after_tie, free, slack, extra)
            return changes.groups[number].listed if number >= 0 else -1
    return next_fitting(lists, state, which, queue.after_key, queue.after_tie, free, slack, extra, places)


@step
def dequeue(sim: Arrays, slot: int) -> None:
    """Take a job that still waits out of the queue; if it was the head, there is none for now."""
    queue = sim.state[0].queue
    leave_queue(sim, sim.jobs_now[slot])
    if queue.head == slot:
        queue.head = -1
        queue.stale = True


@step
def candidate_key(job: JobNow, state: State) -> int:
    """Return a waiting job's own key among the candidates for backfills."""
    return job.keys[state.rules.candidate_kind]


@step
def key_as_candidate(sim: Arrays, changes: Changes | None, job: JobNow) -> int:
    """Return a waiting job's key in the list that is searched for backfills now."""
    if changes is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
        if sim.state[0].queue.candidates == at.GROUPED:
            return changes.groups[job.group].key
    return candidate_key(job, sim.state[0])


@step
def give_back(sim: Arrays, slot: int) -> None:
    """Give a record back."""
    clock = sim.state[0].clock
    sim.jobs_now[slot].next_spare = clock.spare_slot
    clock.spare_slot = slot


@step
def record(sim: Arrays, kind: int, row: int, note: int) -> None:
    """Append an event to the log."""
    clock = sim.state[0].clock
    i = clock.n_logged
    sim.log[i, 0] = clock.now
    sim.log[i, 1] = kind
    sim.log[i, 2] = row
    sim.start_notes[i] = note
    clock.n_logged += 1
    clock.n_events += 1


@step
def end_tie(sim: Arrays, job: JobNow) -> int:
    """Return the place of a running job among those that end at the same second: by start, then by job id."""
    return job.start * len(sim.jobs) + sim.jobs[job.row].rank


@step
def static_key_of(sim: Arrays, job: JobNow, kind: int) -> int:
    """Return a job's key in the queue, or in the list searched for backfills, under an order that does not change."""
    state, since = sim.state[0], max(1, sim.jobs[job.row].submit - sim.jobs[0].submit)
    rules = state.rules
    if state.queue.finds_first and kind == at.QUEUE:
        return job.row
    code, seed = rules.order, rules.seed
    if kind == at.BACKFILL:
        code, seed = rules.backfill_order, rules.backfill_seed
    return static_key(code, job.row, since, job.procs, job.order_estimate, seed, sim.jobs[job.row].job_id)
