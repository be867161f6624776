"""The ordered lists hold what a plain sorted list holds, and find the same jobs, whatever comes and goes."""

from bisect import insort

import numpy as np
import pytest

import schedsim.kernels.records as at
from predictors.core.jit import door
from schedsim.engine.state import State
from schedsim.kernels import ordered_lists

PROCS = 64
SIZES = (0, at.BLOCK + 1, 2 * at.BLOCK + 8, at.BLOCK * at.FAN + 40, 3 * at.BLOCK * at.FAN)
"""Lengths that lists grow or shrink to: about one leaf, some, more than a node, several nodes."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_the_list_searched_for_backfills_answers_like_a_plain_one(seed):
    insert, remove = door(ordered_lists.insert), door(ordered_lists.remove)
    next_fitting, clear = door(ordered_lists.next_fitting), door(ordered_lists.clear)
    state, rng = State.empty(np.zeros((1, 7), dtype=np.int64)), np.random.default_rng(seed)
    record, lists = state.one, state.lists
    record["n_classes"], record["candidates"] = PROCS.bit_length(), at.QUEUE
    kernel_state = record[0]
    plain: list[tuple[int, int, int, int]] = []
    for step in range(4000):
        most = (3, 20, 200)[step // 400 % 3]  # of one leaf, of some, of many
        if step % 1711 == 1710:
            clear(lists, kernel_state, at.QUEUE)
            plain.clear()
        elif plain and (len(plain) >= most or rng.random() < 0.45):
            key, tie, _, _ = plain.pop(int(rng.integers(len(plain))) if rng.random() < 0.5 else 0)
            remove(lists, kernel_state, at.QUEUE, key, tie)
        else:
            entry = (int(rng.integers(8)), step, int(rng.integers(1, PROCS + 1)), int(rng.integers(1, 100)))
            insort(plain, entry)
            insert(lists, kernel_state, at.QUEUE, entry[0], step, step, *entry[2:])
        key, free, slack, extra = (int(rng.integers(top)) for top in (8, PROCS, 40, 8))
        found = next_fitting(lists, kernel_state, at.QUEUE, key, at.FIRST_TIE, free, slack, extra)
        fits = (e[1] for e in plain if e[0] >= key and e[2] <= free and (e[3] <= slack or e[2] <= extra))
        assert found == next(fits, -1)
        assert state.slots(at.QUEUE).tolist() == [tie for _, tie, _, _ in plain]


def check_bounds(state, which):
    """Hold the first leaf, the sums and the bounds of every leaf and node against the entries, and the rows in use."""
    one, lists = state.record, state.lists
    nodes = lists["node"][: one.n_nodes[which], which].tolist()
    assert one.first_leaf[which] == lists[nodes[0]].leaves[0]
    several = len(nodes) > 1 or lists[nodes[0]].count > 1
    rows = 0
    for node in nodes:
        leaves = lists[node].leaves[: lists[node].count].tolist()
        rows += 1 + len(leaves)
        assert lists[node].procs_sum == sum(lists[leaf].procs_sum for leaf in leaves)
        for leaf in leaves:
            count = lists[leaf].count
            procs, length = lists[leaf].procs[:count], lists[leaf].length[:count]
            assert 0 < count <= at.BLOCK and lists[leaf].procs_sum == procs.sum()
            assert (lists[leaf].key[count:] == at.LAST_KEY).all() and (lists[leaf].procs[count:] == at.NEVER).all()
            for row in (lists[leaf], lists[node]) if several else ():
                assert row.least_procs <= procs.min()
                for c in range(one.n_classes):
                    assert row.least_length[c] <= length[procs < 2 << c].min(initial=at.NEVER)
    spare, place = 0, one.spare_row
    while place >= 0:
        spare, place = spare + 1, lists[place].next_spare
    assert rows + spare == one.n_rows, "no row is lost, none is in use twice"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_lists_of_several_nodes_answer_like_plain_ones(seed):
    """Lists fill up past one node and drain from an end or anywhere; they go on in copies of the state."""
    insert, remove = door(ordered_lists.insert), door(ordered_lists.remove)
    next_fitting, remove_first = door(ordered_lists.next_fitting), door(ordered_lists.remove_first)
    state, rng = State.empty(np.zeros((1, 7), dtype=np.int64)), np.random.default_rng(seed)
    state.one["queue"]["n_classes"], state.one["queue"]["candidates"] = PROCS.bit_length(), at.QUEUE
    while len(state.jobs_now) < 2 * SIZES[-1]:
        state = state.grown()
    plain: list[tuple[int, int, int, int]] = []
    tie = most_nodes = 0
    for size in rng.permutation(np.repeat(SIZES, 2)).tolist():
        keys, front = int(rng.choice([1, 4, 1000])), int(rng.integers(3))
        while len(plain) != size:
            if len(plain) < size:
                tie += 1
                entry = (int(rng.integers(keys)), tie, int(rng.integers(1, PROCS + 1)), int(rng.integers(1, 100)))
                insort(plain, entry)
                insert(state.lists, state.record, at.QUEUE, entry[0], tie, tie, *entry[2:])
            else:
                at_place = (0, len(plain) - 1, int(rng.integers(len(plain))))[front]
                key, old, _, _ = plain.pop(at_place)
                if at_place == 0:
                    remove_first(state.lists, state.record, at.QUEUE)
                else:
                    remove(state.lists, state.record, at.QUEUE, key, old)
            most_nodes = max(most_nodes, int(state.record.queue.n_nodes[at.QUEUE]))
            if tie % 3 == 0 or len(plain) < 2 * at.BLOCK + 2:
                key, free, slack, extra = (int(rng.integers(top)) for top in (keys, PROCS, 12, 3))
                found = next_fitting(state.lists, state.record, at.QUEUE, key, at.FIRST_TIE, free, slack, extra)
                fits = (e[1] for e in plain if e[0] >= key and e[2] <= free and (e[3] <= slack or e[2] <= extra))
                assert found == next(fits, -1)
            if plain and rng.random() < 0.02:
                check_bounds(state, at.QUEUE)
                assert state.slots(at.QUEUE).tolist() == [e[1] for e in plain]
                old_state, state = state, state.copy()
                old_state.lists.view(np.uint8)[:] = 0xFF  # what the copy shares by mistake is spoilt
    assert most_nodes >= 4
