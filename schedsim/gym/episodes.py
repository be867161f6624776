"""Episodes of a log: which jobs belong to each, and the state in which it begins.

An episode is the whole log, a month or a week of its calendar (UTC), or so many jobs in a row. It begins on an idle
machine (`cold`), or on the machine and the queue as the base policy without an agent leaves them (`warm`). It ends when
all its jobs have started and ended.
"""

import os
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from predictors.core.arrays import Ints
from predictors.core.errors import JobcastError, unknown_name
from predictors.core.events import STARTED
from predictors.core.validation import check_whole
from predictors.data.cleaning import clean
from predictors.data.formats.detect import read_log
from schedsim.engine.simulation import Simulation
from schedsim.policies.agents import RESERVES, Observation, Reserve
from schedsim.policies.policy import Policy, make_policy
from schedsim.results.metrics import bounded_slowdown
from schedsim.workload.estimates import Separate, Source, clairvoyant, cqsim, requested
from schedsim.workload.workload import Workload

LENGTHS: Final = ("log", "month", "week")
BEGINNINGS: Final = ("warm", "cold")
ESTIMATES: Final = MappingProxyType({"requested": requested, "clairvoyant": clairvoyant, "cqsim": cqsim})
"""Named estimates. `cqsim` is what published figures stand on: candidates for backfills, and the job reserved, are
tested by their true run times, which lets the future into the observations."""

MOST_KEPT: Final = 64
"""States along the log that are kept, so that a warm episode begins without simulating the whole past again."""
_WEEK: Final = 604_800
_TO_MONDAY: Final = 259_200  # the first second of 1970 was on a Thursday


class FromOutside:
    """The agent of an environment: the environment alone steps the simulation."""

    def choose(self, observation: Observation) -> int:
        """Refuse."""
        raise JobcastError("This simulation is stepped by its environment: call the environment's step().")


class Episodes:
    """The episodes of a workload, and the simulations in which they begin.

    >>> jobs = Workload.from_columns(range(5), submit=[0, 9, 9, 700_000, 900_000], procs=[1] * 5, requested=[60] * 5,
    ...                              run_time=[30] * 5, machine_procs=2)
    >>> Episodes(jobs, episode="week").rows.tolist(), Episodes(jobs, episode=2).rows.tolist()
    ([[0, 3], [3, 5]], [[0, 1], [1, 4], [4, 5]])
    """

    def __init__(
        self,
        workload: Workload | str | os.PathLike[str],  # jobs and machine
        # what the agent picks under: an order and EASY, with or without a promise, no backfilling or greedy; without an
        # agent, a gate or a ceiling; a head that keeps its place (`balanced`) goes with `kept` and `oldest`
        base: str | Policy = "easy",
        # {"kept", "oldest", "again"}: which job holds the reservation, see `schedsim.policies.agents.RESERVES`; greedy
        # backfilling has none
        reserve: Reserve = "kept",
        window: int = 50,  # how many jobs the agent sees
        estimates: Any = "requested",  # one of `ESTIMATES`, or numbers given beforehand, shape (n_jobs,)
        episode: str | int = "log",  # one of `LENGTHS`, or a number of jobs
        start: str = "warm",  # {"warm", "cold"}: how an episode begins
    ) -> None:
        self.workload = _workload(workload)
        self.policy = _policy(base, reserve, window)
        if start not in BEGINNINGS:
            raise unknown_name("start of an episode", str(start), BEGINNINGS)
        self.start = start
        self.rows = _rows(self.workload, episode)
        self.run_times = np.minimum(self.workload.run_time, self.workload.requested)
        self._first = Simulation(self.workload, replace(self.policy, agent=None, reserve=None), self._given(estimates))
        self._stride = -(-len(self.rows) // MOST_KEPT)
        self._kept = {0: self._first}
        self._easy = dict[int, tuple[float, float]]()

    def __len__(self) -> int:
        return len(self.rows)

    def begin(self, number: int) -> Simulation:
        """Return a simulation that stands where an episode begins; it is run by the compiled call alone."""
        return self._opening(number).with_agent(self.policy.agent, self.policy.reserve, self.policy.window)  # type: ignore[arg-type]

    def without_agent(self, number: int) -> tuple[float, float]:
        """Return the sums of wait [s] and bounded slowdown of an episode's jobs under the base policy."""
        if number not in self._easy:
            simulation, (first, end) = self._opening(number), self.rows[number]
            simulation.run()
            events = simulation.events()
            events = events[(events[:, 1] == STARTED) & (events[:, 2] >= first)]
            wait = events[:, 0] - self.workload.submit[events[:, 2]]
            assert len(events) == end - first
            slowdown = bounded_slowdown(wait, self.run_times[events[:, 2]])
            self._easy[number] = float(wait.sum()), float(slowdown.sum())
        return self._easy[number]

    def _opening(self, number: int) -> Simulation:
        first, end = self.rows[number].tolist()
        simulation = self._first.fork()
        if self.start == "warm" and first > 0:
            simulation = self._just_before(number)
        simulation.submit_only(first, end)
        return simulation

    def _just_before(self, number: int) -> Simulation:
        """Return a fork of the whole log's simulation, run up to the second before an episode."""
        near = max(kept for kept in self._kept if kept <= number)
        for place in range(near + self._stride, number + 1, self._stride):
            self._kept[place] = self._run_to(self._kept[place - self._stride], place)
        return self._run_to(self._kept[number - number % self._stride], number)

    def _run_to(self, simulation: Simulation, number: int) -> Simulation:
        fork = simulation.fork()
        fork.run(until=int(self.workload.submit[self.rows[number, 0]]) - 1)
        return fork

    def _given(self, estimates: Any) -> Any:
        """Return estimates as a simulation takes them; a forecast that learns on the way is refused."""
        jobs = self.workload
        if isinstance(estimates, str):
            if estimates not in ESTIMATES:
                raise unknown_name("estimates", estimates, ESTIMATES)
            return ESTIMATES[estimates](jobs)
        if not isinstance(estimates, np.ndarray | list | tuple | Separate) or Source.of(estimates, jobs).in_loop:  # type: ignore[arg-type]
            raise JobcastError(
                "An environment takes estimates known beforehand; got a forecast that learns on the way. Give the "
                "numbers that it told in a simulation: simulate(workload, policy, forecast).estimate."
            )
        return estimates


def _workload(given: Any) -> Workload:
    if isinstance(given, str | os.PathLike):
        return Workload.from_log(clean(read_log(given)[0])[0])
    if not isinstance(given, Workload):
        raise JobcastError(f"An environment needs workload=, a Workload or the path of a job log; got {given!r}.")
    return given


def _policy(base: Any, reserve: Any, window: int) -> Policy:
    rule = base if isinstance(base, Policy) else make_policy(str(base))
    if not isinstance(reserve, str) or reserve not in RESERVES:
        raise unknown_name("rule for the job that holds the reservation", str(reserve), RESERVES)
    if rule.agent is not None:
        raise JobcastError(
            f"The base of an environment is a policy without an agent of its own, such as easy; got {base!r}."
        )
    if rule.kind == "greedy" and reserve != "kept":
        raise JobcastError(f"Under {base!r} no job is reserved: leave reserve out; got {reserve!r}.")
    check_whole(window, "the window")  # its bounds are the policy's
    held = None if rule.kind == "greedy" else reserve
    return replace(rule, agent=FromOutside(), reserve=held, window=window)  # type: ignore[arg-type]


def _rows(workload: Workload, episode: Any) -> Ints:
    """Return the first row of each episode, and the one behind its last, shape (n, 2)."""
    submit, n = workload.submit, len(workload)
    if isinstance(episode, str):
        if episode not in LENGTHS:
            raise unknown_name("length of an episode", episode, (*LENGTHS, "a number of jobs"))
        second = submit + workload.origin
        period = {
            "log": np.zeros(n, dtype=np.int64),
            "month": second.astype("datetime64[s]").astype("datetime64[M]").astype(np.int64),
            "week": (second + _TO_MONDAY) // _WEEK,
        }[episode]
        first = np.flatnonzero(np.diff(period, prepend=period[0] - 1))
    else:
        check_whole(episode, "the number of jobs of an episode", least=1)
        # all jobs of a second belong to one episode
        first = np.unique(np.searchsorted(submit, submit[np.arange(0, n, episode)]))
    return np.stack([first, np.append(first[1:], n)], axis=1)
