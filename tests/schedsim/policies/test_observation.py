"""What the pass shows an agent that is asked from outside: each number by its definition, and none of the future."""

from dataclasses import replace
from math import cos, log, log10, pi, sin

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobcast import JobcastError, Simulation, make_policy, simulate
from schedsim.kernels.agents.observation import CONTEXT, HORIZONS
from schedsim.kernels.agents.picks import DECADE, FEATURES
from schedsim.policies.agents import RESERVES, Observation
from schedsim.validate.checks import busy_workload
from schedsim.workload.estimates import Separate, clairvoyant
from tests.support.engine_runs import random_workload

EASY = make_policy("easy")
SEEDS = st.integers(0, 10**9)


class First:
    """Choose the first in the window."""

    def choose(self, observation):
        """Choose the first."""
        return 0


class Drawing:
    """Choose by a stream of random numbers, and keep what was seen."""

    def __init__(self, seed):
        self.random, self.seen = np.random.default_rng(seed), []

    def choose(self, observation):
        """Choose any."""
        assert observation.mask.sum() == observation.n
        assert not observation.jobs[observation.n :].any()
        self.seen.append(observation)
        return self.random.integers(observation.n)


class Checking(Drawing):
    """Compute what is seen anew, from the definitions and the state of the simulation."""

    def __init__(self, seed):
        super().__init__(seed)
        self.simulation = None

    def choose(self, observation):
        """Compare, and choose any."""
        window = self.window(observation)
        assert len(window) == observation.n
        for row, seen in zip(window, observation.jobs, strict=False):
            assert np.allclose(seen, self.features(observation, window, row), atol=1e-6)
        assert np.allclose(observation.context, self.context(observation, window), atol=1e-5)
        return super().choose(observation)

    def window(self, observation):
        """Return the rows of the jobs that may be picked."""
        simulation, record = self.simulation, self.simulation._state.record
        jobs, queued = simulation.workload, simulation.queued
        if observation.level == 2:
            fits, ends = jobs.procs[queued] <= simulation.free, simulation.now + jobs.requested[queued]
            fits &= (ends <= record.queue.shadow_time) | (jobs.procs[queued] <= record.queue.extra_procs)
            queued = queued[fits]
        return queued[: simulation.policy.window].tolist()

    def features(self, observation, window, row):
        """Return the features of a job, in the order of `FEATURES`."""
        simulation, record = self.simulation, self.simulation._state.record
        jobs, now, free = simulation.workload, simulation.now, simulation.free
        wait, procs, estimate = now - int(jobs.submit[row]), int(jobs.procs[row]), int(jobs.requested[row])
        oldest, behind_head = now - int(jobs.submit[simulation.queued].min()), observation.level == 2
        found = {
            "wait": log10(1 + wait),
            "estimate": log10(estimate),
            "procs": log10(procs),
            "share of the machine": procs / jobs.machine_procs,
            "share of the free processors": min(1, procs / max(1, free)),
            "fits now": procs <= free,
            "ends by the shadow time": behind_head and now + estimate <= record.queue.shadow_time,
            "needs extra processors only": behind_head and procs <= record.queue.extra_procs,
            "wait per estimate": log(1 + wait / estimate) / DECADE,
            "wait per oldest wait": wait / oldest if oldest else 0,
            "wait of a wide job": procs / jobs.machine_procs * log10(1 + wait),
            "place in the window": window.index(row) / simulation.policy.window,
        }
        assert tuple(found) == FEATURES
        return [float(value) for value in found.values()]

    def context(self, observation, window):
        """Return the context, in the order of `CONTEXT`."""
        simulation, state = self.simulation, self.simulation._state
        record, jobs, now = state.record, simulation.workload, simulation.now
        machine, queued, running = jobs.machine_procs, simulation.queued, simulation.running
        start = {row: at for at, kind, row in simulation.events().tolist() if kind == 1}
        ends = np.array([start[row] + jobs.requested[row] for row in running.tolist()])
        free = [simulation.free + jobs.procs[running][ends <= now + horizon].sum() for horizon in HORIZONS]
        share, second = jobs.procs[window] / machine, jobs.origin + now
        reserved = [0, 0, 0]
        if observation.level == 2:
            head = int(jobs.procs[state.jobs_now[record.queue.head].row])
            reserved = [head / machine, log10(1 + record.queue.shadow_time - now), record.queue.extra_procs / machine]
        classes = np.histogram(-share, [-2, -0.25, -0.05, -0.01, 0])[0][::-1] / len(window)
        found = [
            observation.level == 2, simulation.free / machine, *np.array(free) / machine, log10(1 + len(running)),
            *reserved, log10(1 + len(queued)), log10(1 + jobs.procs[queued].sum() / machine),
            log10(1 + now - int(jobs.submit[queued].min())), log10(1 + (share * jobs.requested[window]).sum() / 86_400),
            *classes, *(wave(2 * pi * second / length) for length in (86_400, 604_800) for wave in (sin, cos)),
        ]  # fmt: skip
        assert len(found) == len(CONTEXT) == len(observation.context)
        return found


@settings(max_examples=25)
@given(seed=SEEDS, reserve=st.sampled_from(list(RESERVES)), window=st.integers(1, 6))
def test_what_is_seen_is_what_the_names_say(seed, reserve, window):
    jobs = replace(random_workload(seed), origin=1_000_000_000 + seed)
    agent = Checking(seed)
    simulation = Simulation(jobs, replace(EASY, agent=agent, reserve=reserve, window=window))
    agent.simulation = simulation
    simulation.run()
    assert len(agent.seen) == simulation.picks > 0


def test_a_wide_range_of_states_is_seen_right():
    """A long queue, and a machine large enough for all classes of width."""
    jobs = busy_workload(150)
    random = np.random.default_rng(1)
    wide = replace(
        jobs, machine_procs=900, procs=(10 ** random.uniform(0, 2.9, 150)).astype(int), run_time=jobs.run_time * 4000,
        requested=jobs.requested * 4000,
    )  # fmt: skip
    agent = Checking(2)
    simulation = Simulation(wide, replace(EASY, agent=agent))
    agent.simulation = simulation
    simulation.run()
    assert {one.level for one in agent.seen} == {1, 2}
    assert max(one.n for one in agent.seen) > 40
    context = np.array([one.context for one in agent.seen])
    assert (np.ptp(context, axis=0) > 0).all()


def seen_until(jobs, estimates, seed, instant=None):
    """Return all numbers seen up to an instant, and the schedule."""
    agent = Drawing(seed)
    schedule = simulate(jobs, replace(EASY, agent=agent), estimates)
    seen = [one for one in agent.seen if instant is None or one.now <= instant]
    return np.array([[*one.jobs.ravel(), *one.context] for one in seen]), schedule


def other_future(jobs, seed, estimates):
    """Return what is seen up to an instant in two worlds that differ in how long jobs run that have not ended then."""
    _, schedule = seen_until(jobs, estimates(jobs), seed)
    instant = int(np.median(schedule.end))
    other = replace(jobs, run_time=np.where(schedule.end > instant, jobs.requested, jobs.run_time))
    return [seen_until(world, estimates(world), seed, instant)[0] for world in (jobs, other)]


@settings(max_examples=40)
@given(seed=SEEDS)
def test_nothing_seen_depends_on_how_long_a_job_that_has_not_ended_will_run(seed):
    one, other = other_future(random_workload(seed), seed, lambda jobs: jobs.requested)
    assert one.shape == other.shape and np.array_equal(one, other)


def test_the_audit_finds_estimates_that_know_the_future():
    """As published figures were made: candidates tested by their true run times."""

    def cqsim(jobs):
        return Separate(running=jobs.requested, candidates=clairvoyant(jobs), order=jobs.requested)

    one, other = other_future(busy_workload(), 1, cqsim)
    assert one.shape != other.shape or not np.array_equal(one, other)


@settings(max_examples=20)
@given(seed=SEEDS, weeks=st.integers(1, 500))
def test_nothing_seen_tells_users_jobs_numbers_or_the_date(seed, weeks):
    """Other users, other numbers of jobs in the same order, and a log of weeks later show the same."""
    jobs = random_workload(seed)
    later = replace(
        jobs, job_id=7 * jobs.job_id + 1000, user=np.arange(len(jobs)) % 3, origin=jobs.origin + weeks * 604_800
    )
    one, other = (seen_until(world, None, seed)[0] for world in (jobs, later))
    assert np.array_equal(one, other)


@pytest.mark.parametrize("place", [99, -1, None, 0.0, True, np.array([0])])
def test_a_place_behind_the_last_job_is_refused(place):
    class Wrong(First):
        def choose(self, observation):
            return place

    with pytest.raises(JobcastError, match="a place is a whole number from 0 on, below that of the jobs"):
        simulate(busy_workload(), replace(EASY, agent=Wrong()))


def test_an_observation_is_laid_out_by_jobs_and_context():
    numbers = np.arange(3 * 12 + len(CONTEXT), dtype=np.float32)
    seen = Observation.of(numbers, 3, 2, now=5, level=1)
    assert seen.jobs.shape == (3, 12) and seen.jobs[1, 0] == 12 and seen.context[0] == 36
    assert seen.mask.tolist() == [True, True, False]
