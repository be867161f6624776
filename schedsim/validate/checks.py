"""The contract of policies and orders, as functions that anyone can run on their own.

A check of a policy takes the policy and a workload; one of an order takes the order and the jobs that wait. Each raises
an `AssertionError`, or a `JobcastError`, that names what is broken. `jobcast check` runs them on those of a package.

>>> from schedsim.policies.policy import make_policy
>>> for check in POLICY_CHECKS:
...     check(make_policy("easy-sjbf"), busy_workload(n_jobs=60))
"""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Final

import numpy as np

from predictors.core.arrays import Ints
from schedsim.engine.simulation import Simulation, simulate
from schedsim.policies.orders import Order, Waiting
from schedsim.policies.policy import Policy
from schedsim.validate.validate import check
from schedsim.workload.estimates import Estimates
from schedsim.workload.workload import Workload

MakeEstimates = Callable[[Workload], Estimates]


def check_laws_are_kept(policy: Policy, workload: Workload) -> None:
    """The schedule keeps the laws of its policy (`schedsim.validate.laws`)."""
    check(simulate(workload, policy), policy)


def check_same_schedule_again(policy: Policy, workload: Workload) -> None:
    """The same jobs get the same starts when they are simulated again."""
    _same_starts(workload, simulate(workload, policy).start, simulate(workload, policy).start, "first, and again")


def check_a_fork_goes_on_by_itself(policy: Policy, workload: Workload) -> None:
    """A copy made half way, and the original after it, go on as one simulation that was never stopped."""
    whole = simulate(workload, policy)
    original = Simulation(workload, policy)
    original.run(until=int(np.median(whole.start)))
    for branch in (original.fork(), original):
        branch.run()
        _same_starts(workload, whole.start, branch.schedule().start, "in one go, and copied half way")


def check_no_start_looks_ahead(policy: Policy, workload: Workload, estimates: MakeEstimates | None = None) -> None:
    """No start depends on how long a job runs that has not ended by then."""
    first = simulate(workload, policy, estimates and estimates(workload))
    instant = int(np.median(first.end))
    other = replace(workload, run_time=np.where(first.end > instant, workload.requested, workload.run_time))
    second = simulate(other, policy, estimates and estimates(other))
    what = f"as they are, and with other run times after {instant} s,"
    _same_starts(workload, first.start, second.start, what, until=instant)


POLICY_CHECKS: Final[tuple[Callable[[Policy, Workload], None], ...]] = (
    check_laws_are_kept,
    check_same_schedule_again,
    check_a_fork_goes_on_by_itself,
    check_no_start_looks_ahead,
)


def check_keys_are_numbers(order: Order, waiting: Waiting) -> None:
    """Each waiting job gets one number; so does one that waits alone."""
    order.keys(waiting)
    order.keys(_chosen(waiting, np.zeros(1, np.int64)))


def check_asking_changes_nothing(order: Order, waiting: Waiting) -> None:
    """The function leaves the waiting jobs as they were, and answers the same again."""
    before = _chosen(waiting, np.arange(len(waiting.row)))
    first, again = order.keys(waiting), order.keys(waiting)
    for one in fields(Waiting):
        assert np.array_equal(getattr(before, one.name), getattr(waiting, one.name)), f"it changes {one.name}"
    _same_keys(waiting, first, again, "asked first, and again")


def check_keys_follow_the_jobs(order: Order, waiting: Waiting) -> None:
    """A job's key does not depend on its place among those that wait."""
    turned = np.arange(len(waiting.row))[::-1]
    _same_keys(waiting, order.keys(waiting), order.keys(_chosen(waiting, turned))[turned], "in turn, and reversed")


ORDER_CHECKS: Final[tuple[Callable[[Order, Waiting], None], ...]] = (
    check_keys_are_numbers,
    check_asking_changes_nothing,
    check_keys_follow_the_jobs,
)


def busy_workload(n_jobs: int = 400, seed: int = 0, procs: int = 8) -> Workload:
    random = np.random.default_rng(seed)
    requested = random.integers(1, 60, n_jobs)
    return Workload.from_columns(
        np.arange(n_jobs),
        submit=np.sort(random.integers(0, 6 * n_jobs, n_jobs)),
        procs=random.integers(1, procs + 1, n_jobs),
        requested=requested,
        run_time=random.integers(1, requested + 1),
        user=random.integers(0, 5, n_jobs),
        machine_procs=procs,
    )


def jobs_that_wait() -> Waiting:
    """Return some waiting jobs, among them one that has just come."""
    random = np.random.default_rng(0)
    requested = random.integers(1, 60, 20)
    wait = np.arange(20)[::-1] * 30
    return Waiting(600, np.arange(20), wait, requested, random.integers(1, requested + 1), random.integers(1, 9, 20))


def _chosen(waiting: Waiting, rows: Ints) -> Waiting:
    return Waiting(waiting.now, *(getattr(waiting, one.name)[rows] for one in fields(Waiting) if one.name != "now"))


def _same_starts(workload: Workload, first: Ints, second: Ints, what: str, until: float = np.inf) -> None:
    """Refuse starts that differ, of jobs that start by a second in one of the two."""
    moved = np.flatnonzero((first != second) & (np.minimum(first, second) <= until))
    if len(moved):
        row = moved[0]
        job, several = workload.job_id[row], f"{len(moved)} of {len(first)} jobs"
        raise AssertionError(f"{what} the starts differ: job {job} at {first[row]} and {second[row]} s; {several}")


def _same_keys(waiting: Waiting, first: Ints, second: Ints, what: str) -> None:
    other = np.flatnonzero(first != second)
    if len(other):
        row = other[0]
        job = f"{waiting.procs[row]} processors, {waiting.estimate[row]} s, waiting {waiting.wait[row]} s"
        raise AssertionError(f"{what} the keys differ: job in place {row} ({job})")
