"""The engine equals the oracle; what forecasts are told, and how estimates and kills end."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictors.data.errors import JobcastError
from predictors.data.events import ENDED, SUBMITTED
from schedsim.engine import Simulation, simulate
from schedsim.estimates import Separate, clairvoyant
from schedsim.orders import ORDERS
from schedsim.policy import POLICIES, Policy, make_policy
from schedsim.schedule import STARTED_BY
from schedsim.workload import Workload
from tests.engine_runs import Recorder, busy_workload, random_workload, three_jobs, workload_of
from tests.oracle import Job, Rule, rule_named
from tests.oracle import simulate as simulate_slowly
from tests.strategies import PROCS, seeded_estimates, seeded_workload

NAMES = [
    *(name for name in POLICIES if name != "random"),
    "hybrid-2",
    "hybrid-3",
    "easy-sjbf+promise",
    "hybrid-2+promise",
]


@pytest.mark.parametrize("name", NAMES)
def test_equals_the_oracle(name):
    for seed in range(40):
        kill = seed % 3 > 0
        jobs = seeded_workload(seed, kill=kill, least_run=seed % 2)
        guesses = seeded_estimates(seed, jobs)
        correction = ("requested", "incremental", "doubling")[seed % 3]
        expected = simulate_slowly(jobs, PROCS, rule_named(name), guesses, correction, kill)
        got = simulate(workload_of(jobs), make_policy(name), np.array(guesses), correction, kill)
        assert got.start.tolist() == expected.start, f"seed {seed}"
        assert got.estimate.tolist() == expected.estimate
        assert got.last_estimate.tolist() == expected.last_estimate


@pytest.mark.parametrize(
    "name", ["wfp3", "sjf-easy", "easy-sjbf", "hybrid-2", "conservative-replan", "conservative-compress"]
)
def test_equals_the_oracle_with_separate_estimates(name):
    for seed in range(40):
        jobs = seeded_workload(seed)
        first, second, third = (seeded_estimates(100 * seed + i, jobs) for i in range(3))
        expected = simulate_slowly(
            jobs, PROCS, rule_named(name), "requested", running=first, candidates=second, ordering=third
        )
        estimates = Separate(running=np.array(first), candidates=np.array(second), order=np.array(third))
        assert simulate(workload_of(jobs), make_policy(name), estimates).start.tolist() == expected.start, (
            f"seed {seed}"
        )


@pytest.mark.parametrize(
    ("policy", "rule"),
    [
        (Policy(ORDERS["sjf"], depth=3, kind="profile"), Rule(order="sjf", depth=3)),
        (Policy(ORDERS["wfp3"], ORDERS["sjf"], depth=2, kind="profile"), Rule("wfp3", "sjf", depth=2)),
        (Policy(ORDERS["saf"], depth=None, kind="profile"), Rule(order="saf", depth=None)),
        (Policy(ORDERS["sjf"], depth=None, kind="compress"), Rule(order="sjf", depth=None, keeps=True)),
        (Policy(ORDERS["unicep"], ORDERS["f1"], depth=1), Rule("unicep", "f1", depth=1)),
        (Policy(ORDERS["ljf"], depth=2, kind="profile", promise=True), Rule(order="ljf", depth=2, promise=True)),
        (Policy(kind="knapsack", window=4, reward="capacity"), Rule(greedy="knapsack", window=4, reward="capacity")),
    ],
)
def test_other_combinations_equal_the_oracle(policy, rule):
    for seed in range(40):
        jobs = busy_workload(40, seed)
        rows = [Job(*map(int, row)) for row in jobs.jobs[:, [4, 0, 1, 2, 3]]]
        expected = simulate_slowly(rows, PROCS, rule, "clairvoyant")
        got = simulate(jobs, policy, clairvoyant(jobs))
        assert got.start.tolist() == expected.start, f"seed {seed}"
        assert [STARTED_BY[code] for code in got.started_by] == expected.started_by, f"seed {seed}"


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 10**9), order=st.sampled_from(list(ORDERS)), backfill=st.sampled_from([None, *ORDERS]))
def test_profile_at_depth_one_is_counts(seed, order, backfill):
    jobs = random_workload(seed)
    easy = Policy(ORDERS[order], backfill=ORDERS.get(backfill or order), depth=1)
    counted, planned = simulate(jobs, easy), simulate(jobs, replace(easy, kind="profile"))
    assert np.array_equal(counted.start, planned.start)
    assert np.array_equal(counted.started_by, planned.started_by)


def test_random_starts_in_the_order_of_a_hash_of_the_job():
    """Nothing but seed and job id decides: the draw of one job does not depend on what else there is."""
    jobs = random_workload(3)
    one, again, other = (simulate(jobs, replace(make_policy("random"), order=order)) for order in seeds(0, 0, 1))
    assert np.array_equal(one.start, again.start)
    assert not np.array_equal(one.start, other.start)


def seeds(*numbers):
    from schedsim.orders import random_order

    return [random_order(number) for number in numbers]


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


def test_ends_of_one_second_come_by_start_then_job_id():
    jobs = Workload.from_columns(
        [9, 3, 5], submit=[0, 1, 1], procs=[1, 1, 1], requested=[9, 9, 9], run_time=[5, 4, 4], machine_procs=3
    )  # fmt: skip
    simulation = Simulation(jobs, make_policy("fcfs"))
    simulation.run()
    ends = simulation.events()[simulation.events()[:, 1] == ENDED]
    assert jobs.job_id[ends[:, 2]].tolist() == [9, 3, 5]
    assert (ends[:, 0] == 5).all()


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


def test_how_jobs_start():
    times = [10, 10, 8, 9]
    jobs = Workload.from_columns(
        range(4), submit=range(4), procs=[6, 8, 2, 2], requested=times, run_time=times, machine_procs=8
    )
    for name in ("easy", "hybrid-2", "conservative-replan", "conservative-compress"):
        codes = simulate(jobs, make_policy(name)).started_by
        assert [STARTED_BY[code] for code in codes] == ["ready", "reserved", "backfilled", "reserved"], name


def test_clairvoyant_estimates_are_never_corrected():
    jobs = busy_workload()
    schedule = simulate(jobs, make_policy("easy"), clairvoyant(jobs), "incremental")
    assert np.array_equal(schedule.estimate, schedule.last_estimate)


def test_a_long_queue_under_every_order_equals_the_oracle():
    """Many blocks in every list: splitting, merging, growing."""
    jobs = busy_workload(600)
    rows = [Job(*map(int, row)) for row in jobs.jobs[:, [4, 0, 1, 2, 3]]]
    for order in ORDERS:
        expected = simulate_slowly(rows, PROCS, Rule(order=order, depth=1))
        assert simulate(jobs, make_policy(f"{order}-easy")).start.tolist() == expected.start, order


def test_ends_of_one_second_that_started_together_are_in_the_order_of_their_ids():
    """Once they were in the order of submission, which is another one where ids do not follow submissions."""
    workload = Workload.from_columns(
        [5, 9, 2], submit=[0, 1, 2], procs=[8, 4, 4], requested=[9, 9, 9], run_time=[5, 4, 4], machine_procs=8
    )
    simulation = Simulation(workload, make_policy("fcfs"))
    simulation.run()
    events = simulation.events()
    assert workload.job_id[events[events[:, 1] == ENDED, 2]].tolist() == [5, 2, 9]
