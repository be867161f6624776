"""Sorting the queue anew under orders whose keys change with time."""

import numpy as np
import numpy.typing as npt

import schedsim._kernels_layout as at
from predictors.data.compiled import step
from schedsim._kernels_lookup import list_slots
from schedsim._kernels_ordered import clear, insert, rekey
from schedsim._kernels_orders import SCORE, USER, WFP3, dynamic_key
from schedsim._kernels_score import score_key

Ints = npt.NDArray[np.int64]


@step
def reorder(jobs: Ints, live: Ints, blocks: Ints, clock: Ints) -> int:
    """Sort the waiting lists by their keys now; return ASK_ORDER if the client must give the keys first, else 0."""
    if clock[at.PHASE] == at.AT_ORDER and max(clock[at.ORDER], clock[at.BACKFILL_ORDER]) == USER:
        clock[at.PHASE] = at.AT_REORDER
        return at.ASK_ORDER
    if clock[at.ORDER] >= WFP3:
        _sort(jobs, live, blocks, clock, at.QUEUE, clock[at.ORDER], at.KEY)
    if clock[at.CANDIDATES] == at.BACKFILL and clock[at.BACKFILL_ORDER] >= WFP3:
        _sort(jobs, live, blocks, clock, at.BACKFILL, clock[at.BACKFILL_ORDER], at.BACKFILL_KEY)
    if clock[at.N_POSTPONED] > 0 and max(clock[at.ORDER], clock[at.BACKFILL_ORDER]) == USER:
        sort_postponed(jobs, live, blocks, clock)  # the client has written their keys, too
    if clock[at.ORDER] != SCORE or clock[at.TICKING] != at.AT_NEW_HEADS:
        clock[at.STALE] = 1
    return 0


@step
def sort_postponed(jobs: Ints, live: Ints, blocks: Ints, clock: Ints) -> None:
    """Sort the postponed jobs by their keys now, if these change with time."""
    own = clock[at.CANDIDATES] == at.BACKFILL
    code = clock[at.BACKFILL_ORDER if own else at.ORDER]
    if code >= WFP3:
        _sort(jobs, live, blocks, clock, at.POSTPONED, code, at.BACKFILL_KEY if own else at.KEY)


@step
def _sort(jobs: Ints, live: Ints, blocks: Ints, clock: Ints, which: int, code: int, column: int) -> None:
    """Compute the keys of one list and fill it again, sorted."""
    now, n = clock[at.NOW], list_slots(live, blocks, clock, which, len(live))
    for i in range(n):
        slot = live[i, at.SORTED]
        if code == SCORE:
            live[slot, column] = score_key(live, clock, slot)
        elif code != USER:
            wait = now - jobs[live[slot, at.ROW], at.SUBMIT]
            live[slot, column] = dynamic_key(code, wait, live[slot, at.WIDTH], live[slot, at.LIMIT])
    if _is_sorted(live, column, n):
        rekey(live, blocks, clock, which, column)
        return
    if not _insertion_sort(live, column, n):
        _heap_sort(live, column, n)
    clear(blocks, clock, which)
    for i in range(n):
        slot = live[i, at.SORTED]
        width, length = live[slot, at.WIDTH], live[slot, at.CANDIDATE]
        insert(blocks, clock, which, live[slot, column], live[slot, at.ROW], slot, width, length)


@step
def _before(live: Ints, column: int, a: int, b: int) -> bool:
    """Return whether slot `a` comes before slot `b`."""
    x, y = live[a, column], live[b, column]
    return bool(x < y or (x == y and live[a, at.ROW] < live[b, at.ROW]))


@step
def _is_sorted(live: Ints, column: int, n: int) -> bool:
    """Return whether the slots are in the order of their keys."""
    i = 1
    while i < n and not _before(live, column, live[i, at.SORTED], live[i - 1, at.SORTED]):
        i += 1
    return bool(i >= n)


@step
def _insertion_sort(live: Ints, column: int, n: int) -> bool:
    """Sort the slots in place; give up, returning False, if they are far from sorted."""
    moves = 0
    for i in range(1, n):
        slot, j = live[i, at.SORTED], i - 1
        while j >= 0 and _before(live, column, slot, live[j, at.SORTED]):
            live[j + 1, at.SORTED] = live[j, at.SORTED]
            j -= 1
            moves += 1
        live[j + 1, at.SORTED] = slot
        if moves > 16 * n:
            return False
    return True


@step
def _heap_sort(live: Ints, column: int, n: int) -> None:
    """Sort the slots in place, in n log n steps whatever their order."""
    for top in range(n // 2 - 1, -1, -1):
        _sift(live, column, top, n)
    top = at.NOTHING
    for last in range(n - 1, 0, -1):
        live[0, at.SORTED], live[last, at.SORTED] = live[last, at.SORTED], live[0, at.SORTED]
        _sift(live, column, top, last)


@step
def _sift(live: Ints, column: int, top: int, n: int) -> None:
    slot = live[top, at.SORTED]
    while 2 * top + 1 < n:
        child = 2 * top + 1
        if child + 1 < n and _before(live, column, live[child, at.SORTED], live[child + 1, at.SORTED]):
            child += 1
        if not _before(live, column, slot, live[child, at.SORTED]):
            break
        live[top, at.SORTED] = live[child, at.SORTED]
        top = child
    live[top, at.SORTED] = slot
