"""The engine as a machine: pauses, gates, agents, timers, snapshots, forks, kills, and that it equals the oracle."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictors.data.errors import JobcastError
from predictors.data.events import ENDED, STARTED, SUBMITTED
from schedsim.engine import Simulation, simulate
from schedsim.estimates import Separate, clairvoyant
from schedsim.gates import Verdict
from schedsim.orders import ORDERS
from schedsim.policy import POLICIES, Policy, make_policy
from schedsim.schedule import STARTED_BY
from schedsim.workload import Workload
from tests.oracle import Job, Rule, rule_named
from tests.oracle import simulate as simulate_slowly
from tests.strategies import PROCS, seeded_estimates, seeded_workload
from tests.tsafrir_by_hand import Tsafrir

NAMES = [
    *(name for name in POLICIES if name != "random"),
    "hybrid-2",
    "hybrid-3",
    "easy-sjbf+promise",
    "hybrid-2+promise",
]


def workload_of(jobs):
    columns = {f: [getattr(job, f) for job in jobs] for f in ("submit", "procs", "requested", "run_time", "user")}
    return Workload.from_columns([job.job_id for job in jobs], machine_procs=PROCS, **columns)


def random_workload(seed, **about):
    return workload_of(seeded_workload(seed, **about))


def busy_workload(n_jobs=400, seed=0):
    """A long queue on a small machine."""
    random = np.random.default_rng(seed)
    requested = random.integers(1, 60, n_jobs)
    return Workload.from_columns(
        np.arange(n_jobs),
        submit=np.sort(random.integers(0, 6 * n_jobs, n_jobs)),
        procs=random.integers(1, PROCS + 1, n_jobs),
        requested=requested,
        run_time=random.integers(1, requested + 1),
        user=random.integers(0, 5, n_jobs),
        machine_procs=PROCS,
    )


# --- the oracle ---------------------------------------------------------------------------------------------------


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


# --- events and forecasts -----------------------------------------------------------------------------------------


class Recorder:
    """A forecast that notes what it is given, and says the requested time."""

    def __init__(self, requested):
        self.requested, self.slices = requested, []

    def advance(self, events, seconds):
        """Note the slice."""
        self.slices.append(events.copy())
        jobs = events[events[:, 1] == SUBMITTED, 2]
        seconds[jobs] = self.requested[jobs]


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


# --- gates --------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("name", ["fcfs", "easy", "easy-sjbf", "wfp3-easy", "easy+promise", "binpacking"])
def test_a_gate_that_never_holds_changes_nothing(name):
    jobs = busy_workload()
    policy = make_policy(name)
    gated, free = simulate(jobs, replace(policy, gate=Script({}))), simulate(jobs, policy)
    assert np.array_equal(gated.start, free.start)
    assert np.array_equal(gated.started_by, free.started_by)


def three_jobs():
    return Workload.from_columns(
        range(3), submit=[0, 0, 0], procs=[4, 4, 8], requested=[10, 10, 10], run_time=[10, 10, 10], machine_procs=8
    )


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
    with pytest.raises(JobcastError, match="1 jobs are held for ever"):
        simulate(three_jobs(), replace(make_policy("easy"), gate=Script({0: 10**9})))


def test_timers_that_do_not_wake_make_no_instant():
    jobs = three_jobs()
    for wakes, expected in ((False, [(0, 0), (10, 0)]), (True, [(0, 0), (4, 0), (10, 0)])):
        gate = Script({0: 10})
        simulation = Simulation(jobs, replace(make_policy("easy"), gate=gate))
        simulation.add_timer(4, wakes=wakes)
        simulation.run()
        assert [asked[:2] for asked in gate.asked if asked[1] == 0] == expected


def test_many_timers_fit():
    jobs = busy_workload(30)
    simulation = Simulation(jobs, make_policy("easy"))
    for second in range(1, 2000):
        simulation.add_timer(second, wakes=second % 2 == 0)
    simulation.run()
    assert np.array_equal(simulation.schedule().start, simulate(jobs, make_policy("easy")).start)


# --- agents -------------------------------------------------------------------------------------------------------


class Oldest:
    """Pick the first in the window."""

    def pick(self, choice):
        """Pick the first."""
        return 0


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_an_agent_that_picks_the_oldest_is_easy(seed):
    jobs, easy = random_workload(seed), make_policy("easy")
    picked, ruled = simulate(jobs, replace(easy, agent=Oldest())), simulate(jobs, easy)
    assert np.array_equal(picked.start, ruled.start)
    assert np.array_equal(picked.started_by, ruled.started_by)


def test_an_agent_that_picks_the_oldest_is_easy_on_a_real_log(reference):
    from predictors.data.detect import read_log

    log, _ = read_log(reference("kth.swf.gz"))
    jobs = Workload.from_log(log.for_simulation()[0])
    easy = make_policy("easy")
    assert np.array_equal(simulate(jobs, replace(easy, agent=Oldest())).start, simulate(jobs, easy).start)


def test_an_agent_sees_a_window_of_the_queue_and_may_decline():
    class Counting(Oldest):
        seen = ()

        def pick(self, choice):
            self.seen = (*self.seen, (choice.level, choice.rows.tolist()))
            return None if choice.level == 2 else 0

    jobs = Workload.from_columns(
        range(5), submit=[0, 0, 1, 1, 1], procs=[6, 8, 1, 1, 1], requested=[9] * 5, run_time=[9] * 5, machine_procs=8
    )  # fmt: skip
    agent = Counting()
    simulation = Simulation(jobs, replace(make_policy("easy"), agent=agent, window=2))
    simulation.run(until=1)
    assert agent.seen == (
        (1, [0, 1]),
        (1, [1]),
        (1, [1, 2]),
    )
    assert simulation.running.tolist() == [0]


def test_an_agent_that_picks_outside_its_window_is_an_error():
    class Wrong(Oldest):
        def pick(self, choice):
            return 99

    with pytest.raises(JobcastError, match="picked place 99 of"):
        simulate(busy_workload(), replace(make_policy("easy"), agent=Wrong()))


# --- stopping, branching ------------------------------------------------------------------------------------------

BRANCHED = [
    "fcfs",
    "easy",
    "easy-sjbf+promise",
    "wfp3-easy",
    "hybrid-3",
    "conservative-replan",
    "conservative-compress",
]


@pytest.mark.parametrize("name", BRANCHED)
def test_stopping_on_the_way_changes_nothing(name):
    jobs, policy = busy_workload(), make_policy(name)
    simulation = Simulation(jobs, policy)
    stops = 0
    while not simulation.run(until=simulation.now + 17):
        stops += 1
    assert stops > 100
    assert np.array_equal(simulation.schedule().start, simulate(jobs, policy).start)


@pytest.mark.parametrize("name", BRANCHED)
def test_a_fork_and_its_original_go_their_own_ways(name):
    jobs, policy = busy_workload(), make_policy(name)
    estimates = Tsafrir(jobs.user, jobs.requested)
    whole = simulate(jobs, policy, Tsafrir(jobs.user, jobs.requested), "incremental")
    original = Simulation(jobs, policy, estimates, "incremental")
    for second in range(0, 2400, 300):
        original.run(until=second)
        fork = original.fork()
        fork.run()
        assert np.array_equal(fork.schedule().start, whole.start)
        assert np.array_equal(fork.schedule().last_estimate, whole.last_estimate)
    original.run()
    assert np.array_equal(original.schedule().start, whole.start)
    assert np.array_equal(original.schedule().last_estimate, whole.last_estimate)


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


def test_a_snapshot_of_another_log_or_policy_is_an_error():
    simulation = Simulation(busy_workload(seed=1), make_policy("easy"))
    with pytest.raises(JobcastError, match="not of workload: its jobs or machine differ"):
        simulation.restore(Simulation(busy_workload(seed=2), make_policy("easy")).snapshot())
    with pytest.raises(JobcastError, match="another policy"):
        simulation.restore(Simulation(busy_workload(seed=1), make_policy("fcfs")).snapshot())


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
        sizes.append(sum(a.nbytes for a in (*vars(fork._state).values(), fork._log.events, fork._log.notes)))
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


def test_asking_for_the_schedule_too_early_is_an_error():
    simulation = Simulation(three_jobs(), make_policy("easy"))
    simulation.run(until=3)
    with pytest.raises(JobcastError, match="3 jobs have not ended"):
        simulation.schedule()


# --- how jobs start -----------------------------------------------------------------------------------------------


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
