"""Slurm's two loops and limits: a slow second reading, second by second, and what is told of them."""

from dataclasses import replace

import numpy as np
import pytest

from jobcast import JobcastError, Policy, Simulation, Workload, simulate
from schedsim.explain.explain import explain
from schedsim.explain.sentences import in_words
from schedsim.machine.outages import Change, Outages
from schedsim.policies.orders import ORDERS
from schedsim.sites.cobalt.commands import Command
from schedsim.sites.cobalt.rules import Rules
from schedsim.sites.slurm.fair_share import FairShare, Shares
from schedsim.sites.slurm.limits import Claims, Limits, LimitsBeingMade, Quota
from schedsim.sites.slurm.loops import Loops
from schedsim.sites.slurm.multifactor import Multifactor, parts_of
from tests.support.engine_runs import jobs_of

MACHINE = 8


def plainly(workload, loops, priorities):
    """Return starts, second by second, by priorities of a `Plain`."""
    n = len(workload)
    submit, procs, asked, run = (
        getattr(workload, name).tolist() for name in ("submit", "procs", "requested", "run_time")
    )
    start, waiting, running, changed, now = [None] * n, [], [], False, 0

    def begin(i):
        start[i] = now
        waiting.remove(i)
        running.append(i)

    def queue():
        return sorted(waiting, key=lambda i: (-priorities.of(i), i))

    def main():
        for i in queue():
            if procs[i] > MACHINE - sum(procs[j] for j in running):
                return
            begin(i)

    def backfill():
        taken = [(start[j], start[j] + asked[j], procs[j]) for j in running]

        def fits(i, at, seconds):
            changes = {at, *(one for one, *_ in taken if at < one < at + seconds)}
            return all(MACHINE - sum(p for a, e, p in taken if a <= t < e) >= procs[i] for t in changes)

        reaches = (now + loops.window) // loops.resolution * loops.resolution >= now
        for i in queue()[: loops.tested * reaches]:
            if fits(i, now, asked[i] + 1) and procs[i] <= MACHINE - sum(procs[j] for j in running):
                begin(i)
                taken.append((now, now + asked[i], procs[i]))
                continue
            planned = min(t for t in {now, *(end for _, end, _ in taken)} if t >= now and fits(i, t, asked[i]))
            if planned > now + loops.window:
                continue
            slot = loops.resolution
            first = planned // slot * slot
            end = max(first + slot, (planned + asked[i] + slot - 1) // slot * slot)
            taken.append((max(first, now), max(end, max(first, now) + 1), procs[i]))

    while None in start:
        ended = [j for j in running if start[j] + run[j] == now]
        running[:] = [j for j in running if j not in ended]
        new = [i for i in range(n) if submit[i] == now]
        waiting += new
        changed |= bool(ended or new)
        priorities.go(now, ended, {j: start[j] for j in running})
        changed |= now > 0 and now % priorities.period == 0
        due = now % loops.interval == 0 and changed
        if ended or new or due:
            main()
        if due:
            waited = len(waiting)
            backfill()
            changed = len(waiting) < waited
        now += 1
    return start


class Plain:
    """Priorities by age and fair-share of two users, each of an account of its own, brought up to date at ticks."""

    def __init__(self, workload, users, period, half_life, weights, max_age):
        self.workload, self.users, self.period, self.weights, self.max_age = workload, users, period, weights, max_age
        self.left = 1 - 0.693 / half_life
        self.used, self.share, self.tick = [0.0, 0.0], [1.0, 1.0], 0
        self.counted = {}

    def count(self, i, start, now):
        """Count what a job has used up to now."""
        seconds = now - max(start, self.counted.get(i, 0))
        self.used[self.users[i]] += seconds * self.left**seconds * self.workload.procs[i]
        self.counted[i] = now

    def go(self, now, ended, running):
        """Take in which jobs end now and which run on, by start."""
        for i in ended:
            self.count(i, int(now - self.workload.run_time[i]), now)
        if now % self.period:
            return
        self.tick = now
        self.used = [one * self.left**self.period for one in self.used]
        for i, start in running.items():
            self.count(i, start, now)
        one, other = self.used
        self.share = [1.0, 1.0] if one == other else [1.0, 0.5] if one < other else [0.5, 1.0]

    def of(self, i):
        """Return a job's priority."""
        age = min(1.0, max(0, self.tick - self.workload.submit[i]) / self.max_age)
        return max(1, int(self.weights[0] * age + self.weights[1] * self.share[self.users[i]]))


@pytest.mark.parametrize("seed", range(8))
def test_starts_by_fair_share_and_age_equal_a_slow_second_reading(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    n, period, half_life, max_age, weights = 14, 60, 1800, 900, (700, 1000)
    asked = 60 * rng.integers(1, 8, n)
    workload = Workload.from_columns(
        np.arange(n), submit=np.sort(rng.integers(0, 600, n)), procs=rng.integers(1, 9, n), requested=asked,
        run_time=rng.integers(1, asked + 1), machine_procs=MACHINE,
    )  # fmt: skip
    users = rng.integers(0, 2, n)
    tree = Shares(np.array([-1, 0, 0, 1, 2]), np.ones(5, dtype=int), np.array([False] * 3 + [True] * 2))
    share = FairShare(tree, users + 3, workload.procs.astype(float), half_life, period)
    rule = Multifactor(age=weights[0], fair_share=weights[1], max_age=max_age, calc_period=period)
    order = rule.order(workload, parts_of(n), share)
    loops = Loops(interval=10, resolution=30, calc_period=period)
    plain = Plain(workload, users.tolist(), period, half_life, weights, max_age)
    expected = plainly(workload, loops, plain)
    simulation = Simulation(workload, Policy(order, loops))
    simulation.run(until=int(workload.submit[n // 2]))
    forks = [simulation.fork(), simulation.fork()]
    # a pause would cost more than the pass
    monkeypatch.setattr(simulation, "_answer", lambda stop: pytest.fail(f"it paused: {stop}"))
    for one in (simulation, *forks):
        one.run()
        assert one.schedule().start.tolist() == expected


def test_a_run_of_backfilling_that_started_a_job_is_followed_by_another():
    """It tests B, which waits until 1000, and C, which starts; D fits beside C, and is the second one 30 s later."""
    workload = jobs_of((0, 3, 1000, 1000), (1, 5, 100, 100), (1, 1, 800, 800), (1, 1, 300, 300), machine=5)
    for tested, starts in ((2, [0, 1000, 30, 60]), (3, [0, 1000, 30, 30])):
        policy = Policy(ORDERS["fcfs"], Loops(interval=30, resolution=1, tested=tested))
        assert simulate(workload, policy).start.tolist() == starts


def of_one_processor(submit, run=100):
    """Return jobs of one processor each on a machine of ten."""
    n = len(submit)
    return Workload.from_columns(
        np.arange(n), submit=submit, procs=[1] * n, requested=[run] * n, run_time=[run] * n, machine_procs=10
    )


def test_cycles_that_take_time_begin_an_interval_after_the_last_one_has_ended():
    """A test takes 2 s. The cycle at 30 tests two jobs, so the next one is at 64; one for a job alone comes at once."""
    workload = jobs_of(
        (0, 3, 1000, 1000), (1, 5, 100, 100), (1, 1, 800, 800), (40, 1, 300, 300), (500, 1, 50, 50), machine=5
    )
    for test_time, starts in ((0, [0, 1000, 30, 60, 510]), (2_000_000, [0, 1000, 30, 64, 500])):
        policy = Policy(ORDERS["fcfs"], Loops(interval=30, resolution=1, test_time=test_time))
        assert simulate(workload, policy).start.tolist() == starts


def test_a_cycle_does_not_begin_while_a_job_completes():
    """C fits next to B's reservation when A1 has ended; B is blocked, so the main loop goes no further."""
    workload = jobs_of((0, 3, 1000, 1000), (0, 2, 70, 70), (1, 5, 100, 100), (1, 1, 50, 50), machine=5)
    policy = Policy(ORDERS["fcfs"], Loops(interval=10, resolution=1, test_time=1))
    assert simulate(workload, policy).start.tolist() == [0, 0, 1000, 71]


@pytest.mark.parametrize(
    ("loops", "submit", "starts"),
    [
        (Loops(queue_depth=2, backfills=False), [0, 1, 1, 1, 1], [0, 1, 1, 60, 60]),
        (Loops(queue_depth=2, sched_interval=20, backfills=False), [0, 1, 1, 1, 1], [0, 1, 1, 20, 20]),
        (Loops(queue_depth=2, interval=30), [0, 1, 1, 1, 1], [0, 1, 1, 30, 30]),  # it runs before each cycle
        (Loops(min_interval=5, backfills=False), [0, 2, 3, 6], [0, 5, 5, 10]),
        (Loops(queue_depth=2, min_interval=7, backfills=False), [0, 1, 1, 1, 1], [0, 7, 7, 60, 60]),
        (Loops(queue_depth=2, min_interval=7, backfills=False), [0, 1, 1, 1, 1, 1, 57], [0, 7, 7, 57, 57, 64, 64]),
        (Loops(quotas=(Quota(1, np.zeros(3, dtype=int), of_main=True),), backfills=False), [0, 0, 40], [0, 40, 100]),
        (Loops(quotas=(Quota(1, np.array([0, 0, 1]), of_main=True),), backfills=False), [0, 0, 0], [0, 100, 0]),
    ],
)  # fmt: skip
def test_the_main_loop_tests_the_first_jobs_alone(loops, submit, starts):
    assert simulate(of_one_processor(submit), Policy(ORDERS["fcfs"], loops)).start.tolist() == starts


def limited(most, n=3):
    """Return a limit on the number of running jobs, for all of n."""
    rows = np.arange(n)
    return Limits(
        ("QOS normal: MaxJobsPerUser=1 (alice)",), np.array([most]),
        Claims(rows, np.zeros(n, dtype=int), np.ones(n, dtype=int), np.ones(n, dtype=bool)), n,
    )  # fmt: skip


@pytest.mark.parametrize("pause", [0, 2, 7])
def test_a_job_behind_the_depth_is_tested_at_the_next_multiple_whatever_the_pause(pause):
    one = np.ones(3, dtype=np.int64)
    limits = Limits(("MaxJobs=1",), np.array([1]), Claims(np.arange(3), 0 * one, one, one > 0), 4)
    loops = Loops(queue_depth=2, min_interval=pause, backfills=False, limits=limits)
    workload = jobs_of((0, 1, 5000, 5000), (1, 1, 5000, 5000), (1, 1, 5000, 5000), (1, 1, 5000, 5000), machine=8)
    start = simulate(workload, Policy(ORDERS["fcfs"], loops)).start.tolist()
    assert start[0] == 0 and 60 <= start[3] <= 60 + pause


def test_an_explanation_names_the_limit_that_held_a_job():
    workload = jobs_of((0, 1, 10, 10), (1, 1, 10, 10), (2, 1, 10, 10), machine=8)
    policy = Policy(ORDERS["fcfs"], Loops(interval=1, resolution=1, limits=limited(1)))
    schedule = simulate(workload, policy)
    assert schedule.start.tolist() == [0, 10, 20]
    said = "\n".join(in_words(explain(schedule, 2, policy)))
    assert "held: by the limit QOS normal: MaxJobsPerUser=1 (alice)" in said


@pytest.mark.parametrize(
    ("loops", "says"),
    [
        (Loops(interval=4, resolution=1), "and backfilling did not run then"),
        (Loops(interval=1), "from t=3 on needs processors that are reserved for job 2"),
        (Loops(interval=1, tested=1), "too far back in the queue for the policy to consider it"),
    ],
)
def test_an_explanation_tells_the_loops(loops, says):
    workload = jobs_of((0, 6, 10, 10), (1, 8, 10, 10), (2, 2, 9, 9), (3, 2, 5, 5), machine=8)
    policy = Policy(ORDERS["fcfs"], loops)
    assert says in "\n".join(in_words(explain(simulate(workload, policy), 3, policy)))


def test_jobs_without_a_reservation_and_bad_parts():
    workload = jobs_of((0, 6, 10, 10), (1, 8, 20, 20), (2, 2, 25, 25), machine=8)
    loops = Loops(interval=1, resolution=1)
    free = replace(loops, limits=LimitsBeingMade().done(3, np.array([False, True, False])))
    assert simulate(workload, Policy(ORDERS["fcfs"], loops)).start.tolist() == [0, 10, 30]
    assert simulate(workload, Policy(ORDERS["fcfs"], free)).start.tolist() == [0, 27, 2]
    with pytest.raises(JobcastError, match="limits are for 2 jobs, the workload has 3"):
        Simulation(workload, Policy(ORDERS["fcfs"], replace(loops, limits=limited(1, 2))))
    with pytest.raises(JobcastError, match="alone uses 1, more than the limit QOS normal"):
        limited(0)
    for name in ("tested", "interval", "resolution", "window"):
        with pytest.raises(JobcastError, match=f"The {name} of Slurm's loops is 1 to"):
            Loops(**{name: 0})


def test_a_cycle_whose_window_ends_before_it_begins_tests_no_job():
    """Job 3 fits next to the reservation of job 2 at 10, but the window ends at 0 then; at 50 it ends at 60."""
    rows = [(0, 6, 200), (1, 8, 10), (2, 2, 20), (45, 8, 10)]
    submit, procs, asked = map(list, zip(*rows, strict=True))
    workload = Workload.from_columns(
        [1, 2, 3, 4], submit=submit, procs=procs, requested=asked, run_time=asked, machine_procs=8
    )
    loops = Loops(interval=10, resolution=60, window=20)
    assert simulate(workload, Policy(ORDERS["fcfs"], loops)).start.tolist() == [0, 200, 50, 210]


@pytest.mark.parametrize(
    ("rows", "parts", "starts"),
    [
        (
            [(0, 900), (300, 10), (610, 10)],
            {"outages": Outages([], [Change(650, "fail", 1), Change(660, "repair", 1)])},
            [660, 1560, 1570],
        ),
        (
            [(0, 700), (1, 100), (300, 10), (610, 10)],
            {"rules": Rules(commands=(Command(50, "hold", 2), Command(650, "release", 2)))},
            [0, 700, 800, 810],
        ),
    ],
)
def test_a_job_that_comes_back_into_the_queue_is_ranked_by_its_age_now(rows, parts, starts):
    """A job that a failure stops, or that is released, at 650: the others were ranked at 610, by the tick of 600."""
    submit, run = map(list, zip(*rows, strict=True))
    n = len(rows)
    workload = Workload.from_columns(
        list(range(1, n + 1)), submit=submit, procs=[8] * n, requested=run, run_time=run, machine_procs=8
    )
    order = Multifactor(age=1000, max_age=1000, calc_period=300).order(workload, parts_of(n))
    policy = Policy(order, Loops(interval=1, resolution=1, calc_period=300))
    assert simulate(workload, policy, **parts).start.tolist() == starts
