"""Which order looks best now? At each pass a copy of the site is drained under each order (docs/tune.md).

In a copy every job takes as long as is estimated now, and nothing else comes. A job fits if its processors are free.
"""

from copy import deepcopy
from dataclasses import replace
from heapq import heapify, heappop

from predictors.core.events import STARTED

BOUND = 10  # of the bounded slowdown [s]

COSTS = {
    "wait": lambda wait, length: float(wait),
    "slowdown": lambda wait, length: max(1.0, (wait + length) / max(length, BOUND)),
    "wait-slowdown": lambda wait, length: float(wait) * float(wait) / max(length, BOUND),
    "squared-wait": lambda wait, length: float(wait) * float(wait),
}


def best_order(site) -> str:
    """Return the order with the cheapest drain; of equally good ones the first."""
    orders, aim = site.rule.look_ahead
    free = site.machine.procs - site.in_use - site.machine.closed(site.now)
    if len(site.queue) < 2 or min(entry.procs for entry in site.queue) > free:
        return orders[0]
    return min(orders, key=lambda order: drained(site, order, COSTS[aim]))


def drained(site, order, cost) -> float:
    """Return what the starts of the waiting jobs cost under an order."""
    memo = {id(kept): kept for kept in (site.machine, *(entry.job for entry in (*site.queue, *site.running)))}
    copy = deepcopy(site, memo)
    copy.rule = replace(site.rule, order=order, look_ahead=None)
    copy.revised, copy.timers, copy.wakes, copy.news = None, [], set(), []
    for entry in (*copy.queue, *copy.running):
        entry.run_time, entry.ladder, entry.steps = entry.running, [], []
        entry.job = replace(entry.job, run_time=entry.running)
    copy.ends = [(entry.planned_end, entry.start, entry.job_id, entry) for entry in copy.running]
    heapify(copy.ends)
    waiting = {entry.row: entry for entry in copy.queue}
    copy.in_order()
    copy.one_pass()
    while copy.queue and (second := copy.next_second([])) is not None:
        copy.now, ending = second, []
        while copy.ends and copy.ends[0][0] == second:
            ending.append(heappop(copy.ends)[-1])
        copy.instant(ending, [])
    starts = [(second, waiting[row]) for second, kind, row in copy.news if kind == STARTED and row in waiting]
    return sum((cost(second - entry.submit, entry.run_time) for second, entry in starts), 0.0)
