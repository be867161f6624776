"""Several simulations advanced by one compiled call: each takes an action and goes on to its next pick.

The arrays of the simulations lie where they lie; the call is given their addresses, in the order of `Arrays`, `Changes`
and `Picker` in `schedsim.kernels.records`, then those of the estimates and of what an environment keeps of an episode.
A simulation that pauses for anything but a pick is left to the caller, who settles it and calls again. Simulations on
nodes are advanced one by one.
"""

import math
from typing import Any, Final, NamedTuple

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import get_itemsize, populate_array

import predictors.core.events as event
import schedsim.kernels.records as at
from predictors.core.arrays import Bools, Floats, Ints
from predictors.core.jit import door, lean, step
from schedsim.kernels.agents.observation import answer_place
from schedsim.kernels.agents.picks import longest_wait
from schedsim.kernels.agents.scoring import reward_of
from schedsim.kernels.passes import easy
from schedsim.kernels.places.records import NodeArrays
from schedsim.kernels.records import Arrays, Changes, Estimates, Picker, Records
from schedsim.results.metrics import BOUND

PER_JOB: Final = 3
"""Arrays of the workload that follow the engine's: starts, weights, run times."""

# rewards, see `schedsim.gym.rewards`
WAIT: Final = 0
SLOWDOWN_AT_START: Final = 1
BY_PICK: Final = 2  # what the state says that a pick earns
VERSUS_EASY: Final = 3

HOUR: Final = 3600.0


class Tally:
    """What an environment keeps of an episode."""

    first: int  # rows of the episode's jobs: from here
    end: int  # to before here
    n_read: int  # events read in the last chunk of the log
    seen_at: int  # up to which the waits are summed up
    waiting_weight: float  # of the jobs that wait
    n_waiting: int
    reward: float  # since the last pick
    wait: float  # sum over the jobs started [s]
    slowdown: float  # sum over the jobs started
    easy_wait: float  # the same sums under the policy without an agent
    easy_slowdown: float
    n_started: int
    n_picks: int
    n_invalid: int


TALLY: Final = at.record_type(Tally)


class Episode(NamedTuple):
    """The arrays of one simulation, and what an environment keeps of its jobs."""

    sim: Arrays
    estimates: Estimates
    agent: Picker
    starts: Ints  # -1: the job has not started
    weights: Floats
    run_times: Ints


def _viewing(n_dimensions: int, layout: str = "C", readonly: bool = False) -> Any:
    """Return a compiled function that makes an array of an address, its lengths and its type, on the same memory."""

    def view(_: Any, address: Any, lengths: Any, dtype: Any) -> Any:
        array_type = types.Array(dtype.dtype, n_dimensions, layout, readonly=readonly)

        def code(context: Any, builder: Any, __: Any, arguments: Any) -> Any:
            array = context.make_array(array_type)(context, builder)
            shape = [arguments[1]] if n_dimensions == 1 else cgutils.unpack_tuple(builder, arguments[1], n_dimensions)
            size = context.get_constant(types.intp, get_itemsize(context, array_type))
            strides = [size]
            for length in shape[:0:-1]:
                strides.insert(0, builder.mul(strides[0], length))
            place = builder.inttoptr(arguments[0], array.data.type)
            populate_array(array, data=place, shape=shape, strides=strides, itemsize=size, meminfo=None)
            return array._getvalue()

        return array_type(address, lengths, dtype), code

    return intrinsic(view)


# of the types that a simulation has for them, so that the engine is compiled once for both
_vector = _viewing(1)
_table = _viewing(2)
_cube = _viewing(3)
_shared = _viewing(1, readonly=True)
_no_vector = _viewing(1, "A")
_no_table = _viewing(2, "A")


@lean
def advance(
    # places, shapes: shape (n, 33); where the arrays of each simulation are
    places: Ints,
    shapes: Ints,
    actions: Ints,  # shape (n,); the places picked; of a place without a job, the first job is taken, and counted
    stops: Ints,  # shape (n,); why each simulation stands, see `schedsim.kernels.records`
    due: Bools,  # shape (n,); which are to be advanced; those that pick next, or have ended, are so no more
    tallies: Records[Tally],  # shape (n,)
    reward: int,  # which one
    rewards: Floats,  # shape (n,); where the rewards since the last pick are written
    # shape (n,); where it is written how many places may be picked; 1, which does nothing, where an episode has ended:
    # then what is seen is zero
    n_jobs: Ints,
) -> int:
    """Advance the simulations that are due to their next pick or their end; return how many have paused before."""
    paused = 0
    for i in range(len(stops)):
        if not due[i]:
            continue
        place, of = places[i], shapes[i]
        changes = Changes(
            _shared(place[11], of[11, 0], at.SITE_JOB),
            _vector(place[12], of[12, 0], at.NODE_SET),
            _vector(place[13], of[13, 0], at.ACCOUNT),
            _table(place[14], (of[14, 0], of[14, 1]), at.STEP_RECORD),
            _vector(place[15], of[15, 0], np.int64),
            _vector(place[16], of[16, 0], at.GROUP),
            _table(place[17], (of[17, 0], of[17, 1]), at.STEP_RECORD),
        )
        agent = Picker(
            _vector(place[18], of[18, 0], at.AGENT_STATE),
            _shared(place[19], of[19, 0], np.float64),
            _vector(place[20], of[20, 0], np.float32),
            _shared(place[21], of[21, 0], np.float32),
            _vector(place[22], of[22, 0], np.float64),
            _vector(place[23], of[23, 0], np.float32),
            _cube(place[24], (of[24, 0], of[24, 1], of[24, 2]), np.float32),
            _table(place[25], (of[25, 0], of[25, 1]), np.float64),
        )
        sim = Arrays(
            _shared(place[0], of[0, 0], at.JOB),
            _vector(place[1], of[1, 0], at.JOB_NOW),
            _vector(place[2], of[2, 0], at.LIST_ROW),
            _vector(place[3], of[3, 0], at.STATE),
            _vector(place[4], of[4, 0], at.LEVEL),
            _vector(place[5], of[5, 0], at.DATE),
            _vector(place[6], of[6, 0], at.CAPACITY_RECORD),
            _vector(place[7], of[7, 0], np.int64),
            _table(place[8], (of[8, 0], of[8, 1]), np.int64),
            _vector(place[9], of[9, 0], np.int64),
            _vector(place[10], of[10, 0], np.int64),
            changes,
        )
        estimates = Estimates(
            _vector(place[26], of[26, 0], np.float64),
            _vector(place[27], of[27, 0], np.float64),
            _vector(place[28], of[28, 0], np.float64),
            _no_vector(place[29], of[29, 0], at.REVISION),
            _no_table(place[29], (of[29, 0], of[29, 0]), at.REVISED_STEP),
        )
        starts = _vector(place[30], of[30, 0], np.int64)
        weights = _vector(place[31], of[31, 0], np.float64)
        run_times = _vector(place[32], of[32, 0], np.int64)
        episode = Episode(sim, estimates, agent, starts, weights, run_times)
        paused += _advance(i, episode, None, actions, stops, due, tallies, reward, rewards, n_jobs)
    return paused


@step
def _advance(
    i: int,
    episode: Episode,
    site: NodeArrays | None,
    actions: Ints,
    stops: Ints,
    due: Bools,
    tallies: Records[Tally],
    reward: int,
    rewards: Floats,
    n_jobs: Ints,
) -> int:
    """Advance one simulation; return 1 if it has paused before its next pick or end, else 0."""
    sim, estimates, agent, starts, weights, run_times = episode
    tally, clock = tallies[i], sim.state[0].clock
    if stops[i] == at.ASK_PICK:
        pick = actions[i]
        if not 0 <= pick < clock.picked_of:
            pick = 0
            tally.n_invalid += 1
        tally.n_picks += 1
        if reward == BY_PICK:
            tally.reward += reward_of(sim, agent, site, sim.scratch[pick], longest_wait(sim), clock.asked_about == 2)
        answer_place(sim, pick)
    stops[i] = easy.run(sim, estimates, None, site, agent)
    _read_events(sim, tally, reward, starts, weights, run_times)
    if stops[i] != at.ASK_PICK and stops[i] != at.FINISHED:
        return 1
    due[i] = False
    n_jobs[i] = clock.picked_of
    if stops[i] == at.FINISHED:
        n_jobs[i] = 1
        for j in range(len(agent.observation)):
            agent.observation[j] = 0.0
    if reward == VERSUS_EASY and stops[i] == at.FINISHED:
        tally.reward += _versus_easy(tally)
    rewards[i] = tally.reward
    tally.reward = 0.0
    return 0


advance_on_nodes = door(_advance)  # the arrays of one simulation are passed as they are


@step
def _read_events(sim: Arrays, tally: Tally, reward: int, starts: Ints, weights: Floats, run_times: Ints) -> None:
    """Sum up what has happened since the last look."""
    clock = sim.state[0].clock
    for i in range(tally.n_read, clock.n_logged):
        kind = sim.log[i, 1]
        if kind == event.SUBMITTED:
            _wait_until(tally, sim.log[i, 0], reward)
            tally.n_waiting += 1
            tally.waiting_weight += weights[sim.log[i, 2]]
        elif kind == event.STARTED:
            time, row = sim.log[i, 0], sim.log[i, 2]
            _wait_until(tally, time, reward)
            tally.n_waiting -= 1
            tally.waiting_weight = tally.waiting_weight - weights[row] if tally.n_waiting > 0 else 0.0
            wait, run_time = time - sim.jobs[row].submit, run_times[row]
            slowdown = max(1.0, (wait + run_time) / max(run_time, BOUND))
            if reward == SLOWDOWN_AT_START:
                tally.reward -= slowdown
            if tally.first <= row:
                starts[row - tally.first] = time
                tally.wait += wait
                tally.slowdown += slowdown
                tally.n_started += 1
    tally.n_read = clock.n_logged
    _wait_until(tally, clock.now, reward)


@step
def _wait_until(tally: Tally, time: int, reward: int) -> None:
    if reward == WAIT:
        tally.reward -= tally.waiting_weight * (time - tally.seen_at) / HOUR
    tally.seen_at = time


@step
def _versus_easy(tally: Tally) -> float:
    """Return minus the mean logarithm of the ratios of wait and bounded slowdown to those without an agent."""
    n = tally.n_started
    wait = math.log((tally.wait + n) / (tally.easy_wait + n))
    return -(wait + math.log(tally.slowdown / tally.easy_slowdown)) / 2
