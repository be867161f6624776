"""The usage of users, accounts and limits while a simulation goes on, and fair-share factors, compiled.

A job adds what it is billed, times its seconds, to the usage of its user, and so of all accounts above. At each tick
all usage decays, then the usage of the running jobs since the last tick is added. Factors follow from usage and shares
at the ticks alone: usage of a job that ends between two ticks counts from the next one on. See `fair_share` for the
algorithms. What a limit on minutes counts as spent is usage of one resource, and decays at the same ticks.
"""

import math
from typing import Final

import numpy as np

import schedsim.kernels.records as at
from predictors.core.jit import door, rare, step
from schedsim.kernels.records import JobNow
from schedsim.sites.slurm.records import (
    AT_A_TIME,
    PLANNED,
    SPENT,
    Claim,
    Entry,
    Limit,
    SlurmArrays,
    Tally,
    UsageArrays,
)

FAIR_TREE: Final = 0
CLASSIC: Final = 1
DEPTH_OBLIVIOUS: Final = 2
OF_PARENT: Final = -1
"""Shares of "parent": a user ranks first in its account, an account's children count as its parent's."""
MINUTE: Final = 60  # [s]
_NO_FAIRNESS: Final = float((1 << 32) - 2)
"""Place of an account with the shares of its parent among its siblings in fair tree: its children are theirs."""
_STEEPNESS: Final = 5.0
"""How fast a sibling's ratio loses weight in depth-oblivious sharing, where the parent's is far from 1."""


@rare
def started(usage: UsageArrays, row: int, now: int) -> None:
    advance(usage, now - 1)
    job, one = usage.jobs[row], usage.one[0]
    job.since = now
    job.before = one.last
    job.next = -1
    if one.last >= 0:
        usage.jobs[one.last].next = row
    else:
        one.first = row
    one.last = row


@rare
def ended(usage: UsageArrays, row: int, now: int) -> None:
    """Count the usage of a job until its end; factors include it from the next tick on."""
    advance(usage, now - 1)
    find_factors(usage)
    _count(usage, row, now)
    job, one = usage.jobs[row], usage.one[0]
    if job.before >= 0:
        usage.jobs[job.before].next = job.next
    else:
        one.first = job.next
    if job.next >= 0:
        usage.jobs[job.next].before = job.before
    else:
        one.last = job.before


@rare
def advance(usage: UsageArrays, now: int) -> None:
    """Go through the ticks up to a second."""
    one = usage.one[0]
    ticks = (now - one.ticked) // one.period
    while ticks > 0:
        resets = one.n_resets < len(usage.resets) and usage.resets[one.n_resets] <= now
        if ticks > 1 and not resets and not one.spends and not _is_partial(usage):
            _tick_often(usage, ticks)
        else:
            _tick(usage)
        ticks = (now - one.ticked) // one.period


@step
def _is_partial(usage: UsageArrays) -> bool:
    """Return whether some job has run for only a part of a period."""
    row, ticked = usage.one[0].first, usage.one[0].ticked
    while row >= 0:
        if usage.jobs[row].since > ticked:
            return True
        row = usage.jobs[row].next
    return False


@step
def _tick(usage: UsageArrays) -> None:
    """Let usage decay over a period, and count the jobs that ran."""
    one, resets = usage.one[0], False
    one.ticked += one.period
    while one.n_resets < len(usage.resets) and usage.resets[one.n_resets] <= one.ticked:
        resets = True
        one.n_resets += 1
    kept = 0.0 if resets else math.pow(one.left, float(one.period))
    for i in range(len(usage.entries)):
        usage.entries[i].used *= kept
    if one.spends:
        for i in range(len(usage.limits)):
            limit = usage.limits[i]
            limit.spent *= 0.0 if resets else math.pow(limit.left, float(one.period))
    row = one.first
    while row >= 0:
        _count(usage, row, one.ticked)
        row = usage.jobs[row].next
    one.is_due = True


@step
def _tick_often(usage: UsageArrays, ticks: int) -> None:
    """Go through several ticks while the same jobs run: their usage is a geometric series."""
    one = usage.one[0]
    once = math.pow(one.left, float(one.period))
    kept = math.pow(once, float(ticks))
    times = float(ticks) if once == 1.0 else (1.0 - kept) / (1.0 - once)
    one.ticked += one.period * ticks
    for i in range(len(usage.entries)):
        usage.entries[i].used *= kept
    row = one.first
    while row >= 0:
        job = usage.jobs[row]
        if job.entry >= 0:
            usage.entries[job.entry].used += times * one.period * once * job.billed
        job.since = one.ticked
        row = job.next
    one.is_due = True


@step
def _count(usage: UsageArrays, row: int, now: int) -> None:
    job = usage.jobs[row]
    seconds = now - job.since
    if job.entry >= 0 and seconds > 0:
        usage.entries[job.entry].used += seconds * math.pow(usage.one[0].left, float(seconds)) * job.billed
    if usage.one[0].spends and seconds > 0:
        for i in range(usage.first_claim[row], usage.first_claim[row + 1]):
            limit = usage.limits[usage.claims[i].limit]
            if limit.kind >= SPENT:
                limit.spent += seconds * math.pow(limit.left, float(seconds)) * usage.claims[i].rate
    job.since = now


@step
def falls(usage: UsageArrays) -> bool:
    """Return whether some limit has minutes spent that count less at a tick to come."""
    one = usage.one[0]
    if one.spends:
        for i in range(len(usage.limits)):
            limit = usage.limits[i]
            if limit.spent >= MINUTE and (limit.left < 1.0 or one.n_resets < len(usage.resets)):
                return True
    return False


@step
def claim(slurm: SlurmArrays, job: JobNow, now: int, sign: int) -> None:
    """Count a running job against its limits, or no more (-1).

    By the minute it counts from the last tick until its limit, which Slurm has in whole minutes.
    """
    usage, tick = slurm.usage, job.start
    if slurm.pace[0].calc_period > 0:
        tick = max(tick, now - now % slurm.pace[0].calc_period)
    to_come = max(0, job.start + minutes_of(job.requested_time) * MINUTE - tick)
    for i in range(usage.first_claim[job.row], usage.first_claim[job.row + 1]):
        one = usage.claims[i]
        limit = usage.limits[one.limit]
        limit.used += sign * (one.amount if limit.kind == AT_A_TIME else math.floor(one.rate * to_come))


@step
def minutes_of(seconds: int) -> int:
    """Return a job's limit in whole minutes, as Slurm has it."""
    return max(1, (seconds + MINUTE - 1) // MINUTE)


@step
def limit_of(usage: UsageArrays, row: int) -> int:
    """Return the first limit that holds a job now, or -1."""
    for i in range(usage.first_claim[row], usage.first_claim[row + 1]):
        one = usage.claims[i]
        if one.holds and _is_beyond(usage.limits[one.limit], one):
            return one.limit
    return -1


@step
def _is_beyond(limit: Limit, one: Claim) -> bool:
    if limit.kind == AT_A_TIME:
        return limit.used + one.amount > limit.most
    used, spent = limit.used // MINUTE, 0
    if limit.kind >= SPENT:
        spent = math.floor(limit.spent / MINUTE)
    if one.rate == 0.0:  # a QOS with UsageFactor=0 does not see what others use
        used, spent = 0, 0
    if limit.kind != PLANNED and spent >= limit.most:
        return True
    return limit.kind != SPENT and one.amount + used > limit.most - spent


@rare
def find_factors(usage: UsageArrays) -> None:
    """Find the factors of the users as of the last tick, unless they are known."""
    one, entries = usage.one[0], usage.entries
    if not one.is_due:
        return
    one.is_due = False
    for i in range(len(entries)):
        entries[i].summed = entries[i].used if entries[i].is_user else 0.0
    for k in range(len(usage.upward)):
        i = usage.upward[k]
        entries[entries[i].parent].summed += entries[i].summed
    if one.algorithm == FAIR_TREE:
        _rank_users(usage)
    else:
        _find_effective(usage)
        for i in range(len(entries)):
            entries[i].factor = _classic_factor(usage, one, entries[i])


@step
def _classic_factor(usage: UsageArrays, one: Tally, entry: Entry) -> float:
    """Return 2^(-usage/shares/dampening) of a user; one with the shares of its parent has what the parent has."""
    if not entry.is_user:
        return 0.0
    own = usage.entries[entry.above] if entry.shares == OF_PARENT else entry
    return float(np.exp2(-own.fairness / own.normal / one.damp)) if own.normal > 0 else 0.0


@step
def _find_effective(usage: UsageArrays) -> None:
    entries, one = usage.entries, usage.one[0]
    whole = entries[0].summed
    for i in range(len(entries)):
        entries[i].fairness = entries[i].summed / whole if whole > 0 else 0.0
        entries[i].of_children = 0.0
    entries[0].fairness = 1.0  # in Slurm the root's is 1 from the begin on, before anything was used, too
    for i in range(1, len(entries)):
        entries[entries[i].above].of_children += entries[i].fairness
    for i in range(1, len(entries)):
        entry = entries[i]
        above = entries[entry.above]
        if entry.above == 0:
            continue
        if entry.shares == OF_PARENT:
            entry.fairness = above.fairness
        elif one.algorithm == DEPTH_OBLIVIOUS:
            entry.fairness = _depth_oblivious(entry, above)
        elif above.level_shares == 0:
            entry.fairness = above.fairness
        else:
            entry.fairness += (above.fairness - entry.fairness) * entry.shares / above.level_shares


@step
def _depth_oblivious(entry: Entry, above: Entry) -> float:
    """Return the effective usage of an entry, whose own usage stands in its place."""
    usage = entry.fairness
    if not (entry.normal > 0 and above.normal > 0 and above.fairness > 0 and usage > 0):
        return usage
    of_parent = above.fairness / above.normal
    own = usage / entry.normal / (above.of_children / above.normal)
    same_side = math.log(of_parent) * math.log(own) >= 0
    steep = _STEEPNESS * math.log(of_parent)
    power = 1.0 if same_side else 1.0 / (1.0 + steep * steep)
    return of_parent * math.pow(own, power) * entry.normal


@step
def _rank_users(usage: UsageArrays) -> None:
    """Rank the users as fair tree does, from the root down; the best has the factor 1.

    Siblings are sorted, users before accounts where they are equal, then in the order of the tree. A user that is tied
    has the rank of the user before it. An entry is tied if it is equal to the sibling before it; the first child of an
    account is tied if the account is. Slurm 26.05 does not merge equal accounts, though its manual says so.
    """
    entries, one = usage.entries, usage.one[0]
    for i in range(1, len(entries)):
        entries[i].fairness = _fairness(entries[i], entries[entries[i].above])
    depth, n_ranked, untied = 0, 0, 0
    _open(usage, at.NOTHING, at.NOTHING)
    while depth >= 0:
        above = entries[usage.stack[depth]]
        place = above.cursor
        if place == usage.first_child[usage.stack[depth] + 1]:
            depth -= 1
            continue
        above.cursor += 1
        number = usage.children[place]
        entry = entries[number]
        entry.is_tied = above.is_tied
        if place > usage.first_child[usage.stack[depth]]:
            entry.is_tied = entry.fairness == entries[usage.children[place - 1]].fairness
        if entry.is_user:
            if not entry.is_tied:
                untied = n_ranked
            n_ranked += 1
            entry.factor = (one.n_users - untied) / max(1, one.n_users)
        else:
            depth += 1
            _open(usage, depth, number)


@step
def _fairness(entry: Entry, above: Entry) -> float:
    """Return shares over usage of an entry among its siblings; a greater value is less well served."""
    if entry.shares == OF_PARENT:
        return math.inf if entry.is_user else _NO_FAIRNESS
    if entry.shares == 0:
        return 0.0
    usage = entry.summed / above.summed if above.summed > 0 else 0.0
    return entry.shares / max(1, above.level_shares) / usage


@step
def _open(usage: UsageArrays, depth: int, number: int) -> None:
    entries, children, first = usage.entries, usage.children, usage.first_child[number]
    for i in range(first + 1, usage.first_child[number + 1]):
        child, j = children[i], i - 1
        while j >= first and _comes_before(entries[child], child, entries[children[j]], children[j]):
            children[j + 1] = children[j]
            j -= 1
        children[j + 1] = child
    usage.stack[depth] = number
    entries[number].cursor = first


@step
def _comes_before(a: Entry, i: int, b: Entry, j: int) -> bool:
    """Return whether entry a, the i-th, comes before its sibling b, the j-th."""
    if a.fairness != b.fairness:
        return a.fairness > b.fairness
    return i < j if a.is_user == b.is_user else a.is_user


start_using = door(started)
end_using = door(ended)
go_on = door(advance)
factors = door(find_factors)
