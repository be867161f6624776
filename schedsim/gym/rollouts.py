"""Simulations that wait for their next pick, side by side: what both forms of the environment stand on."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import schedsim.kernels.records as at
from predictors.core.arrays import Ints
from predictors.core.errors import JobcastError, counted
from predictors.core.hash_random import mixed
from predictors.core.jit import machine_code
from schedsim.engine.learning import write_reward
from schedsim.engine.simulation import Simulation
from schedsim.gym.batch import PER_JOB, TALLY, Episode, advance, advance_on_nodes
from schedsim.gym.episodes import Episodes
from schedsim.gym.rewards import Reward
from schedsim.kernels.agents.observation import N_CONTEXT, N_FEATURES
from schedsim.results.metrics import figures_of_waits

EPISODE_DRAW: Final = 83  # purpose of the draws of episodes
N_ARRAYS: Final = len(at.Arrays._fields) - 1 + len(at.Changes._fields) + len(at.Picker._fields)  # the first has changes
_ESTIMATES: Final = 4  # of running jobs, of candidates, for the order; revisions: none
_NOT_STARTED: Final = -1


class Rollouts:
    """Simulations side by side, `n` of them, each in an episode of its own."""

    def __init__(self, episodes: Episodes, reward: Reward, n: int) -> None:
        self.episodes, self.reward = episodes, reward
        window = episodes.policy.window
        self.seen = np.zeros((n, window * N_FEATURES + N_CONTEXT), dtype=np.float32)  # what the agents see now
        self.rewards = np.zeros(n)  # since the last pick
        # how many jobs of each window may be picked; at the end of an episode 1, a pick that does nothing
        self.n_jobs = np.zeros(n, dtype=np.int64)
        self.masks = (np.arange(window) < np.arange(window + 1)[:, None]).astype(np.int8)
        self.tallies: Any = np.zeros(n, TALLY)
        self.simulations = list[Simulation | None]([None] * n)
        self.starts = list[Ints]([np.empty(0, dtype=np.int64)] * n)
        self._weights = reward.weigh(episodes.workload)
        self._places = np.zeros((n, N_ARRAYS + _ESTIMATES + PER_JOB), dtype=np.int64)
        self._shapes = np.zeros((*self._places.shape, 3), dtype=np.int64)
        self._actions = np.zeros(n, dtype=np.int64)
        self._stops = np.full(n, at.FINISHED)
        self._due = np.zeros(n, dtype=np.bool_)
        self._arguments: Any = (
            self._places, self._shapes, self._actions, self._stops, self._due, self.tallies, reward.code, self.rewards,
            self.n_jobs,
        )  # fmt: skip
        self._advance: Callable[..., int] = self._advance_on_nodes
        if episodes.workload.demands is None:
            advance(*self._arguments)  # type: ignore[arg-type]  # compiles, and does nothing
            self._advance = machine_code(advance)

    def begin(self, i: int, number: int) -> None:
        """Let a simulation begin an episode, and go on to its first pick with the next step."""
        first, end = self.episodes.rows[number].tolist()
        simulation = self.episodes.begin(number)
        write_reward(simulation.picker.one[0], self.reward.pick)
        waiting, tally = simulation.queued, self.tallies[i]
        self.simulations[i], self.starts[i] = simulation, np.full(end - first, _NOT_STARTED)
        self.tallies[i : i + 1] = np.zeros(1, TALLY)
        tally["first"], tally["end"] = first, end
        tally["seen_at"] = simulation.now
        tally["n_waiting"], tally["waiting_weight"] = len(waiting), self._weights[waiting].sum()
        if self.reward.needs_easy:
            tally["easy_wait"], tally["easy_slowdown"] = self.episodes.without_agent(number)
        self._stops[i], self._due[i] = 0, True
        self._write_places(i)

    def step(self, actions: Any) -> None:
        """Take an action in each simulation that waits for one, and go on to the next picks."""
        given = np.asarray(actions)
        if given.dtype.kind not in "iu" or given.size != self._actions.size:
            raise JobcastError(
                f"An action is a place of the window, a whole number; {counted(self._actions.size, 'simulation')} need "
                f"one each; got {str(actions)[:80]!r}."
            )
        self._actions[:] = given.reshape(-1)
        np.logical_or(self._due, self._stops == at.ASK_PICK, out=self._due)
        self.go_on()

    def go_on(self) -> None:
        """Advance the simulations that are due to their next picks."""
        while self._advance(*self._arguments):
            for i in np.flatnonzero(self._due).tolist():
                simulation = self.simulations[i]
                assert simulation is not None
                simulation.settle(int(self._stops[i]))
                self._write_places(i)

    @property
    def ended(self) -> Any:
        """Which episodes are at their end, bool array of shape (n,)."""
        return self._stops == at.FINISHED

    def figures(self, i: int) -> dict[str, float]:
        """Return the figures of the jobs of an episode that has ended, its picks and those that were not valid."""
        tally, workload = self.tallies[i], self.episodes.workload
        rows = slice(int(tally["first"]), int(tally["end"]))
        found = figures_of_waits(
            self.starts[i] - workload.submit[rows], self.episodes.run_times[rows], workload.procs[rows]
        )
        return {**found, "picks": int(tally["n_picks"]), "invalid_actions": int(tally["n_invalid"])}

    def _advance_on_nodes(self, *arguments: Any) -> int:
        """Advance each simulation that is due; return how many have paused before their pick or end."""
        paused = 0
        for i in np.flatnonzero(self._due).tolist():
            simulation = self.simulations[i]
            assert simulation is not None
            paused += advance_on_nodes(i, self._episode(i), simulation.nodes, *arguments[2:])
        return paused

    def _episode(self, i: int) -> Episode:
        simulation = self.simulations[i]
        assert simulation is not None
        agent = simulation.picker._replace(observation=self.seen[i])
        return Episode(*simulation.arrays(), agent, self.starts[i], self._weights, self.episodes.run_times)

    def _write_places(self, i: int) -> None:
        arrays, estimates, agent, *per_job = self._episode(i)
        arrays.state["clock"]["until"] = at.NEVER - 1
        held: tuple[Any, ...] = (
            *arrays[:-1], *arrays.changes, *agent, estimates.running, estimates.candidate, estimates.order,
            np.empty(0), *per_job,
        )  # fmt: skip
        for j, array in enumerate(held):
            self._places[i, j] = array.ctypes.data
            self._shapes[i, j, : array.ndim] = array.shape
        self.tallies[i]["n_read"] = arrays.state["clock"]["n_logged"][0]


def drawn(seed: int, count: int, n: int) -> int:
    """Return the episode of `n` that the `count`-th reset since seeding draws."""
    return mixed(seed, count, EPISODE_DRAW) % n
