"""What does not compose stands in one table; every other set of features runs as the slow oracle says, by the laws."""

from dataclasses import fields
from functools import cache
from itertools import combinations
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from jobcast import JobcastError, Simulation, make_policy
from schedsim.machine.allocators import FirstFit
from schedsim.machine.topology import Topology
from schedsim.policies import traits
from schedsim.policies.policy import Policy
from schedsim.policies.traits import INCOMPATIBLE, clash, page, refuse
from schedsim.sites.cobalt.commands import Command
from schedsim.sites.cobalt.rules import Rules
from tests.support.engine_runs import goes_on_alike, workload_of
from tests.support.features import FEATURES, GROUPS, Case, differing, refusal, some_features
from tests.support.slow import slow_but
from tests.support.strategies import PROCS, seeded_workload


def outcome(seed, n):
    """Draw a case by a seed; return it, what the table refuses of it, and how engine and oracle differ."""
    case = Case(some_features(Random(seed), n), seed)
    refused = refusal(case)
    if refused is None:
        return case, None, differing(case)
    with pytest.raises(JobcastError, match="do not compose" if isinstance(refused, tuple) else None):
        case.engine()
    return case, refused, None


def compiled_apart(case):
    """Return whether the pass is one that is compiled for such cases alone: agents on nodes, and nodes of users."""
    agent_on_nodes = "agent" in case.setup.policy and case.setup.machine in ("nodes", "one node")
    return agent_on_nodes or "kept for users" in case.marks


@given(seed=st.integers(0, 1 << 40), n=st.sampled_from([2, 3, 3, 4, 6]))
def test_what_is_not_in_the_table_runs_as_the_oracle_says(seed, n):
    assume(not compiled_apart(Case(some_features(Random(seed), n), seed)))
    case, _, found = outcome(seed, n)
    assert found is None, (case.features, seed)


def run_many(seeds, n):
    """Run cases of so many features; return which differ, and how many composed."""
    wrong, ran = [], 0
    for seed in seeds:
        case, refused, found = outcome(seed, n)
        ran += refused is None
        wrong += [(case.features, seed, found)] if found else []
    return wrong, ran


@cache
def covering():
    """Return cases that compose, of which some has each two features that compose in any case.

    Sets of four and of three are drawn; a set is taken if it shows a pair that none before it has shown. What is left
    is tried alone.
    """
    shown, cases = set(), []
    drawn = [some_features(Random(seed), 4 if seed < 3000 else 3) for seed in range(6000)]
    for seed, features in enumerate([*drawn, *combinations(FEATURES, 2)]):
        pairs = {frozenset(pair) for pair in combinations(features, 2)}
        one_each = all(len(group.keys() & set(features)) < 2 for group in GROUPS.values())
        if one_each and not pairs <= shown and refusal(case := Case(features, seed)) is None:
            shown |= pairs
            cases.append(case)
    return cases


def test_the_cases_of_the_oracle_draw_every_feature():
    """Each of `GROUPS`, each trait, each part of a policy; `test_networks` has a slow program of networks of nodes."""
    told = {text for name, text in vars(traits).items() if name[:1].isupper() and isinstance(text, str)}
    drawn = {name for case in covering() for name in (*case.features, *case.setup.policy, *case.traits)}
    drawn |= {trait for case in covering() for trait in Policy(**case.setup.policy).traits}
    known = FEATURES.keys() | told - {traits.NETWORK_OF_NODES} | {field.name for field in fields(Policy)}
    assert known <= drawn, f"not in the oracle's cases: {known - drawn}; add it to GROUPS of tests/support/features.py"


@pytest.mark.parametrize("part", slow_but((*range(8), "apart"), *range(8)))
def test_each_pair_of_features_runs_as_the_oracle_says(part):
    cases = [case for case in covering() if compiled_apart(case) == isinstance(part, str)]
    cases = cases if isinstance(part, str) else cases[part::8]
    found = {(case.features, case.seed): differing(case) for case in cases}
    assert len(found) > 20
    assert {which: wrong for which, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize("part", range(4))
def test_forks_and_snapshots_go_on_alike_whatever_the_features(part):
    """From the middle of each schedule; so no file on one feature tests it once more."""
    ran = 0
    for case in [one for one in covering() if not compiled_apart(one)][part::4]:
        whole, one = case.engine(), case.engine()
        try:
            whole.run()
        except JobcastError as error:
            assert "held without end" in str(error)
            continue
        schedule = whole.schedule()
        one.run(until=int(schedule.end.max()) // 2)
        goes_on_alike(one, schedule)
        ran += 1
    assert ran > 250


@pytest.mark.parametrize(
    ("features", "seed"),
    [
        (("conservative", "alterations"), 7520), (("holds", "conservative"), 81_944), (("holds", "hybrid"), 80_317),
        (("holds", "hybrid-sjbf", "plus-hour"), 80_987),
    ],
)  # fmt: skip
def test_a_command_about_a_job_with_a_reservation_makes_the_plan_again(features, seed):
    assert differing(Case(features, seed)) is None


@pytest.mark.parametrize("machine", slow_but(("nodes", "constraints", "nodes of users"), "nodes", "constraints"))
def test_many_cases_on_nodes_run_as_the_oracle_says(machine):
    groups = ("order", "backfilling", "promise", "dates", "failures", "corrections", "limits", "preemption")
    ran = fewer = 0
    for seed in range(500):
        random = Random(seed)
        others = [random.choice(sorted(GROUPS[group])) for group in random.sample(groups, 2)]
        if refusal(case := Case((machine, *others), seed)) is None:
            ran += 1
            fewer += sum(job.ask.told != () and job.ask.nodes != job.ask.told[0] for job in case.jobs)
            assert differing(case) is None, (case.features, seed)
    assert ran > 300 and (fewer > 1000 or machine != "constraints")


@pytest.mark.slow
def test_a_thousand_sets_of_features_run_as_the_oracle_says():
    for n, seeds in ((3, range(1_000, 2_600)), (5, range(3_000, 4_600))):
        wrong, ran = run_many(seeds, n)
        assert not wrong and ran > 200


@pytest.mark.parametrize("name", [one for one in FEATURES if one not in GROUPS["rules"] and "loops" not in one])
def test_a_feature_on_one_node_is_that_feature_on_counts(name):
    """The law of the oracle, also for what the engine refuses on nodes; Slurm's loops take whole nodes and break it."""
    others = GROUPS.keys() - {"machine", "constraints", "keeping", "dates", "failures", "rules"}
    groups = sorted(group for group in others if name not in GROUPS[group])
    for seed in range(12):
        random = Random(seed)
        others = [random.choice(sorted(GROUPS[group])) for group in random.sample(groups, 3)]
        case = Case((name, *others), seed)
        if case.setup.machine != "counts" or case.marks & {"reserved", "failing"} or case.setup.rule.get("loops"):
            continue
        starts = [case.oracle().start, case.on_one_node().start]
        assert starts[0] == starts[1], (case.features, seed)


def test_what_the_table_refuses_has_a_schedule_in_the_oracle():
    """By which the next rows of the table can be deleted."""
    ran = 0
    for seed in range(600):
        case = Case(some_features(Random(seed), 4), seed)
        if isinstance(refusal(case), tuple):
            slow = case.oracle()
            ran += not slow.stuck and all(at >= job.submit for at, job in zip(slow.start, case.jobs, strict=True))
    assert ran > 25


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
