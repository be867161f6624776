"""Training of the pooled network by REINFORCE, with rollouts of the same state and a baseline at the same second.

An update draws an episode of the training part and begins it several times, as forks of one warm state, with picks
drawn by the softmax of the scores. The worth of a pick is the cost of its rollout from then on, relative to the mean
cost of the other rollouts from that second on: all meet the same arrivals, so that the chance of the load cancels (Mao
et al.'s input-dependent baseline [2]_). The weights climb by Adam.

A rollout costs what jobs wait: by the second, by the second and 1 / run time, and the widest 5 % once more, each
relative to what EASY makes of the training part, as the objective says.

.. [1] Williams. Simple statistical gradient-following algorithms for connectionist reinforcement learning. Machine
   Learning 8, 1992. doi:10.1007/BF00992696
.. [2] Mao, Venkatakrishnan, Schwarzkopf, Alizadeh. Variance reduction for reinforcement learning in input-driven
   environments. ICLR 2019. arXiv:1807.02264
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from experiments.site.tune.search import BASE, Objective, Search, variant
from predictors.core.arrays import Bools, Floats, Ints
from predictors.core.hash_random import unit
from predictors.data.joblog import JobLog
from schedsim.agents.gradients import Adam
from schedsim.agents.pooled_gradients import PooledBatch, first_pooled
from schedsim.engine.simulation import simulate
from schedsim.gym.batch import HOUR, WAIT
from schedsim.gym.episodes import Episodes
from schedsim.gym.rewards import Reward
from schedsim.gym.rollouts import Rollouts
from schedsim.kernels.agents.observation import N_FEATURES
from schedsim.policies.policy import make_policy
from schedsim.policies.pooled import Pooled
from schedsim.results.metrics import BOUND, widest
from schedsim.workload.workload import Workload

ROLLOUTS: Final = 8  # forks of a state at an update
EPISODE: Final = 200  # jobs of an episode
UPDATES: Final = 6  # updates on each variant of the training part
RATE: Final = 0.003  # first step size of Adam; it falls to a tenth
ENTROPY: Final = 0.003  # weight of the entropy of the chances, relative to a worth with a standard deviation of 1
_EPISODE: Final = 85  # purpose of draws
_PICKS: Final = 86

PARTS: Final = {"wait": (1.0, 0.0, 0.0), "slowdown": (0.0, 1.0, 0.0)}
"""What wait, slowdown and the wait of the widest 5 % weigh, by objective; all three the same where none is named."""


@dataclass(frozen=True, eq=False)
class Picked:
    """What the picks of the rollouts of one update saw, chose and were worth, those among two jobs or more."""

    # what was seen, shapes (n, window, 12) and (n, 27)
    jobs: Any
    contexts: Any
    # jobs in the window, and the place picked, shape (n,)
    of: Ints
    places: Ints
    worth: Floats  # how much less the rollout costs from the pick on than the others do from that second on, shape (n,)


def trained_on(log: JobLog, search: Search, advance: Callable[[int], None] = lambda done: None) -> Pooled:
    """Return the network that a training ends with: the mean of its weights over the last half of the updates.

    `advance` is called with 1 after each generation: one variant of the training part, see `search.variant`. Without
    generations the network is untrained.
    """
    frame = search.frame
    network = first_pooled(frame.seed)
    weights, batch = network.weights.copy(), PooledBatch(network.hidden)
    adam, total, mean = Adam(len(weights), RATE, np.float64), search.generations * UPDATES, np.zeros(len(weights))
    for generation in range(search.generations):
        jobs = Workload.from_log(variant(log, frame.seed, generation))
        rollouts = _Rollouts(jobs, search)
        for number in range(UPDATES):
            done = generation * UPDATES + number
            picked = rollouts.picked(batch, weights, done)
            if picked is not None:
                gradient = batch.gradient(
                    weights, picked.jobs, picked.contexts, picked.of, picked.places, picked.worth, ENTROPY
                )
                adam.rate = RATE * (1 - 0.9 * done / total)
                adam.climb(weights, gradient / len(picked.of))
            if 2 * done >= total:
                mean += weights
        advance(1)
    kept = total - (total + 1) // 2
    return Pooled(mean / kept, network.hidden) if kept else network


def costs(jobs: Workload, objective: Objective) -> Floats:
    """Return what an hour of waiting costs for each job, shape (n_jobs,).

    Under EASY, the mean over the jobs of wait x cost is 1 for each part that counts: the mean wait, the mean bounded
    slowdown without its 1, and the mean wait of the widest 5 %.
    """
    schedule = simulate(jobs, make_policy(BASE))
    wait, run_time = schedule.wait, np.minimum(jobs.run_time, jobs.requested)
    wide = np.zeros(len(jobs))
    wide[widest(jobs.procs)] = 1.0
    found = np.zeros(len(jobs))
    shares = (np.ones(len(jobs)), 1 / np.maximum(run_time, BOUND), wide)
    for weight, share in zip(PARTS.get(objective.name, (1.0, 1.0, 1.0)), shares, strict=True):
        found += weight * share * HOUR / max(1e-9, float((np.maximum(wait, 1) * share).mean()))
    return found


class _Rollouts:
    def __init__(self, jobs: Workload, search: Search) -> None:
        frame, cost = search.frame, costs(jobs, search.frame.objective)
        self.seed, self.window = frame.seed, frame.window
        self.episodes = Episodes(jobs, BASE, search.reserve, frame.window, frame.estimates, EPISODE, "warm")
        self.rollouts = Rollouts(self.episodes, Reward(WAIT, lambda _: cost, "minus the cost"), ROLLOUTS)

    def picked(self, batch: PooledBatch, weights: Floats, number: int) -> Picked | None:
        """Return the picks of the rollouts of an update; None where no pick had a choice."""
        rollouts, split = self.rollouts, self.window * N_FEATURES
        drawn = int(unit(self.seed, number, _EPISODE) * len(self.episodes))
        random = np.random.default_rng((self.seed, number, _PICKS))
        for i in range(ROLLOUTS):
            rollouts.begin(i, drawn)
        rollouts.go_on()
        kept: dict[str, list[Any]] = {name: [] for name in ("seen", "of", "places", "times", "goes_on", "earned")}
        while not rollouts.ended.all():
            goes_on, of, seen = ~rollouts.ended, rollouts.n_jobs.copy(), rollouts.seen.copy()
            chances = batch.chances(weights, _rows(seen, split), seen[:, split:], of).cumsum(axis=1)
            below = chances < random.random(ROLLOUTS)[:, None] * chances[:, -1:]
            places, times = np.minimum(below.sum(axis=1), of - 1), rollouts.tallies["seen_at"].astype(float)
            rollouts.step(places)
            earned = np.where(goes_on, rollouts.rewards, 0.0)
            for name, value in zip(kept, (seen, of, places, times, goes_on, earned), strict=True):
                kept[name].append(value)
        seen, of, places, times, goes_on, earned = (np.array(values) for values in kept.values())
        worth = worth_of(times, rollouts.tallies["seen_at"].astype(float), earned, goes_on)
        is_open = goes_on & (of > 1)
        scale = float(worth[is_open].std()) if is_open.any() else 0.0
        if scale == 0.0:
            return None
        seen = seen[is_open]
        return Picked(_rows(seen, split), seen[:, split:], of[is_open], places[is_open], worth[is_open] / scale)


def worth_of(
    times: Floats,  # shape (n, rollouts); when the n-th pick of each rollout was made [s]
    ends: Floats,  # shape (rollouts,); when each rollout ended [s]
    # shape (n, rollouts); what was earned from each pick to the next one; within that time it is taken as earned evenly
    earned: Floats,
    goes_on: Bools,  # shape (n, rollouts); which picks there are; the others are worth nothing
) -> Floats:
    """Return what each pick is worth: what its rollout earns from it on, less what the others earn from that second on.

    Two rollouts end at 10 s. From 0 s on the first earns -4 and the second -10, from 5 s on both earn nothing:

    >>> times, earned = np.array([[0.0, 0.0], [5.0, 5.0]]), np.array([[-4.0, -10.0], [0.0, 0.0]])
    >>> worth_of(times, np.array([10.0, 10.0]), earned, np.ones((2, 2), bool)).tolist()
    [[6.0, -6.0], [0.0, 0.0]]
    """
    n = earned.shape[1]
    before, total, worth = np.cumsum(earned, axis=0) - earned, earned.sum(axis=0), np.zeros(earned.shape)
    for i in range(n):
        own = goes_on[:, i]
        worth[own, i] = total[i] - before[own, i]
        for j in range(n):
            if j != i:
                other = goes_on[:, j]
                by_then = np.interp(
                    times[own, i], np.append(times[other, j], ends[j]), np.append(before[other, j], total[j])
                )
                worth[own, i] -= (total[j] - by_then) / (n - 1)
    return worth


def _rows(seen: Any, split: int) -> Any:
    """Return the features of what was seen, shape (n, window, 12)."""
    return np.ascontiguousarray(seen[:, :split]).reshape(len(seen), -1, N_FEATURES)
