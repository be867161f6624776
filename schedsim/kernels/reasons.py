"""Reasons: what happens to each waiting job in a pass, noted by the pass itself for an explanation.

The kernels take `reasons`, a record for each of `jobs_now` (and one more, whose `number` counts the notes), or None.
For None numba leaves the notes out of the machine code: a simulation that records no reasons pays nothing. With records
a pass looks at every waiting job in turn instead of searching for those that may start, and decides the same.
"""

from typing import Any, Final

import numpy as np

import schedsim.kernels.records as at
from predictors.core.jit import step
from schedsim.kernels.ordered_lists import slot_from
from schedsim.kernels.profile import conflict, free_for, shortage
from schedsim.kernels.queue import candidate_key, refresh
from schedsim.kernels.records import Arrays, Records, record_type


class Reason:
    """What happened to a waiting job; times in seconds, NEVER where a field says nothing."""

    rule: int  # below; 0: nothing is noted
    row: int
    free: int  # processors free when the job's turn came
    room: int  # how many of them it might use under a ceiling on utilisation; or of its node set
    head: int  # row of the job that headed the queue blocked, or -1
    shadow: int  # when that one can start; for a promise, its guaranteed start; for a node set, when its share suffices
    extra: int  # processors free next to it then
    planned: int  # start of the job's own reservation
    collides: int  # when it would run into reservations, of other jobs or of the machine
    booked: int  # from when on the pass has taken processors for it out of the profile
    known: int  # bookings noted by a smaller number than this were in the profile
    due: int  # when a postponed job joins the queue at the latest
    estimate: int  # by which it was asked whether the job may start [s]
    number: int  # of this note
    place: int  # in the window that an agent picked the job from, from 1 on; 0: none has picked it
    choices: int  # jobs in that window
    score: float  # of the job, where the agent scores
    free_gpus: (
        int  # on the nodes that the job may use, where nodes have several resources; `free` then is of these, too
    )
    free_memory: int  # likewise [KB]
    lacking: int  # resources that it lacks then, as bits, see `nodes.records`; NEVER: it has a place


Reasons = Records[Reason]
REASON: Final = record_type(Reason)

# rules
STARTS: Final = 1
HEAD: Final = 2
PROCESSORS: Final = 3
NO_PLACE: Final = 4
TURN: Final = 5
DELAYS_HEAD: Final = 6
PROMISE: Final = 7
RESERVATION: Final = 8
GATE: Final = 9
NOT_CHOSEN: Final = 10
WINDOW: Final = 11
CEILING: Final = 12
POSTPONED: Final = 13
SHARE: Final = 14
OUTAGE: Final = 15
RESOURCES: Final = 16


def no_reasons(slots: int) -> Reasons:
    """Return room for the reasons of so many records."""
    room: Any = np.zeros(slots + 1, dtype=REASON)
    return room  # type: ignore[no-any-return]


@step
def note(reasons: Reasons, sim: Arrays, slot: int, rule: int) -> None:
    """Note what happens to a job in the queue's order, or by a rule that does not concern the head."""
    refresh(sim, sim.changes, slot)
    one, last = reasons[slot], reasons[len(reasons) - 1]
    job, state = sim.jobs_now[slot], sim.state[0]
    last.number += 1
    one.rule = rule
    one.row = job.row
    one.free = state.queue.free
    one.room = free_for(state, job.procs)
    one.head = -1
    one.shadow = at.NEVER
    one.extra = at.NEVER
    one.planned = at.NEVER
    one.collides = at.NEVER
    one.booked = at.NEVER
    one.known = at.NEVER
    one.due = job.release_time
    one.estimate = job.candidate_estimate
    one.number = last.number
    if state.clock.picked == slot:
        one.place = state.clock.picked_place
        one.choices = state.clock.picked_of
        one.score = state.clock.picked_score


@step
def note_behind(reasons: Reasons, sim: Arrays, slot: int, rule: int) -> None:
    """Note what happens to a job behind the head, if there is one."""
    note(reasons, sim, slot, rule)
    state, one = sim.state[0], reasons[slot]
    queue = state.queue
    if queue.head >= 0:
        one.head = sim.jobs_now[queue.head].row
        one.shadow = queue.shadow_time
        if not state.rules.placed and queue.shadow_time != at.NEVER:
            one.extra = queue.extra_procs
        if rule != STARTS and sim.jobs_now[slot].release_time != at.NEVER:
            one.rule = POSTPONED


@step
def note_head(reasons: Reasons, sim: Arrays) -> None:
    """Note the head, before any job behind it."""
    queue = sim.state[0].queue
    if queue.head < 0 or queue.after_key != at.FIRST_KEY or queue.after_tie != at.FIRST_TIE:
        return
    if reasons[queue.head].rule == HEAD:  # noted before the client was asked
        return
    note_behind(reasons, sim, queue.head, HEAD)
    if sim.jobs_now[queue.head].procs <= queue.free:
        reasons[queue.head].collides = _date_hit(sim, queue.head)


@step
def _date_hit(sim: Arrays, slot: int) -> int:
    """Return when a job that starts now would run into a reservation of the machine, or NEVER."""
    job = sim.jobs_now[slot]
    return (
        conflict(sim, sim.state[0].clock.now, job.procs, job.requested_time) if sim.state[0].rules.dated else at.NEVER
    )


@step
def note_turns(reasons: Reasons, sim: Arrays) -> None:
    """Note that no job passes the head."""
    state = sim.state[0]
    key, tie = at.FIRST_KEY, at.FIRST_TIE
    while True:
        slot = slot_from(sim.lists, state, at.QUEUE, key, tie)
        if slot < 0:
            return
        job = sim.jobs_now[slot]
        key, tie = job.keys[at.QUEUE], job.row + 1
        if slot != state.queue.head and job.tried_in_pass != state.clock.n_passes:
            note_behind(reasons, sim, slot, TURN)
            reasons[slot].extra = at.NEVER


@step
def note_promise(reasons: Reasons, sim: Arrays, slot: int) -> None:
    """Note that a job would break the head's promise."""
    queue = sim.state[0].queue
    note_behind(reasons, sim, slot, PROMISE)
    reasons[slot].shadow = queue.guaranteed_start
    reasons[slot].extra = queue.extra_at_promise


@step
def note_promise_or_outage(reasons: Reasons, sim: Arrays, slot: int, keeps_promise: bool) -> None:
    """Note that a job would break the head's promise, or run into a reservation of the machine."""
    if keeps_promise:
        note_behind(reasons, sim, slot, OUTAGE)
        reasons[slot].collides = _date_hit(sim, slot)
    else:
        note_promise(reasons, sim, slot)


@step
def note_share(reasons: Reasons, sim: Arrays, slot: int) -> None:
    """Note that a job must wait for its node set."""
    note(reasons, sim, slot, SHARE)
    one, own = reasons[slot], sim.changes.sets[sim.jobs_now[slot].node_set]
    one.room = own.limit - own.used
    one.shadow = own.shadow_time
    one.extra = own.extra_procs


@step
def note_verdict(reasons: Reasons, sim: Arrays, slot: int, verdict: int) -> None:
    """Note that a candidate starts, or what the gate or the nodes have against it."""
    if verdict == at.MAY_START:
        note_behind(reasons, sim, slot, STARTS)
    elif verdict == at.HELD:
        note(reasons, sim, slot, GATE)
    elif verdict == at.NO_PLACE:
        note_behind(reasons, sim, slot, NO_PLACE)
    else:
        note_behind(reasons, sim, slot, DELAYS_HEAD)


@step
def note_postponed(reasons: Reasons, sim: Arrays) -> None:
    """Note the postponed jobs that the pass has not examined."""
    state = sim.state[0]
    key, tie = at.FIRST_KEY, at.FIRST_TIE
    while state.queue.n_postponed > 0:
        slot = slot_from(sim.lists, state, at.POSTPONED, key, tie)
        if slot < 0:
            return
        job = sim.jobs_now[slot]
        key, tie = candidate_key(job, state), job.row + 1
        if reasons[slot].rule == 0:
            note(reasons, sim, slot, POSTPONED)
            reasons[slot].room = reasons[slot].lacking = at.NEVER


@step
def note_choice(reasons: Reasons, sim: Arrays) -> None:
    """Note, before the first choice of an instant, which jobs cannot be chosen; others were not, unless they start."""
    state = sim.state[0]
    queue = state.queue
    key, tie, place = at.FIRST_KEY, at.FIRST_TIE, 0
    while queue.n_queued > 0:
        slot = slot_from(sim.lists, state, at.QUEUE, key, tie)
        if slot < 0:
            return
        job, one = sim.jobs_now[slot], reasons[slot]
        key, tie = job.keys[at.QUEUE], job.row + 1
        place += 1
        if one.rule != 0:
            continue
        note(reasons, sim, slot, NOT_CHOSEN if place <= state.rules.window else WINDOW)
        if job.procs > queue.free:
            one.rule = PROCESSORS
        elif _date_hit(sim, slot) != at.NEVER:
            one.rule = OUTAGE
            one.collides = _date_hit(sim, slot)


@step
def note_planned(reasons: Reasons, sim: Arrays, slot: int, rule: int) -> None:
    """Note what happens to a job planned behind the head, with the processors free next to it before this pass."""
    note_behind(reasons, sim, slot, rule)
    if sim.state[0].queue.head >= 0:
        reasons[slot].extra = reasons[sim.state[0].queue.head].extra


@step
def note_reservation(reasons: Reasons, sim: Arrays, slot: int) -> None:
    """Note what in the profile keeps a job, which holds no processors there, from starting now."""
    note_planned(reasons, sim, slot, RESERVATION)
    job, one, now = sim.jobs_now[slot], reasons[slot], sim.state[0].clock.now
    one.known = one.number
    one.collides = shortage(sim, now, job.procs, job.candidate_estimate)
    if one.collides == now:
        one.rule = PROCESSORS
        one.collides = at.NEVER
    elif _date_hit(sim, slot) != at.NEVER and _date_hit(sim, slot) <= one.collides:
        one.rule = OUTAGE
        one.collides = _date_hit(sim, slot)


@step
def note_booking(reasons: Reasons, sim: Arrays, slot: int) -> None:
    """Note what a job has taken of the profile: from its reservation on, or, if it starts, from now on."""
    job, one = sim.jobs_now[slot], reasons[slot]
    if one.rule != STARTS:
        one.planned = job.planned_start
        one.booked = job.planned_start
    elif job.run_time > 0:
        one.booked = sim.state[0].clock.now
