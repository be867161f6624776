"""Orders with keys that change with time: sort the queue again, or find its first job.

Where only the first job counts (no backfilling, and nothing else reads the queue), the queue stays sorted by rows. Each
leaf and node of its list keeps its first job, and until when that is certain; a pass examines only those where it is
not, or where a job has come or gone. The keys decide, as where the whole queue is sorted.
"""

import math

import schedsim.kernels.records as at
from predictors.core.jit import rare, step
from schedsim.kernels.keys import PRIORITY, SCORE, USER, WFP3, dynamic_key, priority_key, score_key, stays_ahead
from schedsim.kernels.ordered_lists import clear, insert, leaf_at, list_slots, node_at, renew_keys, slot_from
from schedsim.kernels.records import Arrays, ListRow


@rare
def reorder(sim: Arrays) -> int:
    """Sort the waiting lists by their keys now; return ASK_ORDER if the client must give the keys first, else 0."""
    state = sim.state[0]
    clock, queue, rules = state.clock, state.queue, state.rules
    if clock.phase == at.AT_ORDER and max(rules.order, rules.backfill_order) == USER:
        clock.phase = at.AT_REORDER
        return at.ASK_ORDER
    if queue.finds_first and rules.order >= WFP3:
        queue.ranked_at = clock.now
    elif rules.order >= WFP3:
        _sort(sim, at.QUEUE, rules.order, at.QUEUE)
    if queue.candidates == at.BACKFILL and rules.backfill_order >= WFP3:
        _sort(sim, at.BACKFILL, rules.backfill_order, at.BACKFILL)
    if queue.n_postponed > 0 and max(rules.order, rules.backfill_order) == USER:
        sort_postponed(sim)  # the client has written their keys, too
    if not rules.keeps_head and (rules.order != SCORE or state.site.ticking != at.AT_NEW_HEADS):
        queue.stale = True
    return 0


@rare
def first_now(sim: Arrays) -> int:
    """Return the first job now, in a queue with jobs and a list that is sorted by rows."""
    lists, state = sim.lists, sim.state[0]
    first, key = -1, at.NEVER
    for i in range(state.queue.n_nodes[at.QUEUE]):
        node = node_at(lists, at.QUEUE, i)
        if node.first_until <= state.clock.now:
            _find_first_of_node(sim, node)
        own = _key_of_row(sim, node.first)
        if first < 0 or own < key:
            first, key = node.first, own
    return slot_from(lists, state, at.QUEUE, first, first)


@step
def _find_first_of_node(sim: Arrays, node: ListRow) -> None:
    """Find the first of a node's jobs now, and until when it is the first for certain."""
    lists, jobs, state = sim.lists, sim.jobs, sim.state[0]
    clock = state.clock
    key, until = at.NEVER, at.NEVER
    for j in range(node.count):
        leaf = leaf_at(lists, node, j)
        if leaf.first_until <= clock.now:
            _find_first_of_leaf(sim, leaf)
        own = _key_of_row(sim, leaf.first)
        if j == 0 or own < key:
            node.first, key = leaf.first, own
        until = min(until, leaf.first_until)
    for j in range(node.count):
        row = leaf_at(lists, node, j).first
        if row != node.first:
            until = min(until, stays_ahead(state.rules.order, clock.now, jobs[node.first], jobs[row]))
    node.first_until = until


@step
def _find_first_of_leaf(sim: Arrays, leaf: ListRow) -> None:
    """Find the first of a leaf's jobs now, and until when it is the first for certain."""
    jobs, state = sim.jobs, sim.state[0]
    key, until = at.NEVER, at.NEVER
    for k in range(leaf.count):
        own = _key_of_row(sim, leaf.tie[k])
        if k == 0 or own < key:
            leaf.first, key = leaf.tie[k], own
    for k in range(leaf.count):
        row = leaf.tie[k]
        if row != leaf.first:
            until = min(until, stays_ahead(state.rules.order, state.clock.now, jobs[leaf.first], jobs[row]))
    leaf.first_until = until


@step
def _key_of_row(sim: Arrays, row: int) -> int:
    """Return the key now of a job in the queue under WFP3 or UNICEP."""
    job, state = sim.jobs[row], sim.state[0]
    return dynamic_key(state.rules.order, state.clock.now - job.submit, job.procs, job.requested_time)


@rare
def sort_postponed(sim: Arrays) -> None:
    """Sort the postponed jobs by their keys now, if these change with time."""
    state = sim.state[0]
    queue, rules = state.queue, state.rules
    code = rules.backfill_order if queue.candidates == at.BACKFILL else rules.order
    if code >= WFP3:
        _sort(sim, at.POSTPONED, code, queue.candidates)


@step
def _sort(sim: Arrays, which: int, code: int, kind: int) -> None:
    """Compute the keys of one list, of the kind QUEUE or BACKFILL, and fill it again, sorted."""
    jobs, jobs_now, state, scratch = sim.jobs, sim.jobs_now, sim.state[0], sim.scratch
    now, n = state.clock.now, list_slots(sim, which, len(jobs_now))
    if code == PRIORITY and which == at.QUEUE and state.rules.grace < math.inf:
        _set_due_dates(sim, n)
    for i in range(n):
        slot = scratch[i]
        job = jobs_now[slot]
        if code == SCORE:
            job.keys[kind] = score_key(job, state)
        elif code == PRIORITY:
            job.keys[kind] = priority_key(job, state, jobs[job.row].submit)
        elif code != USER:
            wait = now - jobs[job.row].submit
            job.keys[kind] = dynamic_key(code, wait, job.procs, job.requested_time)
    put_in_order(sim, which, kind, n)


@rare
def put_in_order(sim: Arrays, which: int, kind: int, n: int) -> None:
    """Sort a list again by the jobs' keys of a kind; `scratch` holds its slots in their old order."""
    jobs_now, lists, state, scratch = sim.jobs_now, sim.lists, sim.state[0], sim.scratch
    if _is_sorted(sim, kind, n):
        renew_keys(sim, which, kind)
        return
    sort_slots(sim, kind, n)
    clear(lists, state, which)
    for i in range(n):
        slot = scratch[i]
        job = jobs_now[slot]
        insert(lists, state, which, job.keys[kind], job.row, slot, job.procs, job.candidate_estimate)


@step
def sort_slots(sim: Arrays, kind: int, n: int) -> None:
    """Sort the `n` slots in `scratch` by the jobs' keys of a kind."""
    if not _insertion_sort(sim, kind, n):
        _heap_sort(sim, kind, n)


@step
def _set_due_dates(sim: Arrays, n: int) -> None:
    """Give a due date to the newcomers, which are the last of the `n` jobs in `scratch`: see `Priority`."""
    state, scratch, work = sim.state[0], sim.scratch, 0.0
    clock, rules = state.clock, state.rules
    if n == 0 or sim.jobs_now[scratch[n - 1]].due != at.NEVER:
        return
    for i in range(state.queue.n_nodes[at.RUNNING]):
        node = node_at(sim.lists, at.RUNNING, i)
        for j in range(node.count):
            leaf = leaf_at(sim.lists, node, j)
            for k in range(leaf.count):
                work += float(max(0, leaf.key[k] - clock.now)) * leaf.procs[k]
    for i in range(n):
        job = sim.jobs_now[scratch[i]]
        if job.due == at.NEVER:
            job.due = clock.now + int(rules.grace + rules.share * work / rules.machine_procs)
        work += float(job.order_estimate) * job.procs


@step
def _before(sim: Arrays, kind: int, a: int, b: int) -> bool:
    """Return whether slot `a` comes before slot `b`."""
    first, second = sim.jobs_now[a], sim.jobs_now[b]
    x, y = first.keys[kind], second.keys[kind]
    return x < y or (x == y and first.row < second.row)


@step
def _is_sorted(sim: Arrays, kind: int, n: int) -> bool:
    """Return whether the slots are in the order of their keys."""
    scratch = sim.scratch
    i = 1
    while i < n and not _before(sim, kind, scratch[i], scratch[i - 1]):
        i += 1
    return i >= n


@step
def _insertion_sort(sim: Arrays, kind: int, n: int) -> bool:
    """Sort the slots in place; give up, returning False, if they are far from sorted."""
    scratch = sim.scratch
    moves = 0
    for i in range(1, n):
        slot, j = scratch[i], i - 1
        while j >= 0 and _before(sim, kind, slot, scratch[j]):
            scratch[j + 1] = scratch[j]
            j -= 1
            moves += 1
        scratch[j + 1] = slot
        if moves > 16 * n:
            return False
    return True


@step
def _heap_sort(sim: Arrays, kind: int, n: int) -> None:
    """Sort the slots in place, in n log n steps whatever their order."""
    scratch = sim.scratch
    for top in range(n // 2 - 1, -1, -1):
        _sift(sim, kind, top, n)
    top = at.NOTHING
    for last in range(n - 1, 0, -1):
        scratch[0], scratch[last] = scratch[last], scratch[0]
        _sift(sim, kind, top, last)


@step
def _sift(sim: Arrays, kind: int, top: int, n: int) -> None:
    scratch = sim.scratch
    slot = scratch[top]
    while 2 * top + 1 < n:
        child = 2 * top + 1
        if child + 1 < n and _before(sim, kind, scratch[child], scratch[child + 1]):
            child += 1
        if not _before(sim, kind, slot, scratch[child]):
            break
        scratch[top] = scratch[child]
        top = child
    scratch[top] = slot
