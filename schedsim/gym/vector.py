"""The environment of several simulations: one compiled call steps them all."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from predictors.core.errors import JobcastError
from predictors.core.validation import check_whole
from schedsim.gym.pick import MOST_SEED, episode_given, episodes_of, space_of, split, steps_allowed
from schedsim.gym.rewards import reward_named
from schedsim.gym.rollouts import Rollouts, drawn
from schedsim.policies.agents import Reserve
from schedsim.policies.policy import Policy
from schedsim.workload.workload import Workload

MOST_ENVS: int = 1 << 16
"""Side by side: their windows alone take 160 MB."""
MODES = {"next_step": AutoresetMode.NEXT_STEP, "same_step": AutoresetMode.SAME_STEP}


class PickVectorEnv(VectorEnv[Any, Any, Any]):
    """Simulations side by side, as `schedsim.gym.pick.PickEnv` is one.

    The i-th of them, seeded with s, does what one alone does that is seeded with s + i.

    Parameters
    ----------
    num_envs : int
        How many.
    workload, reward, base, reserve, window, estimates, episode, start, flat, most_steps, render_mode : optional
        As of `schedsim.gym.pick.PickEnv`.
    autoreset_mode : {"next_step", "same_step"}
        When an episode that has ended is followed by the next: with the next step, whose action does nothing there, or
        at once; then `final_obs` and `final_info` tell how it ended, as Stable-Baselines3 wants it.

    Examples
    --------
    >>> import gymnasium
    >>> from jobcast import clean, generate_log
    >>> jobs = Workload.from_log(clean(generate_log(300, seed=1))[0])
    >>> envs = gymnasium.make_vec("schedsim.gym:jobcast/Pick-v0", num_envs=4, workload=jobs, episode=100, flat=True)
    >>> seen, info = envs.reset(seed=7)
    >>> seen.shape == (4, 50 * 12 + 27), info["action_mask"].shape
    (True, (4, 50))
    """

    def __init__(
        self,
        num_envs: int = 1,
        workload: Workload | str | os.PathLike[str] | None = None,
        reward: str = "wait",
        base: str | Policy = "easy",
        reserve: Reserve = "kept",
        window: int = 50,
        estimates: Any = "requested",
        episode: str | int = "month",
        start: str = "warm",
        flat: bool = False,
        most_steps: int | None = None,
        autoreset_mode: str | AutoresetMode = "next_step",
        render_mode: None = None,
    ) -> None:
        check_whole(num_envs, "the number of environments", 1, MOST_ENVS)
        mode = MODES.get(str(getattr(autoreset_mode, "name", autoreset_mode)).lower())
        if mode is None:
            raise JobcastError(f"autoreset_mode is one of {', '.join(MODES)}; got {autoreset_mode!r}.")
        self.num_envs = num_envs
        self.metadata = {"render_modes": [], "autoreset_mode": mode}
        self.episodes = episodes_of(workload, base, reserve, window, estimates, episode, start, render_mode)
        self.single_observation_space = space_of(window, flat)
        self.single_action_space = Discrete(window)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._flat, self._window, self._same_step = flat, window, mode is AutoresetMode.SAME_STEP
        self._most = steps_allowed(most_steps)
        self._rollouts = Rollouts(self.episodes, reward_named(reward), num_envs)
        self._seeds, self._resets = [0] * num_envs, [0] * num_envs
        self._steps = np.zeros(num_envs, dtype=np.int64)
        self._over = np.zeros(num_envs, dtype=np.bool_)
        self._seeded = False

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in each; a number as the seed is that of the first, the others follow it."""
        super().reset(seed=int(seed) if isinstance(seed, int | np.integer) else None)
        if seed is not None or not self._seeded:
            for i, one in enumerate(self._seeds_of(int(self.np_random_seed or 0) if seed is None else seed)):
                if one is not None:
                    self._seeds[i], self._resets[i] = one, 0
            self._seeded = True
        number = episode_given(options, len(self.episodes))
        for i in range(self.num_envs):
            self._begin(i, number)
        self._rollouts.go_on()
        self._over[:] = False
        return self._observation(), self._info()

    def _seeds_of(self, given: Any) -> list[int | None]:
        if isinstance(given, int | np.integer):
            return [int(given) + i for i in range(self.num_envs)]
        if not isinstance(given, Sequence | np.ndarray) or isinstance(given, str):
            raise JobcastError(f"A seed is a whole number, or one for each environment; got {given!r}.")
        if len(given) != self.num_envs:
            raise JobcastError(f"There are {self.num_envs} environments; got {len(given)} seeds.")
        for one in given:
            if one is not None:
                check_whole(one, "a seed", 0, MOST_SEED)
        return [None if one is None else int(one) for one in given]

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Let each agent pick, and go on to their next picks."""
        if not self._seeded:
            raise JobcastError("No episode goes on: call reset() first.")
        rollouts, begun = self._rollouts, np.flatnonzero(self._over)
        for i in begun.tolist():
            self._begin(i)
        rollouts.step(actions)
        self._steps += 1
        if begun.size:
            self._steps[begun] = 0
        terminated = rollouts.ended
        truncated = (self._steps >= self._most) & ~terminated
        over, rewards = terminated | truncated, rollouts.rewards.copy()
        if begun.size:
            rewards[begun] = 0.0
        if not over.any():
            self._over = over
            return self._observation(), rewards, terminated, truncated, self._info()
        return self._at_ends(over, rewards, terminated, truncated)

    def _at_ends(self, over: Any, rewards: Any, terminated: Any, truncated: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Tell how episodes have ended, and begin the next where that is to be done at once."""
        ends = np.flatnonzero(over).tolist()
        figures = {i: self._rollouts.figures(i) for i in ends if terminated[i]}
        if not self._same_step:
            self._over = over
            infos = self._info()
            for i, found in figures.items():
                infos = self._add_info(infos, {"figures": found}, i)
            return self._observation(), rewards, terminated, truncated, infos
        last, final = self._rollouts.seen.copy(), self._info()
        last_jobs = [last[i] if self._flat else split(last[i], self._window) for i in ends]
        for i in ends:
            self._begin(i)
        self._rollouts.go_on()
        infos = self._info()
        for i, seen in zip(ends, last_jobs, strict=True):
            told = {name: final[name][i] for name in final if not name.startswith("_")}
            if i in figures:
                told["figures"] = figures[i]
            infos = self._add_info(infos, {"final_obs": seen, "final_info": told}, i)
        return self._observation(), rewards, terminated, truncated, infos

    def action_masks(self) -> Any:
        """Return which places hold a job, bool array of shape (num_envs, window)."""
        return self._rollouts.masks[self._rollouts.n_jobs].astype(np.bool_)

    def starts(self, i: int) -> Any:
        """Return when each job of an episode has started [s], -1 if it has not, int64 array of shape (n_jobs,)."""
        return self._rollouts.starts[i].copy()

    def _begin(self, i: int, number: int | None = None) -> None:
        if number is None:
            number = drawn(self._seeds[i] & MOST_SEED, self._resets[i], len(self.episodes))
        self._resets[i] += 1
        self._steps[i] = 0
        self._rollouts.begin(i, number)

    def _observation(self) -> Any:
        seen = self._rollouts.seen.copy()
        return seen if self._flat else split(seen, self._window)

    def _info(self) -> dict[str, Any]:
        rollouts = self._rollouts
        everyone = np.ones(self.num_envs, dtype=np.bool_)
        return {
            "action_mask": rollouts.masks[rollouts.n_jobs],
            "_action_mask": everyone,
            "invalid_actions": rollouts.tallies["n_invalid"].copy(),
            "_invalid_actions": everyone.copy(),
        }
