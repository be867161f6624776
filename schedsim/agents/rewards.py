"""The reward of any schedule, to compare rules with agents: what picking each job would have earned.

A rule picks nothing, so each job counts as picked when it starts, in the order of starts. An agent that reserves a job
picks it earlier, so that its own sum differs. Compare only sums of the same kind.
"""

import numpy as np

from predictors.core.arrays import Floats, Ints
from predictors.core.jit import compiled
from schedsim.engine.learning import EQUATIONS, Reward
from schedsim.kernels.records import EQUATION_1, NO_REWARD
from schedsim.results.schedule import Schedule


def schedule_reward(
    schedule: Schedule,
    reward: Reward,  # the reward of a pick; here it is never shuffled
    estimates: Ints | None = None,  # shape (n_jobs,); of the jobs [s], for equation 2; by default the requested times
) -> float:
    """Return the sum of what picking each job at its start would have earned.

    Two jobs start at once on a machine of 8, with 4 and then 8 processors in use; no job waits:

    >>> from schedsim.engine.simulation import simulate
    >>> from schedsim.policies.policy import make_policy
    >>> from schedsim.workload.workload import Workload
    >>> w = Workload.from_columns([1, 2], submit=[0, 0], procs=[4, 4], requested=[9, 9], run_time=[9, 9],
    ...                           machine_procs=8)
    >>> round(schedule_reward(simulate(w, make_policy("easy")), Reward()) * 3, 6)
    2.5
    """
    workload = schedule.workload
    lengths = workload.requested if estimates is None else np.asarray(estimates, np.int64)
    starts = np.argsort(schedule.start, kind="stable")
    ends = np.argsort(schedule.end, kind="stable")
    code = EQUATIONS[reward.equation]
    if code == NO_REWARD:
        return 0.0
    out = np.zeros(len(workload))
    fill_rewards(
        workload.submit, workload.procs, lengths, schedule.start, schedule.end, starts, ends, workload.machine_procs,
        code == EQUATION_1, np.array(reward.shares, np.float64), reward.least_wait, out,
    )  # fmt: skip
    return float(out.sum())


@compiled
def fill_rewards(
    submit: Ints, procs: Ints, lengths: Ints, start: Ints, end: Ints, starts: Ints, ends: Ints, machine: int,
    by_capability: bool, shares: Floats, least_wait: int, out: Floats,
) -> None:  # fmt: skip
    """Write the reward of each start, in the order of starts."""
    n = len(submit)
    begun = np.zeros(n, np.bool_)
    submitted = ended = oldest = waiting = used = 0
    rates = 0.0
    for i in range(n):
        job = starts[i]
        now = start[job]
        while submitted < n and submit[submitted] <= now:
            rates += 1 / lengths[submitted]
            waiting += 1
            submitted += 1
        while ended < n and end[ends[ended]] <= now:
            if begun[ends[ended]]:
                used -= procs[ends[ended]]
            ended += 1
        while begun[oldest]:
            oldest += 1
        longest = max(now - submit[oldest], least_wait)
        begun[job] = True
        rates -= 1 / lengths[job]
        waiting -= 1
        if by_capability:
            total = shares[1] * procs[job] / machine + shares[2] * (used + procs[job]) / machine
            if longest > 0:
                total += shares[0] * (now - submit[job]) / longest
            out[job] = total
        elif waiting > 0:
            out[job] = -3600.0 * rates / waiting
        if end[job] > now:
            used += procs[job]
