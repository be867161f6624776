"""Cobalt: routes, scores, holds, dependencies, node sets; equal to a simulator that ticks every 15 seconds."""

import random

import numpy as np
import pytest

from predictors.data.errors import JobcastError
from schedsim import paranoid
from schedsim.commands import Command
from schedsim.dependencies import Dependencies
from schedsim.engine import Simulation, simulate
from schedsim.paranoid import check
from schedsim.policy import make_policy
from schedsim.queues import Queue, Router
from schedsim.rules import Rules
from schedsim.verdicts import findings
from tests.engine_runs import estimates_of, workload_of
from tests.oracle import rule_named
from tests.oracle_cobalt import House, Stuck
from tests.oracle_cobalt import simulate as ticking
from tests.strategies import PROCS, seeded_estimates, seeded_workload
from tests.test_verdicts import instants

QUEUES = [(5, 10**9, 0, 10**9, None), (1, 4, 0, 10**9, 5)]


def rules_of(house, jobs):
    """Return the engine's rules for the oracle's."""
    ids = [job.job_id for job in jobs]
    queues = tuple(
        Queue(f"q{i}", least, None if most == 10**9 else most, longer, None if up_to == 10**9 else up_to, share)
        for i, (least, most, longer, up_to, share) in enumerate(house.queues)
    )
    children = sorted(house.parents)
    dependencies = Dependencies(
        np.array([ids[row] for row in children], dtype=np.int64),
        np.array([ids[house.parents[row][0]] for row in children], dtype=np.int64),
        np.array([house.parents[row][1] for row in children], dtype=np.int64),
        frozenset(ids[row] for row in house.failed),
        "hold" if house.stuck else "run",
    )
    commands = tuple(Command(time, action, ids[row], *to) for time, action, row, *to in house.commands)
    return Rules(Router(queues), dependencies=dependencies, commands=commands)


def seeded_house(seed, jobs, sets=True):
    """Return rules by a seed: a few chains, failures, holds and alterations."""
    draw = random.Random(seed)
    n, step = len(jobs), min(job.requested for job in jobs)
    house = House(
        queues=QUEUES if sets and draw.random() < 0.6 else [(1, 4, 0, 10**9, None), (5, 10**9, 0, 10**9, None)]
    )
    for row in range(1, n):
        if draw.random() < 0.3:
            house.parents[row] = draw.randrange(row), draw.choice([0, 0, step, 7, 100])
    order = draw.sample(range(n), n)
    if draw.random() < 0.3:  # children submitted before their parents
        house.parents = {order[row]: (order[parent], think) for row, (parent, think) in house.parents.items()}
    house.failed = {row for row in range(n) if draw.random() < 0.15}
    house.stuck = draw.random() < 0.5
    last = max(job.submit for job in jobs) + 10 * step
    for row, job in enumerate(jobs):
        chance = draw.random()
        if chance < 0.15:
            held = draw.choice([job.submit, job.submit + draw.randint(1, 5 * step)])
            house.commands.append((held, "hold", row))
            house.commands.append((held + draw.randint(1, 6 * step), "release", row))
        elif chance < 0.3:
            to = draw.choice([None, draw.randint(1, PROCS)]), draw.choice([None, step * draw.randint(1, 6)])
            house.commands.append((job.submit + draw.randint(1, 4 * step), "alter", row, *to))
        if house.stuck and draw.random() < 0.9:
            house.commands.append((last + draw.randint(0, 40 * step), "release", row))
    house.commands.sort(key=lambda command: command[0])
    return house


def run_both(jobs, policy, house, estimates="requested", correction="requested", kill=True):
    workload, believed = workload_of(jobs), estimates_of(workload_of(jobs), estimates)
    rule = rule_named(policy)
    expected = None
    try:
        expected = ticking(jobs, PROCS, rule, house, estimates, correction, kill)
    except Stuck:
        with pytest.raises(JobcastError, match="held for ever"):
            simulate(workload, make_policy(policy), believed, correction, kill, rules=rules_of(house, jobs))
        return None
    schedule = simulate(workload, make_policy(policy), believed, correction, kill, rules=rules_of(house, jobs))
    assert schedule.start.tolist() == expected.start
    assert schedule.last_estimate.tolist() == expected.last_estimate
    return schedule


@pytest.mark.parametrize("policy", ["cobalt", "easy", "easy-sjbf"])
def test_equals_the_simulator_that_ticks_under_a_sites_rules(policy):
    ran = 0
    for seed in range(60):
        jobs = seeded_workload(seed, least_run=0 if seed % 3 == 0 else 1)
        guesses = seeded_estimates(seed, jobs) if seed % 2 else "requested"
        correction = ["requested", "incremental", "doubling"][seed % 3]
        ran += run_both(jobs, policy, seeded_house(seed, jobs), guesses, correction) is not None
    assert ran > 40


@pytest.mark.parametrize("policy", ["cobalt", "easy-sjbf"])
def test_passes_under_rules_are_told_as_they_are_and_keep_their_laws(policy):
    told = 0
    for seed in range(0, 60, 3):
        jobs = seeded_workload(seed + 1)
        house = seeded_house(seed, jobs)
        house.commands = [command for command in house.commands if command[1] != "alter"]
        rules, workload = rules_of(house, jobs), workload_of(jobs)
        try:
            schedule = simulate(workload, make_policy(policy), rules=rules)
        except JobcastError:
            continue
        told += 1
        for instant in instants(Simulation(workload, make_policy(policy), rules=rules)):
            found = findings(instant, make_policy(policy))
            assert {row for row, finding in found.items() if finding.rule == "starts"} == instant.started
            assert found.keys() == {job.row for job in instant.queue} | instant.held.keys()
        checked = check(schedule, make_policy(policy), rules=rules)
        assert {paranoid.PARENTS, paranoid.SHARES} <= set(checked.kept)
    assert told > 8
