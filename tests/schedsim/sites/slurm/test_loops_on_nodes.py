"""Slurm's two loops where jobs take processors, GPUs and memory of nodes: small schedules, worked out by hand.

`tests/support/features.py` compares them with the slow oracle, next to all other features.
"""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

import schedsim.kernels.records as at
from schedsim.engine.simulation import Simulation, simulate
from schedsim.explain.explain import explain
from schedsim.explain.sentences import in_words
from schedsim.policies.policy import FCFS, Policy, make_policy
from schedsim.sites.slurm.limits import Quota
from schedsim.sites.slurm.loops import Loops
from schedsim.validate.laws import ON_NODES
from schedsim.validate.validate import check
from tests.oracle.easy import Rule
from tests.oracle.easy import simulate as oracle
from tests.oracle.machine import Box, Nodes
from tests.support.nodes import fits_alone, job_on, workload_on

MAIN = Policy(FCFS, Loops(backfills=False))
BOTH = Policy(FCFS, Loops(interval=1, resolution=10))


def placed(boxes, jobs, policy=MAIN):
    """Return the starts of jobs, and the nodes of each."""
    schedule = simulate(workload_on(boxes, jobs), policy)
    assert ON_NODES in check(schedule, policy).kept
    spots = schedule.placements
    return schedule.start.tolist(), [
        spots.node[spots.offsets[row] : spots.offsets[row + 1]].tolist() for row in range(len(jobs))
    ]


def test_a_blocked_job_closes_the_nodes_of_its_partition_alone():
    boxes = [Box((4, 0, 0)), Box((4, 0, 0))]
    jobs = [
        job_on(1, 0, 100, 100, 1, (4, 0, 0), nodes=(0,)), job_on(2, 1, 10, 10, 1, (4, 0, 0), nodes=(0,)),
        job_on(3, 2, 10, 10, 1, (4, 0, 0), nodes=(1,)), job_on(4, 2, 10, 10, 1, (1, 0, 0), nodes=(0,)),
    ]  # fmt: skip
    assert placed(boxes, jobs) == ([0, 100, 2, 110], [[0], [0], [1], [0]])
    overlap = [jobs[0], job_on(2, 1, 10, 10, 2, (4, 0, 0), spread=True, nodes=(0, 1)), jobs[2]]
    assert placed(boxes, overlap)[0] == [0, 100, 110]  # node 1 is free, and closed


@pytest.mark.parametrize(("spread", "start"), [(False, 3), (True, 210)])
def test_a_job_that_lacks_closed_nodes_closes_none(spread, start):
    """Job 2 waits for job 1 and closes its partition, nodes 0 and 1; job 3 lacks node 1.

    If pieces need nodes of their own, too few are left in its partition: that closes it, and job 4 waits.
    """
    boxes = [Box((4, 0, 0)), Box((4, 0, 0)), Box((4, 0, 0))]
    jobs = [
        job_on(1, 0, 100, 100, 1, (4, 0, 0), nodes=(0,)), job_on(2, 1, 100, 100, 2, (4, 0, 0), nodes=(0, 1)),
        job_on(3, 2, 10, 10, 2, (4, 0, 0), spread=spread, nodes=(1, 2)), job_on(4, 3, 10, 10, 1, (4, 0, 0), nodes=(2,)),
    ]  # fmt: skip
    assert placed(boxes, jobs, Policy(FCFS, Loops(backfills=False)))[0] == [0, 100, 200, start]


def test_a_reservation_takes_whole_nodes():
    boxes = [Box((8, 0, 0)), Box((8, 0, 0))]
    jobs = [
        job_on(1, 0, 100, 100, 1, (6, 0, 0), nodes=(0,)),
        job_on(2, 1, 50, 50, 2, (4, 0, 0), spread=True, nodes=(0, 1)),
        job_on(3, 2, 200, 200, 1, (1, 0, 0), nodes=(0, 1)),
        job_on(4, 2, 90, 90, 1, (1, 0, 0), nodes=(0, 1)),
    ]
    assert placed(boxes, jobs, make_policy("easy"))[0] == [0, 100, 2, 2]
    assert placed(boxes, jobs, BOTH)[0] == [0, 100, 100, 2]


@pytest.mark.parametrize(
    ("boxes", "piece", "pieces", "spread", "nodes"),
    [
        ([Box((8, 0, 0), weight=5), Box((8, 0, 0))], 2, 1, False, [1]),  # the lightest
        ([Box((8, 0, 0)), Box((4, 0, 0)), Box((8, 0, 0))], 2, 1, False, [0]),  # one piece: the first
        ([Box((8, 0, 0)), Box((4, 0, 0)), Box((8, 0, 0))], 2, 2, False, [1]),  # the tightest that holds all
        ([Box((8, 0, 0)), Box((4, 0, 0)), Box((8, 0, 0))], 2, 2, True, [0, 1]),  # in turn
        ([Box((8, 0, 0)), Box((1, 0, 0)), Box((8, 0, 0)), Box((8, 0, 0))], 2, 2, True, [2, 3]),  # a run that holds it
        ([Box((2, 0, 0)), Box((1, 0, 0)), Box((2, 0, 0))], 2, 2, False, [0, 2]),  # run after run
    ],
)
def test_places_are_those_of_slurm(boxes, piece, pieces, spread, nodes):
    job = job_on(1, 0, 10, 10, pieces, (piece, 0, 0), spread, nodes=tuple(range(len(boxes))))
    assert placed(boxes, [job]) == ([0], [nodes])


@pytest.mark.parametrize("n_nodes", [63, 64, 65, 130])
def test_many_nodes_are_as_few(n_nodes):
    """Sets of nodes are bits of whole numbers of 64 bits."""
    random, jobs = Random(n_nodes), []
    boxes = [Box(random.choice([(4, 0, 8), (8, 2, 16)]), weight=random.choice([1, 1, 1, 3])) for _ in range(n_nodes)]
    sets = [tuple(range(n_nodes)), tuple(range(n_nodes // 2, n_nodes)), tuple(range(0, n_nodes, 2))]
    while len(jobs) < 40:
        requested = random.choice([60, 300, 1200])
        job = job_on(
            len(jobs), random.randint(0, 600), requested, random.randint(0, requested), random.choice([1, 5, 30, 60]),
            (random.randint(1, 4), 0, random.choice([0, 4])), random.random() < 0.6, nodes=random.choice(sets),
        )  # fmt: skip
        jobs += [job] if fits_alone(boxes, job) else []
    jobs = sorted(jobs, key=lambda job: (job.submit, job.job_id))
    jobs = [replace(job, submit=job.submit - jobs[0].submit) for job in jobs]
    found = placed(boxes, jobs, Policy(FCFS, Loops(50, window=7200)))
    slow = oracle(jobs, Nodes(boxes=tuple(boxes)), Rule(loops=(50, 30, 60, 7200)))
    assert found == (slow.start, [list(place) for place in slow.place])


def test_running_jobs_are_released_window_by_window():
    """Job 3 could lie on node 0 from 50 on; the window reaches to 120, and node 1 of less weight is free by then."""
    boxes = [Box((4, 0, 0), weight=2), Box((4, 0, 0))]
    jobs = [
        job_on(1, 0, 50, 50, 1, (4, 0, 0), nodes=(0,)),
        job_on(2, 0, 90, 90, 1, (4, 0, 0), nodes=(1,)),
        job_on(3, 1, 40, 40, 1, (4, 0, 0), nodes=(0, 1)),
        job_on(4, 2, 80, 80, 1, (4, 0, 0), nodes=(0,)),
    ]
    simulation = Simulation(workload_on(boxes, jobs), BOTH)
    simulation.run(until=10)
    waiting = simulation._state.jobs_now[simulation._state.slots(at.QUEUE)]
    assert waiting["planned_start"][waiting["row"] == 2].tolist() == [90]


def test_each_job_is_searched_for_from_now_on():
    """Job 8 is like job 7, which takes the node that opens at 100; else the first window reaches from 110 to 120."""
    boxes = [Box((4, 0, 0), weight=2), *[Box((4, 0, 0))] * 3]
    jobs = [
        job_on(1, 0, 110, 110, 1, (3, 0, 0), nodes=(0,)), job_on(2, 0, 120, 120, 1, (4, 0, 0), nodes=(1,)),
        job_on(3, 0, 50, 50, 1, (4, 0, 0), nodes=(2,)), job_on(4, 0, 130, 130, 1, (4, 0, 0), nodes=(3,)),
        job_on(5, 1, 50, 50, 1, (4, 0, 0), nodes=(2,)),
        job_on(6, 1, 100, 100, 2, (4, 0, 0), spread=True, nodes=(1, 3)),
        job_on(7, 1, 50, 50, 1, (4, 0, 0), nodes=(0, 1, 2)), job_on(8, 1, 52, 52, 1, (4, 0, 0), nodes=(0, 1, 2)),
        job_on(9, 1, 115, 115, 1, (1, 0, 0), nodes=(0,)),
    ]  # fmt: skip
    assert placed(boxes, jobs, BOTH)[0] == [0, 0, 0, 0, 50, 130, 100, 116, 1]


def test_a_quota_leaves_the_others_of_a_user_out():
    boxes = [Box((4, 0, 0))]
    jobs = [job_on(1, 0, 100, 100, 1, (3, 0, 0), nodes=(0,)), job_on(2, 1, 10, 10, 1, (4, 0, 0), nodes=(0,))]
    jobs += [job_on(i, 2, 50, 50, 1, (1, 0, 0), nodes=(0,)) for i in (3, 4)]
    quota = Quota(1, np.array([0, 1, 1, -1]))
    assert placed(boxes, jobs, BOTH)[0] == [0, 100, 2, 110]
    few = Policy(FCFS, Loops(interval=1, resolution=10, quotas=(quota,)))
    assert placed(boxes, jobs, few)[0] == [0, 100, 110, 2]


@pytest.mark.slow
@pytest.mark.parametrize(("job", "says"), [(2, "headed the queue"), (3, "reserved for job 2")])
def test_an_explanation_tells_the_loops_on_nodes(job, says):
    boxes = [Box((8, 0, 0)), Box((8, 0, 0))]
    jobs = [
        job_on(1, 0, 100, 100, 1, (6, 0, 0), nodes=(0,)),
        job_on(2, 1, 50, 50, 2, (4, 0, 0), spread=True, nodes=(0, 1)),
        job_on(3, 2, 200, 200, 1, (1, 0, 0), nodes=(0, 1)),
    ]
    said = "\n".join(in_words(explain(simulate(workload_on(boxes, jobs), BOTH), job, BOTH)))
    assert says in said
