"""The rule `balanced` and its estimates alone, compiled: small, quick to change, and with families that it has not.

Its starts are those of the engine, job for job, on logs without runs of 0 s (they count as 1 s here). It keeps the
waiting jobs in one array and looks at each of them, which is fast enough: a shake of KTH-SP2 takes .05 s, SDSC-SP2 .25
s, CEA-Curie 2 s. What `Rule` adds is tried here first, and would be built into the engine if it were better.
"""

import math
from typing import Final, NamedTuple

import numpy as np
from numba import njit

from predictors.core.arrays import Floats, Ints
from schedsim.workload.workload import Workload

RUNS: Final = 10  # ended jobs kept of each user, and of each user and requested time
BINS: Final = 48  # of run time / request, from 1e-4 to 1
CLASSES: Final = 32  # of requests: two for each doubling from a minute on
LEAST_RATIO: Final = math.log(1e-4)
UP: Final = 1 + 1e-12
NEVER: Final = 1 << 60
FIRST: Final = -1e15  # key of job 0 once it is overdue


class Rule(NamedTuple):
    """The numbers of `balanced`, see docs/backfilling.md, and of the families beside it.

    Attributes
    ----------
    pooled : float
        The run times of everybody's ended jobs, as shares of their requests, in classes of the request, join the sample
        that plans with running jobs; together they count as so many runs. Given the elapsed time, what is shorter is
        left out.
    own_first : bool
        Everybody's runs join the sample of a job only where its user has ended jobs.
    forget : float
        So many ended jobs of a class make the older ones count for 1 / e.
    protected : int
        So many of the jobs that have waited longest, and longer than `protected_after` [s], are not delayed by a
        backfill: by requested times, or with `by_estimates` by those of their roles.
    bound : float
        A job comes in the order of submission once jobs submitted later have started with more than `bound` x the work
        ahead of it at its submission, and with `bound_least` [s] x the processors of the machine.
    overrun : float
        A backfill's expected overrun of the shadow time may be so much of the time until then, instead of its
        candidate estimate's rule.
    caution : float
        A candidate is tried by its estimate + so much of what lacks to its request, in full once the head has waited
        twice `caution_after` [s], none of it before it has waited once.
    known : int
        True run times: 1 of running jobs, 2 of candidates, 4 for the order; or a sum.
    """

    head_start: float = 1200.0
    estimate: float = 1.0
    procs: float = 0.1
    grace: float = 86_400.0
    share: float = 0.35
    slack: float = 86_400.0
    growth: float = -0.15
    least: float = 21_600.0
    most: float = 86_400.0
    factor: float = 0.85
    quantile: float = 0.5
    request_weight: float = 0.1
    pooled: float = 0.0
    own_first: bool = False
    forget: float = 500.0
    protected: int = 0
    protected_after: float = 0.0
    by_estimates: bool = False
    bound: float = 0.0
    bound_least: float = 0.0
    overrun: float = 0.0
    caution: float = 0.0
    caution_after: float = 86_400.0
    known: int = 0


class Jobs(NamedTuple):
    """The jobs of a workload, by submission; `user` and `group` (one user and requested time) from 0, -1: unknown."""

    submit: Ints
    procs: Ints
    request: Ints
    run_time: Ints
    user: Ints
    group: Ints


class History(NamedTuple):
    """The last runs of each group and user as rings, and the pool."""

    group_ended: Ints
    group_runs: Ints
    user_ended: Ints
    user_runs: Ints
    user_asked: Ints
    pool: Floats
    step: Floats


class Running(NamedTuple):
    """Running jobs: their rows, true ends, planned ends, when these change next, and their frozen samples."""

    row: Ints
    end: Ints
    planned: Ints
    change: Ints
    size: Ints
    values: Ints
    weights: Floats


def jobs_of(workload: Workload) -> Jobs:
    """Return what the rule reads of a workload."""
    user, group = np.full(len(workload), -1), np.full(len(workload), -1)
    users = user if workload.user is None else workload.user
    known = users >= 0
    pairs = np.stack([users[known], workload.requested[known]], axis=1)
    if known.any():
        user[known] = np.unique(pairs[:, 0], return_inverse=True)[1].ravel()
        group[known] = np.unique(pairs, axis=0, return_inverse=True)[1].ravel()
    run_time = np.clip(workload.run_time, 1, workload.requested)
    return Jobs(*(np.ascontiguousarray(a, np.int64)
                  for a in (workload.submit, workload.procs, workload.requested, run_time, user, group)))  # fmt: skip


def starts(workload: Workload, rule: Rule) -> Ints:
    """Return when each job starts, shape (n_jobs,) [s]."""
    jobs = jobs_of(workload)
    return np.asarray(schedule(jobs, history_of(jobs), int(workload.machine_procs), rule))


def history_of(jobs: Jobs) -> History:
    """Return an empty history."""
    groups, users = int(jobs.group.max(initial=0)) + 1, int(jobs.user.max(initial=0)) + 1
    rings = [np.zeros(shape, np.int64) for shape in (groups, (groups, RUNS), users, (users, RUNS), (users, RUNS))]
    return History(*rings, np.zeros((CLASSES, BINS)), np.ones(CLASSES))


@njit(cache=True)
def ended(row: int, ran: int, jobs: Jobs, history: History, forget: float) -> None:
    """Remember how long a job ran."""
    request, user, group = jobs.request[row], jobs.user[row], jobs.group[row]
    if user >= 0:
        history.group_runs[group, history.group_ended[group] % RUNS] = ran
        history.group_ended[group] += 1
        history.user_runs[user, history.user_ended[user] % RUNS] = ran
        history.user_asked[user, history.user_ended[user] % RUNS] = request
        history.user_ended[user] += 1
    which = class_of(request)
    history.pool[which, bin_of(ran / request)] += history.step[which]
    history.step[which] *= 1 + 1 / forget
    if history.step[which] > 1e6:
        history.pool[which] /= history.step[which]
        history.step[which] = 1.0


@njit(cache=True)
def class_of(request: int) -> int:
    """Return the class of a requested time."""
    return min(CLASSES - 1, int(2 * math.log2(request / 60.0))) if request > 60 else 0


@njit(cache=True)
def bin_of(ratio: float) -> int:
    """Return the bin of a run time / request."""
    return BINS - 1 - min(int(math.log(max(min(ratio, 1.0), 1e-4)) / LEAST_RATIO * BINS), BINS - 1)


@njit(cache=True)
def middle_of(place: int, request: int) -> int:
    """Return the geometric middle of a bin, times the request, rounded up [s]."""
    return math.ceil(math.exp(LEAST_RATIO * (BINS - 0.5 - place) / BINS) * request)


@njit(cache=True)
def sample(row: int, jobs: Jobs, history: History, request_weight: float, values: Ints, weights: Floats) -> int:
    """Write the sample of a job, ascending, and its weights; return its size."""
    request, user, group, n = jobs.request[row], jobs.user[row], jobs.group[row], 0
    if user >= 0:
        n = min(history.group_ended[group], RUNS)
        for k in range(n):
            values[k] = min(history.group_runs[group, k], request)
        if n == 0:
            n = min(history.user_ended[user], RUNS)
            for k in range(n):
                scaled = history.user_runs[user, k] * request // history.user_asked[user, k]
                values[k] = min(max(1, scaled), request)
    values[:n].sort()
    values[n], weights[:n], weights[n] = request, 1.0, request_weight if n > 0 else 1.0
    return n + 1


@njit(cache=True)
def within(seconds: float, request: int) -> int:
    """Return whole seconds from 1 to the requested time."""
    return max(1, min(int(seconds * UP), request))


@njit(cache=True)
def means(values: Ints, weights: Floats, size: int, left: float) -> tuple[float, float, float]:
    """Return the weighted geometric and arithmetic means of a sample, and the expected overrun of `left`."""
    weight, total, total_log, over = 0.0, 0.0, 0.0, 0.0
    for k in range(size):
        weight += weights[k]
        total += weights[k] * values[k]
        total_log += weights[k] * math.log(values[k])
        over += weights[k] * max(0.0, values[k] - left)
    return math.exp(total_log / weight), total / weight, over / weight


@njit(cache=True)
def beyond(
    elapsed: int, request: int, values: Ints, weights: Floats, size: int, quantile: float, pool: Floats, pooled: float
) -> int:
    """Return the weighted quantile of what is longer than `elapsed`, of a sample and of everybody's ended jobs."""
    which = class_of(request)
    mass = pool[which].sum()
    each = pooled / mass if mass > 0 else 0.0
    first = bin_of(max(elapsed, 1) / request) if each > 0 else BINS
    weight, reached, k = 0.0, 0.0, 0
    for i in range(size):
        if values[i] > elapsed:
            weight += weights[i]
    for place in range(first, BINS):
        if middle_of(place, request) > elapsed:
            weight += each * pool[which, place]
    place = first
    while k < size or place < BINS:
        seconds = middle_of(place, request) if place < BINS else NEVER
        if k < size and values[k] <= seconds:
            seconds, more = values[k], weights[k]
            k += 1
        else:
            more = each * pool[which, place]
            place += 1
        if seconds > elapsed:
            reached += more
            if reached >= quantile * weight - 1e-9:
                return seconds
    return request


@njit(cache=True)
def key(row: int, now: int, jobs: Jobs, due: Ints, log_order: Floats, passed: bool, rule: Rule) -> float:
    """Return a number by which waiting jobs are ordered, smallest first."""
    if now > due[row] or passed:
        return FIRST + row
    return -(
        math.log10(now - jobs.submit[row] + rule.head_start)
        - rule.estimate * log_order[row]
        + rule.procs * math.log10(jobs.procs[row])
    )


@njit(cache=True)
def release(ends: Ints, procs: Ints, need: int) -> tuple[int, int]:
    """Return when so many processors are released, and how many more then."""
    order, found = np.argsort(ends), 0
    for i in range(len(ends)):
        found += procs[order[i]]
        last = i + 1 == len(ends) or ends[order[i + 1]] != ends[order[i]]
        if last and found >= need:
            return ends[order[i]], found - need
    return NEVER, 0


@njit(cache=True)
def begin(row: int, now: int, n: int, jobs: Jobs, running: Running, history: History, rule: Rule) -> None:
    """Write a job that starts as the n-th running one."""
    values, weights = running.values[n], running.weights[n]
    running.size[n] = sample(row, jobs, history, rule.request_weight, values, weights)
    running.row[n], running.end[n] = row, now + jobs.run_time[row]
    plan(n, 0, now, jobs, running, history, rule)


@njit(cache=True)
def plan(n: int, elapsed: int, start: int, jobs: Jobs, running: Running, history: History, rule: Rule) -> bool:
    """Plan the end of the n-th running job anew; return whether it has changed."""
    row, old = running.row[n], running.planned[n]
    if rule.known & 1:
        running.planned[n], running.change[n] = running.end[n], NEVER
        return False
    request, values, size = jobs.request[row], running.values[n], running.size[n]
    pooled = 0.0 if rule.own_first and size == 1 else rule.pooled
    running.planned[n] = start + beyond(
        elapsed, request, values, running.weights[n], size, rule.quantile, history.pool, pooled
    )
    running.change[n] = NEVER
    for k in range(size):
        if values[k] > elapsed:
            running.change[n] = start + values[k]
            break
    if pooled > 0:
        for place in range(bin_of(max(elapsed, 1) / request), BINS):
            if middle_of(place, request) > elapsed:
                running.change[n] = min(running.change[n], start + middle_of(place, request))
                break
    return bool(running.planned[n] != old)


@njit(cache=True)
def delays(
    row: int, oldest: int, now: int, shadow: int, head_length: int, head_procs: int, free: int, lengths: Ints,
    ends: Ints, jobs: Jobs, rows: Ints,
) -> bool:  # fmt: skip
    """Return whether a backfill delays a protected job, beside which the head runs from its shadow time on."""
    order = np.argsort(ends)
    for i in range(len(ends)):
        second = ends[order[i]]
        free += jobs.procs[rows[order[i]]]
        if i + 1 < len(ends) and ends[order[i + 1]] == second:
            continue
        here = free - head_procs if shadow <= second < shadow + head_length else free
        if here >= jobs.procs[oldest]:
            return bool(now + lengths[row] > second and jobs.procs[row] > here - jobs.procs[oldest])
    return False


@njit(cache=True)
def schedule(jobs: Jobs, history: History, machine: int, rule: Rule) -> Ints:
    """Return when each job starts."""
    n_jobs = len(jobs.submit)
    most = min(n_jobs, machine) + 1
    start, due = np.full(n_jobs, -1, np.int64), np.zeros(n_jobs, np.int64)
    promise, tried = np.full(n_jobs, -1, np.int64), np.zeros(n_jobs, np.int64)
    candidate, order, log_order = np.zeros(n_jobs, np.int64), np.zeros(n_jobs, np.int64), np.zeros(n_jobs)
    overtaken, ahead = np.zeros(n_jobs), np.zeros(n_jobs)  # processor-seconds
    waiting, chosen, keys = np.zeros(n_jobs, np.int64), np.zeros(n_jobs, np.int64), np.zeros(n_jobs)
    is_new = np.zeros(len(history.user_ended), np.bool_)
    running = Running(
        np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(most, np.int64),
        np.zeros(most, np.int64), np.zeros((most, RUNS + 1), np.int64), np.zeros((most, RUNS + 1)),
    )  # fmt: skip
    values, weights = np.zeros(RUNS + 1, np.int64), np.zeros(RUNS + 1)
    n_waiting, n_running, next_row, free, head = 0, 0, 0, machine, -1
    shadow, extra, promised, extra_then, stale = 0, 0, 0, 0, True
    while next_row < n_jobs or n_running > 0:
        now = jobs.submit[next_row] if next_row < n_jobs else NEVER
        for i in range(n_running):
            now = min(now, running.end[i])
        any_new = False
        while True:  # ends, in the order of starts, then rows
            place = -1
            for i in range(n_running):
                if running.end[i] == now:
                    row, other = running.row[i], running.row[place]
                    if place < 0 or (start[row], row) < (start[other], other):
                        place = i
            if place < 0:
                break
            row, stale = running.row[place], True
            free += jobs.procs[row]
            ended(row, now - start[row], jobs, history, rule.forget)
            if jobs.user[row] >= 0:
                is_new[jobs.user[row]] = any_new = True
            n_running -= 1
            running.row[place], running.end[place] = running.row[n_running], running.end[n_running]
            running.planned[place], running.change[place] = running.planned[n_running], running.change[n_running]
            running.size[place] = running.size[n_running]
            running.values[place] = running.values[n_running]
            running.weights[place] = running.weights[n_running]
        before = n_waiting
        while next_row < n_jobs and jobs.submit[next_row] == now:
            waiting[n_waiting] = next_row
            n_waiting += 1
            next_row += 1
        for i in range(0 if any_new else before, n_waiting):
            row = waiting[i]
            if i >= before or (jobs.user[row] >= 0 and is_new[jobs.user[row]]):
                size = sample(row, jobs, history, rule.request_weight, values, weights)
                low, mean, _ = means(values, weights, size, 0.0)
                order[row] = jobs.run_time[row] if rule.known & 4 else within(low, jobs.request[row])
                candidate[row] = jobs.run_time[row] if rule.known & 2 else within(rule.factor * mean, jobs.request[row])
                log_order[row] = math.log10(order[row])
        is_new[:] = False
        for i in range(n_running):
            if running.change[i] <= now:
                row = running.row[i]
                stale |= plan(i, now - start[row], start[row], jobs, running, history, rule)
        if n_waiting == 0:
            continue
        if before < n_waiting:
            work = 0.0
            for i in range(n_running):
                work += float(running.planned[i] - now) * jobs.procs[running.row[i]]
            for i in range(n_waiting):
                row = waiting[i]
                if i >= before:
                    due[row], ahead[row] = now + int(rule.grace + rule.share * work / machine), work
                work += float(order[row]) * jobs.procs[row]
        last_head = head
        while n_waiting > 0:  # the front of the queue; a head keeps its place
            if head < 0:
                best = 0.0
                for i in range(n_waiting):
                    row = waiting[i]
                    found = key(row, now, jobs, due, log_order, passed(row, overtaken, ahead, machine, rule), rule)
                    if head < 0 or found < best:
                        head, best = row, found
            if jobs.procs[head] > free:
                break
            start[head], stale = now, True
            free -= jobs.procs[head]
            begin(head, now, n_running, jobs, running, history, rule)
            n_running += 1
            n_waiting = without_started(waiting, n_waiting, start)
            note_overtaken(head, waiting, n_waiting, order, jobs, overtaken)
            head = -1
        if head < 0:
            continue
        from_first = stale or head != last_head
        if from_first:
            rows, need = running.row[:n_running], jobs.procs[head] - free
            shadow, extra = release(running.planned[:n_running], jobs.procs[rows], need)
            ends = start[rows] + jobs.request[rows]
            if promise[head] < 0:
                slack = int(rule.slack) + int(rule.growth * (now - jobs.submit[head]))
                promise[head] = release(ends, jobs.procs[rows], need)[0] + int(max(rule.least, min(rule.most, slack)))
            promised, stale = promise[head], False
            extra_then = jobs.procs[rows][ends <= promised].sum() - need
        n = 0
        for i in range(0 if from_first else before, n_waiting):  # else nothing has changed for those that waited
            row = waiting[i]
            if row == head or jobs.procs[row] > free:
                continue
            if now + jobs.request[row] > promised and jobs.procs[row] > extra_then:
                continue
            tried[row] = candidate[row]
            if rule.caution > 0:
                late = rule.caution * min(1.0, max(0.0, (now - jobs.submit[head]) / rule.caution_after - 1.0))
                tried[row] += int(late * (jobs.request[row] - candidate[row]))
            if rule.overrun > 0 and now + jobs.request[row] > shadow:
                size = sample(row, jobs, history, rule.request_weight, values, weights)
                over = means(values, weights, size, float(shadow - now))[2]
                tried[row] = 1 if over <= rule.overrun * (shadow - now) else NEVER
            if now + tried[row] > shadow and jobs.procs[row] > extra:
                continue
            chosen[n] = row
            keys[n] = key(row, now, jobs, due, log_order, passed(row, overtaken, ahead, machine, rule), rule)
            n += 1
        for i in np.argsort(keys[:n], kind="mergesort"):
            row = chosen[i]
            in_time, in_promise = now + tried[row] <= shadow, now + jobs.request[row] <= promised
            if jobs.procs[row] > free or not (in_time or jobs.procs[row] <= extra):
                continue
            if not (in_promise or jobs.procs[row] <= extra_then):
                continue
            if rule.protected > 0 and delays_any(
                row, head, now, shadow, free, waiting, n_waiting, n_running, start, candidate, jobs, running, rule
            ):
                continue
            extra -= 0 if in_time else jobs.procs[row]
            extra_then -= 0 if in_promise else jobs.procs[row]
            start[row], stale = now, True
            free -= jobs.procs[row]
            begin(row, now, n_running, jobs, running, history, rule)
            n_running += 1
            note_overtaken(row, waiting, n_waiting, order, jobs, overtaken)
        n_waiting = without_started(waiting, n_waiting, start)
    return start


@njit(cache=True)
def passed(row: int, overtaken: Floats, ahead: Floats, machine: int, rule: Rule) -> bool:
    """Return whether later jobs have started with more work than the bound allows."""
    return rule.bound > 0 and overtaken[row] > max(rule.bound_least * machine, rule.bound * ahead[row])


@njit(cache=True)
def note_overtaken(row: int, waiting: Ints, n: int, order: Ints, jobs: Jobs, overtaken: Floats) -> None:
    """Count the work of a job that starts for those submitted before it."""
    for i in range(n):
        if waiting[i] >= row:
            return
        overtaken[waiting[i]] += float(order[row]) * jobs.procs[row]


@njit(cache=True)
def without_started(waiting: Ints, n: int, start: Ints) -> int:
    """Keep the jobs that still wait, in their order; return how many they are."""
    kept = 0
    for i in range(n):
        if start[waiting[i]] < 0:
            waiting[kept] = waiting[i]
            kept += 1
    return kept


@njit(cache=True)
def delays_any(
    row: int, head: int, now: int, shadow: int, free: int, waiting: Ints, n_waiting: int, n_running: int, start: Ints,
    candidate: Ints, jobs: Jobs, running: Running, rule: Rule,
) -> bool:  # fmt: skip
    """Return whether a backfill delays one of the protected jobs; a protected one only those before it."""
    n, rows = 0, running.row[:n_running]
    lengths = candidate if rule.by_estimates else jobs.request
    ends = running.planned[:n_running] if rule.by_estimates else start[rows] + jobs.request[rows]
    for i in range(n_waiting):
        oldest = waiting[i]
        if n >= rule.protected or oldest == row or now - jobs.submit[oldest] <= rule.protected_after:
            return False
        if oldest == head:
            continue
        n += 1
        if start[oldest] < 0 and delays(
            row, oldest, now, shadow, candidate[head], jobs.procs[head], free, lengths, ends, jobs, rows
        ):
            return True
    return False
