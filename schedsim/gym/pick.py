"""The environment of one simulation: a step is a pick."""

import os
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from predictors.core.errors import JobcastError
from predictors.core.validation import check_whole
from schedsim.gym.episodes import Episodes
from schedsim.gym.rewards import reward_named
from schedsim.gym.rollouts import Rollouts, drawn
from schedsim.kernels.agents.observation import N_CONTEXT, N_FEATURES
from schedsim.policies.agents import Reserve
from schedsim.policies.policy import Policy
from schedsim.workload.workload import Workload

MOST: float = 20.0
"""No number that is seen is larger: logarithms of seconds, and shares."""


class PickEnv(gymnasium.Env[Any, Any]):
    """One simulation that stops at each pick of its agent.

    The action is a place in the window. An action without a job there takes the first job; such actions are counted.
    `schedsim.kernels.agents.observation` says what is seen; at the end of an episode it is zero.

    Parameters
    ----------
    workload : Workload, or path of a job log
        Jobs and machine.
    reward : str
        A name of `schedsim.gym.rewards.REWARDS`.
    base, reserve, window, estimates, episode, start : optional
        As of `schedsim.gym.episodes.Episodes`.
    flat : bool
        Whether an observation is one array, the rows of the jobs and then the context, in place of a dictionary.
    most_steps : int, optional
        After so many an episode is truncated.
    render_mode : None
        There is nothing to draw.

    Examples
    --------
    >>> from jobcast import clean, generate_log
    >>> jobs = Workload.from_log(clean(generate_log(300, seed=1))[0])
    >>> env = gymnasium.make("schedsim.gym:jobcast/Pick-v0", workload=jobs, reward="slowdown", episode=100)
    >>> seen, info = env.reset(seed=7)
    >>> seen["jobs"].shape, int(info["action_mask"].sum())
    ((50, 12), 1)
    >>> seen, reward, terminated, truncated, info = env.step(0)
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(
        self,
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
        render_mode: None = None,
    ) -> None:
        self.episodes = episodes_of(workload, base, reserve, window, estimates, episode, start, render_mode)
        self.observation_space = space_of(window, flat)
        self.action_space = spaces.Discrete(window)
        self.render_mode = None
        self._flat, self._window = flat, window
        self._most = steps_allowed(most_steps)
        self._rollouts = Rollouts(self.episodes, reward_named(reward), 1)
        self._seen, self._n_jobs, self._rewards = (
            self._rollouts.seen[0], self._rollouts.n_jobs, self._rollouts.rewards,
        )  # fmt: skip
        self._tally = self._rollouts.tallies[0]
        self._seed, self._resets, self._steps = 0, 0, 0
        self._seeded = self._ended = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode: the one of `options={"episode": number}`, else one that seed and number of resets draw."""
        super().reset(seed=seed)
        if seed is not None or not self._seeded:
            self._seed = int(self.np_random_seed) if seed is None else seed
            self._resets, self._seeded = 0, True
        number = episode_given(options, len(self.episodes))
        if number is None:
            number = drawn(self._seed & MOST_SEED, self._resets, len(self.episodes))
        self._resets += 1
        self._steps = 0
        self._rollouts.begin(0, number)
        self._rollouts.go_on()
        self._ended = bool(self._rollouts.ended[0])
        info = self._info()
        info["episode"] = number
        return self._observation(), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Let the agent pick the job at a place, and go on to the next pick."""
        if self._ended or not self._seeded:
            raise JobcastError("No episode goes on: call reset() first.")
        self._rollouts.step(action)
        self._steps += 1
        self._ended = bool(self._rollouts.ended[0])
        truncated = self._steps >= self._most and not self._ended
        info = self._info()
        if self._ended:
            info["figures"] = self._rollouts.figures(0)
        return self._observation(), float(self._rewards[0]), self._ended, truncated, info

    def action_masks(self) -> Any:
        """Return which places hold a job, bool array of shape (window,); MaskablePPO asks by this name."""
        return self._rollouts.masks[self._n_jobs[0]].astype(np.bool_)

    @property
    def starts(self) -> Any:
        """When each job of the episode has started [s], -1 if it has not, int64 array of shape (n_jobs,)."""
        return self._rollouts.starts[0].copy()

    def _observation(self) -> Any:
        seen = self._seen.copy()
        return seen if self._flat else split(seen, self._window)

    def _info(self) -> dict[str, Any]:
        return {
            "action_mask": self._rollouts.masks[self._n_jobs[0]].copy(),
            "invalid_actions": int(self._tally["n_invalid"]),
        }


MOST_SEED: int = (1 << 63) - 1
_FOREVER = 1 << 62


def episodes_of(workload: Any, base: Any, reserve: Any, window: Any, estimates: Any, episode: Any, start: Any,
                render_mode: Any) -> Episodes:  # fmt: skip
    if render_mode is not None:
        raise JobcastError(f"There is nothing to draw: leave render_mode out; got {render_mode!r}.")
    return Episodes(workload, base, reserve, window, estimates, episode, start)


def steps_allowed(most_steps: int | None) -> int:
    if most_steps is None:
        return _FOREVER
    check_whole(most_steps, "the number of steps of an episode", least=1)
    return most_steps


def space_of(window: int, flat: bool) -> spaces.Space[Any]:
    if not isinstance(flat, bool | np.bool_):
        raise JobcastError(f"flat is True or False; got {flat!r}.")
    if flat:
        return spaces.Box(-1.0, MOST, (window * N_FEATURES + N_CONTEXT,), np.float32)
    jobs = spaces.Box(0.0, MOST, (window, N_FEATURES), np.float32)
    return spaces.Dict({"jobs": jobs, "context": spaces.Box(-1.0, MOST, (N_CONTEXT,), np.float32)})


def split(seen: Any, window: int) -> dict[str, Any]:
    """Return the jobs and the context of one or several arrays that hold both, on the same memory."""
    rows, jobs = seen.shape[:-1], window * N_FEATURES
    return {"jobs": seen[..., :jobs].reshape(*rows, window, N_FEATURES), "context": seen[..., jobs:]}


def episode_given(options: dict[str, Any] | None, n: int) -> int | None:
    """Return the episode that the options of a reset name, or None."""
    if not options:
        return None
    if not isinstance(options, dict) or set(options) != {"episode"}:
        shown = ", ".join(map(repr, options)) if isinstance(options, dict) else repr(options)
        raise JobcastError(f"A reset has one option, episode; got {shown[:80]}.")
    check_whole(options["episode"], "the episode", 0, n - 1)
    return int(options["episode"])
