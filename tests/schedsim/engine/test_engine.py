"""The engine equals the oracle and keeps the laws of any schedule; forecasts, kills and ends of estimates."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobcast import JobcastError, Simulation, Workload, make_policy, simulate
from predictors.core.events import ENDED, SUBMITTED
from schedsim.kernels.corrections import CORRECTIONS
from schedsim.policies.orders import random_order
from schedsim.policies.policy import POLICIES
from schedsim.validate.checks import busy_workload
from tests.oracle.easy import Job, Rule, rule_named
from tests.oracle.easy import simulate as simulate_slowly
from tests.schedsim.engine.test_reference_schedules import jobs_of
from tests.support.engine_runs import EVERY_POLICY, Recorder, engine, random_workload, three_jobs
from tests.support.slow import slow_but
from tests.support.strategies import (
    PROCS,
    crowded_workload,
    seeded_estimates,
    seeded_workload,
    workloads,
)

NAMED = ["requested", "clairvoyant", "tsafrir"]
NAMES = list(CORRECTIONS)


@pytest.mark.parametrize("seeds", slow_but((range(8), range(8, 60)), range(8)), ids=str)
@pytest.mark.parametrize("name", EVERY_POLICY)
def test_engine_equals_oracle(name, seeds):
    """Starts, estimates, corrections and kinds of start, job for job, with jobs that are killed and that are not."""
    for seed in seeds:
        kill = seed % 4 > 0
        jobs = seeded_workload(seed, kill=kill, least_run=min(1, seed % 3))
        rule = rule_named(name)
        for estimates in (*NAMED, seeded_estimates(seed, jobs)):
            correction = NAMES[seed % len(NAMES)]
            expected = simulate_slowly(jobs, PROCS, rule, estimates, correction, kill)
            assert engine(jobs, name, estimates, correction, kill) == expected, (
                f"seed {seed}, {estimates}, {correction}"
            )


@pytest.mark.parametrize("name", [name for name in EVERY_POLICY if name not in ("knapsack", "cobalt-2")])
def test_engine_equals_oracle_with_a_long_queue(name):
    """A hundred jobs waiting on machines of 16 to 300 processors: whatever the engine indexes is used."""
    seed = EVERY_POLICY.index(name)
    jobs, procs = crowded_workload(seed)
    for estimates in ("requested", seeded_estimates(seed, jobs)):
        expected = simulate_slowly(jobs, procs, rule_named(name), estimates, NAMES[seed % len(NAMES)])
        assert engine(jobs, name, estimates, NAMES[seed % len(NAMES)], procs=procs) == expected


@pytest.mark.parametrize("estimates", ["requested", "clairvoyant"])
def test_no_job_starts_after_its_first_reservation(estimates):
    """`conservative-compress` with estimates that hold: reservations only come nearer."""
    for seed in range(150):
        jobs = seeded_workload(seed)
        outcome = engine(jobs, "conservative-compress", estimates)
        first = simulate_slowly(jobs, PROCS, rule_named("conservative-compress"), estimates).first_booked
        assert all(outcome.start[row] <= booked for row, booked in first.items()), f"seed {seed}"


@given(jobs=workloads(), name=st.sampled_from(["easy", "easy-sjbf", "hybrid-1"]))
def test_a_promise_by_requested_times_changes_nothing_when_they_are_the_estimates(jobs, name):
    """Only where nobody overtakes the head: under WFP3 a job can be promised, overtaken, and head the queue again."""
    assert engine(jobs, f"{name}+promise") == engine(jobs, name)


COUNT_IN_SECONDS = ("f1", "f2", "f3", "f4", "cobalt")
"""Orders whose formula has seconds in it; Cobalt's score has the least walltime that it reckons with."""


@given(
    jobs=workloads(),
    name=st.sampled_from([name for name in EVERY_POLICY if not name.startswith(COUNT_IN_SECONDS)]),
    factor=st.sampled_from([2, 3]),
)
def test_time_has_no_unit(jobs, name, factor):
    """All times stretched alike: all starts stretched alike, but for orders that count in seconds."""
    stretched = [
        replace(job, submit=factor * job.submit, requested=factor * job.requested, run_time=factor * job.run_time)
        for job in jobs
    ]
    assert engine(stretched, name).start == [factor * start for start in engine(jobs, name).start]


def test_the_laws_cover_every_registered_name():
    """No registered policy is left out of this file."""
    assert set(POLICIES) <= set(EVERY_POLICY)


UNPUBLISHED = [name for name in POLICIES if name not in ("random", "knapsack")]  # the oracle's knapsack tries all sets
LONG = [*UNPUBLISHED, "hybrid-4", "easy-sjbf+promise", "careful"]


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_engine_equals_oracle_on_a_real_log(name, reference):
    """KTH-SP2 whole, with Tsafrir's estimates, for the policies that have no published schedule."""
    jobs = jobs_of(reference("kth.swf.gz"))
    jobs = [replace(job, submit=job.submit - jobs[0].submit) for job in jobs]
    found = engine(jobs, name, "tsafrir", "incremental", procs=100)
    assert found == simulate_slowly(jobs, 100, rule_named(name), "tsafrir", "incremental")


@pytest.mark.parametrize("order", ["fcfs", "sjf", "wfp3"])
def test_engine_equals_oracle_with_hundreds_waiting(order):
    """Many blocks in every ordered list, whose keys stay and move: splitting, merging, growing."""
    jobs = busy_workload(600)
    rows = [Job(*map(int, row)) for row in jobs.jobs[:, [4, 0, 1, 2, 3]]]
    expected = simulate_slowly(rows, PROCS, Rule(order=order, depth=1))
    assert simulate(jobs, make_policy(f"{order}-easy")).start.tolist() == expected.start


def test_jobs_of_one_second_are_tried_in_their_order_wherever_memory_ends():
    """The last of them may find no room for its record; it is then still no newcomer that came alone."""
    for n in range(250, 260):
        procs = [7, 10] + [1] * n
        w = Workload.from_columns(
            range(n + 2), submit=[0, 1] + [10] * n, procs=procs, requested=[10**6] * 2 + [50] * n,
            run_time=[10**6] * 2 + [50] * n, machine_procs=10,
        )  # fmt: skip
        start = simulate(w, make_policy("easy")).start
        assert start[2:].tolist() == [10 + 50 * (i // 3) for i in range(n)], n


def test_random_starts_in_the_order_of_a_hash_of_the_job():
    """Nothing but seed and job id decides: the draw of one job does not depend on what else there is."""
    jobs = random_workload(3)
    one, again, other = (simulate(jobs, replace(make_policy("random"), order=random_order(seed))) for seed in (0, 0, 1))
    assert np.array_equal(one.start, again.start)
    assert not np.array_equal(one.start, other.start)


@pytest.mark.parametrize("policy", ["fcfs", "easy-sjbf", "conservative-replan", "conservative-compress", "knapsack"])
def test_a_forecast_sees_each_event_once_in_order_before_it_answers(policy):
    jobs = busy_workload()
    recorder = Recorder(jobs.requested)
    simulation = Simulation(jobs, make_policy(policy), recorder)
    simulation.run()
    events = simulation.events()
    seen = np.concatenate(recorder.slices)
    assert np.array_equal(seen, events[: len(seen)])
    assert len(recorder.slices) == len(np.unique(jobs.submit))
    for part in recorder.slices:
        last = part[part[:, 0] == part[-1, 0]]
        kinds = last[:, 1].tolist()
        assert kinds[-1] == SUBMITTED
        assert kinds == sorted(kinds, key=[ENDED, SUBMITTED].index), "ends come before submissions"
    assert (np.diff(events[:, 0]) >= 0).all()
    assert np.array_equal(simulation.schedule().start, simulate(jobs, make_policy(policy)).start)


def test_a_forecast_is_cut_to_whole_seconds_between_one_and_the_request():
    class Wild(Recorder):
        def advance(self, events, seconds):
            super().advance(events, seconds)
            seconds[events[events[:, 1] == SUBMITTED, 2]] = self.answers.pop(0)

    jobs = Workload.from_columns(
        range(5), submit=range(5), procs=[1] * 5, requested=[9] * 5, run_time=[3] * 5, machine_procs=9
    )
    wild = Wild(jobs.requested)
    wild.answers = [-5.0, 0.4, 7.9, 1e300, np.inf]
    assert simulate(jobs, make_policy("easy"), wild).estimate.tolist() == [1, 1, 7, 9, 9]


def test_a_forecast_that_gives_no_number_is_an_error():
    class Silent(Recorder):
        def advance(self, events, seconds):
            seconds[events[events[:, 1] == SUBMITTED, 2]] = np.nan

    jobs = busy_workload(20)
    with pytest.raises(JobcastError, match="gave no number for job 0, submitted at"):
        simulate(jobs, make_policy("easy"), Silent(jobs.requested))


@pytest.mark.parametrize(
    ("estimates", "text"),
    [
        ([0] * 20, "positive whole seconds; job 0 has 0"),
        ([1.5] * 20, "positive whole seconds; job 0 has 1.5"),
        ([float("nan")] * 20, "positive whole seconds; job 0 has nan"),
        ([1] * 19, r"shape \(19,\); one for each of 20 jobs"),
        (["1"] * 20, "got an array of <U1"),
    ],
)
def test_wrong_estimates_are_an_error(estimates, text):
    with pytest.raises(JobcastError, match=text):
        simulate(busy_workload(20), make_policy("easy"), np.array(estimates))


def test_kills_are_counted_and_can_be_switched_off():
    jobs = Workload.from_columns(
        range(3), submit=[0, 1, 2], procs=[8, 8, 8], requested=[10, 10, 10], run_time=[10, 25, 9], machine_procs=8
    )  # fmt: skip
    killed, spared = simulate(jobs, make_policy("easy")), simulate(jobs, make_policy("easy"), kill=False)
    assert killed.end.tolist() == [10, 20, 29]
    assert killed.killed.tolist() == [False, True, False]
    assert spared.end.tolist() == [10, 35, 44]
    assert not spared.killed.any()


def test_asking_for_the_schedule_too_early_is_an_error():
    simulation = Simulation(three_jobs(), make_policy("easy"))
    simulation.run(until=3)
    with pytest.raises(JobcastError, match="3 jobs have not ended"):
        simulation.schedule()


@pytest.mark.parametrize(
    ("job_id", "submit", "procs", "machine", "ended"),
    [
        ([9, 3, 5], [0, 1, 1], [1, 1, 1], 3, [9, 3, 5]),  # by start, then by id
        ([5, 9, 2], [0, 1, 2], [8, 4, 4], 8, [5, 2, 9]),  # started together: by id, not by submission
    ],
)
def test_ends_of_one_second_come_by_start_then_job_id(job_id, submit, procs, machine, ended):
    jobs = Workload.from_columns(
        job_id, submit=submit, procs=procs, requested=[9, 9, 9], run_time=[5, 4, 4], machine_procs=machine
    )
    simulation = Simulation(jobs, make_policy("fcfs"))
    simulation.run()
    events = simulation.events()
    assert jobs.job_id[events[events[:, 1] == ENDED, 2]].tolist() == ended
