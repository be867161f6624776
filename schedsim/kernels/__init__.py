"""Compiled engine: arrays in, arrays out; imports only predictors.core.

This module exports single steps of the kernels, for the Python code that answers the kernels' requests.
"""

import schedsim.kernels.records as at
from predictors.core.jit import door, lean
from schedsim.kernels import cobalt, keys, ordered_lists, queue, revisions
from schedsim.kernels.agents import observation
from schedsim.kernels.records import Arrays

enqueue = door(queue.enqueue)
dequeue = door(queue.dequeue)
hold = door(cobalt.hold)
release_hold = door(cobalt.release_hold)
dependant = door(cobalt.dependant)
dissolve_groups = door(revisions.dissolve_groups)
list_singly = door(revisions.list_singly)
next_tick = door(keys.next_tick)
answer_place = door(observation.answer_place)
rank = door(revisions.rank)


@lean
def set_timer(sim: Arrays, when: int, kind: int, argument: int, wakes: int) -> None:
    """Set a timer; those of one second fire in the order in which they were set."""
    state = sim.state[0]
    clock = state.clock
    clock.n_timers += 1
    ordered_lists.insert(sim.lists, state, at.TIMERS, when, clock.n_timers, kind, argument, wakes)


@lean
def renew_ends(sim: Arrays) -> None:
    """Sort the running jobs by their ends again."""
    n = ordered_lists.list_slots(sim, at.ENDS, len(sim.jobs_now))
    ordered_lists.clear(sim.lists, sim.state[0], at.ENDS)
    for i in range(n):
        job = sim.jobs_now[sim.scratch[i]]
        ordered_lists.insert(
            sim.lists, sim.state[0], at.ENDS, job.end, queue.end_tie(sim, job), sim.scratch[i], job.procs, 0
        )


@lean
def static_key_of(sim: Arrays, slot: int, kind: int) -> int:
    """Return a job's key in the list QUEUE or BACKFILL, under an order that does not change with time."""
    return queue.static_key_of(sim, sim.jobs_now[slot], kind)


@lean
def score_now(sim: Arrays, slot: int, now: int) -> float:
    """Return the score of a job in the queue, the ticks up to `now` included."""
    return keys.score_at(sim.jobs_now[slot], sim.state[0], now)
