"""The scheduling pass that starts the most valuable set of jobs that fits: a 0-1 knapsack over the front of the queue.

The window is the first jobs of the queue. The worth of a job is, for `capability`, one third of wait / longest wait in
the window plus two thirds of its share of the machine; for `capacity`, 1 / estimate (Fan, Li, Childers et al., Deep
reinforcement agent for scheduling in HPC, IPDPS 2021, doi:10.1109/IPDPS49936.2021.00090). Of equally valuable sets it
takes the one with fewest jobs, of these the one that has the earlier job where two first differ. Dynamic programming
over the free processors finds the best set, again and again until nothing in the window fits.

The two rewards with means are the paper's as printed: mean wait over the longest, plus the mean share of the machine,
plus the share in use; and minus the mean of 1 / estimate over the jobs of the window that are left. A mean is no sum of
its jobs' worths; but among the sets of so many jobs with so many processors the greatest sum has the greatest mean, so
the programme goes over both numbers.
"""

from typing import Final

import schedsim.kernels.reasons as why
import schedsim.kernels.records as at
from predictors.core.jit import lean, step
from schedsim.kernels.instant import until_pass
from schedsim.kernels.ordered_lists import list_slots
from schedsim.kernels.profile import clears, note_start, read_dates
from schedsim.kernels.reasons import Reasons
from schedsim.kernels.records import Arrays, Capacity, Estimates, JobNow, Records, State
from schedsim.kernels.start_end import start

ROUNDING: Final = 1e-12
"""Sums of worths that differ by no more than this share are equal."""


@lean
def run(sim: Arrays, estimates: Estimates, reasons: Reasons | None) -> int:
    """Go on until a pause; return why (see `records`). With `reasons` the passes note what becomes of each job."""
    state = sim.state[0]
    rules = state.rules
    while True:
        stop = until_pass(sim, None, estimates)
        if stop != at.PASS_IS_DUE:
            return stop
        if rules.dated:
            read_dates(sim)
        if reasons is not None:
            why.note_choice(reasons, sim)
        n = list_slots(sim, at.QUEUE, rules.window)
        chosen = _choose(sim, n)
        for i in range(n):
            job = sim.jobs_now[sim.scratch[i]]
            if chosen >> i & 1 and clears(sim, job):
                if reasons is not None:
                    reasons[sim.scratch[i]].rule = why.STARTS
                start(sim, None, sim.scratch[i], at.READY)
                note_start(sim, job)
        if chosen == 0 or state.queue.n_queued == 0:
            state.clock.phase = at.AT_ADVANCE


@step
def _choose(sim: Arrays, n: int) -> int:
    """Return the jobs to start as a set of bits."""
    state, best = sim.state[0], sim.capacities
    clock, queue = state.clock, state.queue
    total, longest, fitting, unit = 0, 0, 0, 0
    for i in range(n):
        job = sim.jobs_now[sim.scratch[i]]
        longest = max(longest, clock.now - sim.jobs[job.row].submit)
        if job.procs <= queue.free and clears(sim, job):
            total += job.procs
            fitting |= 1 << i
            unit = _divisor(job.procs, unit)
    by_mean = state.rules.reward >= at.CAPABILITY_MEAN
    if fitting == 0 or (total <= queue.free and not by_mean):  # of means a part may be better than all
        return fitting
    room = queue.free // unit  # all that fit come in multiples of it: the sets are the same, found sooner
    if by_mean:
        return _choose_by_mean(sim, n, fitting, room, unit, longest)
    for c in range(room + 1):
        best[c].worth = 0.0
        best[c].chosen = 0
    for i in range(n - 1, -1, -1):  # from the back, so that ties go to the front
        if fitting >> i & 1:
            job = sim.jobs_now[sim.scratch[i]]
            wait = clock.now - sim.jobs[job.row].submit
            _offer(best, room, i, job.procs // unit, _worth(job, state, wait, longest))
    return best[room].chosen & ((1 << at.COUNT_BITS) - 1)


@step
def _choose_by_mean(sim: Arrays, n: int, fitting: int, room: int, unit: int, longest: int) -> int:
    """Return the jobs to start as a set of bits, by a reward with means; see `_choose`.

    `best[k * (room + 1) + c]` is the greatest sum of k jobs that use exactly c times `unit` processors; -1: none do.
    """
    state, best, width = sim.state[0], sim.capacities, room + 1
    rules = state.rules
    capability = rules.reward == at.CAPABILITY_MEAN
    most, rates = 0, 0.0
    for i in range(n):
        most += fitting >> i & 1
        rates += 1.0 / float(sim.jobs_now[sim.scratch[i]].candidate_estimate)
    for cell in range((most + 1) * width):
        best[cell].worth = -1.0
        best[cell].chosen = 0
    best[0].worth = 0.0
    for i in range(n - 1, -1, -1):  # from the back, so that ties go to the front
        if fitting >> i & 1:
            job = sim.jobs_now[sim.scratch[i]]
            wait = state.clock.now - sim.jobs[job.row].submit
            worth = 1.0 / float(job.candidate_estimate)
            if capability:
                worth = float(wait * rules.machine_procs + job.procs * max(1, longest))
            procs = job.procs // unit
            for k in range(most, 0, -1):
                for c in range(room, procs - 1, -1):
                    before = best[(k - 1) * width + c - procs]
                    here = k * width + c
                    if before.worth >= 0.0 and before.worth + worth >= best[here].worth * (1 - ROUNDING):
                        best[here].worth = before.worth + worth
                        best[here].chosen = before.chosen | (1 << i)
    chosen, greatest = 0, 0.0
    for k in range(1, most + 1):
        for c in range(width):
            one = best[k * width + c]
            if one.worth < 0.0:
                continue
            if capability:
                value = one.worth / k + float(c * unit) * max(1, longest)
            else:
                value = (one.worth - rates) / (n - k) if k < n else 0.0
            near = ROUNDING * max(abs(value), abs(greatest))
            if chosen == 0 or value > greatest + near:
                chosen, greatest = one.chosen, value
            elif value >= greatest - near and _foremost(one.chosen, chosen):
                chosen = one.chosen
    return chosen


@step
def _foremost(a: int, b: int) -> bool:
    """Return whether of two sets the first is smaller, or as large and has the earlier job where they first differ."""
    sizes = 0
    for i in range(at.COUNT_BITS):
        sizes += (a >> i & 1) - (b >> i & 1)
    differ = a ^ b
    return sizes < 0 or (sizes == 0 and (a & differ & -differ) != 0)


@step
def _divisor(a: int, b: int) -> int:
    """Return the greatest common divisor."""
    while b != 0:
        a, b = b, a % b
    return a


@step
def _worth(job: JobNow, state: State, wait: int, longest: int) -> float:
    """Return the worth of starting a job; the capability reward times three machines times the longest wait."""
    rules = state.rules
    if rules.reward == at.CAPACITY:
        return 1.0 / float(job.candidate_estimate)
    return float(wait * rules.machine_procs + 2 * job.procs * max(1, longest))


@step
def _offer(best: Records[Capacity], room: int, i: int, procs: int, worth: float) -> None:
    """Let each capacity take the i-th job if that is better."""
    one = (1 << at.COUNT_BITS) | (1 << i)
    for c in range(room, procs - 1, -1):
        before, after = best[c].worth, best[c - procs].worth + worth
        chosen = best[c - procs].chosen + one
        fewer = chosen >> at.COUNT_BITS <= best[c].chosen >> at.COUNT_BITS
        if after > before * (1 + ROUNDING) or (fewer and after >= before * (1 - ROUNDING)):
            best[c].worth = after
            best[c].chosen = chosen
