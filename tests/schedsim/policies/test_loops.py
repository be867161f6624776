"""Slurm's two loops and limits: a slow second reading, second by second, and what is told of them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictors.core.errors import JobcastError
from schedsim.engine.simulation import Simulation, simulate
from schedsim.explain.explain import explain
from schedsim.explain.sentences import in_words
from schedsim.policies.backfilling import Loops
from schedsim.policies.limits import Claims, Limits, LimitsBeingMade
from schedsim.policies.orders import ORDERS
from schedsim.policies.policy import Policy, make_policy
from schedsim.validate.validate import check
from schedsim.workload.workload import Workload

MACHINE = 8


def plainly(workload, loops, kinds):
    """Return starts, second by second; `kinds` are (most, jobs that count, amounts) of limits."""
    n = len(workload)
    submit, procs, asked, run = (
        getattr(workload, name).tolist() for name in ("submit", "procs", "requested", "run_time")
    )
    start, waiting, running, changed, now = [None] * n, [], [], False, 0

    def held(i):
        return any(
            i in jobs and amounts[i] <= most and sum(amounts[j] for j in running if j in jobs) + amounts[i] > most
            for most, jobs, amounts in kinds
        )

    def begin(i):
        start[i] = now
        waiting.remove(i)
        running.append(i)

    def main():
        for i in list(waiting):
            if held(i):
                continue
            if procs[i] > MACHINE - sum(procs[j] for j in running):
                return
            begin(i)

    def backfill():
        taken = [(start[j], start[j] + asked[j], procs[j]) for j in running]

        def fits(i, at, seconds):
            changes = {at, *(one for one, *_ in taken if at < one < at + seconds)}
            return all(MACHINE - sum(p for a, e, p in taken if a <= t < e) >= procs[i] for t in changes)

        for i in waiting[: loops.tested]:
            if held(i):
                continue
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
        due = now % loops.interval == 0 and changed and loops.backfills
        if ended or new or due:
            main()
        if due:
            backfill()
            changed = False
        now += 1
    return start


@st.composite
def cases(draw):
    """A small workload, loops, and limits."""
    n = draw(st.integers(1, 9))
    numbers = [draw(st.lists(st.integers(*span), min_size=n, max_size=n)) for span in ((0, 40), (1, 8), (1, 30))]
    submit, procs, asked = (np.array(one) for one in numbers)
    run = np.array([draw(st.integers(1, int(one))) for one in asked])
    workload = Workload.from_columns(
        np.arange(n), submit=np.sort(submit), procs=procs, requested=asked, run_time=run, machine_procs=MACHINE
    )
    kinds, made = [], LimitsBeingMade()
    for k in range(draw(st.integers(0, 2))):
        most, jobs = draw(st.integers(0, 9)), sorted(draw(st.sets(st.integers(0, n - 1))))
        amounts = np.ones(n, dtype=np.int64) if k else workload.procs
        kinds.append((most, set(jobs), amounts.tolist()))
        rows = np.array(jobs, dtype=np.int64)
        made.add(f"limit {k}", most, rows, amounts[rows], np.ones(len(rows), dtype=np.bool_))
    loops = Loops(
        tested=draw(st.sampled_from([1, 3, 500])),
        interval=draw(st.sampled_from([1, 4, 10])),
        resolution=draw(st.sampled_from([1, 5])),
        window=draw(st.sampled_from([10, 10_000])),
        backfills=draw(st.sampled_from([True, True, True, False])),
        limits=made.done(n),
    )
    return workload, loops, kinds


@given(cases())
@settings(max_examples=60, deadline=None)
def test_starts_equal_a_slow_second_reading(case):
    workload, loops, kinds = case
    policy = Policy(ORDERS["fcfs"], loops)
    found = simulate(workload, policy)
    assert found.start.tolist() == plainly(workload, loops, kinds)
    check(found, policy)
    forked = Simulation(workload, policy)
    forked.run(until=int(workload.submit.max()))
    other = forked.fork()
    other.run()
    forked.run()
    assert other.schedule().start.tolist() == forked.schedule().start.tolist() == found.start.tolist()


def test_without_a_clock_of_its_own_and_without_limits_it_is_conservative_replanned():
    rng = np.random.default_rng(2)
    n = 60
    asked = 60 * rng.integers(1, 60, n)
    workload = Workload.from_columns(
        np.arange(n), submit=np.sort(rng.integers(0, 30_000, n)), procs=rng.integers(1, 9, n), requested=asked,
        run_time=asked, machine_procs=8,
    )  # fmt: skip
    loops = Loops(tested=1000, interval=1, resolution=1, window=10**9)
    starts = [
        simulate(workload, one).start for one in (Policy(ORDERS["fcfs"], loops), make_policy("conservative-replan"))
    ]
    # a job that would end in the very second of a reservation waits in Slurm
    assert (starts[0] != starts[1]).mean() < 0.1


def limited(most, n=3):
    """Return a limit on the number of running jobs, for all of n."""
    rows = np.arange(n)
    return Limits(
        ("QOS normal: MaxJobsPerUser=1 (alice)",), np.array([most]),
        Claims(rows, np.zeros(n, dtype=int), np.ones(n, dtype=int), np.ones(n, dtype=bool)), n,
    )  # fmt: skip


def test_an_explanation_names_the_limit_that_held_a_job():
    workload = Workload.from_columns(
        [1, 2, 3], submit=[0, 1, 2], procs=[1, 1, 1], requested=[10, 10, 10], run_time=[10, 10, 10], machine_procs=8
    )
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
        (Loops(interval=1, tested=1), "too far back in the queue for the policy to look at it"),
    ],
)
def test_an_explanation_tells_the_loops(loops, says):
    workload = Workload.from_columns(
        [1, 2, 3, 4], submit=[0, 1, 2, 3], procs=[6, 8, 2, 2], requested=[10, 10, 9, 5], run_time=[10, 10, 9, 5],
        machine_procs=8,
    )  # fmt: skip
    policy = Policy(ORDERS["fcfs"], loops)
    assert says in "\n".join(in_words(explain(simulate(workload, policy), 3, policy)))


def test_jobs_without_a_reservation_and_bad_parts():
    workload = Workload.from_columns(
        [1, 2, 3], submit=[0, 1, 2], procs=[6, 8, 2], requested=[10, 20, 25], run_time=[10, 20, 25], machine_procs=8
    )
    loops = Loops(interval=1, resolution=1)
    free = replace(loops, limits=LimitsBeingMade().done(3, np.array([False, True, False])))
    assert simulate(workload, Policy(ORDERS["fcfs"], loops)).start.tolist() == [0, 10, 30]
    assert simulate(workload, Policy(ORDERS["fcfs"], free)).start.tolist() == [0, 27, 2]
    with pytest.raises(JobcastError, match="limits are of 2 jobs, the workload has 3"):
        Simulation(workload, Policy(ORDERS["fcfs"], replace(loops, limits=limited(1, 2))))
    with pytest.raises(JobcastError, match="alone uses 1, more than the limit QOS normal"):
        limited(0)
    for name in ("tested", "interval", "resolution", "window"):
        with pytest.raises(JobcastError, match=f"{name} is 1 to"):
            Loops(**{name: 0})
