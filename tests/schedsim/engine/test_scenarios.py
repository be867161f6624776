"""One scenario of twelve jobs, worked by hand under every rule: the oracle and the engine agree with the hand."""

import pytest

from schedsim.policies.backfilling import Knapsack
from schedsim.policies.policy import POLICIES, Policy, make_policy
from tests.by_hand.scenario import (  # fmt: skip
    BACKFILLED,
    ESTIMATED,
    GUESSES,
    ORDERED,
    PROCS,
    RESERVED,
    SCENARIO,
    starts_by_hand,
)
from tests.oracle.easy import Rule, rule_named, simulate
from tests.support.engine_runs import engine

BY_REQUEST = {**ORDERED, **BACKFILLED, **RESERVED}


def oracle_rule(name):
    return Rule(knapsack="capacity") if name == "knapsack-capacity" else rule_named(name)


@pytest.mark.parametrize("name", BY_REQUEST)
def test_oracle_and_engine_by_requested_times(name):
    policy = Policy(backfill=Knapsack("capacity")) if name == "knapsack-capacity" else name
    by_hand = starts_by_hand(BY_REQUEST[name])
    assert simulate(SCENARIO, PROCS, oracle_rule(name)).start == by_hand
    assert engine(SCENARIO, policy, procs=PROCS).start == by_hand


@pytest.mark.parametrize(("name", "estimates", "correction"), ESTIMATED)
def test_oracle_and_engine_by_other_estimates(name, estimates, correction):
    given = GUESSES if estimates == "guesses" else estimates
    by_hand = starts_by_hand(ESTIMATED[name, estimates, correction])
    assert simulate(SCENARIO, PROCS, oracle_rule(name), given, correction).start == by_hand
    assert engine(SCENARIO, name, given, correction, procs=PROCS).start == by_hand


def test_every_rule_of_a_registered_policy_is_worked_by_hand():
    """Its order aside: `test_orders` has the keys, and the oracle a formula of its own for each."""

    def rule(name):
        policy = make_policy(name)
        return policy.kind, policy.depth, policy.backfill_order is not None, policy.promise is not None

    worked = {rule(name) for name in BY_REQUEST if name != "knapsack-capacity"}
    assert {rule(name) for name in POLICIES} <= worked | {rule(name) for name, _, _ in ESTIMATED}


def test_the_scenario_tells_the_policies_apart():
    """A scenario in which two policies agree could not show one taken for the other."""
    starts = [tuple(starts_by_hand(trace)) for trace in BY_REQUEST.values()]
    assert len(set(starts)) == len(starts)
