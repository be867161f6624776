"""Networks as agents: what they see, how they score and draw, and that the compiled pass does what a slow one does."""

from dataclasses import replace
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobcast import JobcastError, Policy, Simulation, make_policy, simulate
from predictors.core.events import ENDED, STARTED
from predictors.core.hash_random import unit
from schedsim.agents.gradients import first_weights
from schedsim.kernels.agents.scoring import DRAWING, FILTER, LEAK, TIME_SCALE
from schedsim.machine.outages import Outages, Reservation
from schedsim.policies.agents import OLDEST_FIRST, RESERVES, Linear, RandomPicks
from schedsim.policies.backfilling import Greedy
from schedsim.policies.networks import Dras, Shape, Shared
from schedsim.validate.checks import busy_workload, check_no_start_looks_ahead
from tests.schedsim.policies.test_agents import Scoring, same
from tests.support.engine_runs import random_workload

EASY = make_policy("easy")
GREEDY = Policy(backfill=Greedy())

AHEAD = Outages([Reservation(5, 9, 1)])


def shared(seed=0, activation="relu", hidden=(4, 3)):
    """Return a network with drawn weights."""
    return Shared(np.random.default_rng(seed).normal(size=Shared.count(hidden)), hidden, activation)


def waiting_alone(activation):
    """Return a network that scores by the wait alone, which is the first feature."""
    first = np.zeros((12, 2))
    first[0] = 0.05
    layers = [first, np.zeros(2), np.ones((2, 2)), np.zeros(2), np.ones((2, 1)), np.zeros(1)]
    return Shared(np.concatenate([part.ravel() for part in layers]), (2, 2), activation)


def dras(machine=8, kind="pg", seed=1, window=6, **about):
    """Return an agent with first weights, its filter's bias no zero."""
    shape = Shape(machine, kind, window, (5, 4))
    weights = 3 * first_weights(shape, seed)
    weights[2] = 0.2
    return Dras(shape, weights, seed, **about)


class Slow:
    """Pick as a network does, from its definition."""

    def __init__(self, agent, workload):
        self.agent, self.workload, self.simulation, self.picks = agent, workload, None, 0

    def pick(self, choice):
        """Pick the greatest, of equal ones the first."""
        self.picks += 1
        scores = self.scores(choice)
        return int(np.argmax(scores))


class SlowShared(Slow):
    """The shared network over the features."""

    def scores(self, choice):
        """Score job after job."""
        features, rows = Scoring(None), choice.rows.tolist()
        features.simulation = self.simulation
        return [self.run(features.features(choice, rows, row)) for row in rows]

    def run(self, values):
        """Go through the layers."""
        begin, values = 0, np.array([float(value) for value in values])
        for n, m in zip(self.agent.layers[:-1], self.agent.layers[1:], strict=True):
            matrix = self.agent.weights[begin : begin + n * m].reshape(n, m)
            values = values @ matrix + self.agent.weights[begin + n * m : begin + (n + 1) * m]
            begin += (n + 1) * m
            if m != 1:
                values = np.tanh(values) if self.agent.activation == "tanh" else np.maximum(values, 0)
        return float(values[0])


class SlowDras(Slow):
    """The networks of DRAS over jobs and nodes: first fit is played anew from the events."""

    def scores(self, choice):
        """Score the window; the draws are those of the agent."""
        nodes, shape = self.nodes(choice.now), self.agent.shape
        jobs = [self.job(choice.now, row) for row in choice.rows.tolist()]
        if shape.kind == "pg":
            empty = [(0.0, 0.0)] * (2 * (shape.window - len(jobs)))
            found = self.run([*(row for job in jobs for row in job), *empty, *nodes])[: len(jobs)]
        else:
            found = [self.run([*job, *nodes])[0] for job in jobs]
        if not self.agent.drawn:
            return found
        numbers = [int(self.workload.job_id[row]) for row in choice.rows]
        draws = [unit(self.agent.seed, number, DRAWING + self.picks) for number in numbers]
        return [score - log(-log(draw)) for score, draw in zip(found, draws, strict=True)]

    def job(self, now, row):
        """Return the rows of a job."""
        jobs, scale = self.workload, 1 if self.agent.raw else TIME_SCALE
        size = jobs.procs[row] / (1 if self.agent.raw else jobs.machine_procs)
        return [(size, jobs.requested[row] / scale), (0.0, (now - jobs.submit[row]) / scale)]

    def nodes(self, now):
        """Return the rows of the nodes."""
        holders = [None] * self.workload.machine_procs
        for time, kind, row in self.simulation.events().tolist():
            if kind == STARTED and self.workload.run_time[row] > 0:
                free = [node for node, holder in enumerate(holders) if holder is None]
                for node in free[: self.workload.procs[row]]:
                    holders[node] = (row, time + int(self.workload.requested[row]))
            elif kind == ENDED:
                holders = [None if holder and holder[0] == row else holder for holder in holders]
        scale = 1 if self.agent.raw else TIME_SCALE
        return [(1.0, 0.0) if holder is None else (0.0, (holder[1] - now) / scale) for holder in holders]

    def run(self, rows):
        """Go through the layers."""
        rows_n, first, second, outputs = self.agent.shape.layers
        weights, begin = self.agent.weights.astype(float), FILTER
        values = np.array(rows) @ weights[:2] + weights[2]
        for n, m in ((rows_n, first), (first, second), (second, outputs)):
            values = values @ weights[begin : begin + n * m].reshape(n, m)
            begin += n * m
            if m != outputs or n != second:
                values = np.where(values > 0, values, LEAK * values)
        return values + weights[begin:]


def slowly(jobs, policy, agent):
    """Return the schedule of an agent in Python."""
    simulation = Simulation(jobs, replace(policy, agent=agent))
    agent.simulation = simulation
    simulation.run()
    return simulation.schedule()


@given(
    seed=st.integers(0, 10**9), reserve=st.sampled_from(list(RESERVES)), activation=st.sampled_from(["relu", "tanh"])
)
def test_a_network_that_scores_by_the_wait_is_easy(seed, reserve, activation):
    jobs = random_workload(seed)
    policy = replace(EASY, agent=waiting_alone(activation), reserve=reserve)
    assert same(simulate(jobs, policy), simulate(jobs, EASY))


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("policy", [EASY, make_policy("easy+promise"), GREEDY])
def test_the_compiled_score_of_a_shared_network_is_that_of_its_layers(activation, policy):
    for seed in range(4):
        jobs, agent = random_workload(seed), shared(seed, activation)
        assert same(slowly(jobs, policy, SlowShared(agent, jobs)), simulate(jobs, replace(policy, agent=agent)))


@pytest.mark.parametrize("about", [{}, {"raw": True}, {"drawn": False}])
@pytest.mark.parametrize("kind", ["pg", "dql"])
@pytest.mark.parametrize("policy", [replace(EASY, window=6), replace(GREEDY, window=5)])
def test_the_compiled_score_of_a_network_of_dras_is_that_of_its_layers(about, kind, policy):
    for seed in range(3):
        jobs, agent = busy_workload(60, seed), dras(kind=kind, seed=seed, **about)
        assert same(slowly(jobs, policy, SlowDras(agent, jobs)), simulate(jobs, replace(policy, agent=agent)))


def test_the_papers_networks_have_so_many_parameters():
    theta, cori = (4000, 1000), (10000, 4000)
    counts = {
        (4360, "pg", theta): 21_890_053,
        (4360, "dql", theta): 21_449_004,
        (12_076, "pg", cori): 161_960_053,
        (12_076, "dql", cori): 160_784_004,
        (436, "pg", (400, 100)): 259_453,
        (436, "dql", (400, 100)): 215_304,
        (1208, "pg", (1000, 400)): 1_728_053,
    }
    for (nodes, kind, dense), count in counts.items():
        rows = nodes + (100 if kind == "pg" else 2)
        outputs = 50 if kind == "pg" else 1
        layers = [(1, 3), (rows, dense[0]), dense, (dense[1], outputs), (1, outputs)]
        arrays = [np.empty(layer, np.int8) for layer in layers]
        assert sum(array.size for array in arrays) == count == Shape(nodes, kind, dense=dense).parameters
    assert Shape(12_076, "dql", dense=cori).rows == 12_078  # 161,764,004 is the count of other rows:
    assert 3 + 12_176 * 10_000 + 10_000 * 4_000 + 4_000 + 1 == 161_764_004
    assert Shared.count((32, 16, 8), features=8) == 961


def test_an_agent_that_explores_picks_like_a_random_one():
    jobs, policy = busy_workload(60), replace(EASY, window=6)
    explored = [simulate(jobs, replace(policy, agent=dras(kind="dql", seed=seed, explore=1.0))) for seed in (1, 1, 2)]
    assert same(explored[0], explored[1])
    assert not same(explored[0], explored[2])
    other = replace(dras(kind="dql", seed=5), seed=1, explore=1.0)  # other weights
    assert same(explored[0], simulate(jobs, replace(policy, agent=other)))


def test_permuted_numbers_change_the_picks():
    jobs, policy = busy_workload(60), replace(EASY, window=6)
    for kind in ("pg", "dql"):
        plain, permuted = (simulate(jobs, replace(policy, agent=dras(kind=kind, permuted=on))) for on in (False, True))
        assert not same(plain, permuted)


@pytest.mark.parametrize("agent", [dras(), dras(kind="dql"), shared()], ids=["pg", "dql", "shared"])
@given(seed=st.integers(0, 10**9), reserve=st.sampled_from(list(RESERVES)))
def test_no_network_knows_how_long_a_job_that_has_not_ended_will_run(agent, seed, reserve):
    check_no_start_looks_ahead(replace(EASY, agent=agent, reserve=reserve, window=6), random_workload(seed))


@given(seed=st.integers(0, 10**9))
def test_the_widest_first_under_greedy_backfilling_is_binpacking(seed):
    jobs = random_workload(seed)
    widest = Linear(tuple(float(place == 2) for place in range(12)))
    assert same(simulate(jobs, replace(GREEDY, agent=widest)), simulate(jobs, make_policy("binpacking")))
    for agent in (RandomPicks(3), OLDEST_FIRST):
        assert (simulate(jobs, replace(GREEDY, agent=agent)).started_by == 0).all()


@pytest.mark.parametrize("agent", [dras(), dras(kind="dql", raw=True, explore=0.25), shared(), shared(1, "tanh")])
def test_a_network_is_a_value_that_its_arrays_bring_back(agent):
    again = type(agent).from_arrays(agent.arrays())
    assert again == agent
    assert hash(again) == hash(agent)
    assert not any(array.dtype.hasobject for array in agent.arrays().values())
    other = agent.weights.copy()
    other[0] += 1
    assert replace(agent, weights=other) != agent
    with pytest.raises(ValueError, match="read-only"):
        again.weights[0] = 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Shared(np.zeros(5)), "has 1089 weights in one row; got an array of shape"),
        (lambda: Shared(np.full(1089, np.nan)), "at place 0 is nan"),
        (lambda: Shared(np.zeros(27), (2,), "sigmoid"), "relu or tanh; got 'sigmoid'"),
        (lambda: Shared("weights"), "that are numbers; got 'weights'"),
        (lambda: Shape(8, "ppo"), "pg or dql; got 'ppo'"),
        (lambda: Shape(0), "must be from 1"),
        (lambda: Shape(8, dense=(4,)), "two dense layers"),
        (lambda: dras(explore=1.5), "0 to 1; got 1.5"),
        (lambda: Dras(Shape(8), np.zeros(4)), "got an array of shape"),
        (lambda: simulate(busy_workload(5), replace(EASY, agent=dras(9), window=6)), "of 9 nodes, and this one has 8"),
        (lambda: simulate(busy_workload(5), replace(EASY, agent=dras())), "6 jobs, and the policy's has 50"),
        (lambda: simulate(busy_workload(5), replace(EASY, agent=dras(), window=6), outages=AHEAD),
         "leave outages"),
        (lambda: Simulation(busy_workload(5), EASY).learn(None), "Only a Dras agent learns"),
    ],
)  # fmt: skip
def test_what_is_no_network_is_refused(make, message):
    with pytest.raises(JobcastError, match=message):
        make()
