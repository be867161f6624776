"""Availability profile: processors free from when on, by the estimates of running jobs and by reservations.

`profile` holds levels: a second, and the processors free from then until the next level; `profile_size` counts them.
The first is the present; after the last nothing changes.

The calendar is the timers of kind `CALENDAR`: at such a date the number of reserved processors changes. A job may start
at a second only if at every later date within its requested time it fits next to the reservations of then and the
running jobs, each until its own requested time: so nothing runs on reserved processors, however bad the estimates are.
`dates` holds the seconds at which the reserved part grows, and what is left then.
"""

import schedsim.kernels.records as at
from predictors.core.jit import rare, step
from schedsim.kernels.ordered_lists import leaf_at, node_at, released_by
from schedsim.kernels.records import Arrays, JobNow, State


@step
def free_for(state: State, procs: int) -> int:
    """Return how many processors a job of `procs` may use now: under a ceiling on utilisation, not all free ones.

    Wide jobs are exempt from the ceiling.
    """
    queue, rules = state.queue, state.rules
    return queue.free if procs >= rules.exempt_from else queue.free - rules.exempt_only


@step
def plan_running(sim: Arrays) -> None:
    """Begin a profile with the running jobs and the reservations of the machine."""
    state = sim.state[0]
    plan_ends(sim, at.RUNNING)
    if state.rules.dated:
        read_dates(sim)


@rare
def plan_ends(sim: Arrays, which: int) -> None:
    """Begin a profile with the running jobs, with ends by one of their lists, and the reservations of the machine."""
    lists, state, profile = sim.lists, sim.state[0], sim.profile
    queue = state.queue
    free = queue.free
    profile[0].time, profile[0].free = state.clock.now, free
    size = 1
    for i in range(queue.n_nodes[which]):
        node = node_at(lists, which, i)
        for j in range(node.count):
            leaf = leaf_at(lists, node, j)
            for k in range(leaf.count):
                free += leaf.procs[k]
                if leaf.key[k] > profile[size - 1].time:
                    profile[size].time = leaf.key[k]
                    size += 1
                profile[size - 1].free = free
    queue.profile_size = size
    if state.rules.dated:
        _plan_reserved(sim)


@step
def _plan_reserved(sim: Arrays) -> None:
    """Take the reservations of the machine out of a profile."""
    lists, queue, profile = sim.lists, sim.state[0].queue, sim.profile
    for i in range(queue.n_nodes[at.TIMERS]):
        node = node_at(lists, at.TIMERS, i)
        for j in range(node.count):
            leaf = leaf_at(lists, node, j)
            for k in range(leaf.count):
                if leaf.slot[k] == at.CALENDAR:
                    for level in range(split_at(sim, leaf.key[k]), queue.profile_size):
                        profile[level].free -= leaf.procs[k]


@rare
def earliest(sim: Arrays, procs: int, length: int, limit: int) -> int:
    """Return the first second from which on `procs` processors are free for `length` seconds, or NEVER.

    By the requested time, `limit`, the job then clears the reservations of the machine.
    """
    profile, dated = sim.profile, sim.state[0].rules.dated
    i = hole_from(sim, 0, procs, length)
    while i >= 0:
        date = at.NEVER if not dated else conflict(sim, profile[i].time, procs, limit)
        if date == at.NEVER:
            return profile[i].time
        while profile[i].time < date:
            i += 1
        i = hole_from(sim, i, procs, length)
    return at.NEVER


@step
def hole_from(sim: Arrays, first: int, procs: int, length: int) -> int:
    """Return the first level from `first` on from which on `procs` processors are free for `length` seconds, or -1."""
    profile, size = sim.profile, sim.state[0].queue.profile_size
    if profile[size - 1].free < procs:
        return -1
    i = first
    while True:
        while profile[i].free < procs:
            i += 1
        end, j = profile[i].time + length, i + 1
        while j < size and profile[j].time < end and profile[j].free >= procs:
            j += 1
        if j == size or profile[j].time >= end:
            return i
        i = j + 1


@step
def is_free(sim: Arrays, start: int, procs: int, length: int, limit: int) -> bool:
    """Return whether `procs` processors are free for `length` seconds from `start` on, which is not before the profile.

    By the requested time, `limit`, the job must clear the reservations of the machine.
    """
    if shortage(sim, start, procs, length) != at.NEVER:
        return False
    return not sim.state[0].rules.dated or conflict(sim, start, procs, limit) == at.NEVER


@step
def shortage(sim: Arrays, start: int, procs: int, length: int) -> int:
    """Return the first second from `start` on, within `length` seconds, with fewer processors free; or NEVER."""
    profile, size = sim.profile, sim.state[0].queue.profile_size
    i = level_at(sim, start)
    while i < size and profile[i].time < start + length:
        if profile[i].free < procs:
            return max(start, profile[i].time)
        i += 1
    return at.NEVER


@step
def level_at(sim: Arrays, time: int) -> int:
    """Return the level that holds at a second, which is not before the profile."""
    state, profile = sim.state[0], sim.profile
    low, high = 0, state.queue.profile_size - 1
    while low < high:
        middle = (low + high + 1) >> 1
        if profile[middle].time <= time:
            low = middle
        else:
            high = middle - 1
    return low


@step
def split_at(sim: Arrays, time: int) -> int:
    """Make a level begin at a second; return its place."""
    queue, profile = sim.state[0].queue, sim.profile
    i = level_at(sim, time)
    if profile[i].time == time:
        return i
    for j in range(queue.profile_size, i + 1, -1):
        profile[j].time, profile[j].free = profile[j - 1].time, profile[j - 1].free
    profile[i + 1].time, profile[i + 1].free = time, profile[i].free
    queue.profile_size += 1
    return i + 1


@rare
def book(sim: Arrays, start: int, procs: int, length: int, limit: int) -> None:
    """Take `procs` processors (give them back, if negative) for `length` seconds from `start` on.

    At the dates of the machine's reservations they are taken until the requested time, `limit`.
    """
    state, profile = sim.state[0], sim.profile
    if start == at.NEVER:
        return
    if state.rules.dated:
        book_dates(sim, start, procs, limit)
    first = split_at(sim, start)
    last = split_at(sim, start + length)
    for i in range(first, last):
        profile[i].free -= procs


@step
def trim(sim: Arrays) -> None:
    """Let the profile begin now: nothing in it changes between its begin and now."""
    state, profile = sim.state[0], sim.profile
    profile[0].time = state.clock.now


@step
def first_drop(sim: Arrays) -> int:
    """Return the first level with less free than now, or the number of levels."""
    state, profile = sim.state[0], sim.profile
    i, size = 1, state.queue.profile_size
    while i < size and profile[i].free >= profile[0].free:
        i += 1
    return i


@rare
def read_dates(sim: Arrays) -> None:
    """Write the dates ahead, and the room that running jobs leave then by their requested times."""
    lists, state, dates = sim.lists, sim.state[0], sim.dates
    queue = state.queue
    n, taken = 0, 0
    for i in range(queue.n_nodes[at.TIMERS]):
        node = node_at(lists, at.TIMERS, i)
        for j in range(node.count):
            leaf = leaf_at(lists, node, j)
            for k in range(leaf.count):
                if leaf.slot[k] != at.CALENDAR:
                    continue
                date, more = leaf.key[k], leaf.procs[k]
                taken += more
                if more > 0:
                    dates[n].time = date
                    dates[n].room = queue.free - taken + released_by(lists, state, at.LIMITS, date)
                    n += 1
    queue.n_dates = n


@rare
def conflict(sim: Arrays, start: int, procs: int, limit: int) -> int:
    """Return the first date within a job's requested time at which it would not fit, or NEVER."""
    state, dates = sim.state[0], sim.dates
    for i in range(state.queue.n_dates):
        if dates[i].time >= start + limit:
            break
        if dates[i].time > start and dates[i].room < procs:
            return dates[i].time
    return at.NEVER


@step
def clears(sim: Arrays, job: JobNow) -> bool:
    """Return whether a waiting job may start now for all that is reserved."""
    state = sim.state[0]
    if not state.rules.dated:
        return True
    return conflict(sim, state.clock.now, job.procs, job.requested_time) == at.NEVER


@rare
def book_dates(sim: Arrays, start: int, procs: int, limit: int) -> None:
    """Take a job's processors (give them back, if negative) at the dates within its requested time."""
    state, dates = sim.state[0], sim.dates
    for i in range(state.queue.n_dates):
        if start < dates[i].time < start + limit:
            dates[i].room -= procs


@step
def note_start(sim: Arrays, job: JobNow) -> None:
    """Let a job that has just started count at the dates ahead."""
    state = sim.state[0]
    if state.rules.dated and job.run_time > 0:
        book_dates(sim, state.clock.now, job.procs, job.requested_time)
