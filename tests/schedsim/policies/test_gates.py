"""Gates and timers: who may start, when the scheduler wakes."""

from dataclasses import replace

import numpy as np
import pytest

import schedsim.kernels.records as at
from jobcast import JobcastError, Simulation, make_policy, simulate
from schedsim.engine.requests import with_timer
from schedsim.policies.gates import Verdict
from schedsim.validate.checks import busy_workload
from tests.support.engine_runs import three_jobs


class Script:
    """A gate that holds the jobs of a table until their time has come, and notes what it was asked."""

    def __init__(self, until, recheck=None, counts=True):
        self.until, self.recheck, self.counts, self.asked = until, recheck, counts, []

    def ask(self, candidate):
        """Hold the job until its time."""
        self.asked.append((candidate.now, candidate.row, candidate.holds))
        if candidate.now >= self.until.get(candidate.row, 0):
            return Verdict(True)
        return Verdict(False, "not yet", self.recheck, self.counts)


def test_a_held_job_lets_others_pass_and_reserves_nothing():
    """Row 0 is held at 0 s; rows 1 starts, row 2 is the head; at 10 s row 0 is asked again, by rank before row 2."""
    gate = Script({0: 10})
    schedule = simulate(three_jobs(), replace(make_policy("easy"), gate=gate))
    assert schedule.start.tolist() == [10, 0, 20]
    assert gate.asked == [(0, 0, 0), (0, 1, 0), (10, 0, 1), (20, 2, 0)]


def test_a_gate_may_ask_to_be_asked_again():
    gate = Script({0: 7}, recheck=5)
    schedule = simulate(three_jobs(), replace(make_policy("easy"), gate=gate))
    assert schedule.start.tolist() == [10, 0, 20], "at 5 s it is held again, at 10 s it starts"
    assert [asked for asked in gate.asked if asked[1] == 0] == [(0, 0, 0), (5, 0, 1), (10, 0, 2)]


def test_a_gate_may_hold_without_counting():
    gate = Script({0: 7}, recheck=5, counts=False)
    simulate(three_jobs(), replace(make_policy("easy"), gate=gate))
    assert [holds for _, row, holds in gate.asked if row == 0] == [0, 0, 0]


def test_a_job_held_for_ever_is_an_error():
    with pytest.raises(JobcastError, match="1 job held without end"):
        simulate(three_jobs(), replace(make_policy("easy"), gate=Script({0: 10**9})))


def test_timers_that_do_not_wake_make_no_instant():
    jobs = three_jobs()
    for wakes, expected in ((False, [(0, 0), (10, 0)]), (True, [(0, 0), (4, 0), (10, 0)])):
        gate = Script({0: 10})
        simulation = Simulation(jobs, replace(make_policy("easy"), gate=gate))
        simulation._state = with_timer(simulation._state, 4, at.RECHECK, 0, wakes)
        simulation.run()
        assert [asked[:2] for asked in gate.asked if asked[1] == 0] == expected


def test_many_timers_fit():
    jobs = busy_workload(30)
    simulation = Simulation(jobs, make_policy("easy"))
    for second in range(1, 2000):
        simulation._state = with_timer(simulation._state, second, at.RECHECK, 0, second % 2 == 0)
    simulation.run()
    assert np.array_equal(simulation.schedule().start, simulate(jobs, make_policy("easy")).start)
