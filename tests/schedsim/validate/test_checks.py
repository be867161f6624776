"""Every registered policy and order passes the checks of its kind, and every check can fail."""

from dataclasses import replace

import numpy as np
import pytest

from jobcast import Easy, JobcastError, Order, Policy, make_policy, simulate
from schedsim.policies.orders import FORMULAS
from schedsim.policies.policy import POLICIES
from schedsim.validate import checks
from schedsim.validate.checks import ORDER_CHECKS, POLICY_CHECKS, busy_workload, jobs_that_wait
from schedsim.workload.estimates import clairvoyant


@pytest.mark.parametrize("check", POLICY_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", [*POLICIES, "careful", "balanced", "look-ahead", "hybrid-3", "easy+promise"])
def test_a_registered_policy_passes(name, check):
    check(make_policy(name), busy_workload(60))


@pytest.mark.parametrize("check", ORDER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_of_an_order_passes(name, check):
    check(Order.by(FORMULAS[name], name), jobs_that_wait())


def remembering():
    """Return a policy with a function that ranks by what it was asked before."""
    asked = []

    def order(waiting):
        asked.append(waiting.now)
        return waiting.procs * (-1) ** (len(asked) // 7)

    return Policy(Order.by(order), Easy())


@pytest.mark.parametrize("check", [checks.check_same_schedule_again, checks.check_a_fork_goes_on_by_itself])
def test_a_policy_that_remembers_is_found(check):
    with pytest.raises(AssertionError, match=r"the starts differ: job \d+ at \d+ and \d+ s; \d+ of 200 jobs"):
        check(remembering(), busy_workload(200))


def test_a_policy_that_knows_run_times_is_found():
    with pytest.raises(AssertionError, match=r"with other run times after \d+ s, the starts differ"):
        checks.check_no_start_looks_ahead(make_policy("easy-sjbf"), busy_workload(200), clairvoyant)


def test_a_schedule_that_breaks_a_law_is_found(monkeypatch):
    monkeypatch.setattr(checks, "simulate", lambda jobs, policy: late(simulate(jobs, policy)))
    with pytest.raises(JobcastError, match="The schedule breaks the law"):
        checks.check_laws_are_kept(make_policy("easy"), busy_workload(60))


def late(schedule):
    """Return a schedule in which the last job to start starts a second later."""
    start, end = schedule.start.copy(), schedule.end.copy()
    row = int(np.argmax(start))
    start[row], end[row] = start[row] + 1, end[row] + 1
    return replace(schedule, start=start, end=end)


def changing(waiting):
    waiting.procs[:] = 1
    return waiting.procs


BROKEN = {
    "shape": (lambda waiting: waiting.procs[:1], checks.check_keys_are_numbers, "gave keys of shape"),
    "of one alone": (lambda w: 0 * w.wait / (len(w.wait) - 1), checks.check_keys_are_numbers, "gave NaN"),
    "changes": (changing, checks.check_asking_changes_nothing, "it changes procs"),
    "by chance": (
        lambda waiting: np.random.default_rng().random(len(waiting.row)),
        checks.check_asking_changes_nothing,
        "asked first, and again the keys differ",
    ),
    "by place": (
        lambda waiting: np.arange(len(waiting.row)),
        checks.check_keys_follow_the_jobs,
        "in turn, and reversed the keys differ: job in place 0",
    ),
}


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_order_is_found(case):
    function, check, told = BROKEN[case]
    with pytest.raises((AssertionError, JobcastError), match=told):
        check(Order.by(function), jobs_that_wait())
