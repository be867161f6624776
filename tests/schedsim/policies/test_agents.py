"""Agents: who picks, which job holds the reservation, and that the compiled score is the one that the features give."""

from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobcast import JobcastError, Order, Simulation, Workload, clean, make_policy, read_log, simulate
from schedsim.explain.explain import explain
from schedsim.explain.sentences import in_words
from schedsim.kernels.agents.picks import FEATURES
from schedsim.policies.agents import OLDEST_FIRST, RESERVES, Linear, RandomPicks
from schedsim.policies.backfilling import Promise
from schedsim.policies.orders import Priority
from schedsim.sites.cobalt.commands import Command
from schedsim.sites.cobalt.rules import Rules
from schedsim.validate.checks import busy_workload, check_no_start_looks_ahead
from tests.schedsim.policies.test_observation import Checking, First
from tests.support.engine_runs import jobs_of, random_workload
from tests.support.slow import slow_but

EASY = make_policy("easy")
BASES = ["easy", "easy-sjbf", "easy+promise", "fcfs", "default"]
LOGS = ["KTH-SP2-1996-2.1-cln", "SDSC-SP2-1998-4.2-cln", "ALCF-Theta-2022.cqsim"]


class Oldest:
    """Pick the first in the window."""

    def pick(self, choice):
        """Pick the first."""
        return 0


class Scoring:
    """Score the jobs in Python, from the definitions, and pick the greatest."""

    features = Checking.features

    def __init__(self, weights):
        self.weights, self.simulation = weights, None

    def pick(self, choice):
        """Pick the first of the greatest scores."""
        rows = choice.rows.tolist()
        scores = [np.dot(self.weights, self.features(choice, rows, row)).round(9) for row in rows]
        return scores.index(max(scores))


def same(one, other):
    """Return whether two schedules are equal job for job."""
    return np.array_equal(one.start, other.start) and np.array_equal(one.started_by, other.started_by)


@given(seed=st.integers(0, 10**9), base=st.sampled_from(BASES), reserve=st.sampled_from(list(RESERVES)))
def test_an_agent_that_picks_the_first_of_the_queue_is_the_policy_without_it(seed, base, reserve):
    jobs, policy = random_workload(seed), make_policy(base)
    assert same(simulate(jobs, replace(policy, agent=Oldest(), reserve=reserve)), simulate(jobs, policy))


@given(seed=st.integers(0, 10**9), reserve=st.sampled_from(["kept", "oldest"]), quick=st.booleans())
def test_under_balanced_the_first_of_the_queue_is_balanced(seed, reserve, quick):
    """Due dates and promises of seconds, so that the order changes and heads are overtaken but for their place."""
    jobs, policy = random_workload(seed), make_policy("balanced")
    if quick:
        order = Order.by_priority(Priority(head_start=5, estimate=1.0, procs=0.1, grace=20, share=0.35))
        policy = replace(policy, order=order, promise=Promise(slack=10, growth=-0.15, least=5, most=10, kept=True))
    short = np.maximum(1, jobs.requested // 3)
    for agent in (Oldest(), First()):
        for estimates in (None, short):
            ruled = simulate(jobs, policy, estimates)
            assert same(simulate(jobs, replace(policy, agent=agent, reserve=reserve), estimates), ruled)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**9),
    base=st.sampled_from(["easy+promise", "default"]),
    reserve=st.sampled_from(list(RESERVES)),
)
def test_an_agent_keeps_the_heads_promise(seed, base, reserve):
    """By estimates shorter than the requested times, jobs fit beside the head that would break its promise."""
    jobs, policy = random_workload(seed), replace(make_policy(base), promise=Promise())
    short = np.maximum(1, jobs.requested // 3)
    ruled = simulate(jobs, policy, short)
    for agent in (Oldest(), First(), *([OLDEST_FIRST] if base == "easy+promise" else [])):
        assert same(simulate(jobs, replace(policy, agent=agent, reserve=reserve), short), ruled)


@pytest.mark.parametrize("agent", [Oldest(), First(), OLDEST_FIRST])
def test_a_command_is_no_pick(agent):
    jobs = busy_workload(120)
    submitted = dict(zip(jobs.job_id.tolist(), jobs.submit.tolist(), strict=True))
    commands = [
        Command(submitted[job] + wait, what, job)
        for job in range(3, 110, 4)
        for wait, what in ((2, "hold"), (9, "release"))
    ]
    rules = Rules(commands=tuple(sorted(commands, key=lambda command: command.time)))
    ruled = simulate(jobs, EASY, rules=rules)
    assert not same(ruled, simulate(jobs, EASY))
    assert same(simulate(jobs, replace(EASY, agent=agent), rules=rules), ruled)


@given(seed=st.integers(0, 10**9), reserve=st.sampled_from(list(RESERVES)))
def test_a_scorer_that_picks_the_oldest_is_easy(seed, reserve):
    jobs = random_workload(seed)
    assert same(simulate(jobs, replace(EASY, agent=OLDEST_FIRST, reserve=reserve)), simulate(jobs, EASY))


@pytest.mark.parametrize("name", slow_but(LOGS, LOGS[0]))
def test_oldest_first_is_easy_on_real_logs(trace, name):
    jobs = Workload.from_log(clean(read_log(trace(name))[0])[0])
    ruled = simulate(jobs, EASY)
    for reserve in RESERVES:
        assert same(simulate(jobs, replace(EASY, agent=OLDEST_FIRST, reserve=reserve)), ruled)
    assert same(simulate(jobs, replace(EASY, agent=Oldest())), ruled)


WEIGHTS = st.lists(st.integers(-8, 8), min_size=len(FEATURES), max_size=len(FEATURES))


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**9), weights=WEIGHTS, reserve=st.sampled_from(list(RESERVES)), window=st.integers(1, 6),
    base=st.sampled_from(["easy", "easy+promise", "sjf-easy"]),
)  # fmt: skip
def test_the_compiled_score_is_that_of_the_features(seed, weights, reserve, window, base):
    """Equal scores up to rounding are told apart by the queue alone, so weights are whole numbers on a coarse grid."""
    jobs, policy = random_workload(seed), replace(make_policy(base), reserve=reserve, window=window, agent=Oldest())
    agent = Scoring(weights)
    asked = Simulation(jobs, replace(policy, agent=agent))
    agent.simulation = asked
    asked.run()
    scored = Simulation(jobs, replace(policy, agent=Linear(tuple(weights))))
    scored.run()
    if not same(asked.schedule(), scored.schedule()):
        assert near_tie(jobs, policy, weights)
    else:
        assert asked.picks == scored.picks or any(weights)


def near_tie(jobs, policy, weights):
    """Return whether scores that differ by rounding alone decide: then slightly other weights change the schedule."""
    shaken = [weight + 1e-7 * (place + 1) for place, weight in enumerate(weights)]
    first = simulate(jobs, replace(policy, agent=Linear(tuple(shaken))))
    return not same(first, simulate(jobs, replace(policy, agent=Linear(tuple(weights)))))


@given(seed=st.integers(0, 10**9), reserve=st.sampled_from(list(RESERVES)))
def test_no_pick_depends_on_how_long_a_job_that_has_not_ended_will_run(seed, reserve):
    weights = tuple(np.random.default_rng(seed).normal(size=12))
    check_no_start_looks_ahead(replace(EASY, agent=Linear(weights), reserve=reserve), random_workload(seed))


def test_other_seeds_pick_otherwise_and_the_same_seed_alike():
    jobs = busy_workload(60)
    starts = [simulate(jobs, replace(EASY, agent=RandomPicks(seed))).start for seed in (1, 1, 2)]
    assert np.array_equal(starts[0], starts[1])
    assert not np.array_equal(starts[0], starts[2])


def test_an_agent_sees_a_window_of_the_queue_and_may_decline():
    class Counting(Oldest):
        seen = ()

        def pick(self, choice):
            self.seen = (*self.seen, (choice.level, choice.rows.tolist()))
            return None if choice.level == 2 else 0

    jobs = Workload.from_columns(
        range(5), submit=[0, 0, 1, 1, 1], procs=[6, 8, 1, 1, 1], requested=[9] * 5, run_time=[9] * 5, machine_procs=8
    )  # fmt: skip
    for reserve, at_level_1 in (("again", [[0, 1], [1], [1, 2]]), ("kept", [[0, 1], [1]]), ("oldest", [[0, 1], [1]])):
        agent = Counting()
        simulation = Simulation(jobs, replace(EASY, agent=agent, reserve=reserve, window=2))
        simulation.run(until=1)
        assert [rows for level, rows in agent.seen if level == 1] == at_level_1
        assert simulation.running.tolist() == [0]


@pytest.mark.slow
def test_an_explanation_tells_what_was_picked():
    """At 0 s job 1 takes 6 of 8; job 4, shortest, is picked at 1 s and reserved; job 3 is backfilled beside it."""
    jobs = jobs_of((0, 6, 10, 10), (1, 8, 20, 20), (1, 2, 9, 9), (1, 4, 5, 5), machine=8)
    shortest = Linear(tuple(-1.0 if name == "estimate" else 0.0 for name in FEATURES))
    policy = replace(EASY, agent=shortest)
    schedule = simulate(jobs, policy)
    assert schedule.start.tolist() == [0, 15, 1, 10]
    lines = "\n".join("\n".join(in_words(explain(schedule, job, policy))) for job in (3, 4))
    assert "t=1: started, backfilled, picked 1st of 1: score -0.9542; free were 2" in lines
    assert "t=1: it held the reservation, picked 3rd of 3: score -0.699, but needs 4 processors and 2 were" in lines


@pytest.mark.parametrize("place", [99, -1, 0.0, nan, True, "0", (0,), np.array([0])])
def test_an_agent_that_picks_no_place_of_its_window_is_an_error(place):
    class Wrong(Oldest):
        def pick(self, choice):
            return place

    with pytest.raises(JobcastError, match="a place is a whole number from 0"):
        simulate(busy_workload(), replace(EASY, agent=Wrong()))


@pytest.mark.parametrize("agent", [5, "oldest", Linear, Oldest])
def test_an_agent_that_cannot_pick_is_refused(agent):
    with pytest.raises(JobcastError, match="a method pick; got"):
        replace(EASY, agent=agent)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Linear((1.0, 2.0)), "has 12 weights"),
        (lambda: Linear("twelve chars"), "are numbers"),
        (lambda: Linear(5), "has 12 weights"),
        (lambda: Linear((nan,) * 12), "that of 'wait' is nan"),
        (lambda: Linear((0.0,) * 11 + (inf,)), "that of 'place in the window' is inf"),
        (lambda: RandomPicks(-1), "got -1"),
        (lambda: RandomPicks(True), "got True"),
        (lambda: replace(EASY, reserve="kept"), "got reserve='kept' and agent=None"),
        (lambda: replace(EASY, agent=OLDEST_FIRST, reserve="never"), "got reserve='never'"),
        (lambda: replace(make_policy("binpacking"), agent=OLDEST_FIRST, reserve="kept"), "greedy backfilling reserves"),
        (lambda: replace(make_policy("balanced"), agent=OLDEST_FIRST, reserve="again"), "reserve='kept' or 'oldest'"),
    ],
)  # fmt: skip
def test_what_is_no_agent_is_refused(make, message):
    with pytest.raises(JobcastError, match=message):
        make()
