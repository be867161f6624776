"""Simulations that stop, go on, branch and go back."""

from dataclasses import replace

import numpy as np
import pytest

from jobcast import JobcastError, Simulation, make_policy, simulate
from predictors.core.events import STARTED, SUBMITTED
from schedsim.machine.outages import Change, Outages
from schedsim.validate.checks import busy_workload
from tests.by_hand.tsafrir import Tsafrir
from tests.support.engine_runs import Recorder, three_jobs, workload_of
from tests.support.strategies import seeded_workload

BRANCHED = [
    "fcfs", "easy", "easy-sjbf+promise", "wfp3-easy", "hybrid-3", "conservative-replan", "conservative-compress",
]  # fmt: skip


@pytest.mark.parametrize("name", BRANCHED)
def test_stopping_on_the_way_changes_nothing(name):
    jobs, policy = busy_workload(), make_policy(name)
    simulation = Simulation(jobs, policy)
    stops = 0
    while not simulation.run(until=simulation.now + 17):
        stops += 1
    assert stops > 100
    assert np.array_equal(simulation.schedule().start, simulate(jobs, policy).start)


def test_restoring_goes_back():
    jobs, policy = busy_workload(), make_policy("easy")
    simulation = Simulation(jobs, policy)
    simulation.run(until=500)
    moment = simulation.snapshot()
    waiting, running = simulation.queued.tolist(), simulation.running.tolist()
    simulation.run()
    start = simulation.schedule().start
    for _ in range(2):
        simulation.restore(moment)
        assert (simulation.queued.tolist(), simulation.running.tolist()) == (waiting, running)
        simulation.run()
        assert np.array_equal(simulation.schedule().start, start)
    elsewhere = Simulation(jobs, policy)
    elsewhere.restore(moment)
    elsewhere.run()
    assert np.array_equal(elsewhere.schedule().start, start)


def test_restoring_keeps_the_simulations_own_workload():
    jobs = busy_workload()
    simulation = Simulation(jobs, make_policy("easy"))
    simulation.restore(Simulation(replace(jobs, name="the same jobs"), make_policy("easy")).snapshot())
    assert simulation.workload is jobs


def test_a_snapshot_of_another_log_or_policy_is_an_error():
    simulation = Simulation(busy_workload(seed=1), make_policy("easy"))
    with pytest.raises(JobcastError, match="not of workload: its jobs or machine differ"):
        simulation.restore(Simulation(busy_workload(seed=2), make_policy("easy")).snapshot())
    with pytest.raises(JobcastError, match="another policy"):
        simulation.restore(Simulation(busy_workload(seed=1), make_policy("fcfs")).snapshot())
    down = Outages(changes=[Change(5, "fail", 1), Change(9, "repair", 1)])
    with pytest.raises(JobcastError, match="outages"):
        simulation.restore(Simulation(busy_workload(seed=1), make_policy("easy"), outages=down).snapshot())


def test_a_forecast_that_cannot_be_copied_is_an_error():
    jobs = busy_workload()
    simulation = Simulation(jobs, make_policy("easy"), Recorder(jobs.requested))
    simulation.run(until=100)
    with pytest.raises(JobcastError, match="Recorder in the loop cannot be copied"):
        simulation.fork()
    fork = simulation.fork(estimates=jobs.requested)
    fork.run()
    assert np.array_equal(fork.schedule().start, simulate(jobs, make_policy("easy")).start)


@pytest.mark.parametrize("before", ["the same", "constant"])
def test_a_fork_with_a_forecast_of_its_own_tells_it_the_past(before):
    """It knows what a forecast that had been there all the time would know, whatever the original had."""
    for seed in range(12):
        jobs = seeded_workload(seed)
        workload = workload_of(jobs)
        user = np.array([job.user for job in jobs])
        given = Tsafrir(user, workload.requested) if before == "the same" else workload.requested
        simulation = Simulation(workload, make_policy("easy"), given)
        whole = simulate(workload, make_policy("easy"), Tsafrir(user, workload.requested))
        simulation.run(until=int(np.median(workload.submit)))
        later = np.arange(len(jobs)) >= np.searchsorted(workload.submit, simulation.now, side="right")
        fork = simulation.fork(estimates=Tsafrir(user, workload.requested))
        fork.run()
        if before == "the same":
            assert fork.schedule().start.tolist() == whole.start.tolist()
            assert fork.schedule().estimate.tolist() == whole.estimate.tolist()
        else:
            assert (fork.schedule().estimate[~later] == workload.requested[~later]).all()
            told = np.full(len(jobs), np.nan)
            for row in np.flatnonzero(later).tolist():
                events = fork.events()
                submitted = (events[:, 1] == SUBMITTED) & (events[:, 2] == row)
                check = Tsafrir(user, workload.requested)
                check.advance(events[: int(np.argmax(submitted)) + 1], told)
                assert fork.schedule().estimate[row] == np.clip(told[row], 1, workload.requested[row])


def test_a_fork_copies_what_lives_not_the_log():
    """The size of the copied state follows the jobs present, however long the log is."""
    few, many = (Simulation(busy_workload(n), make_policy("easy")) for n in (300, 30_000))
    sizes = []
    for simulation in (few, many):
        simulation.run(until=800)
        fork = simulation.fork()
        shared = {id(array) for array in vars(simulation._state).values()}
        assert not fork._state.held_at, "of held jobs alone, and no gate holds any"
        copied = [array for name, array in vars(fork._state).items() if id(array) not in shared and name != "held_at"]
        sizes.append(sum(array.nbytes for array in (*copied, fork._log.events, fork._log.notes)))
    assert sizes[1] <= 2 * sizes[0]


def test_what_if_the_running_jobs_took_longer():
    """In a fork, run times may be supposed and no more jobs come; ends lie in the future, and within the request."""
    simulation = Simulation(three_jobs(), make_policy("easy"))
    simulation.run(until=3)
    for supposed, expected in (({}, 10), ({0: 4}, 10), ({0: 4, 1: 5}, 5), ({0: 1, 1: 1}, 4), ({0: 99}, 10)):
        fork = simulation.fork()
        fork.suppose(supposed)
        fork.close_submissions()
        fork.run()
        events = fork.events()
        assert events[(events[:, 1] == STARTED) & (events[:, 2] == 2), 0].tolist() == [expected]
    assert simulation.run()
    assert simulation.schedule().start.tolist() == [0, 0, 10]
