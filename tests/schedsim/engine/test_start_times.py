"""Forecasts of starts: they equal the schedule where nothing is uncertain, look at no future, and refuse bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobcast import JobcastError, Simulation, Workload, clean, generate_log, make_policy, simulate, when_will_it_start
from predictors.models.similar_jobs import RecentRatios
from schedsim.engine.start_times import Requested, draws
from schedsim.machine.allocators import FirstFit
from schedsim.machine.outages import Change, Outages, Reservation
from schedsim.machine.topology import Topology
from schedsim.sites.cobalt.commands import Command
from schedsim.sites.cobalt.rules import Rules
from schedsim.workload.dependencies import Dependencies
from tests.support.engine_runs import EVERY_POLICY, jobs_of, workload_of
from tests.support.strategies import seeded_workload, workloads


class Knows:
    """A sampler that draws the truth."""

    def __init__(self, workload):
        self.run_time = workload.run_time

    def run_times(self, rows, elapsed, uniform):
        """Return the workload's own run times."""
        return np.broadcast_to(self.run_time[rows], uniform.shape)


@pytest.mark.parametrize("name", EVERY_POLICY)
def test_with_the_truth_drawn_and_nobody_else_to_come_the_forecast_is_the_start(name):
    for seed in range(3):
        workload = workload_of(seeded_workload(seed))
        last = int(workload.submit[-1])
        start = simulate(workload, make_policy(name)).start
        simulation = Simulation(workload, make_policy(name))
        simulation.run(until=last)
        for row, job in enumerate(workload.job_id.tolist()):
            found = when_will_it_start(simulation, job, Knows(workload), n=2)
            assert (found.p10, found.p50, found.p90) == (start[row],) * 3
        simulation.run()
        assert np.array_equal(simulation.schedule().start, start), "asking has changed the simulation"


@settings(max_examples=40)
@given(workloads(), st.sampled_from(["easy", "easy-sjbf", "conservative-replan", "fcfs"]), st.integers(0, 20))
def test_nothing_of_the_future_is_used(jobs, name, when):
    """Other run times of live jobs, and other jobs still to come, change no forecast made now."""
    now = when * 5
    workload = workload_of(jobs)
    simulation = Simulation(workload, make_policy(name))
    simulation.run(until=now)
    known = set(workload.job_id[workload.submit <= now].tolist())
    ended = set(simulation.events()[simulation.events()[:, 1] == 2, 2].tolist())
    others = Workload.from_columns(
        workload.job_id, submit=workload.submit, procs=np.where(workload.submit <= now, workload.procs, 8),
        requested=workload.requested, machine_procs=8,
        run_time=[
            t if row in ended else max(r, now + 1 - s)
            for row, (t, r, s) in enumerate(zip(workload.run_time.tolist(), workload.requested.tolist(),
                                                workload.submit.tolist(), strict=True))
        ],
    )  # fmt: skip
    twin = Simulation(others, make_policy(name), kill=False)
    twin.run(until=now)
    assert np.array_equal(twin.events(), simulation.events())
    sampler = Requested(workload.requested)
    for job in known:
        here, there = (when_will_it_start(s, job, sampler, n=1) for s in (simulation, twin))
        assert here.starts.tolist() == there.starts.tolist()


def test_draws_depend_on_seed_job_and_number_alone():
    all_at_once = draws(np.array([7, 3, 9]), 50, seed=1)
    assert np.array_equal(draws(np.array([9]), 20, seed=1)[:, 0], all_at_once[:20, 2])
    assert not np.array_equal(draws(np.array([9]), 50, seed=2)[:, 0], all_at_once[:, 2])
    many = draws(np.arange(500), 40, seed=0)
    assert many.min() >= 0 and many.max() < 1 and many.mean() == pytest.approx(0.5, abs=0.01)


def waiting():
    """Job 1 runs, job 2 waits for it, job 3 comes later."""
    workload = jobs_of((0, 6, 100, 9), (1, 8, 10, 10), (50, 1, 10, 10), machine=8)
    simulation = Simulation(workload, make_policy("easy"))
    simulation.run(until=5)
    return simulation, Requested(workload.requested)


def test_quantiles_of_the_draws_by_hand():
    class Five:
        """Draws 20, 40, 60, 80, 100 s for the running job."""

        def run_times(self, rows, elapsed, uniform):
            """Return them in some order."""
            assert rows.tolist() == [0, 1] and elapsed.tolist() == [5, -1]
            return np.array([[60, 1], [20, 1], [100, 1], [40, 1], [80, 1]])

    simulation, _ = waiting()
    found = when_will_it_start(simulation, 2, Five(), n=5)
    assert found.starts.tolist() == [20, 40, 60, 80, 100]
    assert (found.p10, found.p50, found.p90) == (20, 60, 100)
    assert found.to_dict() == {"job_id": 2, "now": 5, "p10": 20, "p50": 60, "p90": 100, "draws": 5}


def test_a_job_that_has_started_is_told_so():
    simulation, sampler = waiting()
    assert when_will_it_start(simulation, 1, sampler, n=3).starts.tolist() == [0, 0, 0]


def test_bad_input_is_refused():
    simulation, sampler = waiting()
    with pytest.raises(JobcastError, match="has no job 9; its 3 jobs are 1 to 3"):
        when_will_it_start(simulation, 9, sampler)
    with pytest.raises(JobcastError, match="Job 3 is only submitted at 50 s; it is 5 s"):
        when_will_it_start(simulation, 3, sampler)
    with pytest.raises(JobcastError, match="1 draw or more; got n = 0"):
        when_will_it_start(simulation, 2, sampler, n=0)

    class Halves:
        """Draws no whole seconds."""

        def run_times(self, rows, elapsed, uniform):
            """Return halves."""
            return uniform / 2

    with pytest.raises(JobcastError, match="type float64; whole seconds from 0 on"):
        when_will_it_start(simulation, 2, Halves())


def test_a_snapshot_of_another_log_is_refused():
    simulation, _ = waiting()
    other = Simulation(workload_of(seeded_workload(1)), make_policy("easy"))
    with pytest.raises(JobcastError, match="not of"):
        simulation.restore(other.snapshot())
    with pytest.raises(JobcastError, match="positive whole seconds; job 2 has 0"):
        simulation.fork(np.array([1, 0, 1]))


# --- the sampler ----------------------------------------------------------------------------------------------------


def test_ratios_are_learnt_at_ends_only_and_conditional_on_what_has_passed():
    log, _ = clean(generate_log(60, seed=3, procs=64))
    sampler = RecentRatios(log, weight=1e-9)
    user, requested = log.values["user"], log.values["requested_time"]
    mine = np.flatnonzero(user == np.bincount(user[user >= 0]).argmax())
    past, job = mine[:-1], mine[-1:]
    rows = [(0, 1, row) for row in past.tolist()]
    sampler.advance(np.array(rows))
    uniform = np.array([[0.0], [0.5], [0.999]])
    assert sampler.run_times(job, np.array([-1]), uniform)[:, 0].tolist() == [requested[job[0]]] * 3
    ratio = np.linspace(0.1, 1.0, len(past))
    ends = [(int(np.ceil(r * requested[row])), 2, row) for r, row in zip(ratio, past.tolist(), strict=True)]
    sampler.advance(np.array(ends))
    drawn = sampler.run_times(job, np.array([-1]), uniform)[:, 0] / requested[job[0]]
    assert drawn[0] == pytest.approx(ratio[-20:][0], abs=0.02) and drawn[2] == pytest.approx(1, abs=0.02)
    half = requested[job[0]] // 2
    later = sampler.run_times(job, np.array([half]), uniform)[:, 0]
    assert (later > half).all() and later[2] == pytest.approx(requested[job[0]], rel=0.02)


def test_jobs_of_one_user_take_the_same_quantile():
    log, _ = clean(generate_log(60, seed=3, procs=64))
    sampler = RecentRatios(log)
    user = log.values["user"]
    for row in range(20):
        sampler.advance(np.array([(0, 1, row), (1 + 30 * row, 2, row)]))
    pair = np.flatnonzero(user == np.bincount(user[user >= 0]).argmax())[:2]
    drawn = sampler.run_times(pair, np.array([-1, -1]), np.random.default_rng(0).random((30, 2)))
    share = drawn / log.values["requested_time"][pair]
    assert np.abs(share[:, 0] - share[:, 1]).max() < 0.05


def test_sampler_refuses_what_is_not_positive():
    with pytest.raises(ValueError, match="must be positive; got 0, 500"):
        RecentRatios(generate_log(3, seed=1), own=0)


def test_the_experiment_asks_and_compares(tmp_path):
    from experiments.registry import experiment_by_name
    from experiments.runs.setting import Setting

    log = generate_log(250, seed=2, procs=32, load=1.0)
    report = experiment_by_name("start-times")(Setting(log, tmp_path, quick=True))
    table = report.tables["start_times"]
    whole = table[table["horizon"] == "all"].iloc[0]
    assert whole["jobs"] == table["jobs"].sum() / 2 > 0
    sides = table[["earlier_than_p10", "p10_to_p90_holds", "later_than_p90"]].sum(axis=1)
    assert np.allclose(sides, 1)
    assert [one.name for one in report.pictures] == ["coverage", "error"] and set(report.data) == {"asked"}
    assert (len(report.notes), len(report.verdict)) == (1, 2)


def chain(failed=()):
    """Return a simulation at 5 s: job 2 waits for job 1, which runs; job 3 waits for processors."""
    w = jobs_of((0, 8, 100, 50), (1, 8, 100, 30), (2, 8, 100, 10), machine=8)
    after = Dependencies(np.array([2]), np.array([1]), np.array([0]), frozenset(failed))
    rules = Rules(dependencies=after, commands=(Command(40, "release", 2),) if failed else ())
    simulation = Simulation(w, make_policy("fcfs"), rules=rules)
    simulation.run(until=5)
    return simulation, Requested(w.requested)


@pytest.mark.parametrize("failed", [(), (1,)])
def test_held_jobs_are_forecast_without_a_look_at_what_becomes_of_them(failed):
    simulation, sampler = chain(failed)
    assert when_will_it_start(simulation, 2, sampler, n=1).p50 == 100
    assert when_will_it_start(simulation, 3, sampler, n=1).p50 == 200  # job 2 is before it, for 100 s, not 30


def test_a_job_of_which_nothing_known_tells_that_it_starts_is_told_so():
    w = jobs_of((0, 8, 100, 50), (1, 8, 100, 50), machine=8)
    orders = (Command(2, "hold", 2), Command(40, "release", 2))
    simulation = Simulation(w, make_policy("fcfs"), rules=Rules(commands=orders))
    simulation.run(until=5)
    with pytest.raises(JobcastError, match="Job 2 does not start by all that is known at 5 s: it is held"):
        when_will_it_start(simulation, 2, Requested(w.requested), n=1)
    assert simulation.run() and simulation.schedule().start.tolist() == [0, 50]


@pytest.mark.parametrize("allocator", [None, FirstFit(Topology.flat(8))])
def test_failures_to_come_are_not_foreseen(allocator):
    w = jobs_of((0, 8, 100, 100), (1, 4, 100, 100), machine=8)
    broken = Outages([Reservation(90, 120)], [Change(30, "fail", 1), Change(300, "repair", 1)])
    simulation = Simulation(w, make_policy("fcfs"), outages=broken, allocator=allocator)
    simulation.run(until=5)
    assert when_will_it_start(simulation, 1, Requested(w.requested), n=1).p50 == 120
    assert when_will_it_start(simulation, 2, Requested(w.requested), n=1).p50 == 220
    simulation.run(until=31)
    with pytest.raises(JobcastError, match="wider than the nodes that are up"):
        when_will_it_start(simulation, 1, Requested(w.requested), n=1)
    assert simulation.run() and simulation.schedule().start[0] == 300
