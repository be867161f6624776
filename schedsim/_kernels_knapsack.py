"""The scheduling pass that starts the most valuable set of jobs that fits: a 0-1 knapsack over the front of the queue.

The window is the first jobs of the queue. What a job is worth: `capability` one third of wait / longest wait in the
window plus two thirds of its share of the machine; `capacity` 1 / estimate (Fan, Li, Childers et al., Deep
reinforcement agent for scheduling in HPC, IPDPS 2021, doi:10.1109/IPDPS49936.2021.00090). Of equally valuable sets the
one with fewest jobs is taken, of these the one that has the earlier job where two first differ. The best set is found
by dynamic programming over the free processors, again and again until nothing in the window fits.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

import schedsim._kernels_layout as at
from predictors.data.compiled import lean, step
from schedsim._kernels_calendar import clears, note_start, read_dates
from schedsim._kernels_instant import start, until_pass
from schedsim._kernels_lookup import list_slots

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

ROUNDING: Final = 1e-12
"""Sums of worths that differ by no more than this share are equal."""


@lean
def run(jobs: Ints, seconds: Floats, live: Ints, blocks: Ints, clock: Ints, log: Ints, notes: Ints, plan: Ints) -> int:
    """Go on until a pause; return its reason (see `_kernels_layout`). `plan` has a column for each processor."""
    while True:
        stop = until_pass(jobs, seconds, live, blocks, clock, log, notes)
        if stop != at.PASS_IS_DUE:
            return stop
        if clock[at.DATED] == 1:
            read_dates(blocks, clock, plan)
        n = list_slots(live, blocks, clock, at.QUEUE, clock[at.WINDOW])
        chosen = _choose(jobs, live, clock, plan, n)
        for i in range(n):
            if chosen >> i & 1 and clears(live, clock, plan, live[i, at.SORTED]):
                start(jobs, live, blocks, clock, log, notes, live[i, at.SORTED], at.READY)
                note_start(live, clock, plan, live[i, at.SORTED])
        if chosen == 0 or clock[at.N_QUEUED] == 0:
            clock[at.PHASE] = at.AT_ADVANCE


@step
def _choose(jobs: Ints, live: Ints, clock: Ints, plan: Ints, n: int) -> int:
    """Return the jobs to start as a set of bits."""
    total, longest, fitting, unit = 0, 0, 0, 0
    for i in range(n):
        width = live[live[i, at.SORTED], at.WIDTH]
        longest = max(longest, clock[at.NOW] - jobs[live[live[i, at.SORTED], at.ROW], at.SUBMIT])
        if width <= clock[at.FREE] and clears(live, clock, plan, live[i, at.SORTED]):
            total += width
            fitting |= 1 << i
            unit = _divisor(width, unit)
    if fitting == 0 or total <= clock[at.FREE]:
        return fitting
    room = int(clock[at.FREE]) // unit  # all that fit come in multiples of it: the sets are the same, found sooner
    for c in range(room + 1):
        plan[0, c], plan[1, c] = 0, 0
    for i in range(n - 1, -1, -1):  # from the back, so that ties go to the front
        if fitting >> i & 1:
            slot = live[i, at.SORTED]
            wait = clock[at.NOW] - jobs[live[slot, at.ROW], at.SUBMIT]
            _offer(plan, room, i, live[slot, at.WIDTH] // unit, _worth(live, clock, slot, wait, longest))
    return int(plan[1, room]) & ((1 << at.COUNT_BITS) - 1)


@step
def _divisor(a: int, b: int) -> int:
    """Return the greatest common divisor."""
    while b != 0:
        a, b = b, a % b
    return a


@step
def _worth(live: Ints, clock: Ints, slot: int, wait: int, longest: int) -> float:
    """Return what starting a job is worth; the capability reward times three machines times the longest wait."""
    if clock[at.REWARD] == at.CAPACITY:
        return 1.0 / float(live[slot, at.CANDIDATE])
    return float(wait * clock[at.MACHINE] + 2 * live[slot, at.WIDTH] * max(1, longest))


@step
def _offer(plan: Ints, room: int, i: int, width: int, worth: float) -> None:
    """Let each capacity take the i-th job if that is better.

    Row 0 of the plan holds the bits of a capacity's worth, row 1 its set of jobs and, above it, how many they are.
    """
    one = (1 << at.COUNT_BITS) | (1 << i)
    for c in range(room, width - 1, -1):
        before = np.int64(plan[0, c]).view(np.float64)
        after = np.int64(plan[0, c - width]).view(np.float64) + worth
        chosen = plan[1, c - width] + one
        fewer = chosen >> at.COUNT_BITS <= plan[1, c] >> at.COUNT_BITS
        if after > before * (1 + ROUNDING) or (fewer and after >= before * (1 - ROUNDING)):
            plan[0, c] = np.float64(after).view(np.int64)
            plan[1, c] = chosen
