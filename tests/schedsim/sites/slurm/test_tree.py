"""Slurm's places where nodes are on leaf switches: worked out by hand from the rule, and by the slow oracle."""

from random import Random

from jobcast import Policy, simulate
from schedsim.policies.policy import FCFS
from schedsim.sites.slurm.loops import Loops
from tests.oracle.machine import Box
from tests.support.features import GROUPS, Case, differing, refusal
from tests.support.nodes import job_on, workload_on

MAIN = Policy(FCFS, Loops(backfills=False))
A, B, C, D = (0, 0), (0, 1), (1, 0), (1, 1)  # leaf switches: two below each of two switches


def place(ways, pieces, piece=8, spread=True, weights=None, held=(), procs=8):
    """Return the nodes of a job that comes after others, each of which holds processors of one node: (node, held)."""
    weights = weights or [1] * len(ways)
    boxes = [Box((procs, 0, 0), way=way, weight=weight) for way, weight in zip(ways, weights, strict=True)]
    jobs = [job_on(k, 0, 99, 99, 1, (n, 0, 0), nodes=(node,)) for k, (node, n) in enumerate(held, 1)]
    jobs.append(job_on(99, 1, 9, 9, pieces, (piece, 0, 0), spread, nodes=tuple(range(len(ways)))))
    spots = simulate(workload_on(boxes, jobs), MAIN).placements
    return spots.node[spots.offsets[-2] :].tolist()


def test_the_switch_with_the_fewest_nodes_that_holds_the_job_comes_first():
    ways = [A, A, A, B, B, B, C, C, D, D]
    assert place(ways, 2) == [6, 7]
    assert place(ways, 2, held=((6, 1),)) == [8, 9]
    assert place(ways, 3) == [0, 1, 2]


def test_a_job_of_one_piece_has_the_first_of_the_lightest_nodes():
    assert place([A, A, A, B], 1, 2) == [0]
    assert place([A, A, A, B], 1, 2, False, held=((0, 7), (1, 6), (2, 5))) == [1]
    assert place([A, A, B, B], 1, weights=[2, 2, 2, 1]) == [3]


def test_a_job_without_switches_would_take_other_nodes():
    ways = [A, B, B, B, A]
    assert place(ways, 2) == [0, 4]
    assert place([None] * 5, 2) == [0, 1]


def test_of_equal_switches_the_first_of_the_tree_comes_first_and_not_of_the_nodes():
    assert place([D, C, B, A, D, C, B, A], 2) == [3, 7]


def test_if_no_switch_holds_the_job_those_above_are_compared():
    """Below the first switch above there are 5 nodes, which is too few for 6; below the second there are 6."""
    ways = [A, A, A, A, B, C, C, C, D, D, D]
    assert place(ways, 6) == [5, 6, 7, 8, 9, 10]
    assert place(ways, 5) == [0, 1, 2, 3, 4]  # both hold 5: the one of fewer nodes
    assert place([*ways, C], 7) == [5, 6, 7, 8, 9, 10, 11]


def test_if_none_above_holds_it_either_the_switches_above_with_the_most_nodes_come_first():
    ways = [A, A, A, A, B, C, C, C, D, D, D]
    assert place(ways, 7) == [
        0,
        1,
        2,
        3,
        5,
        6,
        7,
    ]  # C; then A, as it holds the other 4 and D, which is closer, does not
    assert place(ways, 9) == [0, 1, 2, 3, 5, 6, 7, 8, 9]  # C, then A; then D, as far from both as B, holds the other 2


def test_what_is_left_goes_to_the_closest_switch():
    ways = [A, A, A, A, B, C, C, C, D]
    assert place(ways, 5) == [0, 1, 2, 3, 4]  # B is 2 hops from A, and D is 4
    assert place([A, A, A, A, B, C, C, C, C, D, D], 6) == [5, 6, 7, 8, 9, 10]


def test_a_closer_switch_that_does_not_hold_what_is_left_only_comes_first_if_it_does_so_in_the_file():
    assert place([A, A, A, A, A, B, C, C, C, C], 8) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert place([C, C, C, C, C, D, A, A, A, A], 8) == [0, 1, 2, 3, 4, 6, 7, 8]


def test_processors_are_filled_in_turn_and_not_on_the_node_that_fits_best():
    ways = [A, A, B, B]
    assert place(ways, 3, 1, False, held=((1, 5),)) == [0]  # nodes count: 2 of A, of B
    assert place(ways, 3, 1, False, held=((1, 5), (0, 8))) == [1]
    assert place(ways, 10, 1, False, held=((0, 5),)) == [0, 1]
    assert place([A, A, B, B, B], 12, 1, False) == [0, 1]
    assert place([A, A, B, B, B], 12, 1, False, held=((0, 4), (1, 4))) == [2, 3]  # A has 8 processors
    assert place([A, A], 3, 1, False, held=((0, 4),)) == [0]
    assert place([None, None], 3, 1, False, held=((0, 4),)) == [0]
    assert place([A, A, A], 4, 1, False, held=((0, 4), (1, 3))) == [0]


def test_all_nodes_of_the_lighter_weights_are_taken_and_then_the_others_on_their_switches():
    ways = [A, A, B, B, C, C]
    assert place(ways, 3, weights=[2, 2, 2, 2, 2, 1]) == [0, 4, 5]  # 4 is on the switch of 5
    assert place(ways, 2, weights=[2, 2, 2, 1, 2, 2]) == [2, 3]
    assert place([A, A, C, C, D], 3, weights=[2, 2, 2, 2, 1]) == [2, 3, 4]  # C is closer to D


def test_hops_to_the_switches_above_those_with_a_part_count_too():
    """Four light nodes are as far from 4 as from 5; but above two of them is one switch, above the others two."""
    ways = [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 1, 0), (0, 1, 0), (1, 2, 0)]
    assert place(ways, 5, weights=[1, 1, 1, 1, 2, 2]) == [0, 1, 2, 3, 5]


def test_nodes_that_fill_the_switches_of_lighter_ones_count_more_than_once_as_in_slurm():
    """Nodes 4 to 6 fill the switch of 2, and count again for that of 3: too few are left above 7, so 0 comes first."""
    ways, weights = [A, B, C, D, C, C, C, (1, 2), (1, 3)], [2, 2, 1, 1, 2, 2, 2, 2, 2]
    assert place(ways, 7, weights=weights) == [0, 2, 3, 4, 5, 6, 7]


def test_processors_need_no_more_nodes_once_they_have_some():
    """By their count no nodes are left above 7, but that switch has the processors, and is the closer one."""
    ways, weights = [A, A, C, D, C, C, C, (1, 2)], [2, 2, 1, 1, 2, 2, 2, 2]
    assert place(ways, 49, 1, False, weights, held=((0, 4), (1, 4))) == [0, 2, 3, 4, 5, 6, 7]


def test_every_node_on_one_switch_is_filled_in_turn():
    assert place([(), (), ()], 2, held=((0, 1),)) == [1, 2]


def test_cases_with_trees_run_as_the_oracle_says():
    groups, ran, moved = (
        ("order", "dates", "failures", "corrections", "limits", "preemption", "constraints", "pace"),
        0,
        0,
    )
    for seed in range(360):
        random = Random(seed)
        others = [random.choice(sorted(GROUPS[group])) for group in random.sample(groups, random.choice([0, 1, 2]))]
        if refusal(case := Case(("tree", random.choice(["loops", "short loops"]), *others), seed)) is None:
            ran += 1
            assert differing(case) is None, (case.features, seed)
            moved += any(len({case.boxes[node].way for node in place}) > 1 for place in case.oracle().place)
    assert ran > 300 and moved > 100
