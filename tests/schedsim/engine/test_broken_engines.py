"""Would the tests notice? Simulators that break one rule each, and the comparisons that catch them."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle.easy import Site, rule_named, simulate
from tests.support.strategies import PROCS, seeded_workload, workloads

SEEDS = range(3000)


def some_workload(shows):
    """Return a seeded workload that shows something; the test fails where none does."""
    for seed in SEEDS:
        if shows(jobs := seeded_workload(seed)):
            return jobs
    raise AssertionError(f"none of {len(SEEDS)} workloads shows it")


class LaterJobFirst(Site):
    """Breaks ties of the order by the larger job id."""

    def key(self, order, entry):
        value, submit, job_id = super().key(order, entry)
        return value, submit, -job_id


class ExtraNeverUsedUp(Site):
    """Forgets to subtract a backfill from the extra processors."""

    def spares(self, head, reserved, entry, place):
        running = self.running
        self.running = [entry for entry in running if entry not in self.as_candidates]
        spared = super().spares(head, reserved, entry, place)
        self.running = running
        return spared


class FrozenShadow(Site):
    """Computes the head's shadow time when it is first blocked and keeps it."""

    def reservation(self, head):
        self.frozen = getattr(self, "frozen", {})
        return self.frozen.setdefault(head, super().reservation(head))


class KnowsRunTimes(Site):
    """Plans with the true ends of the running jobs."""

    def planned_end(self, entry):
        return entry.start + entry.run_time


class NoHead(Site):
    """Starts whatever fits, in order: backfilling without a reservation."""

    def run_pass(self):
        blocked = None
        for entry in list(self.queue):
            if place := self.fits(entry):
                self.start(entry, place, past=blocked)
            else:
                blocked = blocked or entry


class OneAtATime(Site):
    """Starts one job a pass of a greedy rule, though more would fit."""

    def run_pass(self):
        fitting = [entry for entry in self.queue if self.fits(entry)]
        if fitting:
            self.start(fitting[0], self.fits(fitting[0]))


class Overbooks(Site):
    """Believes that the machine has one processor more."""

    def run_pass(self):
        self.machine.procs += 1
        super().run_pass()
        self.machine.procs -= 1


class ForgetsOneEnd(Site):
    """Corrects an expired estimate only once it has been outlived by a second."""

    def correct_expired(self):
        self.now -= 1
        super().correct_expired()
        self.now += 1


class NoPromise(Site):
    """Ignores the promise."""

    def keeps_promise(self, head, entry, place):
        return True


def starts(jobs, name, site=Site, estimates="requested", procs=PROCS):
    return simulate(jobs, procs, rule_named(name), estimates, site_type=site).start


def sees_the_future(simulation: Callable, jobs):
    """Change the run time of each job that runs longest; a start before both its ends may not move."""
    start = simulation(jobs)
    for row, job in enumerate(jobs):
        for run_time in {job.requested, max(1, job.run_time // 2)} - {job.run_time}:
            other = [*jobs[:row], replace(job, run_time=run_time), *jobs[row + 1 :]]
            until = start[row] + min(run_time, job.run_time)
            moved = simulation(other)
            if any(a != b and min(a, b) < until for a, b in zip(start, moved, strict=True)):
                return True
    return False


@pytest.mark.parametrize("policy", ["easy", "conservative-replan", "conservative-compress"])
def test_no_look_ahead_catches_planning_with_true_run_times(policy):
    some_workload(lambda jobs: sees_the_future(lambda some: starts(some, policy, KnowsRunTimes), jobs))


@settings(max_examples=60)
@given(
    jobs=workloads(),
    policy=st.sampled_from(["easy", "sjf-easy", "hybrid-2", "conservative-replan", "conservative-compress"]),
    estimates=st.sampled_from(["requested", "tsafrir"]),
)
def test_the_oracle_does_not_look_ahead(jobs, policy, estimates):
    assert not sees_the_future(lambda some: starts(some, policy, Site, estimates), jobs)
