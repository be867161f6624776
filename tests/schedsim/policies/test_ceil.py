"""CEIL: the schedules of a slow oracle, job for job; laws of the ceiling; cases small enough to check by eye."""

import re
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from jobcast import JobcastError, Simulation, Workload, make_policy, simulate, when_will_it_start
from schedsim.engine.start_times import Requested
from schedsim.explain.explain import explain
from schedsim.explain.sentences import in_words
from schedsim.kernels.corrections import CORRECTIONS
from schedsim.machine.dilation import Dilation
from schedsim.policies.ceil import Postponing
from schedsim.policies.policy import ceil
from schedsim.results.metrics import makespan
from schedsim.results.schedule import STARTED_BY
from schedsim.results.site_metrics import time_above, user_figures, user_wait
from schedsim.sites.cobalt.commands import Command
from schedsim.sites.cobalt.rules import Rules
from schedsim.validate.laws import CEILING
from schedsim.validate.validate import check
from schedsim.workload.deadlines import drawn, with_deadlines
from tests.oracle.easy import Job, Outcome, Rule
from tests.oracle.easy import simulate as simulate_slowly
from tests.support.engine_runs import estimates_of, rules_noted, workload_of
from tests.support.strategies import (
    PROCS,
    crowded_workload,
    seeded_estimates,
    seeded_workload,
)

BASES = {
    "fcfs": {"depth": 0}, "easy": {"depth": 1}, "easy-sjbf": {"depth": 1, "backfill_order": "sjf"},
    "saf-easy": {"order": "saf", "depth": 1}, "wfp3-easy": {"order": "wfp3", "depth": 1},
    "wfp3": {"order": "wfp3", "depth": 0}, "easy+promise": {"depth": 1, "promise": True},
    "easy-sjbf+promise": {"depth": 1, "backfill_order": "sjf", "promise": True},
}  # fmt: skip


def engine(jobs, policy, deadlines, estimates="requested", correction="requested", kill=True, procs=PROCS):
    workload = replace(workload_of(jobs, procs), deadline=np.array(deadlines))
    schedule = simulate(workload, policy, estimates_of(workload, estimates), correction, kill)
    return Outcome(
        schedule.start.tolist(),
        schedule.estimate.tolist(),
        schedule.last_estimate.tolist(),
        [STARTED_BY[code] for code in schedule.started_by],
    )


def settings_of(random):
    """A policy's part of CEIL at random: the same for the engine and for the oracle."""
    share = random.choice(["1.0", "0.95", "0.9", "0.8", "0.75", "0.5", "0.3"])
    low, lead = random.choice(["0", "0.3", "0.6", "0.75", "1"]), random.choice([0, 3, 60, 600])
    backfill, over = (random.random() < 0.6 for _ in range(2))
    looks = random.choice(["after", "before", "both"])
    off = None if random.random() < 0.15 else Postponing(float(low), lead, backfill, looks)
    about = {"ceiling": float(share), "refused": "passed over" if over else "reserves", "postpone": off}
    rule = {"ceiling": Fraction(share), "low": Fraction(low), "lead": lead, "postpones": off is not None,
            "backfill": off is not None and backfill, "looks": looks, "passed_over": over}  # fmt: skip
    return about, rule


def deadlines_of(random, jobs):
    """None for about half of the jobs; the others' from tight to far off, on the workload's own grid."""
    return [
        random.choice([-1, job.submit + random.choice([0, 1, 2, 4, 8, 30]) * job.requested + random.choice([0, 5, 60])])
        for job in jobs
    ]


def compare(base, jobs, estimates, seed, correction="requested", kill=True, procs=PROCS):
    random = Random(seed)
    about, rule = settings_of(random)
    deadlines = deadlines_of(random, jobs)
    ours = engine(jobs, ceil(make_policy(base), **about), deadlines, estimates, correction, kill, procs)
    dated = [replace(job, deadline=deadline) for job, deadline in zip(jobs, deadlines, strict=True)]
    slow = simulate_slowly(dated, procs, Rule(**BASES[base], **rule), estimates, correction, kill)
    assert ours == slow, (about, deadlines)


def test_a_job_passed_over_and_then_blocked_in_one_second():
    """Job 7 is passed over for the ceiling; then job 6 joins the queue and starts, and job 7 holds a reservation."""
    jobs = [Job(k, 0, 1, 5, 0) for k in (1, 2, 3, 4)]
    jobs += [Job(5, 25, 2, 5, 5), Job(6, 25, 5, 5, 5), Job(7, 25, 2, 5, 0), Job(8, 25, 1, 5, 0)]
    compare("easy", jobs, [1, 1, 1, 1, 5, 5, 1, 1], 345)


@pytest.mark.parametrize("base", BASES)
def test_they_agree_on_longer_workloads_whatever_the_estimates(base):
    for seed in range(60):
        kill = seed % 5 != 0
        jobs = seeded_workload(seed, kill=kill, least_run=seed % 2)
        estimates = ("requested", "tsafrir", seeded_estimates(seed, jobs))[seed % 3]
        correction = list(CORRECTIONS)[seed // 3 % len(CORRECTIONS)]
        compare(base, jobs, estimates, seed, correction, kill)


@pytest.mark.parametrize("base", ["easy", "wfp3-easy", "easy-sjbf"])
def test_they_agree_on_long_queues(base):
    for seed in range(2):
        jobs, procs = crowded_workload(seed, n_jobs=80)
        compare(base, jobs, seeded_estimates(seed, jobs), seed, procs=procs)


def seen(base, seed, kill=True):
    """A simulation under CEIL at random, ready to be looked at."""
    random = Random(seed)
    about, _ = settings_of(random)
    jobs = seeded_workload(seed, kill=kill, least_run=seed % 2)
    workload = replace(workload_of(jobs), deadline=np.array(deadlines_of(random, jobs)))
    return Simulation(workload, ceil(make_policy(base), **about), np.array(seeded_estimates(seed, jobs)), kill=kill)


@pytest.mark.parametrize("base", BASES)
def test_passes_note_why_nobody_else_starts(base):
    rules = Counter()
    for seed in range(25):
        noting, plain = (seen(base, seed, kill=seed % 4 > 0) for _ in range(2))
        rules += rules_noted(noting)
        plain.run()
        assert noting.schedule().start.tolist() == plain.schedule().start.tolist(), seed
    assert {"starts", "put off"} <= set(rules) and ("ceiling" in rules or BASES[base]["depth"] == 0)


def test_the_worked_example():
    """Li et al., Figure 1: 10 nodes, nine 9-node and nine 1-node jobs of 5 h, six where more than 95 % is in use."""
    columns = {"submit": [0] * 18, "procs": [9] * 9 + [1] * 9, "requested": [18000] * 18, "run_time": [18000] * 18}
    workload = Workload.from_columns(range(1, 19), machine_procs=10, **columns)
    for by in ("start", "mean"):
        world = Dilation(low=1.2, high=1.2, by=by)
        for name in ("easy", "wfp3-easy"):
            full = simulate(workload, make_policy(name), kill=False, run_times=world)
            ceiled = simulate(workload, make_policy(f"{name}+ceil"), kill=False, run_times=world)
            assert makespan(full) == 54 * 3600 and makespan(ceiled) == 50 * 3600, (by, name)


HOUR = 3600
NONE = Postponing(backfill=False, looks="before")


def theta(*rows, deadline=None, machine=4392):
    columns = dict(zip(("submit", "procs", "requested", "run_time"), np.array(rows).T, strict=True))
    more = {} if deadline is None else {"deadline": deadline}
    return Workload.from_columns(range(1, len(rows) + 1), machine_procs=machine, **columns, **more)


def test_at_most_4172_of_4392_nodes_but_a_job_of_4173_is_exempt():
    hour = (HOUR, HOUR)
    easy = make_policy("easy+ceil")
    assert simulate(theta((0, 4000, *hour), (0, 172, *hour)), easy).start.tolist() == [0, 0]
    assert simulate(theta((0, 4000, *hour), (0, 173, *hour)), easy).start.tolist() == [0, HOUR]
    assert simulate(theta((0, 4172, *hour), (0, 1, *hour)), easy).start.tolist() == [0, HOUR]
    assert simulate(theta((0, 100, *hour), (0, 4173, *hour)), easy).start.tolist() == [0, 0]
    assert simulate(theta((0, 100, *hour), (0, 4172, *hour)), easy).start.tolist() == [0, HOUR]
    assert simulate(theta((0, 4173, *hour), (0, 1, *hour)), easy).start.tolist() == [0, HOUR]
    assert simulate(theta((0, 4392, *hour)), easy).start.tolist() == [0]


def test_a_head_that_the_ceiling_stops_keeps_its_reservation():
    """3,000 nodes until 10 h; 1,200 would lift it to 4,200. Behind it: 1,000 nodes for 9 h, for 11 h; 172 for 11 h."""
    jobs = theta((0, 3000, 36000, 36000), (1, 1200, 3600, 3600), (2, 1000, 32400, 32400), (3, 1000, 39600, 39600),
                 (4, 172, 39600, 39600))  # fmt: skip
    found = simulate(jobs, make_policy("easy+ceil"))
    assert found.start.tolist()[:3] == [0, 36000, 2] and found.start[4] == 4
    wide = theta((0, 3000, 36000, 36000), (1, 4200, 3600, 3600), (2, 192, 39600, 39600), (3, 193, 39600, 39600))
    exempt = simulate(wide, make_policy("easy+ceil"))
    assert exempt.start.tolist()[:3] == [0, 36000, 2] and exempt.start[3] > 3  # beside 4,200 only 192 are extra


def test_deadlines_and_releases_of_the_paper():
    """A request of 1 h: by 24 h, released at 20 h; 3 h: 30 h, 24 h; 10 h: 100 h, 87 h."""
    asked = [1, 3, 10]
    rows = [(0, 4000, 200 * HOUR, 200 * HOUR), (0, 4392, HOUR, HOUR)]
    rows += [(HOUR, 100, hours * HOUR, HOUR) for hours in asked]
    jobs = with_deadlines(theta(*rows), np.array([False, False, True, True, True]))
    assert ((jobs.deadline[2:] - HOUR) / HOUR).tolist() == [24, 30, 100]
    policy = ceil(make_policy("easy"), postpone=NONE)
    assert ((simulate(jobs, policy).start[2:] - HOUR) / HOUR).tolist() == [20, 24, 87]
    simulation = Simulation(jobs, policy)
    assert not simulation.run(until=23 * HOUR)
    assert simulation.postponed.tolist() == [3, 4] and simulation.queued.tolist() == [1]


def test_backfills_come_from_the_queue_first_then_from_those_put_off():
    rows = [(0, 4000, 9 * HOUR, 9 * HOUR), (1, 4000, HOUR, HOUR), (2, 172, HOUR, HOUR), (2, 172, HOUR, HOUR)]
    jobs = theta(*rows, deadline=[-1, -1, 48 * HOUR, -1])
    both, queue_only = make_policy("easy+ceil"), ceil(make_policy("easy"), postpone=NONE)
    assert simulate(jobs, both).start[2:].tolist() == [2 + HOUR, 2]
    assert simulate(jobs, queue_only).start[2:].tolist() == [9 * HOUR, 2]  # idle: it joins


def test_those_put_off_join_when_the_queue_is_empty_or_the_machine_idle():
    alone = theta((5, 10, HOUR, HOUR), deadline=[48 * HOUR])
    assert simulate(alone, make_policy("ceil")).start.tolist() == [5]
    rows = [(0, 2635, 9 * HOUR, 9 * HOUR), (1, 4000, HOUR, HOUR), (2, 10, 10 * HOUR, HOUR)]
    policy = ceil(make_policy("easy"), postpone=Postponing(backfill=False))
    idle, busy = (theta((0, n, 9 * HOUR, 9 * HOUR), *rows[1:], deadline=[-1, -1, 48 * HOUR]) for n in (2635, 2636))
    assert simulate(idle, policy).start[2] == 2  # 2,635 is below 60 % of 4,392 = 2,635.2
    assert simulate(busy, policy).start[2] == 9 * HOUR
    # a wide job ends and the next starts: before the pass nothing is in use, after it 91 %
    rows = [(0, 4000, HOUR, HOUR), (1, 4000, HOUR, HOUR), (2, 4000, HOUR, HOUR), (3, 200, 9 * HOUR, HOUR)]
    wide = theta(*rows, deadline=[-1, -1, -1, 48 * HOUR])
    for looks, seen in (("after", []), ("before", [3]), ("both", [3])):
        simulation = Simulation(wide, ceil(make_policy("easy"), postpone=Postponing(backfill=False, looks=looks)))
        simulation.run(until=HOUR)
        assert [row for row in simulation.queued.tolist() if row == 3] == seen
    full = theta((0, 4172, HOUR, HOUR), (1, 100, HOUR, HOUR), deadline=[-1, 48 * HOUR])
    assert Simulation(full, make_policy("ceil")).run() and simulate(full, make_policy("ceil")).start[1] == HOUR


def test_a_postponable_job_that_ends_by_its_deadline_has_no_user_wait():
    jobs = theta((0, 4392, 5 * HOUR, 5 * HOUR), (0, 4000, 3 * HOUR, 3 * HOUR), deadline=[-1, 8 * HOUR])
    found = simulate(jobs, make_policy("easy"))
    assert found.end[1] == 8 * HOUR and user_wait(found).tolist() == [0, 0]
    late = replace(jobs, deadline=np.array([-1, 8 * HOUR - 60]))
    found = simulate(late, make_policy("easy"))
    assert user_wait(found).tolist() == [0, 60]
    told = user_figures(found)
    assert told["late"] == 1 and told["mean_user_wait_s"] == 30 and told["mean_user_wait_regular_s"] == 0
    assert told["mean_user_slowdown"] == pytest.approx((1 + (60 + 3 * HOUR) / (3 * HOUR)) / 2)
    assert told["time_above_share"] == pytest.approx(5 / 8)
    short = theta((0, 4392, 60, 30), (0, 4000, 60, 20), deadline=[-1, -1])
    found = simulate(short, make_policy("easy"))
    assert user_figures(found)["mean_user_slowdown"] == 1.0  # (30 + 20) / 60 < 1


def busy_machine(seed, n_jobs=400, machine=100):
    random = np.random.default_rng(seed)
    asked = random.integers(600, 6 * HOUR, n_jobs)
    return Workload.from_columns(
        range(1, n_jobs + 1), submit=np.sort(random.integers(0, 12 * 24 * HOUR, n_jobs)) - 0,
        procs=np.where(random.random(n_jobs) < 0.02, random.integers(90, 101, n_jobs), random.integers(1, 60, n_jobs)),
        requested=asked, run_time=np.ceil(asked * random.random(n_jobs)).astype(int), machine_procs=machine,
    )  # fmt: skip


@pytest.mark.parametrize("by", ["start", "mean"])
@pytest.mark.parametrize("name", ["ceil", "easy+ceil", "fcfs+ceil"])
def test_law_above_the_ceiling_only_while_an_exempt_job_runs(name, by):
    """At every second, counted from the schedule alone; and without a ceiling it is broken."""
    for seed in range(4):
        workload = busy_machine(seed)
        workload = with_deadlines(workload, drawn(workload, 0.4, seed))
        for policy, holds in ((make_policy(name), True), (make_policy(name.removesuffix("+ceil")), False)):
            if policy.is_ceil != holds:
                continue
            found = simulate(workload, policy, kill=False, run_times=Dilation(by=by, seed=seed))
            seconds = np.unique(np.concatenate([found.start, found.end]))
            running = (found.start[:, None] <= seconds) & (seconds < found.end[:, None])
            above = (running * workload.procs[:, None]).sum(axis=0) > 95
            exempt = (running & (workload.procs >= 95)[:, None]).any(axis=0)
            assert (not (above & ~exempt).any()) == holds
            checked = check(found, policy, kill=False)
            assert (CEILING in checked.kept) == holds


def test_the_second_look_finds_a_start_above_the_ceiling_and_one_out_of_nowhere():
    workload = busy_machine(1)
    full = simulate(workload, make_policy("wfp3-easy"))
    with pytest.raises(JobcastError, match="no start lifts utilisation above the ceiling"):
        check(full, make_policy("ceil"))
    workload = with_deadlines(workload, drawn(workload, 0.5))
    found = simulate(workload, make_policy("ceil"))
    late = found.start.copy()
    late[np.argmax(found.end)] += 1
    moved = replace(found, start=late, end=found.end + (late - found.start))
    with pytest.raises(JobcastError, match="nothing ends and no job is submitted"):
        check(moved, make_policy("ceil"))


def test_explained_in_words():
    rows = [(0, 3000, 36000, 36000), (1, 1200, 3600, 3600), (2, 1180, 39600, 39600), (2, 1200, 3600, 3600)]
    jobs, policy = theta(*rows, deadline=[-1, -1, 90000, -1]), make_policy("easy+ceil")
    found = simulate(jobs, policy)

    def told(job):
        return " ".join(in_words(explain(found, job, policy)))

    assert "1392 processors were free, but under the ceiling on utilisation it may use 1172 of them" in told(2)
    late = "it was postponed until t=39600 at the latest"
    assert f"{late}; as a backfill it had 1172 processors and needs 1180" in told(3)
    assert "may use 1172 of them and needs 1200; job 2 headed the queue" in told(4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ceil(ceiling=0.0), "above 0 and at most 1; got 0.0"),
        (lambda: ceil(ceiling=1.01), "above 0 and at most 1; got 1.01"),
        (lambda: ceil(ceiling=float("nan")), "above 0 and at most 1; got nan"),
        (lambda: ceil(refused="waits"), "'reserves' or is 'passed over'; got refused='waits'"),
        (lambda: Postponing(low=-0.1), "0 to 1; got -0.1"),
        (lambda: Postponing(lead=-1), "got -1"),
        (lambda: Postponing(looks="never"), "got looks='never'"),
        (lambda: drawn(busy_machine(0), 1.5), "from 0 to 1; got 1.5"),
        (lambda: drawn(busy_machine(0), -0.5), "from 0 to 1; got -0.5"),
        (lambda: theta((9, 1, 60, 60), deadline=[8]), "job 1 has deadline 8; it lies before the submission"),
        (lambda: with_deadlines(busy_machine(0), np.ones(400, bool), least=-1), "0 s or more after the submission"),
        (lambda: time_above(simulate(busy_machine(0), make_policy("easy")), 1.2), "at most 1; got 1.2"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(JobcastError, match=re.escape(message)):
        make()


def test_the_start_of_a_job_put_off_is_forecast_without_the_future():
    """Backfilled it would not be; it joins at its due time and starts when the first job ends, by the requests."""
    rows = [(0, 4000, 9 * HOUR, HOUR), (1, 4000, HOUR, HOUR), (2, 180, 2 * HOUR, HOUR)]
    simulation = Simulation(theta(*rows, deadline=[-1, -1, 48 * HOUR]), make_policy("easy+ceil"))
    simulation.run(until=10)
    assert simulation.postponed.tolist() == [2]
    forecast = when_will_it_start(simulation, 3, Requested(simulation.workload.requested), n=3)
    assert forecast.p50 == 10 * HOUR  # as the workload has it, job 1 ends after an hour


def test_a_sites_commands_do_not_go_with_jobs_put_off_but_with_the_ceiling():
    jobs = theta((0, 1, HOUR, HOUR), (0, 2, HOUR, HOUR))
    rules = Rules(commands=(Command(0, "hold", 1), Command(60, "release", 1)))
    with pytest.raises(JobcastError, match="postponed jobs see no accounts and no commands"):
        Simulation(jobs, make_policy("easy+ceil"), rules=rules)
    alone = ceil(make_policy("easy"), postpone=None)
    assert simulate(jobs, alone, rules=rules).start.tolist() == [60, 0]
