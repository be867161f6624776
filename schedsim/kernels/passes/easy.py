"""The scheduling pass of policies with no or one reservation.

Jobs start in the queue's order until one is blocked: the head. It is promised its shadow time, the earliest second at
which by the estimates of the running jobs it fits; extra processors are those that it leaves free then (Mu'alem &
Feitelson, IEEE TPDS 12(6), 2001, doi:10.1109/71.932708). The jobs behind it, in the backfill order, start if they fit
now and either end by the shadow time or need no more than the extra ones, which they then use up. After them,
postponed jobs may start likewise (see `postponed`). Under a ceiling on utilisation, jobs fit into fewer processors than
are free (see `reservation.free_for`).

`reservation.fits_beside_head` states the rule for one job, `ordered_lists.next_fitting` finds the next job that keeps
it, and `nodes.site` has it for nodes.

Where nodes differ, a job needs a place on them, and `site` has them (see `nodes.site`); it is None where numbers of
processors are all that counts.

Does not handle several reservations, or nodes with identities.
"""

import schedsim.kernels.reasons as why
import schedsim.kernels.records as at
from predictors.core.jit import lean, rare, step
from schedsim.kernels.agents.observation import ask_for_pick
from schedsim.kernels.agents.picks import is_asked, pick_backfill, take_answer
from schedsim.kernels.agents.scoring import choices_are_short, update_is_due
from schedsim.kernels.cobalt import set_allows
from schedsim.kernels.instant import until_pass
from schedsim.kernels.nodes.site import (
    begin_search,
    date,
    give_spare,
    newcomer_counts,
    note_behind,
    spots_are_short,
    take_spare,
    verdict_beside_head,
)
from schedsim.kernels.ordered_lists import slot_from
from schedsim.kernels.places.records import NodeArrays
from schedsim.kernels.postponed import release_if_idle, release_started
from schedsim.kernels.profile import clears, free_for, note_start, read_dates
from schedsim.kernels.promise import keeps_promise
from schedsim.kernels.queue import (
    candidate_key,
    key_as_candidate,
    move_group_on,
    move_groups_back,
    next_candidate,
    refresh,
)
from schedsim.kernels.reasons import Reasons
from schedsim.kernels.records import Arrays, Changes, Estimates, Picker, State
from schedsim.kernels.reservation import (
    fits_beside_head,
    nothing_changed,
    reserve_head,
    start_in_order,
    start_newcomer,
    tries_newcomers,
    use_extra_procs,
    verdict_on,
)
from schedsim.kernels.sorting import sort_postponed
from schedsim.kernels.start_end import start


@lean
def run(
    sim: Arrays, estimates: Estimates, reasons: Reasons | None, site: NodeArrays | None, agent: Picker | None
) -> int:
    """Go on until a pause; return why (see `records`). With `reasons` the passes note what becomes of each job."""
    state = sim.state[0]
    clock = state.clock
    clock.tries_newcomers = reasons is None and tries_newcomers(state.rules, agent, site, sim.changes)
    while True:
        if update_is_due(sim, agent):
            return at.ASK_LEARNER
        if clock.phase < at.AT_PASS:
            stop = until_pass(sim, site, estimates)
            if stop != at.PASS_IS_DUE:
                return stop
            if start_newcomer(sim, site) or (nothing_changed(sim, agent, site) and reasons is None):
                clock.phase = _next_phase(sim, site)
                continue
            if state.rules.dated:
                read_dates(sim)
        if spots_are_short(sim, site):
            return at.GROW_SPOTS
        if choices_are_short(sim, agent):
            return at.GROW_CHOICES
        stop = _pass(sim, agent, site, reasons)
        if stop != 0:
            return stop
        move_groups_back(sim, sim.changes)
        if reasons is not None:
            why.note_postponed(reasons, sim)
        clock.phase = _next_phase(sim, site)


@step
def _next_phase(sim: Arrays, site: NodeArrays | None) -> int:
    """Return the phase after a pass: another pass, if postponed jobs have joined the queue after it.

    That pass looks at every job again, also at those that the first has passed over.
    """
    state = sim.state[0]
    if state.rules.release_looks & at.AFTER != 0 and release_if_idle(sim, sim.changes, site):
        state.clock.n_passes += 1
        return at.AT_ORDER
    return at.AT_ADVANCE


@step
def _pass(sim: Arrays, agent: Picker | None, site: NodeArrays | None, reasons: Reasons | None) -> int:
    """Start what may start now; return 0, or the reason of a pause."""
    state = sim.state[0]
    clock, queue, rules = state.clock, state.queue, state.rules
    if clock.phase == at.AT_PASS:  # else this pass goes on where it stopped to ask
        state.site.node_set_waits = False
        if agent is not None:
            clock.picked = -1
            if reasons is not None:
                why.note_choice(reasons, sim)
        date(sim, site)
        if rules.depth == at.GREEDY:
            queue.head = -1
            queue.shadow_time = at.NEVER
        else:
            if agent is None:  # noqa: SIM102 - of longer conditions numba would compile both branches
                if reasons is None:  # noqa: SIM102
                    if newcomer_counts(sim, site):
                        return _backfill_from_newcomer(sim, site)
            stop = start_in_order(sim, agent, site, reasons)
            if stop != 0:
                return stop
            if queue.head < 0:
                return 0
            if rules.depth == at.NO_BACKFILL:
                if reasons is None:
                    return 0
                _look_ahead(sim, site)
            else:
                reserve_head(sim, site)
        begin_search(sim, site)
        _search_from_first(state, queue.candidates)
        clock.phase = at.AT_BACKFILL
        if rules.placed and queue.head >= 0:
            return at.ASK_SHADOW
    return _backfill(sim, agent, site, reasons)


@step
def _backfill(sim: Arrays, agent: Picker | None, site: NodeArrays | None, reasons: Reasons | None) -> int:
    """Start the jobs behind the head, in the backfill order, that do not delay it; return 0, or a pause's reason."""
    state = sim.state[0]
    clock, queue, rules = state.clock, state.queue, state.rules
    if reasons is not None:
        _note_head(reasons, sim, site)
        if rules.depth == at.NO_BACKFILL:
            why.note_turns(reasons, sim)
            return 0
    while queue.free > 0 or reasons is not None:
        if reasons is None:  # noqa: SIM108
            slot = _next_candidate(sim, site, queue.searched)
        else:
            slot = _next_and_note(reasons, sim, site)
        if slot < 0:
            if not _go_on_with_postponed(sim, site, sim.changes, reasons):
                return 0
            continue
        job = sim.jobs_now[slot]
        refresh(sim, sim.changes, slot)
        queue.after_key = key_as_candidate(sim, sim.changes, job)
        queue.after_tie = job.row
        if not _may_be_tried(sim, site, slot, reasons):
            _pass_over(sim, slot)
            continue
        if agent is not None:  # it picks among this one and those behind it
            give_spare(sim, site, job)
            if not is_asked(agent):
                slot = pick_backfill(sim, agent, site)
            elif clock.answer == at.NOT_ANSWERED:
                clock.asked_about = 2
                return ask_for_pick(sim, agent, site)
            else:
                slot = take_answer(sim, agent)
            if slot < 0:
                return 0
            job = sim.jobs_now[slot]
            take_spare(sim, site, slot)
        if not set_allows(sim, sim.changes, job):
            if reasons is not None:
                why.note_share(reasons, sim, slot)
            _pass_over(sim, slot)
            continue
        verdict = verdict_on(job, state, slot)
        if verdict == at.NOT_ASKED:
            give_spare(sim, site, job)
            return at.ASK_GATE
        if reasons is not None:
            _note_verdict(reasons, sim, site, slot, verdict)
        if verdict != at.MAY_START:
            give_spare(sim, site, job)
            _pass_over(sim, slot)
            continue
        use_extra_procs(sim, site, job)
        release_started(sim, sim.changes, slot)
        start(sim, site, slot, at.READY if rules.depth == at.GREEDY else at.BACKFILLED)
        note_start(sim, job)
        if agent is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
            if site is not None:  # whoever was passed over may find another place now
                _search_from_first(state, queue.searched)
    return 0


@step
def _search_from_first(state: State, which: int) -> None:
    """Search a list for backfills, from its first entry on."""
    queue = state.queue
    queue.searched = which
    queue.after_key = at.FIRST_KEY
    queue.after_tie = at.FIRST_TIE


@step
def _next_candidate(sim: Arrays, site: NodeArrays | None, which: int) -> int:
    """Return the next job of a list that fits next to the head by the estimates, or -1."""
    state = sim.state[0]
    queue = state.queue
    time_left, free = queue.shadow_time - state.clock.now, free_for(state, queue.free)
    return next_candidate(sim, sim.changes, which, free, time_left, queue.extra_procs, site)


@step
def _go_on_with_postponed(
    sim: Arrays, site: NodeArrays | None, changes: Changes | None, reasons: Reasons | None
) -> bool:
    """Search the postponed jobs once no other can be backfilled; return whether one of them fits, or is to be noted."""
    if changes is None:
        return False
    state = sim.state[0]
    queue = state.queue
    if not state.rules.backfills_postponed or queue.searched == at.POSTPONED or queue.n_postponed == 0:
        return False
    queue.after_key = at.FIRST_KEY
    queue.after_tie = at.FIRST_TIE
    if reasons is None:  # noqa: SIM102
        if _next_candidate(sim, site, at.POSTPONED) < 0:
            return False
    sort_postponed(sim)
    _search_from_first(state, at.POSTPONED)
    return True


@step
def _may_be_tried(sim: Arrays, site: NodeArrays | None, slot: int, reasons: Reasons | None) -> bool:
    """Return whether a candidate was not tried in this pass, fits now and keeps the head's reservation and promise."""
    state, job = sim.state[0], sim.jobs_now[slot]
    if site is not None:
        if slot == state.queue.head or job.tried_in_pass == state.clock.n_passes:
            return False
        rule = verdict_beside_head(sim, site, slot)
        if reasons is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
            if rule != why.STARTS:
                note_behind(reasons, sim, site, slot, rule)
        return rule == why.STARTS
    untried = job.tried_in_pass != state.clock.n_passes and job.procs <= free_for(state, job.procs)
    if untried and keeps_promise(job, state) and clears(sim, job):
        return True
    if reasons is not None:
        why.note_promise_or_outage(reasons, sim, slot, keeps_promise(job, state))
    return False


@step
def _backfill_from_newcomer(sim: Arrays, site: NodeArrays | None) -> int:
    """Start the one newcomer if it may; then those behind it may find other places than before, and start too."""
    state = sim.state[0]
    queue, slot = state.queue, state.clock.last_queued
    if state.rules.depth == at.NO_BACKFILL:
        return 0
    job = sim.jobs_now[slot]
    refresh(sim, sim.changes, slot)
    if not _may_be_tried(sim, site, slot, None):
        return 0
    queue.searched = queue.candidates
    queue.after_key = candidate_key(job, state)
    queue.after_tie = job.row + 1
    use_extra_procs(sim, site, job)
    start(sim, site, slot, at.BACKFILLED)
    return _backfill(sim, None, site, None)


@step
def _note_head(reasons: Reasons, sim: Arrays, site: NodeArrays | None) -> None:
    """Note the head, if there is one, before any job behind it."""
    if site is None:
        why.note_head(reasons, sim)
    elif sim.state[0].queue.head >= 0:
        note_behind(reasons, sim, site, sim.state[0].queue.head, why.HEAD)


@step
def _note_verdict(reasons: Reasons, sim: Arrays, site: NodeArrays | None, slot: int, verdict: int) -> None:
    """Note that a candidate starts, or what the gate or the nodes have against it."""
    if site is None:
        why.note_verdict(reasons, sim, slot, verdict)
    else:
        note_behind(reasons, sim, site, slot, why.STARTS if verdict == at.MAY_START else why.GATE)


@step
def _pass_over(sim: Arrays, slot: int) -> None:
    """Search on behind the candidate just tried."""
    sim.state[0].queue.after_tie += 1
    move_group_on(sim, sim.changes, slot)


@rare
def _look_ahead(sim: Arrays, site: NodeArrays | None) -> None:
    """Find the shadow time of a head that holds no reservation, for the notes; the run goes on unchanged."""
    queue = sim.state[0].queue
    head, stale = sim.jobs_now[queue.head], queue.stale
    has_reservation = head.has_reservation
    queue.stale = True
    reserve_head(sim, site)
    queue.stale = stale
    head.has_reservation = has_reservation


@rare
def _next_and_note(reasons: Reasons, sim: Arrays, site: NodeArrays | None) -> int:
    """Return the next job of the list searched that fits next to the head, or -1; note why those before do not."""
    state = sim.state[0]
    queue = state.queue
    key, tie = queue.after_key, queue.after_tie
    while True:
        slot = slot_from(sim.lists, state, queue.searched, key, tie)
        if slot < 0:
            return -1
        job = sim.jobs_now[slot]
        refresh(sim, sim.changes, slot)
        key, tie = candidate_key(job, state), job.row + 1
        if slot == queue.head or job.tried_in_pass == state.clock.n_passes:
            continue
        if site is not None:
            return slot
        if fits_beside_head(job, state):
            return slot
        if job.procs > queue.free:
            why.note_behind(reasons, sim, slot, why.PROCESSORS)
        elif job.procs > free_for(state, job.procs):
            why.note_behind(reasons, sim, slot, why.CEILING)
        else:
            why.note_behind(reasons, sim, slot, why.DELAYS_HEAD)
