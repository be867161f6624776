"""Revised estimates: forecasts that change the estimates of waiting jobs, and of running jobs as time passes.

Such a forecast gives an estimate of a job for each role, and estimate steps: elapsed times from which on the running
estimate is another. The steps are frozen when the job starts. A step takes effect at the first scheduling instant not
before it, and makes none itself. Beyond its last step, an estimate that expires is corrected like any other.

A forecast may say that the estimates of some waiting jobs, a group, are always the same. Then one revision stands for
all of them: each takes it over when a pass examines it, or all at once before the next pass (see `queue`).
"""

import math

import schedsim.kernels.records as at
from predictors.core.jit import rare, step
from schedsim.kernels.keys import FCFS, RANKED, WFP3, dynamic_key
from schedsim.kernels.ordered_lists import (
    clear,
    first_key,
    first_slot,
    insert,
    is_searched,
    list_slots,
    remove,
    remove_first,
    renew_lengths,
    slot_from,
)
from schedsim.kernels.postponed import enlist, unlist
from schedsim.kernels.queue import enqueue, first_step, list_group, refresh, static_key_of
from schedsim.kernels.records import Arrays, Changes, Estimates, JobNow, State, Step, Table
from schedsim.kernels.sorting import put_in_order, sort_slots


@step
def in_range(seconds: float, limit: int) -> int:
    """Return an estimate in whole seconds, from 1 to the requested time; -1 for NaN."""
    if math.isnan(seconds):
        return -1
    if seconds >= limit:
        return limit
    return max(1, int(seconds))


@step
def estimates_of(
    estimates: Estimates, state: State, changes: Changes | None, row: int, limit: int
) -> tuple[int, int, int]:
    """Return the estimates [s] of a job once it runs, as a candidate and for the order; -1 where there is none."""
    if changes is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
        if state.queue.revises:
            return _revised_estimates(estimates, state, row, limit)
    running = in_range(estimates.running[row], limit)
    if not state.rules.several_estimates:
        return running, running, running
    return running, in_range(estimates.candidate[row], limit), in_range(estimates.order[row], limit)


@step
def _revised_estimates(estimates: Estimates, state: State, row: int, limit: int) -> tuple[int, int, int]:
    """Return the present revision of a job, which must be of it."""
    queue = state.queue
    if queue.n_revised >= queue.n_revisions or estimates.revisions[queue.n_revised].row != row:
        return -1, -1, -1
    answer = estimates.revisions[queue.n_revised]
    return in_range(answer.running, limit), in_range(answer.candidate, limit), in_range(answer.order, limit)


@step
def revisions_fit(estimates: Estimates, state: State, changes: Changes | None) -> bool:
    """Return whether there is room for a revision of each waiting and each new job, if there are any."""
    if changes is None or not state.queue.revises:
        return True
    clock, queue = state.clock, state.queue
    waiting = queue.n_queued + queue.n_postponed + state.site.n_held
    return waiting + clock.next_submission - clock.next_queued <= len(estimates.revisions)


@step
def keep_steps(sim: Arrays, estimates: Estimates, slot: int) -> None:
    """Keep the estimate steps of the present revision with a waiting job, and go on to the next revision."""
    state = sim.state[0]
    if state.queue.revises:
        _write_steps(sim.changes.steps, slot, estimates, state, sim.jobs_now[slot].requested_time)
    elif sim.changes.steps.shape[1] > 0:
        sim.changes.steps[slot, 0].elapsed = at.NEVER
    first_step(sim, slot)


@rare
def _write_steps(steps: Table[Step], place: int, estimates: Estimates, state: State, limit: int) -> None:
    """Write the estimate steps of the present revision, and go on to the next."""
    queue = state.queue
    kept, room = 0, steps.shape[1]
    for i in range(estimates.steps.shape[1]):
        answer = estimates.steps[queue.n_revised, i]
        # a job ends at its requested time; NaN and infinity end the steps
        if not answer.elapsed < limit:
            break
        steps[place, kept].elapsed = math.ceil(answer.elapsed)
        steps[place, kept].estimate = in_range(answer.estimate, limit)
        kept += 1
    if kept < room:
        steps[place, kept].elapsed = at.NEVER
    queue.n_revised += 1


@step
def schedule_revision(sim: Arrays, changes: Changes | None, slot: int) -> None:
    """Note when a job that has just started, or was revised, reaches its next estimate step."""
    if changes is None:
        return
    job = sim.jobs_now[slot]
    if job.next_step != at.NEVER:
        due = job.start + job.next_step
        insert(sim.lists, sim.state[0], at.REVISIONS, due, job.row, slot, job.procs, job.requested_time)


@step
def cancel_revision(sim: Arrays, changes: Changes | None, job: JobNow) -> None:
    """Forget the next estimate step of a job that has ended."""
    if changes is None:
        return
    if job.next_step != at.NEVER:
        remove(sim.lists, sim.state[0], at.REVISIONS, job.start + job.next_step, job.row)


@step
def is_overdue(sim: Arrays, slot: int) -> bool:
    """Return whether a running job is on the list of those that outlived their estimate."""
    state, row = sim.state[0], sim.jobs_now[slot].row
    return state.queue.n_nodes[at.OVERDUE] > 0 and slot_from(sim.lists, state, at.OVERDUE, row, row) == slot


@step
def not_overdue(sim: Arrays, slot: int) -> None:
    """Take a job that has ended, or got an estimate from its forecast, off the list of overdue ones."""
    if is_overdue(sim, slot):
        remove(sim.lists, sim.state[0], at.OVERDUE, sim.jobs_now[slot].row, sim.jobs_now[slot].row)


@step
def apply_revisions(sim: Arrays, changes: Changes | None) -> None:
    """Give the running jobs that have reached an estimate step its estimate."""
    if changes is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
        if sim.state[0].queue.n_nodes[at.REVISIONS] > 0:
            _apply_revisions(sim)


@rare
def _apply_revisions(sim: Arrays) -> None:
    lists, state = sim.lists, sim.state[0]
    clock, queue = state.clock, state.queue
    while queue.n_nodes[at.REVISIONS] > 0:
        if first_key(lists, state, at.REVISIONS) > clock.now:
            return
        slot = first_slot(lists, state, at.REVISIONS)
        job = sim.jobs_now[slot]
        remove_first(lists, state, at.REVISIONS)
        estimate = job.current_estimate
        not_overdue(sim, slot)
        while job.next_step <= clock.now - job.start:
            estimate = sim.changes.steps[slot, job.steps_done].estimate
            job.steps_done += 1
            more = job.steps_done < sim.changes.steps.shape[1]
            job.next_step = sim.changes.steps[slot, job.steps_done].elapsed if more else at.NEVER
        schedule_revision(sim, sim.changes, slot)
        remove(lists, state, at.RUNNING, job.start + job.current_estimate, job.row)
        job.current_estimate = estimate
        insert(lists, state, at.RUNNING, job.start + estimate, job.row, slot, job.procs, job.requested_time)
        queue.stale = True
        clock.causes |= at.CORRECTED


@step
def take_revisions(sim: Arrays, changes: Changes | None, estimates: Estimates) -> int:
    """Take in the revisions of jobs that wait already; return BAD_ESTIMATE if one is no number, else 0."""
    if changes is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
        if sim.state[0].queue.n_revised < sim.state[0].queue.n_revisions:
            return _take_revisions(sim, estimates)
    return 0


@rare
def _take_revisions(sim: Arrays, estimates: Estimates) -> int:
    state = sim.state[0]
    queue = state.queue
    while queue.n_revised < queue.n_revisions:
        row = int(estimates.revisions[queue.n_revised].row)
        taken = _revise_group(sim, estimates, row) if queue.grouped else _revise_job(sim, estimates, row)
        if not taken:
            state.clock.asked_about = row
            return at.BAD_ESTIMATE
    return 0


@step
def _revise_job(sim: Arrays, estimates: Estimates, row: int) -> bool:
    """Give a waiting job the present revision; return whether it waits and the revision is of numbers."""
    state, slot = sim.state[0], _slot_of(sim, row)
    queue = state.queue
    if slot < 0:
        return False
    job = sim.jobs_now[slot]
    running, candidate, order = _revised_estimates(estimates, state, row, job.requested_time)
    if min(running, candidate, order) < 0:
        return False
    keep_steps(sim, estimates, slot)
    job.current_estimate = running
    job.first_estimate = running
    if candidate != job.candidate_estimate or order != job.order_estimate:
        longer = candidate != job.candidate_estimate
        job.candidate_estimate = candidate
        job.order_estimate = order
        postponed = job.release_time != at.NEVER
        if postponed:
            unlist(sim, job)
        _move(sim, at.QUEUE, slot, longer, postponed)
        if queue.candidates == at.BACKFILL:
            _move(sim, at.BACKFILL, slot, longer, postponed)
        if postponed:
            enlist(sim, slot)
        queue.stale = True
    return True


@step
def _revise_group(sim: Arrays, estimates: Estimates, row: int) -> bool:
    """Give the group of a waiting job the present revision; return whether it is of numbers."""
    state = sim.state[0]
    if not 0 <= row < len(sim.jobs):
        return False
    limit, lead = sim.jobs[row].requested_time, sim.changes.groups[sim.changes.group_of[row]].lead
    running, candidate, order = _revised_estimates(estimates, state, row, limit)
    if min(running, candidate, order) < 0:
        return False
    _write_steps(sim.changes.group_steps, lead, estimates, state, limit)
    _tell_groups(sim, lead, running, candidate, order)
    return True


@rare
def join_revision(sim: Arrays, slot: int) -> None:
    """Apply the forecast of a job just submitted to the others of its group."""
    job = sim.jobs_now[slot]
    lead = sim.changes.groups[job.group].lead
    for i in range(sim.changes.steps.shape[1]):
        sim.changes.group_steps[lead, i].elapsed = sim.changes.steps[slot, i].elapsed
        sim.changes.group_steps[lead, i].estimate = sim.changes.steps[slot, i].estimate
    _tell_groups(sim, lead, job.first_estimate, job.candidate_estimate, job.order_estimate)
    job.revision = sim.changes.groups[lead].revision


@step
def _tell_groups(sim: Arrays, lead: int, running: int, candidate: int, order: int) -> None:
    """Note the estimates of groups that have the same ones; their jobs take them over when a pass examines them."""
    group, queue, n = sim.changes.groups[lead], sim.state[0].queue, 0
    changed = candidate != group.candidate_estimate or order != group.order_estimate
    group.current_estimate = running
    group.candidate_estimate = candidate
    group.order_estimate = order
    group.revision += 1
    if not changed:
        return
    number = lead
    while number >= 0:
        one = sim.changes.groups[number]
        if one.listed >= 0:
            list_group(sim, number, one.listed)
        n += one.n_waiting
        number = one.next_alike
    queue.stale |= n + queue.n_postponed > 0
    queue.outdated |= n > 0 and queue.lists_estimates
    queue.postponed_outdated |= queue.n_postponed > 0 and queue.candidates != at.GROUPED


@rare
def update_waiting(sim: Arrays) -> None:
    """Let the jobs in the queue take over the estimates of their groups, and sort them again.

    This is for a queue that is listed by their own estimates. One walk over them all takes as long as the revision of a
    few alone.
    """
    queue = sim.state[0].queue
    queue.outdated = False
    n = list_slots(sim, at.QUEUE, queue.n_queued)
    if _take_over(sim, n):
        _list_again(sim, at.QUEUE, at.QUEUE, n)
        if queue.candidates == at.BACKFILL:
            _list_again(sim, at.BACKFILL, at.BACKFILL, list_slots(sim, at.BACKFILL, queue.n_queued))


@rare
def update_postponed(sim: Arrays) -> None:
    """Let the postponed jobs take over the estimates of their groups."""
    state = sim.state[0]
    queue = state.queue
    queue.postponed_outdated = False
    n = list_slots(sim, at.POSTPONED, queue.n_postponed)
    if _take_over(sim, n):
        _list_again(sim, at.POSTPONED, state.rules.candidate_kind, n)


@step
def _take_over(sim: Arrays, n: int) -> bool:
    """Give the first `n` jobs of `scratch` the estimates of their groups; return whether their places may change."""
    changed = False
    for i in range(n):
        job = sim.jobs_now[sim.scratch[i]]
        if job.group < 0:
            continue
        group = sim.changes.groups[sim.changes.groups[job.group].lead]
        if job.candidate_estimate == group.candidate_estimate and job.order_estimate == group.order_estimate:
            continue
        job.candidate_estimate = group.candidate_estimate
        job.order_estimate = group.order_estimate
        changed = True
        _renew_keys(sim, job)
    return changed


@step
def _renew_keys(sim: Arrays, job: JobNow) -> None:
    """Compute the keys of a waiting job again, where they depend on the job alone."""
    rules = sim.state[0].rules
    if has_own_key(rules.order):
        job.keys[at.QUEUE] = static_key_of(sim, job, at.QUEUE)
    if rules.candidate_kind == at.BACKFILL and has_own_key(rules.backfill_order):
        job.keys[at.BACKFILL] = static_key_of(sim, job, at.BACKFILL)


@step
def _list_again(sim: Arrays, which: int, kind: int, n: int) -> None:
    """Sort a list of waiting jobs, `n` slots in `scratch`, by their keys of a kind, with their present lengths."""
    put_in_order(sim, which, kind, n)
    if is_searched(sim.state[0], which):
        renew_lengths(sim, which)


@step
def has_own_key(code: int) -> bool:
    """Return whether an order's keys depend on the jobs alone: others are computed again before each pass."""
    return code < RANKED


@step
def dissolve_groups(sim: Arrays, candidates: int) -> None:
    """Let each waiting job have estimates and a place of its own again; `candidates` is the list that is searched."""
    queue = sim.state[0].queue
    list_singly(sim, candidates)
    update_waiting(sim)
    update_postponed(sim)
    for which in (at.QUEUE, at.POSTPONED):
        for i in range(list_slots(sim, which, queue.n_queued + queue.n_postponed)):
            refresh(sim, sim.changes, sim.scratch[i])
    queue.grouped = False


@step
def list_singly(sim: Arrays, candidates: int) -> None:
    """Give each waiting job a place of its own again, where the candidates are merged from groups."""
    lists, state = sim.lists, sim.state[0]
    queue = state.queue
    if queue.candidates != at.GROUPED:
        return
    n = list_slots(sim, at.QUEUE, queue.n_queued)
    for which in (at.QUEUE, at.GROUPED, at.GROUPS, at.POSTPONED_GROUPS):
        clear(lists, state, which)
    queue.candidates = candidates
    queue.lists_estimates = True
    queue.finds_first = False
    queue.n_queued = 0
    for i in range(n):
        slot = sim.scratch[i]
        refresh(sim, sim.changes, slot)
        job = sim.jobs_now[slot]
        sim.changes.groups[job.group].listed = -1
        sim.changes.groups[job.group].n_waiting -= 1
        _renew_keys(sim, job)
        enqueue(sim, slot)
    n = list_slots(sim, at.POSTPONED, queue.n_postponed)
    clear(lists, state, at.POSTPONED)
    for i in range(n):
        slot = sim.scratch[i]
        job = sim.jobs_now[slot]
        sim.changes.groups[job.group].listed = -1
        job.group -= queue.n_groups
        refresh(sim, sim.changes, slot)
        _renew_keys(sim, job)
        enlist(sim, slot)


@step
def rank(sim: Arrays) -> int:
    """Write the queue, which is listed by rows, into `scratch` in the order of the last pass; return its length."""
    state = sim.state[0]
    queue, rules = state.queue, state.rules
    n = list_slots(sim, at.QUEUE, queue.n_queued)
    for i in range(n):
        job = sim.jobs_now[sim.scratch[i]]
        if rules.order >= WFP3:
            wait = max(0, queue.ranked_at - sim.jobs[job.row].submit)
            job.keys[at.BACKFILL] = dynamic_key(rules.order, wait, job.procs, job.requested_time)
        else:
            refresh(sim, sim.changes, sim.scratch[i])
            job.keys[at.BACKFILL] = static_key_of(sim, job, at.BACKFILL)
    sort_slots(sim, at.BACKFILL, n)
    return n


@step
def _slot_of(sim: Arrays, row: int) -> int:
    """Return the record of a waiting job, or -1; a walk over the queue where no list has the rows in their order."""
    lists, state, scratch = sim.lists, sim.state[0], sim.scratch
    queue = state.queue
    if state.site.n_held > 0:
        slot = slot_from(lists, state, at.DEPENDANTS, row, row)
        if slot >= 0 and sim.jobs_now[slot].row == row and sim.jobs_now[slot].hold_reasons != 0:
            return slot
    if state.rules.order == FCFS:
        slot = slot_from(lists, state, at.QUEUE, row, row)
        if slot >= 0 and sim.jobs_now[slot].row == row:
            return slot
    elif queue.by_row:
        slot = slot_from(lists, state, at.GROUPED, at.NOTHING, row)
        if slot >= 0 and sim.jobs_now[slot].row == row:
            return slot
    else:
        for i in range(list_slots(sim, at.QUEUE, queue.n_queued)):
            if sim.jobs_now[scratch[i]].row == row:
                return scratch[i]
    for i in range(list_slots(sim, at.POSTPONED, queue.n_postponed)):
        if sim.jobs_now[scratch[i]].row == row:
            return scratch[i]
    return -1


@step
def _move(sim: Arrays, which: int, slot: int, longer: bool, postponed: bool) -> None:
    """Move a waiting job to its new place in its list, if it is in it, after its estimates have changed.

    Keys that change with time, and users' own, do not change here: they are computed again before each pass.
    """
    job, lists, state = sim.jobs_now[slot], sim.lists, sim.state[0]
    rules = state.rules
    old, new = job.keys[which], job.keys[which]
    code = rules.backfill_order if which == at.BACKFILL else rules.order
    if has_own_key(code):
        new = static_key_of(sim, job, which)
    if postponed or (len(sim.changes.site_jobs) > 0 and job.hold_reasons != 0):
        job.keys[which] = new
    elif new != old or (longer and which == state.queue.candidates):
        remove(lists, state, which, old, job.row)
        job.keys[which] = new
        insert(lists, state, which, new, job.row, slot, job.procs, job.candidate_estimate)
