"""Who starts now? One scheduling pass of each family, written as its definition reads.

Every pass gets the `Site` (see `site.py`): the second `now`, `free` processors, the `running` entries and the
`queue`, sorted by the rule's order. It calls `site.start(entry)` for each job to start.
"""

from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations, groupby


def in_order(site) -> None:
    """Start jobs from the front of the queue until one does not fit."""
    while site.queue and site.queue[0].procs <= site.free:
        site.start(site.queue[0])


def reservation(free: int, need: int, ends: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """Shadow time of a blocked job and the processors that are extra then.

    `ends` holds (planned end, processors) of the running jobs. All that end at the shadow time count as free.

    >>> reservation(free=2, need=5, ends=[(200, 4), (100, 2), (100, 2)])
    (100, 1)
    """
    for end, together in groupby(sorted(ends), key=lambda pair: pair[0]):
        free += sum(procs for _, procs in together)
        if free >= need:
            return end, free - need
    raise ValueError(f"{need} processors are never free")


def easy(site) -> None:
    """Depth 1: the head's shadow time and extra processors, then the candidates behind it, one after the other."""
    in_order(site)
    if not site.queue:
        return
    head = site.queue[0]
    shadow, extra = site.reservation(head)
    site.held.add(head)
    site.promise_to(head)
    for entry in site.candidates(behind=head):
        if entry.procs > site.free:
            continue
        ends_in_time = site.now + entry.candidate <= shadow
        if (ends_in_time or entry.procs <= extra) and site.keeps_promise(head, entry):
            site.start(entry, past=head)
            if not ends_in_time and entry.run_time > 0:
                extra -= entry.procs


def planned(site) -> None:
    """Depth k or all, replanned: try each job, else reserve for it while reservations are left, else go on."""
    in_order(site)
    if not site.queue:
        return
    head = site.queue[0]
    plan = site.plan_of_running_jobs()
    site.promise_to(head)
    reserved = 0
    for entry in [head, *site.candidates(behind=head)]:
        begin = plan.earliest(entry.procs, entry.candidate)
        if begin == site.now:
            if site.keeps_promise(head, entry):
                site.start(entry, past=head)
                if entry.run_time > 0:
                    plan.take(begin, begin + entry.candidate, entry.procs)
        elif site.rule.depth is None or reserved < site.rule.depth:
            reserved += 1
            site.held.add(entry)
            plan.take(begin, begin + entry.candidate, entry.procs)


def kept(site) -> None:
    """Conservative, reservations kept: repair, give, compress, start (see `easy.py`, reading 6)."""
    plan, booked = site.plan_of_running_jobs(), site.booked

    def book(entry) -> None:
        booked[entry] = plan.earliest(entry.procs, entry.candidate)
        plan.take(booked[entry], booked[entry] + entry.candidate, entry.procs)

    impossible = []
    for entry in [e for e in site.queue if e in booked]:
        booked[entry] = max(booked[entry], site.now)
        if plan.fits(booked[entry], entry.procs, entry.candidate):
            plan.take(booked[entry], booked[entry] + entry.candidate, entry.procs)
        else:
            impossible.append(entry)
    for entry in impossible:
        book(entry)
    for entry in site.queue:
        if entry not in booked:
            book(entry)
        elif site.something_ended:
            plan.add(booked[entry], entry.procs, booked[entry] + entry.candidate)
            book(entry)
    for entry in site.queue:
        site.first_booked.setdefault(entry.row, booked[entry])
    blocked, due = None, [e for e in site.queue if booked[e] == site.now]
    for entry in list(site.queue):
        if entry in due:
            site.start(entry, past=blocked)
            del booked[entry]
        else:
            blocked = blocked or entry
            site.held.add(entry)
    site.something_ended = any(entry.run_time == 0 for entry in due)
    if site.something_ended:
        kept(site)


def bin_packing(site) -> None:
    """Start the largest job that fits, again and again."""
    while fitting := [e for e in site.queue if e.procs <= site.free]:
        site.start(max(fitting, key=lambda e: (e.procs, -e.submit, -e.job_id)))


def random(site) -> None:
    """Start a job drawn from those that fit, until none does."""
    while fitting := [e for e in site.queue if e.procs <= site.free]:
        site.start(site.rule.draw(fitting, site.now))


def knapsack(site) -> None:
    """Start the subset of the window that is worth most among those that fit together; again while something fits."""
    while chosen := most_worth(site):
        for entry in chosen:
            site.start(entry)


def most_worth(site) -> tuple:
    """Look at all subsets of the window that fit together; of equals the one with fewest, then the foremost, jobs."""
    window = site.queue[: site.rule.window]
    longest = max((site.now - e.submit for e in window), default=0)

    def value(chosen) -> Fraction:
        """What a set is worth: the sum over its jobs, or the printed reward with means, which no set at all lacks."""
        if not site.rule.reward.endswith("-mean"):
            return sum(map(worth, chosen), Fraction(0))
        if not chosen:
            return Fraction(-(10**9))
        if site.rule.reward == "capacity-mean":
            left = [Fraction(1, e.candidate) for e in window if e not in chosen]
            return -sum(left) / len(left) if left else Fraction(0)
        waited = sum(Fraction(site.now - e.submit, longest) for e in chosen) / len(chosen) if longest else Fraction(0)
        used = Fraction(sum(e.procs for e in chosen), site.procs)
        return waited + used / len(chosen) + used

    def worth(entry) -> Fraction:
        if site.rule.reward == "capacity":
            return Fraction(1, entry.candidate)
        waited = Fraction(site.now - entry.submit, longest) if longest else Fraction(0)
        return (waited + 2 * Fraction(entry.procs, site.procs)) / 3

    fitting = [e for e in window if e.procs <= site.free]
    most = site.free // min((e.procs for e in fitting), default=1)
    subsets = (chosen for size in range(min(most, len(fitting)) + 1) for chosen in combinations(fitting, size))
    possible = (chosen for chosen in subsets if sum(e.procs for e in chosen) <= site.free)
    return max(possible, key=value)
