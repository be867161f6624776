"""The scheduling pass of policies with no or one reservation, where only numbers of processors matter.

Jobs start in the queue's order until one is blocked: the head. It is promised its shadow time, the earliest second at
which by the estimates of the running jobs it fits; extra processors are those free then beside it (Mu'alem &
Feitelson, IEEE TPDS 12(6), 2001, doi:10.1109/71.932708). The jobs behind it, in the backfill order, start if they fit
now and either end by the shadow time or need no more than the extra ones, which they then use up. After them,
postponed jobs may start likewise (see `postponed`). Under a ceiling on utilisation, jobs fit into fewer processors than
are free (see `reservation.free_for`).

Does not handle several reservations, or nodes with identities.
"""

import schedsim.kernels.reasons as why
import schedsim.kernels.records as at
from predictors.core.jit import lean, rare, step
from schedsim.kernels.agents.networks import choices_are_short, update_is_due
from schedsim.kernels.agents.observation import ask_for_pick
from schedsim.kernels.agents.picks import is_asked, pick_backfill, take_answer
from schedsim.kernels.cobalt import set_allows
from schedsim.kernels.instant import until_pass
from schedsim.kernels.ordered_lists import slot_from
from schedsim.kernels.postponed import release, release_if_idle
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
from schedsim.kernels.records import Arrays, Estimates, JobNow, State
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
def run(sim: Arrays, estimates: Estimates, reasons: Reasons | None) -> int:
    """Go on until a pause; return why (see `records`). With `reasons` the passes note what becomes of each job."""
    state = sim.state[0]
    state.tries_newcomers = reasons is None and tries_newcomers(state)
    while True:
        if state.learns and state.phase == at.AT_ADVANCE and update_is_due(state):
            return at.ASK_LEARNER
        if state.phase < at.AT_PASS:
            stop = until_pass(sim, estimates)
            if stop != at.PASS_IS_DUE:
                return stop
            if start_newcomer(sim) or (nothing_changed(sim) and reasons is None):
                state.phase = _next_phase(sim)
                continue
            if state.dated:
                read_dates(sim)
        if state.learns and choices_are_short(sim):
            return at.GROW_CHOICES
        stop = _pass(sim, reasons)
        if stop != 0:
            return stop
        if state.first_moved >= 0:
            move_groups_back(sim)
        if reasons is not None:
            why.note_postponed(reasons, sim)
        state.phase = _next_phase(sim)


@step
def _next_phase(sim: Arrays) -> int:
    """Return the phase after a pass: another pass, if postponed jobs have joined the queue after it.

    That pass looks at every job anew, also at those that the first has passed over.
    """
    state = sim.state[0]
    if state.release_looks & at.AFTER != 0 and release_if_idle(sim):
        state.n_passes += 1
        return at.AT_ORDER
    return at.AT_ADVANCE


@step
def _pass(sim: Arrays, reasons: Reasons | None) -> int:
    """Start what may start now; return 0, or the reason of a pause."""
    state = sim.state[0]
    if state.phase == at.AT_PASS:  # else this pass goes on where it stopped to ask
        state.node_set_waits = False
        state.picked = -1
        if reasons is not None:  # noqa: SIM102 - of longer conditions numba would compile both branches
            if state.agent != at.NO_AGENT:
                why.note_choice(reasons, sim)
        if state.depth == at.GREEDY:
            state.head = -1
            state.shadow_time = at.NEVER
        else:
            stop = start_in_order(sim, reasons)
            if stop != 0:
                return stop
            if state.head < 0:
                return 0
            if state.depth == at.NO_BACKFILL:
                if reasons is None:
                    return 0
                _look_ahead(sim)
            else:
                reserve_head(sim)
        _search_from_first(state, state.candidates)
        state.phase = at.AT_BACKFILL
        if state.placed and state.head >= 0:
            return at.ASK_SHADOW
    return _backfill(sim, reasons)


@step
def _backfill(sim: Arrays, reasons: Reasons | None) -> int:
    """Start the jobs behind the head, in the backfill order, that do not delay it; return 0, or a pause's reason."""
    state = sim.state[0]
    if reasons is not None:
        why.note_head(reasons, sim)
        if state.depth == at.NO_BACKFILL:
            why.note_turns(reasons, sim)
            return 0
    while state.free > 0 or reasons is not None:
        if reasons is None:  # noqa: SIM108
            slot = _next_candidate(sim, state.searched)
        else:
            slot = _next_and_note(reasons, sim)
        if slot < 0:
            if not _go_on_with_postponed(sim, reasons):
                return 0
            continue
        job = sim.jobs_now[slot]
        refresh(sim, slot)
        state.after_key = key_as_candidate(sim, job)
        state.after_tie = job.row
        if not _may_be_tried(job, state) or not clears(sim, job):
            if reasons is not None:
                why.note_promise_or_outage(reasons, sim, slot, keeps_promise(job, state))
            _pass_over(sim, slot)
            continue
        if state.agent != at.NO_AGENT:  # it picks among this one and those behind it
            if not is_asked(state):
                slot = pick_backfill(sim)
            elif state.answer == at.NOT_ANSWERED:
                state.asked_about = 2
                return ask_for_pick(sim)
            else:
                slot = take_answer(state)
            if slot < 0:
                return 0
            job = sim.jobs_now[slot]
        if state.n_node_sets > 0 and not set_allows(sim, job):
            if reasons is not None:
                why.note_share(reasons, sim, slot)
            _pass_over(sim, slot)
            continue
        verdict = verdict_on(job, state, slot)
        if verdict == at.NOT_ASKED:
            return at.ASK_GATE
        if reasons is not None:
            why.note_verdict(reasons, sim, slot, verdict)
        if verdict != at.MAY_START:
            _pass_over(sim, slot)
            continue
        use_extra_procs(job, state)
        if job.release_time != at.NEVER:
            release(sim, slot)
        start(sim, slot, at.READY if state.depth == at.GREEDY else at.BACKFILLED)
        note_start(sim, job)
    return 0


@step
def _search_from_first(state: State, which: int) -> None:
    """Search a list for backfills, from its first entry on."""
    state.searched = which
    state.after_key = at.FIRST_KEY
    state.after_tie = at.FIRST_TIE


@step
def _next_candidate(sim: Arrays, which: int) -> int:
    """Return the next job of a list that fits beside the head by the estimates, or -1."""
    state = sim.state[0]
    time_left, free = state.shadow_time - state.now, free_for(state, state.free)
    return next_candidate(sim, which, free, time_left, state.extra_procs)


@step
def _go_on_with_postponed(sim: Arrays, reasons: Reasons | None) -> bool:
    """Search the postponed jobs once no other can be backfilled; return whether one of them fits, or is to be noted."""
    state = sim.state[0]
    if not state.backfills_postponed or state.searched == at.POSTPONED or state.n_postponed == 0:
        return False
    state.after_key = at.FIRST_KEY
    state.after_tie = at.FIRST_TIE
    if reasons is None:  # noqa: SIM102
        if _next_candidate(sim, at.POSTPONED) < 0:
            return False
    sort_postponed(sim)
    _search_from_first(state, at.POSTPONED)
    return True


@step
def _may_be_tried(job: JobNow, state: State) -> bool:
    """Return whether a candidate was not tried in this pass, stays below the ceiling and keeps the head's promise."""
    if job.tried_in_pass == state.n_passes or job.procs > free_for(state, job.procs):
        return False
    return keeps_promise(job, state)


@step
def _pass_over(sim: Arrays, slot: int) -> None:
    """Search on behind the candidate just tried."""
    state = sim.state[0]
    state.after_tie += 1
    if state.candidates == at.GROUPED and sim.jobs_now[slot].tried_in_pass == state.n_passes:
        move_group_on(sim, slot)


@rare
def _look_ahead(sim: Arrays) -> None:
    """Find the shadow time of a head that holds no reservation, for the notes; the run goes on unchanged."""
    state = sim.state[0]
    head, stale = sim.jobs_now[state.head], state.stale
    has_reservation = head.has_reservation
    state.stale = True
    reserve_head(sim)
    state.stale = stale
    head.has_reservation = has_reservation


@rare
def _next_and_note(reasons: Reasons, sim: Arrays) -> int:
    """Return the next job of the list searched that fits beside the head, or -1; note why those before do not."""
    state = sim.state[0]
    key, tie = state.after_key, state.after_tie
    while True:
        slot = slot_from(sim.lists, state, state.searched, key, tie)
        if slot < 0:
            return -1
        job = sim.jobs_now[slot]
        refresh(sim, slot)
        key, tie = candidate_key(job, state), job.row + 1
        if slot == state.head or job.tried_in_pass == state.n_passes:
            continue
        if fits_beside_head(job, state):
            return slot
        if job.procs > state.free:
            why.note_behind(reasons, sim, slot, why.PROCESSORS)
        elif job.procs > free_for(state, job.procs):
            why.note_behind(reasons, sim, slot, why.CEILING)
        else:
            why.note_behind(reasons, sim, slot, why.DELAYS_HEAD)
