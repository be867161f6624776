"""Cobalt: routes, node sets, its stories; equal to a simulator that ticks every 15 seconds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.cobalt_stories import drain, sawtooth
from predictors.data.errors import JobcastError
from schedsim import paranoid_laws as known
from schedsim.accounts import Accounts, Project
from schedsim.commands import Command
from schedsim.engine import Simulation, simulate
from schedsim.hierarchy import Hierarchy
from schedsim.paranoid import check
from schedsim.partitions import Partitions, Within
from schedsim.policy import make_policy
from schedsim.queue_metrics import capability_share
from schedsim.queues import mira_router
from schedsim.rules import Rules
from schedsim.score import Score
from schedsim.verdicts import findings
from schedsim.workload import Workload
from tests.cobalt_runs import busy_mira, most_used, rules_of, seeded_house
from tests.engine_runs import estimates_of, workload_of
from tests.oracle import rule_named
from tests.oracle_cobalt import Stuck
from tests.oracle_cobalt import simulate as ticking
from tests.strategies import PROCS, crowded_workload, seeded_estimates, seeded_workload, workloads
from tests.test_verdicts import instants


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


@given(jobs=workloads(least_run=0), seed=st.integers(0, 10**6), policy=st.sampled_from(["cobalt", "easy", "default"]))
@settings(max_examples=120, deadline=None)
def test_also_on_workloads_that_search_for_a_difference(jobs, seed, policy):
    run_both(jobs, policy, seeded_house(seed, jobs))


def test_ticks_are_needed_and_those_left_out_are_not(monkeypatch):
    """On longer queues; without any ticks beside ends and submissions, schedules are others."""
    jobs_of = [(crowded_workload(seed), seed) for seed in range(40)]
    few = [(jobs[:90], procs, seed) for (jobs, procs), seed in jobs_of if max(job.requested for job in jobs) <= 2400]
    runs = []
    for jobs, procs, seed in few[:8]:
        guesses = seeded_estimates(seed, jobs)
        expected = ticking(jobs, procs, rule_named("cobalt"), None, guesses, "doubling")
        workload = workload_of(jobs, procs)
        found = simulate(workload, make_policy("cobalt"), np.array(guesses), "doubling").start.tolist()
        assert found == expected.start, seed
        runs.append((workload, guesses, found))
    monkeypatch.setattr(Rules, "ticking", lambda self, policy: 0)
    assert any(
        simulate(workload, make_policy("cobalt"), np.array(guesses), "doubling").start.tolist() != found
        for workload, guesses, found in runs
    )


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
        assert {known.PARENTS, known.SHARES} <= set(checked.kept)
    assert told > 8


def test_mira_routes_by_the_partition_that_would_be_allocated():
    router = mira_router()
    procs, asked = np.array([4096, 4096, 4097, 8192, 100]), np.array([21_600, 21_601, 60, 86_400, 60])
    names = [router.queues[number].name for number in router.route(procs, asked)]
    assert names == ["prod-short", "prod-long", "prod-capability", "prod-capability", "prod-short"]
    assert router.given(np.array([100, 4097, 30_000])).tolist() == [512, 8192, 32_768]


def test_a_job_just_over_4096_nodes_is_no_capability_job_in_the_metric():
    def share(procs):
        one = Workload.from_columns([1], submit=[0], procs=[procs], requested=[60], run_time=[60], machine_procs=49_152)
        return capability_share(simulate(one, make_policy("cobalt")))

    assert share(4097) == share(8191) == 0
    assert share(8192) == pytest.approx(0.8)
    assert share(16_384) == pytest.approx(1)


@pytest.mark.parametrize("policy", ["cobalt", "easy", "binpacking"])
def test_prod_long_never_uses_more_than_its_third(policy):
    workload = busy_mira(1)
    rules = Rules(mira_router())
    mine = rules.routes(workload) == rules.router.number("prod-long")
    assert most_used(simulate(workload, make_policy(policy), rules=rules), mine) <= 16_384
    without = Rules(mira_router().without_shares())
    assert most_used(simulate(workload, make_policy(policy), rules=without), mine) > 16_384


def test_a_32_k_partition_stays_free_of_prod_long():
    workload = busy_mira(2, n_jobs=120)
    rules, whole = Rules(mira_router()), Partitions(Hierarchy.mira())
    long = workload.job_id[rules.routes(workload) == rules.router.number("prod-long")]
    allocator = Within(whole, (((32_768, 49_152),),), {int(job): 0 for job in long})
    schedule = simulate(workload, make_policy("cobalt"), allocator=allocator, rules=rules)
    first = {
        int(job): min(first for first, _ in schedule.nodes.intervals(row)) for row, job in enumerate(workload.job_id)
    }
    assert all(first[int(job)] >= 32_768 for job in long)
    assert min(first.values()) == 0


def test_a_high_initial_score_overtakes_the_drain_and_default_scores_do_not():
    high, default = (drain(initial) for initial in (1000.0, 0.0))
    assert default.overtakings == 0
    assert high.overtakings >= 1
    assert high.lost_node_hours > default.lost_node_hours
    assert high.large_started > default.large_started


def test_without_the_floor_short_large_jobs_make_a_sawtooth():
    with_floor, without = sawtooth(Score()), sawtooth(Score(floor=60))
    assert without.drains > with_floor.drains
    assert without.lost_node_hours > with_floor.lost_node_hours


def test_a_big_run_starts_the_largest_capability_job_first_and_no_spent_accounts():
    workload = Workload.from_columns(
        [1, 2, 3, 4, 5], submit=[0, 1, 2, 3, 4], procs=[49_152, 8192, 24_576, 49_152, 512], machine_procs=49_152,
        requested=[40_000, 3600, 3600, 3600, 300], run_time=[40_000, 3600, 3600, 3600, 300],
    )  # fmt: skip
    spent = Accounts((Project("spent", "incite", 1.0, spent=2.0),), {4: 0})
    when = (Command(39_999, "big-run"),)
    order = np.argsort(simulate(workload, make_policy("cobalt"), rules=Rules(mira_router(), commands=when)).start)
    assert workload.job_id[order][:2].tolist() == [1, 4]
    rules = Rules(mira_router(), accounts=spent, commands=when)
    start = simulate(workload, make_policy("cobalt"), rules=rules).start
    assert start[2] == 40_000 < start[3]
