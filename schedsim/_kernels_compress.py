"""The scheduling pass of conservative backfilling that keeps reservations.

Every waiting job holds a reservation. Once given it moves later only when corrected estimates of running jobs make it
impossible; at an instant with ends, each waiting job in the queue's order is taken out of the plan and put back at the
earliest hole, the others' reservations staying. A job whose reservation was overlooked, since nothing happened at its
second, is due now.
"""

import numpy as np
import numpy.typing as npt

import schedsim._kernels_layout as at
from predictors.data.compiled import lean, step
from schedsim._kernels_instant import again, start, until_pass
from schedsim._kernels_lookup import list_slots
from schedsim._kernels_plan import book, earliest, is_free, plan_running

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@lean
def run(jobs: Ints, seconds: Floats, live: Ints, blocks: Ints, clock: Ints, log: Ints, notes: Ints, plan: Ints) -> int:
    """Go on until a pause; return its reason (see `_kernels_layout`)."""
    while True:
        stop = until_pass(jobs, seconds, live, blocks, clock, log, notes)
        if stop != at.PASS_IS_DUE:
            return stop
        n = list_slots(live, blocks, clock, at.QUEUE, clock[at.N_QUEUED])
        plan_running(blocks, clock, plan)
        _keep(live, clock, plan, n)
        _improve(live, clock, plan, n)
        _start_due(jobs, live, blocks, clock, log, notes, n)
        clock[at.PHASE] = again(clock)


@step
def _keep(live: Ints, clock: Ints, plan: Ints, n: int) -> None:
    """Book the reservations that are still possible where they were, then the others at the earliest hole."""
    doubtful = clock[at.CAUSE] & at.CORRECTED != 0 or clock[at.SEVERAL] == 1 or clock[at.DATED] == 1
    for i in range(n):
        doubtful |= live[live[i, at.SORTED], at.PLANNED] < clock[at.NOW]
    for i in range(n):
        slot = live[i, at.SORTED]
        if live[slot, at.PLANNED] == at.NEVER:
            continue
        planned = max(live[slot, at.PLANNED], clock[at.NOW])
        width, length, limit = live[slot, at.WIDTH], live[slot, at.CANDIDATE], live[slot, at.LIMIT]
        if doubtful and not is_free(clock, plan, planned, width, length, limit):
            live[slot, at.PLANNED] = at.DISPLACED
        else:
            live[slot, at.PLANNED] = planned
            book(clock, plan, planned, width, length, limit)
    if doubtful:
        for i in range(n):
            slot = live[i, at.SORTED]
            if live[slot, at.PLANNED] == at.DISPLACED:
                _book_earliest(live, clock, plan, slot)


@step
def _book_earliest(live: Ints, clock: Ints, plan: Ints, slot: int) -> None:
    width, length, limit = live[slot, at.WIDTH], live[slot, at.CANDIDATE], live[slot, at.LIMIT]
    live[slot, at.PLANNED] = earliest(clock, plan, width, length, limit)
    book(clock, plan, live[slot, at.PLANNED], width, length, limit)


@step
def _improve(live: Ints, clock: Ints, plan: Ints, n: int) -> None:
    """Give newcomers their reservation and, if a job ended now, bring the others forward; in the queue's order.

    So is it if processors came back otherwise, which only timers can do.
    """
    ended = clock[at.CAUSE] & (at.BY_END | (at.BY_TIMER if clock[at.DATED] == 1 else 0))
    for i in range(n):
        slot = live[i, at.SORTED]
        if live[slot, at.PLANNED] == at.NEVER:
            _book_earliest(live, clock, plan, slot)
        elif ended and live[slot, at.PLANNED] > clock[at.NOW]:
            length, limit = live[slot, at.CANDIDATE], live[slot, at.LIMIT]
            book(clock, plan, live[slot, at.PLANNED], -live[slot, at.WIDTH], length, limit)
            _book_earliest(live, clock, plan, slot)


@step
def _start_due(jobs: Ints, live: Ints, blocks: Ints, clock: Ints, log: Ints, notes: Ints, n: int) -> None:
    """Start the jobs whose reservation is due."""
    passed = False
    for i in range(n):
        slot = live[i, at.SORTED]
        if live[slot, at.PLANNED] > clock[at.NOW]:
            passed = True
            live[slot, at.RESERVED] = 1
        else:
            how = at.BY_RESERVATION if live[slot, at.RESERVED] == 1 else at.READY
            start(jobs, live, blocks, clock, log, notes, slot, at.BACKFILLED if passed else how)
