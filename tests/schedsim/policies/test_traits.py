"""What does not compose stands in one table; every other pair and triple of features runs, and keeps the laws."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictors.core.errors import JobcastError
from schedsim.cobalt.commands import Command
from schedsim.cobalt.queues import Queue, Router
from schedsim.cobalt.rules import Rules
from schedsim.engine.simulation import Simulation
from schedsim.machine.allocators import Contiguous, FirstFit
from schedsim.machine.dilation import Dilation
from schedsim.machine.outages import Change, Outages, Reservation
from schedsim.machine.topology import Topology
from schedsim.policies import traits
from schedsim.policies.agents import RandomPicks
from schedsim.policies.backfilling import Conservative, Easy, Greedy, Knapsack, Loops, Promise
from schedsim.policies.ceil import Ceiling, Postponing
from schedsim.policies.gates import Verdict
from schedsim.policies.orders import ORDERS, SCORE, LookAhead, Order
from schedsim.policies.policy import Policy, make_policy
from schedsim.policies.traits import INCOMPATIBLE, clash, page, refuse
from schedsim.validate.validate import check
from schedsim.workload.deadlines import with_deadlines
from tests.schedsim.engine.test_nodes import drawn, workload
from tests.support.engine_runs import workload_of
from tests.support.strategies import PROCS, seeded_workload


class OnSecondThought:
    """A gate that holds each job once for a minute."""

    def ask(self, candidate):
        """Hold it the first time."""
        return Verdict(candidate.holds > 0, "second thoughts", recheck=60)


@dataclass
class Setup:
    """Parts of a policy and of a simulation."""

    policy: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)
    on_nodes: bool = False
    deadlines: bool = False
    reserved: bool = False
    failing: bool = False

    def settle(self):
        """Name the nodes of outages where nodes have names, else count them."""
        which = {"nodes": ((0, 1),)} if self.on_nodes or "allocator" in self.parts else {"procs": 1}
        reservations = [Reservation(100, 400, **which)] if self.reserved else []
        changes = [Change(60, "fail", **which), Change(90, "repair", **which)] if self.failing else []
        if reservations or changes:
            self.parts["outages"] = Outages(reservations, changes)


def by_policy(**parts):
    return lambda setup: setup.policy.update(parts)


def by_parts(**parts):
    return lambda setup: setup.parts.update(parts)


def rules_with(shares):
    queues = (Queue("wide", 5), Queue("narrow", 1, 4, share=5 if shares else None))
    return Rules(Router(queues))


def postponing(setup):
    setup.policy["postpone"], setup.deadlines = Postponing(), True


FEATURES = {
    "sjf": by_policy(order=ORDERS["sjf"]),
    "wfp3": by_policy(order=ORDERS["wfp3"]),
    "score": by_policy(order=SCORE),
    "balanced": by_policy(order=make_policy("balanced").order),
    "look-ahead": by_policy(order=Order.by_look_ahead(LookAhead())),
    "easy": by_policy(backfill=Easy()),
    "easy-sjbf": by_policy(backfill=Easy(ORDERS["sjf"])),
    "hybrid": by_policy(backfill=Easy(depth=3)),
    "conservative": by_policy(backfill=Conservative()),
    "compress": by_policy(backfill=Conservative(keep=True)),
    "greedy": by_policy(backfill=Greedy()),
    "knapsack": by_policy(backfill=Knapsack()),
    "loops": by_policy(backfill=Loops()),
    "promise": by_policy(promise=Promise(slack=60)),
    "kept head": by_policy(promise=Promise(slack=60, kept=True)),
    "gate": by_policy(gate=OnSecondThought()),
    "agent": by_policy(agent=RandomPicks(3), reserve="kept"),
    "agent again": by_policy(agent=RandomPicks(3), reserve="again"),
    "ceiling": by_policy(ceiling=Ceiling(0.8)),
    "postponed": postponing,
    "nodes": lambda setup: setattr(setup, "on_nodes", True),
    "first fit": by_parts(allocator=FirstFit(Topology.flat(PROCS))),
    "contiguous": by_parts(allocator=Contiguous(Topology.flat(PROCS))),
    "run times": by_parts(run_times=Dilation(limit=0.5, low=1.2, high=1.4), kill=False),
    "reservations": lambda setup: setattr(setup, "reserved", True),
    "failures": lambda setup: setattr(setup, "failing", True),
    "rules": by_parts(rules=rules_with(shares=False)),
    "shares": by_parts(rules=rules_with(shares=True)),
    "not killed": by_parts(kill=False),
    "doubling": by_parts(correction="doubling"),
}


def traits_of(setup):
    """Return the traits of the parts of a setup, read off it by hand."""
    parts, found = setup.parts, set()
    outages, allocator, rules = parts.get("outages"), parts.get("allocator"), parts.get("rules")
    if setup.on_nodes:
        found |= {traits.NODES} | ({traits.WINDOWS} if outages and outages.reservations else set())
        found |= {traits.FAILURES} if outages and outages.changes else set()
    if outages:
        found.add(traits.OUTAGES)
    if allocator:
        found.add(traits.ALLOCATOR)
        found |= {traits.PLACES} if outages or isinstance(allocator, Contiguous) else set()
    if "run_times" in parts:
        found.add(traits.RUN_TIMES)
    if rules:
        found |= {traits.RULES} | ({traits.SHARES} if rules.router.queues[1].share else set())
    return found


def jobs_of(setup, seed):
    if setup.on_nodes:
        return workload(*drawn(seed)[:2])
    jobs = workload_of(seeded_workload(seed))
    return with_deadlines(jobs, np.arange(len(jobs)) % 3 == 0) if setup.deadlines else jobs


def run(features, seed):
    """Run a simulation with these features, or return the pair for which it was refused."""
    setup = Setup()
    for name in features:
        FEATURES[name](setup)
    setup.settle()
    jobs = jobs_of(setup, seed)
    try:
        policy = Policy(**setup.policy)
    except JobcastError as error:
        return str(error)
    expected = clash(policy.traits | traits_of(setup))
    if expected is not None:
        with pytest.raises(JobcastError, match="do not compose"):
            Simulation(jobs, policy, **setup.parts)
        return expected
    simulation = Simulation(jobs, policy, **setup.parts)
    simulation.run()
    schedule = simulation.schedule()
    assert (schedule.start >= jobs.submit).all()
    check(schedule, policy, kill=setup.parts.get("kill", True), rules=setup.parts.get("rules"))
    return None


@given(seed=st.integers(0, 10**6), features=st.lists(st.sampled_from(sorted(FEATURES)), min_size=2, max_size=4))
def test_what_is_not_in_the_table_runs_and_keeps_the_laws(seed, features):
    run(features, seed)


def test_random_features_often_compose():
    """Else the test above would prove nothing."""
    random, names = Random(0), sorted(FEATURES)
    ran = sum(run(random.sample(names, 3), seed) is None for seed in range(60))
    assert ran > 20


@pytest.mark.parametrize("pair", INCOMPATIBLE)
def test_a_refusal_is_one_line_with_both_the_reason_and_the_way_out(pair):
    with pytest.raises(JobcastError) as error:
        refuse(pair, "Case 'a': ")
    text = str(error.value)
    assert text.startswith(f"Case 'a': {pair[0]} and {pair[1]} do not compose: ")
    assert "\n" not in text
    assert text.count(";") == 1 or INCOMPATIBLE[pair].instead.count(";") == 1
    assert all(trait in page() for trait in pair)


def test_no_row_stands_twice():
    assert len({frozenset(pair) for pair in INCOMPATIBLE}) == len(INCOMPATIBLE)
    assert clash(("a promise", "a gate")) is None


def test_jobs_altered_by_commands_need_no_allocator():
    jobs = workload_of(seeded_workload(1))
    rules = Rules(commands=(Command(1, "alter", int(jobs.job_id[0]), None, 60),))
    with pytest.raises(JobcastError, match=r"jobs that commands alter and an allocator do not compose"):
        Simulation(jobs, make_policy("easy"), rules=rules, allocator=FirstFit(Topology.flat(PROCS)))
