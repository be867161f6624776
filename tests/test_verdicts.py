"""The readable recomputation of a pass agrees with the engine at every instant, for every policy."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedsim.allocators import Contiguous
from schedsim.engine import Simulation
from schedsim.estimates import Separate
from schedsim.gates import Verdict
from schedsim.instant import Recorded, Stepper
from schedsim.policy import make_policy
from schedsim.topology import Topology
from schedsim.verdicts import findings
from schedsim.workload import Workload
from tests.engine_runs import EVERY_POLICY, estimates_of, workload_of
from tests.strategies import seeded_estimates, seeded_workload, workloads_with_estimates


def instants(simulation, recorded=None):
    """Every scheduling instant of a simulation."""
    stepper = Stepper(simulation, recorded)
    while stepper.next_time() is not None:
        yield stepper.look()


def disagreements(simulation, recorded=None):
    """Instants at which the recomputed starts are not those of the engine, and jobs without a finding."""
    for instant in instants(simulation, recorded):
        found = findings(instant, simulation.policy)
        recomputed = {row for row, finding in found.items() if finding.rule == "starts"}
        if recomputed != instant.started or found.keys() != {job.row for job in instant.queue}:
            yield instant.now, recomputed, set(instant.started)


@pytest.mark.parametrize("name", EVERY_POLICY)
@pytest.mark.parametrize("correction", ["requested", "incremental", "doubling"])
def test_the_recomputed_starts_are_the_engines(name, correction):
    for seed in range(12):
        jobs = seeded_workload(seed, least_run=0)
        simulation = Simulation(
            workload_of(jobs), make_policy(name), np.array(seeded_estimates(seed, jobs)), correction
        )
        assert not list(disagreements(simulation)), seed


@settings(max_examples=150, deadline=None)
@given(workloads_with_estimates(least_run=0, kill=False), st.sampled_from(EVERY_POLICY), st.booleans())
def test_also_where_jobs_run_on_and_predictions_come_from_a_forecast(drawn, name, learnt):
    jobs, estimates = drawn
    workload = workload_of(jobs)
    given_ = estimates_of(workload, "tsafrir" if learnt else estimates)
    assert not list(disagreements(Simulation(workload, make_policy(name), given_, "incremental", kill=False)))


@pytest.mark.parametrize("name", ["easy", "easy-sjbf+promise", "hybrid-2", "conservative-replan", "wfp3-easy"])
def test_also_with_separate_estimates(name):
    for seed in range(20):
        jobs = seeded_workload(seed)
        several = Separate(*(np.array(seeded_estimates(seed + 100 * k, jobs)) for k in range(3)))
        assert not list(disagreements(Simulation(workload_of(jobs), make_policy(name), several))), seed


class Holds:
    """A gate that holds every third question it is asked, and asks for a recheck."""

    def __init__(self):
        self.asked = 0

    def ask(self, candidate):
        """Count and hold."""
        self.asked += 1
        return Verdict(self.asked % 3 != 0, "every third", recheck=4)


@pytest.mark.parametrize("name", ["fcfs", "easy", "easy-sjbf", "binpacking", "easy+promise"])
def test_also_with_a_gate(name):
    held = 0
    for seed in range(20):
        recorded = Recorded(Holds())
        policy = replace(make_policy(name), gate=recorded)
        for instant in instants(Simulation(workload_of(seeded_workload(seed)), policy), recorded):
            found = findings(instant, policy)
            assert {row for row, finding in found.items() if finding.rule == "starts"} == instant.started
            held += sum(finding.rule == "gate" and finding.reason == "every third" for finding in found.values())
    assert held > 0


def test_also_when_so_many_jobs_arrive_that_the_engine_needs_more_room():
    columns = {"submit": [0] * 700, "procs": [3] * 700, "requested": [5] * 700, "run_time": [5] * 700}
    workload = Workload.from_columns(np.arange(700), machine_procs=8, **columns)
    assert not list(disagreements(Simulation(workload, make_policy("easy"))))


def test_a_job_starts_at_one_instant_only():
    jobs = seeded_workload(5)
    simulation = Simulation(workload_of(jobs), make_policy("easy"))
    starts = [
        (row, instant.now)
        for instant in instants(simulation)
        for row, finding in findings(instant, simulation.policy).items()
        if finding.rule == "starts"
    ]
    assert sorted(starts) == list(enumerate(simulation.schedule().start.tolist()))


def test_a_wrong_shadow_time_would_be_noticed(monkeypatch):
    """The check bites: with a shadow time one second late, some recomputed start is not the engine's."""
    import schedsim.verdicts as verdicts

    true = verdicts.fits_at
    monkeypatch.setattr(verdicts, "fits_at", lambda *about: (true(*about)[0] + 5, true(*about)[1]))
    easy = [Simulation(workload_of(seeded_workload(seed)), make_policy("easy")) for seed in range(30)]
    assert any(list(disagreements(simulation)) for simulation in easy)


@pytest.mark.parametrize("name", ["fcfs", "easy", "easy-sjbf", "wfp3-easy", "sjf", "binpacking"])
def test_also_where_places_decide(name):
    """With contiguous nodes, and with a gate besides."""
    rules = set()
    for seed in range(40):
        jobs = seeded_workload(seed, least_run=seed % 2)
        contiguous, workload = Contiguous(Topology.flat(8)), workload_of(jobs)
        estimates = np.array(seeded_estimates(seed, jobs))
        recorded = Recorded(Every3rd())
        gated = replace(make_policy(name), gate=recorded)
        for policy in (make_policy(name), gated):
            simulation = Simulation(workload, policy, estimates, "doubling", allocator=contiguous)
            assert not list(disagreements(simulation, recorded if policy.gate else None)), seed
        simulation = Simulation(workload, make_policy(name), estimates, allocator=contiguous)
        for instant in instants(simulation):
            rules |= {finding.rule for finding in findings(instant, simulation.policy).values()}
    assert "place" in rules or name in ("fcfs", "sjf")


class Every3rd:
    """Holds whenever the second and the row say so; asks again a second later."""

    def ask(self, candidate):
        """Hold or admit."""
        return Verdict((candidate.now + candidate.row) % 3 > 0, "every third", recheck=1)
