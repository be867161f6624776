"""Dependencies and accounts of a site."""

from datetime import UTC, datetime

import numpy as np
import pytest

from jobcast import JobcastError, Simulation, Workload, make_policy, simulate
from schedsim.sites.cobalt.accounts import Accounts, Project
from schedsim.sites.cobalt.commands import Command
from schedsim.sites.cobalt.queues import Queue, Router
from schedsim.sites.cobalt.rules import Rules
from schedsim.workload.dependencies import Dependencies
from tests.support.cobalt_runs import score_of
from tests.support.engine_runs import jobs_of


def chain(parents_score, own, failed=(), on_failure="hold"):
    """Job 1 blocks; job 2, with a start score, runs before its child 3, which has one too."""
    workload = jobs_of((0, 8, 5, 5), (1, 8, 5, 5), (2, 8, 5, 5), (3, 8, 60, 60), machine=8)
    projects = (
        Project("parents", "incite", 1e6, start_score=parents_score, weight=0.0),
        Project("own", "incite", 1e6, start_score=own, weight=0.0),
        Project("last", "incite", 1e6, start_score=0.0, weight=0.0),
    )
    dependencies = Dependencies(np.array([3]), np.array([2]), np.array([0]), frozenset(failed), on_failure)
    return workload, Rules(dependencies=dependencies, accounts=Accounts(projects, {2: 0, 3: 1, 4: 2}))


@pytest.mark.parametrize(("own", "starts_at"), [(0.0, 100.0), (150.0, 150.0)])
def test_a_child_starts_with_half_of_its_parents_score_unless_it_has_more(own, starts_at):
    workload, rules = chain(200.0, own)
    simulation = Simulation(workload, make_policy("cobalt"), rules=rules)
    simulation.run(until=9)
    assert simulation.held.tolist() == [2]
    simulation.run(until=10)
    assert simulation.running.tolist() == [2]
    assert score_of(simulation, 3) == starts_at


def test_the_child_of_a_failed_parent_is_held_until_it_is_altered():
    workload, rules = chain(200.0, 0.0, failed=[2])
    with pytest.raises(JobcastError, match="held without end, first job 3: the job that it waits for has failed"):
        simulate(workload, make_policy("cobalt"), rules=rules)
    freed = Rules(dependencies=rules.dependencies, commands=(Command(100, "alter", 3),))
    assert simulate(workload, make_policy("cobalt"), rules=freed).start.tolist() == [0, 5, 100, 10]
    anyway = Rules(dependencies=chain(200.0, 0.0, [2], "run")[1].dependencies)
    assert simulate(workload, make_policy("easy"), rules=anyway).start.tolist() == [0, 5, 10, 15]


def test_a_think_time_holds_the_job_and_does_not_move_its_submission():
    workload, _ = chain(0.0, 0.0)
    rules = Rules(dependencies=Dependencies(np.array([3]), np.array([2]), np.array([77])))
    schedule = simulate(workload, make_policy("easy"), rules=rules)
    assert schedule.start.tolist() == [0, 5, 87, 10]
    assert schedule.wait[2] == 85


def account_run(program, spent, epoch=None, procs=4, n=3):
    """Jobs of a project and, each submitted a second later, of nobody; one after the other on the whole machine."""
    ids = np.arange(1, 2 * n + 2)
    workload = Workload.from_columns(
        ids, submit=np.append(0, np.arange(1, 2 * n + 1)), procs=np.append(8, np.full(2 * n, 8)),
        requested=np.full(2 * n + 1, 3600), run_time=np.full(2 * n + 1, 3600), machine_procs=8,
    )  # fmt: skip
    project = Project("p", program, granted=100.0, spent=spent, start_score=5.0)
    router = Router(
        (
            Queue("capability", least_procs=5, capability=True),
            Queue("small", most_procs=4),
            Queue("backfill", behind=True),
        )
    )
    return workload, Rules(router, accounts=Accounts((project,), {int(job): 0 for job in ids[1::2]}, epoch))


def test_jobs_of_a_spent_account_go_behind_all_others_and_overburn_in_its_third_quarter():
    workload, rules = account_run("incite", spent=101.0)
    theirs = np.arange(len(workload)) % 2 == 1
    late = simulate(workload, make_policy("cobalt"), rules=rules).start
    assert late[theirs].min() > late[~theirs].max()
    august = int(datetime(2016, 8, 1, tzinfo=UTC).timestamp())
    workload, rules = account_run("incite", spent=101.0, epoch=august)
    early = simulate(workload, make_policy("cobalt"), rules=rules).start
    assert early[theirs].max() < early[~theirs][1:].min()
    workload, rules = account_run("incite", spent=201.0, epoch=august)
    assert simulate(workload, make_policy("cobalt"), rules=rules).start[theirs].min() > late[~theirs].max()


def test_an_account_that_is_spent_while_its_jobs_wait_moves_them_behind():
    workload, rules = account_run("incite", spent=99.0)
    start = simulate(workload, make_policy("cobalt"), rules=rules).start
    assert start[1] == 3600  # its first job spends the account
    assert start[[3, 5]].min() > start[[0, 2, 4, 6]].max()


def test_a_spent_discretionary_account_is_blocked_until_its_year_begins_again():
    workload, rules = account_run("discretionary", spent=101.0)
    with pytest.raises(JobcastError, match="its account is spent"):
        simulate(workload, make_policy("easy"), rules=rules)
