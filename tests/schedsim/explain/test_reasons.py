"""The passes note why a job does not start: for every waiting job, as it happens, and without changing what happens."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobcast import Simulation, Workload, make_policy, simulate
from schedsim.explain.reasons import RULES
from schedsim.explain.snapshot import Recorded
from schedsim.kernels import reasons as why
from schedsim.kernels.corrections import CORRECTIONS
from schedsim.kernels.records import RUNNING
from schedsim.machine.allocators import Contiguous
from schedsim.machine.topology import Topology
from schedsim.policies.gates import Verdict
from schedsim.workload.estimates import Separate
from tests.support.engine_runs import EVERY_POLICY, estimates_of, instants, rules_noted, workload_of
from tests.support.slow import slow_but
from tests.support.strategies import seeded_estimates, seeded_workload, workloads_with_estimates

SOONER = [name for name in EVERY_POLICY if name != "knapsack"]
"""Policies of which a pass that notes reasons is compiled within seconds."""


def same(one, other):
    """Whether two schedules are equal."""
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("start", "end", "started_by", "estimate", "last_estimate")
    )


def rules_of(make, recorded=None):
    """The rules noted in a simulation, whose schedule must be that of one in which nothing is noted."""
    noting, plain = make(), make()
    rules = rules_noted(noting, recorded)
    plain.run()
    assert same(noting.schedule(), plain.schedule())
    return rules


@pytest.mark.parametrize("name", slow_but(EVERY_POLICY, *SOONER))
def test_every_waiting_job_gets_a_reason_and_the_schedule_stays_as_it_is(name):
    rules, n_jobs = Counter(), 0
    for seed in range(8):
        jobs = seeded_workload(seed, least_run=0)
        n_jobs += len(jobs)
        workload, given_ = workload_of(jobs), np.array(seeded_estimates(seed, jobs))
        correction = list(CORRECTIONS)[seed % len(CORRECTIONS)]
        rules += rules_of(lambda: Simulation(workload, make_policy(name), given_, correction))  # noqa: B023
    policy = make_policy(name)
    assert rules["starts"] == n_jobs
    if policy.kind in ("greedy", "knapsack"):
        assert set(rules) <= {"starts", "processors", "not chosen", "window"}
    elif policy.kind == "compress":
        assert set(rules) <= {"starts", "processors", "reservation"}
    elif policy.depth == 0:
        assert set(rules) == {"starts", "head", "turn"}
    else:
        assert {"starts", "head", "processors"} <= set(rules)
        assert ("promise" in rules) <= (policy.promise is not None)
        assert ("shadow" in rules) == (policy.kind == "counts")


@settings(max_examples=60)
@given(workloads_with_estimates(least_run=0, kill=False), st.sampled_from(SOONER), st.booleans())
def test_also_where_jobs_run_on_and_predictions_come_from_a_forecast(drawn, name, learnt):
    jobs, estimates = drawn
    workload = workload_of(jobs)
    source = "tsafrir" if learnt else estimates
    rules_of(lambda: Simulation(workload, make_policy(name), estimates_of(workload, source), "incremental", kill=False))


@pytest.mark.parametrize("name", ["easy", "easy-sjbf+promise", "hybrid-2", "conservative-replan", "wfp3-easy"])
def test_also_with_separate_estimates(name):
    for seed in range(10):
        jobs = seeded_workload(seed)
        several = Separate(*(np.array(seeded_estimates(seed + 100 * k, jobs)) for k in range(3)))
        rules_of(lambda: Simulation(workload_of(jobs), make_policy(name), several))  # noqa: B023


@pytest.mark.parametrize("name", ["easy", "easy-sjbf", "sjf-easy", "easy+promise", "fcfs"])
def test_the_shadow_time_is_the_first_planned_end_at_which_the_head_fits(name):
    """Worked out here from the running jobs alone; those just backfilled do not move it."""
    heads = 0
    for seed in range(12):
        jobs = seeded_workload(seed)
        simulation = Simulation(
            workload_of(jobs), make_policy(name), np.array(seeded_estimates(seed, jobs)), "doubling"
        )
        for instant in instants(simulation):
            for row, reason in instant.reasons.items():
                if reason.rule == "head":
                    heads += 1
                    assert reason.shadow == first_fit(simulation, int(simulation.workload.procs[row])), instant.now
    assert heads > 30


def first_fit(simulation, procs):
    """The first planned end by which so many processors are free."""
    state = simulation._state
    running = [state.jobs_now[slot] for slot in state.slots(RUNNING)]
    ends = [(job.start + job.current_estimate, job.procs) for job in running]
    freed = {end: simulation.free + sum(width for other, width in ends if other <= end) for end, _ in ends}
    return min(end for end, free in freed.items() if free >= procs)


class Holds:
    """A gate that holds every third question it is asked, and asks for a recheck."""

    def __init__(self):
        self.asked = 0

    def ask(self, candidate):
        """Count and hold."""
        self.asked += 1
        return Verdict(self.asked % 3 != 0, "every third", recheck=4)


@pytest.mark.parametrize("name", ["fcfs", "easy", "easy-sjbf", "binpacking", "easy+promise"])
def test_what_a_gate_says_is_noted_even_of_one_that_remembers(name):
    held = 0
    for seed in range(10):
        workload = workload_of(seeded_workload(seed))
        recorded = Recorded(Holds())
        simulation = Simulation(workload, replace(make_policy(name), gate=recorded))
        for instant in instants(simulation, recorded):
            held += sum(reason.rule == "gate" and reason.reason == "every third" for reason in instant.reasons.values())
        assert same(simulation.schedule(), simulate(workload, replace(make_policy(name), gate=Holds())))
    assert held > 0


@pytest.mark.slow
def test_also_when_so_many_jobs_arrive_that_the_engine_needs_more_room():
    columns = {"submit": [0] * 700, "procs": [3] * 700, "requested": [5] * 700, "run_time": [5] * 700}
    workload = Workload.from_columns(np.arange(700), machine_procs=8, **columns)
    rules = rules_of(lambda: Simulation(workload, make_policy("easy")))
    assert rules["starts"] == 700


@pytest.mark.parametrize("name", ["fcfs", "easy", "easy-sjbf", "wfp3-easy", "sjf", "binpacking"])
def test_also_where_places_decide(name):
    """With contiguous nodes, and with a gate besides."""
    rules = Counter()
    for seed in range(20):
        jobs = seeded_workload(seed, least_run=seed % 2)
        contiguous, workload = Contiguous(Topology.flat(8)), workload_of(jobs)
        estimates = np.array(seeded_estimates(seed, jobs))
        for policy in (make_policy(name), replace(make_policy(name), gate=Every3rd())):
            rules += rules_of(lambda: Simulation(workload, policy, estimates, "doubling", allocator=contiguous))  # noqa: B023
    assert rules["gate"] > 0 and (rules["place"] > 0 or name in ("fcfs", "sjf"))


class Every3rd:
    """Holds whenever the second and the row say so; asks again a second later."""

    def ask(self, candidate):
        """Hold or admit."""
        return Verdict((candidate.now + candidate.row) % 3 > 0, "every third", recheck=1)


def test_the_rules_have_the_numbers_of_the_kernels():
    codes = [why.STARTS, why.HEAD, why.PROCESSORS, why.NO_PLACE, why.TURN, why.DELAYS_HEAD, why.PROMISE]
    codes += [why.RESERVATION, why.GATE, why.NOT_CHOSEN, why.WINDOW, why.CEILING, why.POSTPONED, why.SHARE, why.OUTAGE]
    codes += [why.RESOURCES]
    assert codes == list(range(1, len(RULES))) and RULES[why.SHARE - 1] == "share" and RULES[-1] == "held"
