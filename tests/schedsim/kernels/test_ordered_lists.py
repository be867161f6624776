"""The ordered lists hold what a plain sorted list holds, and find the same jobs, whatever comes and goes."""

from bisect import insort

import numpy as np
import pytest

import schedsim.kernels.records as at
from predictors.core.jit import door
from schedsim.engine.state import State
from schedsim.kernels import ordered_lists

PROCS = 64
SLOTS = 256


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
