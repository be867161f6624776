"""Jobs that take processors, GPUs and memory of nodes: equal to a slow oracle, and to counts where both apply."""

from dataclasses import replace

import numpy as np
import pytest

from jobcast import JobcastError, Simulation, make_policy, simulate
from schedsim.explain.explain import explain
from schedsim.explain.sentences import in_words
from schedsim.machine.outages import Change, Outages, Reservation
from schedsim.policies.agents import OLDEST_FIRST, RandomPicks
from schedsim.results.site_metrics import disturbed_figures
from schedsim.validate.laws import AVAILABLE, CEILING, ON_NODES
from schedsim.validate.validate import check
from schedsim.workload.deadlines import with_deadlines
from tests.oracle.machine import Box
from tests.support.nodes import drawn, job_on, workload_on
from tests.support.slow import slow_but


def test_reservations_are_told_and_kept():
    boxes = [Box((2, 0, 0)), Box((2, 1, 0))]
    ask = lambda number, at, asked, procs, gpus=0: job_on(  # noqa: E731
        number, at, asked, asked, 1, (procs, gpus, 0), nodes=(0, 1)
    )
    jobs = workload_on(boxes, [ask(1, 0, 10, 1, 1), ask(2, 1, 5, 1, 1), ask(3, 2, 3, 2)])
    outages, rule = Outages([Reservation(12, 30, nodes=((1, 2),))]), make_policy("easy")
    schedule = simulate(jobs, rule, outages=outages)
    assert schedule.start.tolist() == [0, 30, 2]  # from 10 to 12 the GPU is free, but not for 5 s
    assert ON_NODES in check(schedule, rule, jobs.requested).kept
    found = disturbed_figures(schedule)
    assert found["available"] == pytest.approx(1 - 2 * 18 / (4 * 35))
    told = "\n".join(in_words(explain(schedule, 2, rule, outages=outages)))
    assert "reserved of the machine from t=12 on" in told
    late = workload_on(boxes, [ask(1, 13, 5, 1, 1), ask(2, 13, 5, 1, 1), ask(3, 14, 9, 1)])
    schedule = simulate(late, rule, outages=outages)
    head, behind = ("\n".join(in_words(explain(schedule, number, rule, outages=outages))) for number in (1, 2))
    assert "reserved of the machine from t=12 on" in head and "lacked" not in head  # a GPU lies idle, but reserved
    assert "until t=28, into what is reserved of the machine from t=12 on; job 1 headed the queue" in behind


@pytest.mark.parametrize(
    ("policy", "outages", "says"),
    [
        ("easy", Outages([Reservation(5, 9, procs=2)]), "name the reserved ones"),
        ("easy", Outages([Reservation(5, 9, nodes=((7, 90),))]), "node 89 is unknown"),
        ("easy", Outages((), [Change(3, "fail", nodes=((7, 90),))]), "node 89 is unknown"),
        ("easy", Outages((), [Change(3, "repair", nodes=((0, 1),))]), "not so many failed"),
        ("easy", Outages((), [Change(t, "fail", nodes=((0, 1),)) for t in (3, 4)]), "node 0 .* is down already"),
    ],
)
def test_what_of_outages_does_not_go_on_nodes_is_refused(policy, outages, says):
    boxes, asks, _ = drawn(3)
    with pytest.raises(JobcastError, match=says):
        simulate(workload_on(boxes, asks), make_policy(policy), outages=outages)


def failing(boxes, asks, changes, policy="easy", reserved=(), **more):
    """The schedule of jobs on nodes that fail and are repaired: (second, what, nodes); a second look agrees."""
    found = [Change(time, kind, nodes=tuple((node, node + 1) for node in nodes)) for time, kind, *nodes in changes]
    rule, outages = make_policy(policy), Outages(reserved, found, **more)
    schedule = simulate(workload_on(boxes, asks), rule, outages=outages)
    assert {AVAILABLE, ON_NODES} <= set(check(schedule, rule).kept)
    return schedule, [schedule.nodes[row].tolist() for row in range(len(asks))]


def test_jobs_pass_a_head_that_does_not_fit_on_what_is_up():
    wide = job_on(1, 1, 10, 10, 2, (1, 1, 0), spread=True, nodes=(0, 1))
    asks = [wide, *(job_on(number, number, 10, 10, 1, (1, 1, 0), nodes=(0, 1)) for number in (2, 3))]
    boxes, down = [Box((1, 1, 0))] * 2, [(0, "fail", 1)]
    outages = Outages((), [Change(0, "fail", nodes=((1, 2),)), Change(30, "repair", nodes=((1, 2),))])
    for policy, starts in (("easy", [30, 2, 12]), ("fcfs", [30, 40, 40])):
        schedule, _ = failing(boxes, asks, [*down, (30, "repair", 1)], policy)
        assert schedule.start.tolist() == starts
        head = "\n".join(in_words(explain(schedule, 1, make_policy(policy), outages=outages)))
        assert "does not fit on what is up" in head and "None" not in head
    told = "\n".join(in_words(explain(schedule, 2, make_policy("fcfs"), outages=outages)))
    assert "job 1 headed the queue, blocked as it does not fit on what is up, and" in told
    with pytest.raises(JobcastError, match="1 nodes are down and never repaired; the jobs may ask for more"):
        failing(boxes, asks, down)


def test_an_explanation_names_the_promise_that_held_a_job():
    boxes = [Box((1, 1, 0)), Box((1, 1, 0))]
    one, both = (1, (1, 1, 0)), (2, (1, 1, 0))
    asks = [
        job_on(1, 0, 10, 10, *one, nodes=(0, 1)),
        job_on(2, 1, 10, 10, *both, nodes=(0, 1)),
        job_on(3, 2, 20, 2, *one, nodes=(0, 1)),
    ]
    jobs, guess, rule = workload_on(boxes, asks), np.array([10, 10, 2]), make_policy("easy+promise")
    assert simulate(jobs, make_policy("easy"), guess).start.tolist() == [0, 10, 2]
    schedule = simulate(jobs, rule, guess)
    assert schedule.start.tolist() == [0, 10, 20]
    found = explain(schedule, 3, rule, guess)
    assert "after t=10, which job 2 was promised, and would lie in its place then" in "\n".join(in_words(found))
    assert ON_NODES in check(schedule, rule, guess).kept


def test_an_explanation_names_the_ceiling_that_held_a_job():
    """Of 20 processors on two nodes 19 may be in use; the first job has 14 of them and both GPUs."""
    boxes, both = [Box((10, 1, 0))] * 2, {"nodes": (0, 1), "spread": True}
    first, rule = job_on(1, 0, 10, 10, 2, (7, 1, 0), **both), make_policy("easy+ceil")

    def told(*jobs, deadline):
        jobs = replace(workload_on(boxes, [first, *jobs]), deadline=np.array(deadline))
        schedule = simulate(jobs, rule)
        assert CEILING in check(schedule, rule).kept
        return [" ".join(in_words(explain(schedule, job, rule))) for job in jobs.job_id.tolist()[1:]]

    six, gpu = (job_on(i, i, 9, 9, 2, (3, 0, 0), **both) for i in (2, 3)), job_on(4, 4, 9, 9, 1, (1, 1, 0), **both)
    head, behind, postponed = told(*six, gpu, deadline=[-1, -1, -1, 90_000])
    above = "6 processors were free, but under the ceiling on utilisation it may use 5 of them and needs 6"
    assert f"it headed the queue; {above}; by the estimates it may start at t=10" in head
    assert f"{above}; job 2 headed the queue" in behind
    assert "at the latest; its nodes lacked GPUs: it asks for" in postponed
    wide, late = job_on(2, 1, 9, 9, 2, (8, 0, 0), **both), job_on(3, 2, 20, 20, 2, (2, 0, 0), **both)
    head, behind = told(wide, late, deadline=[-1] * 3)
    assert "it headed the queue, but its nodes lacked processors" in head
    assert "after the shadow time t=10 of job 2, and needs 4 processors where 3 are extra" in behind


@pytest.mark.parametrize(
    "policy",
    slow_but(
        ("easy", "ceil", "easy+promise+ceil", "conservative-replan", "conservative-compress", "hybrid-2+promise"),
        "easy",
        "ceil",
        "easy+promise+ceil",
    ),
)
def test_each_job_is_explained(policy):
    rule = make_policy(policy)
    for seed in range(4):
        boxes, asks, estimates = drawn(seed)
        jobs, guess = workload_on(boxes, asks), np.array(estimates)
        jobs = with_deadlines(jobs, np.arange(len(jobs)) % 3 == 0)
        schedule = simulate(jobs, rule, guess)
        for job in jobs.job_id.tolist():
            assert in_words(explain(schedule, job, rule, guess))


@pytest.mark.parametrize("policy", ["easy", "conservative-compress"])
def test_the_place_of_each_job_is_written_down_however_many_start(policy):
    boxes, both = [Box((2, 0, 0))] * 2, (0, 1)
    jobs = workload_on(boxes, [job_on(i, i // 3, 9, 2, 2, (1, 0, 0), spread=True, nodes=both) for i in range(1100)])
    one = Simulation(jobs, make_policy(policy))
    one.run(until=300)
    fork = one.fork()
    for simulation in (one, fork):
        simulation.run()
        found = simulation.schedule().placements
        assert found.node.tolist() == [0, 1] * 1100 and found.offsets.tolist() == list(range(0, 2201, 2))


@pytest.mark.parametrize("policy", ["easy", "look-ahead"])
def test_more_jobs_start_in_one_pass_than_there_was_room_to_write_down(policy):
    boxes, both = [Box((3000, 0, 0))] * 2, (0, 1)
    jobs = workload_on(boxes, [job_on(i, 0, 9, 2, 2, (1, 0, 0), spread=True, nodes=both) for i in range(2500)])
    found = simulate(jobs, make_policy(policy)).placements
    assert found.node.tolist() == [0, 1] * 2500


@pytest.mark.slow
def test_an_agent_is_offered_a_job_that_finds_another_place_once_another_job_has_started():
    """The first place of job 3 is the head's; once job 4 has that, its place is on the other node."""
    boxes = [Box((2, 0, 0)), Box((2, 0, 0))]
    jobs = [
        job_on(1, 0, 100, 100, 1, (1, 0, 0), nodes=(0,)), job_on(2, 1, 10, 10, 1, (2, 0, 0), nodes=(0,)),
        job_on(3, 2, 500, 500, 1, (1, 0, 0), nodes=(0, 1)), job_on(4, 2, 50, 50, 1, (1, 0, 0), nodes=(0,)),
    ]  # fmt: skip
    for agent in (OLDEST_FIRST, RandomPicks(3)):
        found = simulate(workload_on(boxes, jobs), replace(make_policy("easy"), agent=agent, reserve="kept"))
        assert found.start.tolist() == [0, 100, 2, 2]


def test_a_knapsack_is_refused():
    boxes, asks, _ = drawn(3)
    with pytest.raises(JobcastError, match=r"chooses by numbers of processors.*leave out the machine file"):
        simulate(workload_on(boxes, asks), make_policy("knapsack"))
