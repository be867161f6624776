"""Cobalt: held jobs, dependencies between jobs, accounts, and node sets.

A held job has a record but is in no queue, and gains no score. The record of a parent is kept after its end until its
last child is submitted, so that a child submitted late still learns how and when it ended.

Node sets are queues with a limit on the processors that their jobs use at once. A job is passed over if its set has too
few left; jobs of other sets do not wait for it. The first such job of a set in a pass holds a reservation within its
set: the set's shadow time is the earliest second at which by the estimates of the running jobs its share suffices, and
further jobs of the set start only if they end by then, or need no more than the set has left next to it.
"""

import schedsim.kernels.records as at
from predictors.core.jit import rare, step
from schedsim.kernels.keys import RANKED, score_at
from schedsim.kernels.ordered_lists import insert, leaf_at, list_slots, node_at, remove, slot_from
from schedsim.kernels.queue import dequeue, enqueue, first_step, give_back
from schedsim.kernels.records import Arrays, Changes, JobNow, State


@step
def check_account(sim: Arrays, job: JobNow, fresh: int) -> bool:
    """Move a waiting job behind all others if its account is spent; return whether it must be held for that.

    A job just submitted also starts with a lower score, the lower the further its account is overdrawn.
    """
    account = sim.changes.accounts[sim.changes.site_jobs[job.row].account]
    spent, granted = account.spent, account.granted
    if spent < granted:
        return False
    if account.blocks:
        return True
    if account.overburning and spent < 2 * granted and sim.changes.site_jobs[job.row].may_overburn:
        return False
    job.tier = 1
    job.node_set = -1
    job.queue_number = sim.state[0].site.spent_queue
    if fresh == at.YES:
        job.score = max(0.0, 1.0 - (spent - granted) / granted) * job.score
    return False


@step
def hold(sim: Arrays, slot: int, why: int) -> None:
    """Hold a waiting job; the ticks before now are its own."""
    job, lists, state = sim.jobs_now[slot], sim.lists, sim.state[0]
    if job.hold_reasons == 0:
        now = state.clock.now
        job.score = score_at(job, state, now - 1)
        job.scored_from = now
        job.held_since = now
        dequeue(sim, slot)
        state.site.n_held += 1
        if job.n_children == 0:
            row = job.row
            insert(lists, state, at.DEPENDANTS, row, row, slot, job.procs, job.requested_time)
    job.hold_reasons |= why
    job.planned_start = at.NEVER


@step
def release_hold(sim: Arrays, slot: int, why: int) -> None:
    """Remove reasons to hold a job; without any it joins the queue, and its eligible time continues."""
    job, site_jobs, lists, state = sim.jobs_now[slot], sim.changes.site_jobs, sim.lists, sim.state[0]
    if job.hold_reasons & why == 0:
        return
    job.hold_reasons -= job.hold_reasons & why
    if job.hold_reasons != 0:
        return
    now, row = state.clock.now, job.row
    is_charged = len(site_jobs) > 0 and site_jobs[row].account >= 0 and job.tier == 0
    if is_charged and check_account(sim, job, at.NO):
        job.hold_reasons = at.BY_ACCOUNT
        return
    job.eligible_since += now - job.held_since
    job.scored_from = now
    state.site.n_held -= 1
    if job.n_children == 0:
        remove(lists, state, at.DEPENDANTS, row, row)
    if state.rules.order == RANKED:
        job.keys[at.QUEUE] = row
    enqueue(sim, slot)


@step
def _check_waiting(sim: Arrays, account: int) -> None:
    """Check the waiting jobs of an account again."""
    site_jobs, jobs_now, state, scratch = sim.changes.site_jobs, sim.jobs_now, sim.state[0], sim.scratch
    n = list_slots(sim, at.QUEUE, state.queue.n_queued)
    for i in range(n):
        slot = scratch[i]
        job = jobs_now[slot]
        if site_jobs[job.row].account == account and job.tier == 0:
            if check_account(sim, job, at.NO):
                hold(sim, slot, at.BY_ACCOUNT)
            elif job.tier == 1:
                dequeue(sim, slot)
                enqueue(sim, slot)


@step
def dependant(sim: Arrays, row: int) -> int:
    """Return the record of a held job, or of one with children still to be submitted, or -1."""
    jobs_now, lists, state = sim.jobs_now, sim.lists, sim.state[0]
    slot = slot_from(lists, state, at.DEPENDANTS, row, row)
    return slot if slot >= 0 and jobs_now[slot].row == row else -1


@step
def _inherit(job: JobNow, parent: JobNow, state: State) -> None:
    """Let a child start with a share of its parent's score, if that is more than its own."""
    share = state.site.inherited_share * parent.score
    if share > job.score:
        job.score = share


@step
def _wait_until(sim: Arrays, job: JobNow, when: int) -> None:
    """Release a held job at a second."""
    state = sim.state[0]
    clock = state.clock
    clock.n_timers += 1
    insert(sim.lists, state, at.TIMERS, when, clock.n_timers, at.RELEASE_CHILD, job.row, at.YES)


@rare
def on_submit(sim: Arrays, slot: int) -> int:
    """Fill the fields of the site's rules in a new job's record; return why it is held, or 0."""
    job, lists, state = sim.jobs_now[slot], sim.lists, sim.state[0]
    clock = state.clock
    submitted = sim.changes.site_jobs[job.row]
    job.score = submitted.start_score
    job.score_gain = submitted.score_gain
    job.eligible_since = clock.now
    job.scored_from = clock.now
    job.held_since = clock.now
    job.node_set = submitted.node_set
    job.tier = submitted.tier
    job.n_children = submitted.n_later_children
    job.exit_state = at.NOT_ENDED
    job.queue_number = submitted.queue_number
    reasons = at.BY_USER if submitted.on_hold else 0
    if submitted.account >= 0 and check_account(sim, job, at.YES):
        reasons |= at.BY_ACCOUNT
    if submitted.parent >= 0:
        reasons |= at.BY_PARENT
        place = dependant(sim, submitted.parent)
        if place >= 0:
            parent = sim.jobs_now[place]
            if submitted.parent < job.row:
                parent.n_children -= 1
            ended = parent.exit_state != at.NOT_ENDED
            if ended:
                reasons += _settle_child(sim, job, parent, at.NO) - at.BY_PARENT
            if parent.n_children == 0 and parent.hold_reasons == 0:
                remove(lists, state, at.DEPENDANTS, parent.row, parent.row)
                if ended:
                    give_back(sim, place)
    job.hold_reasons = reasons
    if reasons != 0:
        state.site.n_held += 1
    if reasons != 0 or job.n_children > 0:
        insert(lists, state, at.DEPENDANTS, job.row, job.row, slot, job.procs, job.requested_time)
    return reasons


@step
def _settle_child(sim: Arrays, job: JobNow, parent: JobNow, in_pass: int) -> int:
    """Apply the end of a parent to a child: return why the child is still held, or 0.

    No job joins the queue within a pass: a child of a job of length zero is released at a further instant of this
    second.
    """
    state = sim.state[0]
    if parent.exit_state == at.BADLY and state.site.holds_orphans:
        return at.BY_FAILURE
    _inherit(job, parent, state)
    due = parent.end + sim.changes.site_jobs[job.row].think_time
    if due > state.clock.now or in_pass == at.YES:
        _wait_until(sim, job, due)
        return at.BY_PARENT
    return 0


@step
def release_child(sim: Arrays, changes: Changes | None, row: int) -> None:
    """Release a job that waits for its parent, or was preempted."""
    if changes is not None:
        _release_child(sim, row)


@rare
def _release_child(sim: Arrays, row: int) -> None:
    slot = dependant(sim, row)
    if slot < 0:
        return
    if sim.jobs_now[slot].hold_reasons & at.BY_PREEMPTION != 0:
        sim.state[0].clock.causes |= at.BY_SUBMISSION  # it counts as one that comes now
    release_hold(sim, slot, at.BY_PARENT | at.BY_PREEMPTION)


@step
def hold_stopped(sim: Arrays, slot: int, until: int) -> None:
    """Hold a job until a second that was stopped for another one, and is in no list of waiting jobs."""
    job, state = sim.jobs_now[slot], sim.state[0]
    if len(sim.changes.site_jobs) == 0:
        job.n_children = 0
        job.eligible_since = 0
    job.hold_reasons = at.BY_PREEMPTION
    job.held_since = state.clock.now
    state.site.n_held += 1
    if job.n_children == 0:
        insert(sim.lists, state, at.DEPENDANTS, job.row, job.row, slot, job.procs, job.requested_time)
    _wait_until(sim, job, until)


@step
def on_start(sim: Arrays, changes: Changes | None, job: JobNow) -> None:
    """Note the score with which a job starts, and count it in its node set, where the site has rules."""
    if changes is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
        if len(changes.site_jobs) > 0:
            _on_start(sim, job)


@rare
def _on_start(sim: Arrays, job: JobNow) -> None:
    state = sim.state[0]
    job.score = score_at(job, state, state.clock.now)
    job.scored_from = at.NEVER
    enter_set(sim, job)


@step
def _exit_state(sim: Arrays, job: JobNow) -> int:
    """Return how a job ends unless it is interrupted: badly if it is stopped at its requested time, or is to fail."""
    killed = job.run_time > job.requested_time and job.end - job.start == job.requested_time
    return at.BADLY if killed or sim.changes.site_jobs[job.row].fails else at.WELL


@step
def on_end(sim: Arrays, changes: Changes | None, slot: int, interrupted: int, in_pass: int) -> bool:
    """Charge a job that has ended, and apply its end to its children; return whether its record is free.

    The rules of a site need it until the last child is submitted.
    """
    if changes is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
        if len(changes.site_jobs) > 0:
            return _on_end(sim, slot, interrupted, in_pass)
    return True


@rare
def _on_end(sim: Arrays, slot: int, interrupted: int, in_pass: int) -> bool:
    job, state = sim.jobs_now[slot], sim.state[0]
    leave_set(sim, job)
    job.exit_state = at.BADLY if interrupted == at.YES else _exit_state(sim, job)
    job.end = state.clock.now
    if sim.changes.site_jobs[job.row].account >= 0 and job.start >= 0:
        _charge(sim, job, sim.changes.site_jobs[job.row].account)
    child = sim.changes.site_jobs[job.row].first_child
    while child >= 0:
        place = dependant(sim, child)
        if place >= 0 and sim.jobs_now[place].hold_reasons & at.BY_PARENT != 0:
            reason = _settle_child(sim, sim.jobs_now[place], job, in_pass)
            if reason == 0:
                release_hold(sim, place, at.BY_PARENT)
            elif reason == at.BY_FAILURE:
                sim.jobs_now[place].hold_reasons += at.BY_FAILURE - at.BY_PARENT
        child = sim.changes.site_jobs[child].next_child
    return job.n_children == 0


@step
def _charge(sim: Arrays, job: JobNow, number: int) -> None:
    """Charge a job to an account; when that spends it, or spends it twice, check its waiting jobs again."""
    account = sim.changes.accounts[number]
    before, granted = account.spent, account.granted
    account.spent += job.procs * (sim.state[0].clock.now - job.start)
    if before < granted <= account.spent or before < 2 * granted <= account.spent:
        _check_waiting(sim, number)


@step
def on_return(sim: Arrays, changes: Changes | None, slot: int, start: int) -> None:
    """Set a stopped job that had started at a second to its state before, with all its estimate steps."""
    if changes is None:
        return
    job, now = sim.jobs_now[slot], sim.state[0].clock.now
    first_step(sim, slot)
    if len(changes.site_jobs) > 0:
        leave_set(sim, job)
        job.eligible_since += now - start  # its eligible time continues
        job.scored_from = now


@step
def set_allows(sim: Arrays, changes: Changes | None, job: JobNow) -> bool:
    """Return whether a job's node set lets it start now; if not, this pass does not try it again."""
    if changes is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
        if len(changes.sets) > 0:
            return _set_allows(sim, job)
    return True


@rare
def _set_allows(sim: Arrays, job: JobNow) -> bool:
    state = sim.state[0]
    clock = state.clock
    if job.node_set < 0:
        return True
    own = sim.changes.sets[job.node_set]
    left = own.limit - own.used
    if own.waiting_in_pass == clock.n_passes:
        in_time = clock.now + job.candidate_estimate <= own.shadow_time
        if job.procs <= left and (in_time or job.procs <= own.extra_procs):
            return True
    elif job.procs <= left:
        return True
    else:
        own.waiting_in_pass = clock.n_passes
        own.shadow_time, own.extra_procs = _shadow(sim, job.node_set, job.procs - left)
    job.tried_in_pass = clock.n_passes
    state.site.node_set_waits = True
    return False


@step
def _shadow(sim: Arrays, number: int, need: int) -> tuple[int, int]:
    """Return when the running jobs of a set will have released `need` processors, and how many more by then."""
    lists, state = sim.lists, sim.state[0]
    shadow = at.NEVER
    for i in range(state.queue.n_nodes[at.RUNNING]):
        node = node_at(lists, at.RUNNING, i)
        for j in range(node.count):
            leaf = leaf_at(lists, node, j)
            for k in range(leaf.count):
                if need <= 0 and leaf.key[k] > shadow:
                    return shadow, -need
                if sim.jobs_now[leaf.slot[k]].node_set == number:
                    if need > 0:
                        shadow = leaf.key[k]
                    need -= leaf.procs[k]
    return shadow, -need


@step
def enter_set(sim: Arrays, job: JobNow) -> None:
    """Count a job that starts in its node set, and what it takes next to the reservation there."""
    if job.node_set < 0 or job.run_time == 0:
        return
    own, clock = sim.changes.sets[job.node_set], sim.state[0].clock
    own.used += job.procs
    if own.waiting_in_pass == clock.n_passes and clock.now + job.candidate_estimate > own.shadow_time:
        own.extra_procs -= job.procs


@step
def leave_set(sim: Arrays, job: JobNow) -> None:
    """Count a job that has ended out of its node set."""
    if job.node_set >= 0 and job.run_time > 0:
        sim.changes.sets[job.node_set].used -= job.procs
