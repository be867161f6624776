"""The reservation of the head of the queue: shadow time and extra processors, and who may be backfilled.

Jobs start in the queue's order until one is blocked: the head. Its shadow time is the earliest second at which by the
estimates of the running jobs it fits; extra processors are those that it leaves free then (Mu'alem & Feitelson, IEEE
TPDS 12(6), 2001, doi:10.1109/71.932708). What it is guaranteed besides is in `promise`.
"""

import schedsim.kernels.reasons as why
import schedsim.kernels.records as at
from predictors.core.jit import rare, step
from schedsim.kernels.agents.observation import ask_for_pick
from schedsim.kernels.agents.picks import is_asked, pick_next, take_answer
from schedsim.kernels.cobalt import set_allows
from schedsim.kernels.keys import WFP3
from schedsim.kernels.nodes.site import fits_now, has_place, note_nodes, reserve, use_spare
from schedsim.kernels.ordered_lists import first_slot, slot_from, time_of_release
from schedsim.kernels.places.records import NodeArrays
from schedsim.kernels.profile import book, earliest, free_for, level_at, note_start, plan_ends
from schedsim.kernels.promise import keeps_promise, promise_among_dates, promise_head, use_spare_at_promise
from schedsim.kernels.queue import enqueue, move_group_on, refresh
from schedsim.kernels.reasons import Reasons
from schedsim.kernels.records import Arrays, Changes, JobNow, Picker, Rules, State
from schedsim.kernels.sorting import first_now
from schedsim.kernels.start_end import begin, start


@step
def start_in_order(sim: Arrays, agent: Picker | None, site: NodeArrays | None, reasons: Reasons | None) -> int:
    """Start jobs in the queue's order until one is blocked: the head, or -1; return 0, or the reason of a pause.

    Jobs that a gate holds, or their node set, are passed over.
    """
    state = sim.state[0]
    clock, queue, rules = state.clock, state.queue, state.rules
    while True:
        slot = _first_untried(sim, sim.changes)
        if agent is not None:
            if slot >= 0:
                if is_asked(agent) and clock.answer == at.NOT_ANSWERED and not _keeps_reserved(sim, agent):
                    clock.asked_about = 1
                    return ask_for_pick(sim, agent, site)
                slot = _picked(sim, agent, site, slot)
        elif rules.keeps_head and queue.head >= 0 and sim.jobs_now[queue.head].tried_in_pass != clock.n_passes:
            slot = queue.head
        if slot < 0:
            queue.head = -1
            return 0
        refresh(sim, sim.changes, slot)
        job = sim.jobs_now[slot]
        if not set_allows(sim, sim.changes, job):
            if reasons is not None:
                why.note_share(reasons, sim, slot)
            continue
        if not fits_now(sim, site, slot):
            if rules.passes_over and has_place(sim, site, slot):  # only the ceiling stops it
                job.tried_in_pass = clock.n_passes
                if reasons is not None:
                    why.note(reasons, sim, slot, why.CEILING)
                    note_nodes(reasons, sim, site, slot)
                continue
            if queue.head != slot:
                queue.head = slot
                queue.stale = True
            return 0
        verdict = verdict_on(job, state, slot)
        if verdict == at.NOT_ASKED:
            return at.ASK_GATE
        if verdict == at.NO_PLACE:
            queue.head = slot
            return 0
        if reasons is not None:
            why.note(reasons, sim, slot, why.STARTS if verdict == at.MAY_START else why.GATE)
            note_nodes(reasons, sim, site, slot)
        if verdict == at.MAY_START:
            has_waited = sim.jobs[job.row].submit < clock.now
            reserved = job.has_reservation or (rules.depth == at.ALL and has_waited)
            start(sim, site, slot, at.BY_RESERVATION if reserved else at.READY)
            note_start(sim, job)
            queue.head = -1


@step
def _keeps_reserved(sim: Arrays, agent: Picker) -> bool:
    """Return whether the job reserved is kept until it starts, so that the agent picks no other before."""
    return sim.state[0].queue.head >= 0 and agent.one[0].reserve != at.PICKED_AGAIN


@rare
def _picked(sim: Arrays, agent: Picker, site: NodeArrays | None, oldest: int) -> int:
    """Return the job that is to start or to be reserved, or -1 if the agent declines; `oldest` leads the queue."""
    if _keeps_reserved(sim, agent):
        return sim.state[0].queue.head
    slot = take_answer(sim, agent) if is_asked(agent) else pick_next(sim, agent, site)
    if agent.one[0].reserve == at.OLDEST and slot >= 0 and not fits_now(sim, site, slot):
        return oldest
    return slot


@step
def _first_untried(sim: Arrays, changes: Changes | None) -> int:
    """Return the first job of the queue that this pass has not passed over, or -1."""
    state = sim.state[0]
    queue = state.queue
    slot = _first(sim, changes) if queue.n_queued > 0 else -1
    while slot >= 0 and sim.jobs_now[slot].tried_in_pass == state.clock.n_passes:
        if changes is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
            if queue.finds_first:
                move_group_on(sim, changes, slot)
                slot = _first(sim, changes) if queue.n_nodes[at.GROUPS] > 0 else -1
                continue
        job = sim.jobs_now[slot]
        slot = slot_from(sim.lists, state, at.QUEUE, job.keys[at.QUEUE], job.row + 1)
    return slot


@step
def _first(sim: Arrays, changes: Changes | None) -> int:
    """Return the first job of the queue, which is not empty; where its list is by rows, the first in the order.

    Where groups are listed it is -1 once a pass has passed over the jobs of all of them: their list is empty then.
    """
    lists, state = sim.lists, sim.state[0]
    queue = state.queue
    if changes is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
        if queue.finds_first:
            if state.rules.order >= WFP3:
                return first_now(sim)
            return changes.groups[first_slot(lists, state, at.GROUPS)].listed if queue.n_nodes[at.GROUPS] > 0 else -1
    return first_slot(lists, state, at.QUEUE)


@step
def reserve_head(sim: Arrays, site: NodeArrays | None) -> None:
    """Find the head's shadow time and the extra processors, and what it is promised."""
    lists, state = sim.lists, sim.state[0]
    queue, rules = state.queue, state.rules
    head = sim.jobs_now[queue.head]
    head.has_reservation = True
    if site is not None:
        reserve(sim, site)
        return
    if rules.dated:
        _reserve_among_dates(sim, head)
        return
    if not queue.stale or rules.placed:
        return
    need = head.procs - free_for(state, head.procs)
    queue.shadow_time, queue.extra_procs = time_of_release(lists, state, at.RUNNING, need)
    queue.stale = False
    if rules.promises:
        promise_head(sim, head, need)


@rare
def _reserve_among_dates(sim: Arrays, head: JobNow) -> None:
    """Do so where processors are reserved or may fail: in the profile, which then holds the head's reservation."""
    state, profile, dates = sim.state[0], sim.profile, sim.dates
    queue, rules = state.queue, state.rules
    procs, limit = head.procs, head.requested_time
    below = queue.free - free_for(state, procs)  # a ceiling lies so far below the machine
    queue.stale = False
    if rules.promises:
        promise_among_dates(sim, head)
    plan_ends(sim, at.RUNNING)
    queue.shadow_time = earliest(sim, procs + below, head.candidate_estimate, limit)
    queue.extra_procs = at.NEVER
    if queue.shadow_time != at.NEVER:
        book(sim, queue.shadow_time, procs, head.candidate_estimate, limit)
        queue.extra_procs = profile[level_at(sim, queue.shadow_time)].free - below
    if rules.promises and queue.guaranteed_start != at.NEVER:
        for i in range(queue.n_dates):  # also then it must clear them, next to whoever starts now
            date = dates[i].time
            if queue.guaranteed_start < date < queue.guaranteed_start + limit and not (
                queue.shadow_time < date < queue.shadow_time + limit
            ):
                dates[i].room -= procs


@step
def nothing_changed(sim: Arrays, agent: Picker | None, site: NodeArrays | None) -> bool:
    """Return whether this pass can start nothing because the last one could not.

    Since then no processor was freed, no estimate of a running job was corrected and the head is the same: the other
    waiting jobs have only less time left until the shadow time. So just the newcomer counts, if it is one.
    """
    if site is not None:  # see `newcomer_counts` in `nodes.site`
        return False
    state = sim.state[0]
    clock, queue, rules = state.clock, state.queue, state.rules
    if clock.causes != at.BY_SUBMISSION or queue.stale or queue.head < 0 or rules.gated:
        return False
    if agent is not None:
        if agent.one[0].kind == at.ASKED or agent.one[0].reserve == at.PICKED_AGAIN:
            return False
    elif not rules.keeps_head and _first(sim, sim.changes) != queue.head:
        return False
    if rules.depth == at.NO_BACKFILL:
        return True
    return clock.n_newcomers == 1 and not fits_beside_head(sim.jobs_now[clock.last_queued], state)


@step
def tries_newcomers(rules: Rules, agent: Picker | None, site: NodeArrays | None, changes: Changes | None) -> bool:
    """Return whether a job that is submitted alone may be tried before it joins the queue (see `start_newcomer`).

    Not where a pass has more to ask about it, where nodes differ, or where jobs change while they wait.
    """
    if agent is not None:
        return False
    if site is not None:
        return False
    if changes is not None:
        return False
    asks = rules.gated or rules.dated or rules.asks_ends or rules.restarts
    return not (asks or rules.passes_over or rules.keeps_head)


@step
def start_newcomer(sim: Arrays, site: NodeArrays | None) -> bool:
    """Start a job that is submitted alone, without a pass, if it may start at once; else let it join the queue.

    If no job waits it starts if it fits. If one does, and nothing has changed for the blocked head since the last
    pass, then of all waiting jobs only the newcomer can start (see `nothing_changed`), by the rule of EASY. Such jobs,
    often every second one, are in no list of waiting jobs, where no pass looks for them. Returns whether it started.
    """
    if site is not None:
        return False
    state = sim.state[0]
    clock, queue = state.clock, state.queue
    if not clock.is_apart:
        return False
    clock.is_apart = False
    slot = clock.last_queued
    job = sim.jobs_now[slot]
    if queue.n_queued == 0:
        if job.procs <= free_for(state, job.procs):
            queue.head = -1
            begin(sim, site, slot, at.READY)
            return True
    elif _is_all_that_counts(sim, job) and fits_beside_head(job, state) and keeps_promise(job, state):
        use_extra_procs(sim, None, job)
        begin(sim, site, slot, at.BACKFILLED)
        return True
    enqueue(sim, slot)
    return False


@step
def _is_all_that_counts(sim: Arrays, job: JobNow) -> bool:
    """Return whether the head is still blocked and first, also before this newcomer, and all else is as it was."""
    state = sim.state[0]
    queue = state.queue
    if state.clock.causes != at.BY_SUBMISSION or queue.stale or queue.head < 0 or state.rules.depth == at.NO_BACKFILL:
        return False
    return _first(sim, sim.changes) == queue.head and sim.jobs_now[queue.head].keys[at.QUEUE] <= job.keys[at.QUEUE]


@step
def fits_beside_head(job: JobNow, state: State) -> bool:
    """Return whether a job may start now without delaying the head, by the estimates: the rule of EASY.

    It may if it ends by the shadow time, or needs extra processors only. Many jobs are searched by the same rule in
    `ordered_lists.next_fitting`.
    """
    queue = state.queue
    if job.procs > free_for(state, job.procs):
        return False
    return state.clock.now + job.candidate_estimate <= queue.shadow_time or job.procs <= queue.extra_procs


@step
def use_extra_procs(sim: Arrays, site: NodeArrays | None, job: JobNow) -> None:
    """Take what a job that is about to be backfilled uses of what is free next to the head."""
    if site is not None:
        use_spare(sim, site, job)
        return
    state = sim.state[0]
    queue = state.queue
    if job.run_time > 0:
        if state.clock.now + job.candidate_estimate > queue.shadow_time:
            queue.extra_procs -= job.procs
        use_spare_at_promise(job, state)
    # once it runs it counts by another estimate than the one it was started by
    queue.stale |= state.rules.several_estimates


@step
def verdict_on(job: JobNow, state: State, slot: int) -> int:
    """Return whether the gate lets the job start: MAY_START, HELD, NO_PLACE, or NOT_ASKED if it must be asked first."""
    clock = state.clock
    if not state.rules.gated:
        return at.MAY_START
    if clock.asked_about == slot and clock.answer >= 0:
        verdict = clock.answer
        clock.asked_about = -1
        clock.answer = at.NOT_ANSWERED
        if verdict != at.MAY_START:
            job.tried_in_pass = clock.n_passes
        return verdict
    clock.asked_about = slot
    clock.answer = at.NOT_ANSWERED
    return at.NOT_ASKED
