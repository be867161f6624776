"""Who starts now? One scheduling pass of each family, written as its definition reads.

Every pass gets the `Site` (see `site.py`) and asks its verbs: `fits` and `earliest` for places, `spares` and
`keeps_promise` for the head, `is_held` for the gate. None knows of which kind the machine is. It calls
`site.start(entry, place)` for each job to start.
"""

from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations, groupby

from predictors.core.hash_random import unit
from tests.oracle.machine import Plan, Span
from tests.oracle.preemption import Without, candidates, make_way, set_retry
from tests.oracle.slurm import in_cycle, in_main_loop, is_due, set_next

PICKING = 71  # purpose of an agent's draws


def easy(site) -> None:
    """No or one reservation: the head's shadow time, then the candidates behind it, one after the other."""
    aside: set = set()
    head = in_order(site, aside)
    site.head = head
    if head is None or site.rule.depth == 0:
        return
    site.promise_to(head)
    reserved = site.reservation(head)
    site.held.add(head)
    site.book_head(head, reserved)

    def may_start(entry) -> dict | None:
        if entry.procs > site.machine.procs - site.in_use or entry in aside or entry in site.refused:
            return None
        place = site.fits(entry)
        if place is None or not site.spares(head, reserved, entry, place):
            return None
        return place if site.keeps_promise(head, entry, place) else None

    start_those(site, lambda: site.candidates(behind=head), may_start, head)


def in_order(site, aside) -> object:
    """Start jobs from the front of the queue until one does not fit, and return that; jobs held are passed over.

    Put `aside` those that their node set, or the ceiling alone, keeps from starting, where these are passed over.
    """
    while True:
        waiting = [e for e in site.queue if e not in aside and e not in site.refused]
        if not waiting:
            return None
        entry = first_of(site, waiting)
        if not site.allows(entry):
            aside.add(entry)
            continue
        place = site.fits(entry)
        if place is None:
            if site.rule.passed_over and site.place_now(entry) is not None:
                aside.add(entry)
                continue
            return entry
        if site.is_held(entry):
            continue
        site.use(entry)
        site.start(entry, place)


def first_of(site, waiting) -> object:
    """Return the next in turn, or whom the agent picks; whom it holds a reservation for until it starts comes first.

    Under `oldest` the first of the queue takes the turn of a job picked that does not fit.
    """
    if site.rule.agent is None:
        return waiting[0]
    if site.rule.reserve != "again" and site.head in waiting:
        return site.head
    picked = pick(site, waiting[: site.rule.window])
    return waiting[0] if site.rule.reserve == "oldest" and site.fits(picked) is None else picked


def pick(site, window) -> object:
    """Draw a number for each job of the window; the greatest is picked."""
    site.picks += 1
    return max(window, key=lambda e: unit(site.rule.agent, e.job_id, PICKING + site.picks))


def start_those(site, candidates, may_start, past=None) -> None:
    """Start the candidates that have a place, in their order; or whom an agent picks among them, again and again."""
    if site.rule.agent is not None:
        while window := [e for e in candidates() if e not in site.put_off and may_start(e)][: site.rule.window]:
            entry = pick(site, window)
            site.start(entry, may_start(entry), past)
    for entry in candidates():
        place = may_start(entry)
        if place is None or not site.allows(entry) or site.is_held(entry):
            continue
        site.use(entry)
        site.start(entry, place, past)


def reservation(free: int, need: int, ends: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """When a number of processors is free again, and how many more are then, by (planned end, processors).

    All that end at the shadow time count as free.

    >>> reservation(free=2, need=5, ends=[(200, 4), (100, 2), (100, 2)])
    (100, 1)
    """
    for end, together in groupby(sorted(ends), key=lambda pair: pair[0]):
        free += sum(procs for _, procs in together)
        if free >= need:
            return end, free - need
    raise ValueError(f"{need} processors are never free")


def greedy(site) -> None:
    """Start whatever fits, in the backfill order; or whom an agent picks of those that fit."""
    site.head = None
    start_those(site, lambda: site.candidates(behind=None), site.fits)


def planned(site) -> None:
    """Depth k or all, replanned: try each job, else reserve for it while reservations are left, else go on.

    A job is planned on the nodes on which it has its first place. Postponed jobs are tried last and hold none.
    """
    aside: set = set()
    head = in_order(site, aside)
    if head is None:
        return
    site.promise_to(head)
    plan, reserved = site.plan(), 0
    for entry in [head, *site.candidates(behind=head)]:
        if entry in aside:
            continue
        span = site.earliest(entry, entry.candidate, plan)
        if span is not None and span.begin == site.now:
            if site.keeps_promise(head, entry, span.place) and not site.is_held(entry):
                site.start(entry, span.place, past=head)
                if entry.run_time > 0:
                    plan.take(span)
        elif entry not in site.put_off and (site.rule.depth is None or reserved < site.rule.depth):
            reserved += 1
            site.held.add(entry)
            if entry is head:
                site.book_head(head, span)
            elif span is not None:
                site.plans.append((span.begin, span.begin + entry.requested, entry.procs))
            if span is not None:
                plan.take(span)


def kept(site) -> None:
    """Conservative, reservations kept: repair, give, compress, start (see `easy.py`, reading 6).

    A reservation keeps its nodes while they hold; where they do not, it keeps its second if there are others.
    """
    booked, plan, site.plans = site.booked, site.plan(), []

    def take(entry, span) -> None:
        if span is None:
            booked.pop(entry, None)
            return
        booked[entry] = span
        plan.take(span)
        site.plans.append((span.begin, span.begin + entry.requested, entry.procs))

    impossible = []
    for entry in [e for e in site.queue if e in booked]:
        span = still_there(site, entry, max(booked[entry].begin, site.now), booked[entry].place, plan)
        if span is not None:
            take(entry, span)
        else:
            impossible.append(entry)
    for entry in impossible:
        take(entry, site.earliest(entry, entry.candidate, plan))
    for entry in list(site.queue):
        if entry not in booked:
            take(entry, site.earliest(entry, entry.candidate, plan))
        elif site.something_ended and booked[entry].begin > site.now:
            plan.give(booked[entry])
            site.plans.remove((booked[entry].begin, booked[entry].begin + entry.requested, entry.procs))
            take(entry, site.earliest(entry, entry.candidate, plan))
    for entry in site.queue:
        if entry in booked:
            site.first_booked.setdefault(entry.row, booked[entry].begin)
    blocked, due = None, [e for e in site.queue if e in booked and booked[e].begin == site.now]
    for entry in list(site.queue):
        if entry in due and entry not in site.refused and not site.is_held(entry):
            site.start(entry, booked.pop(entry).place, past=blocked)
        elif entry not in site.refused:
            blocked = blocked or entry
            site.held.add(entry)
    site.as_candidates = {}
    site.something_ended = any(entry.run_time == 0 and entry.start >= 0 for entry in due)
    if site.something_ended:
        kept(site)


def still_there(site, entry, begin, place, plan) -> Span | None:
    """Return a reservation at its second, on its own nodes if they hold, else on others, or None."""
    machine, end = site.machine, begin + entry.candidate
    if not machine.could_hold(entry) or not site.clears(entry, begin):
        return None
    if not site.below_ceiling(plan.spans, entry, begin, end):
        return None
    if not machine.still_holds(entry, begin, end, plan.steps, place):
        place = machine.place_during(entry, begin, end, plan.steps)
    return None if place is None else Span(begin, end, entry, place)


def knapsack(site) -> None:
    """Start the subset of the window that is worth most among those that fit together; again while something fits."""
    while chosen := most_worth(site):
        for entry in chosen:
            place = site.fits(entry)
            if place is not None and not site.is_held(entry):
                site.start(entry, place)
    for entry in site.candidates_put_off():
        if (place := site.fits(entry)) is not None and not site.is_held(entry):
            site.start(entry, place)


def most_worth(site) -> tuple:
    """Look at all subsets of the window that fit together; of equals the one with fewest, then the foremost, jobs."""
    window = [e for e in site.queue if e not in site.refused][: site.rule.window]
    longest = max((site.now - e.submit for e in window), default=0)
    reward, procs = site.rule.knapsack, site.machine.procs

    def value(chosen) -> Fraction:
        """What a set is worth: the sum over its jobs, or the printed reward with means, which no set at all lacks."""
        if not reward.endswith("-mean"):
            return sum(map(worth, chosen), Fraction(0))
        if not chosen:
            return Fraction(-(10**9))
        if reward == "capacity-mean":
            left = [Fraction(1, e.candidate) for e in window if e not in chosen]
            return -sum(left) / len(left) if left else Fraction(0)
        waited = sum(Fraction(site.now - e.submit, longest) for e in chosen) / len(chosen) if longest else Fraction(0)
        used = Fraction(sum(e.procs for e in chosen), procs)
        return waited + used / len(chosen) + used

    def worth(entry) -> Fraction:
        if reward == "capacity":
            return Fraction(1, entry.candidate)
        waited = Fraction(site.now - entry.submit, longest) if longest else Fraction(0)
        return (waited + 2 * Fraction(entry.procs, procs)) / 3

    fitting = [e for e in window if site.fits(e) is not None]
    most = (site.machine.procs - site.in_use) // min((e.procs for e in fitting), default=1)
    subsets = (chosen for size in range(min(most, len(fitting)) + 1) for chosen in combinations(fitting, size))
    steps = site.plan().steps
    possible = (chosen for chosen in subsets if not chosen or site.machine.fit_together(chosen, steps))
    return max((chosen for chosen in possible if site.all_below_ceiling(chosen)), key=value)


def loops(site) -> None:
    """Slurm's two loops: the main one at each event, backfilling by its own clock (docs/how-to/slurm-priorities.md)."""
    tested, _, slot, window = site.rule.loops
    if not site.queue:
        set_retry(site, True)
        return
    for entry in in_main_loop(site):
        if not site.allows(entry):
            continue

        def without(gone, entry=entry):
            return fits_without(site, entry, gone)

        if site.fits(entry) is None and not make_way(site, entry, without, procs):
            site.leaves = True
            break
        site.start(entry, site.fits(entry))
    due = is_due(site)
    if due:
        cycle(site, tested, slot, window)
    set_retry(site, due or not site.leaves)
    set_next(site)


def procs(entry, _) -> int:
    """Return what a job takes of one that is gone."""
    return entry.procs


def fits_without(site, entry, gone) -> dict | None:
    """Return the place of a job on a machine without some running jobs, or None."""
    with Without(site, gone):
        return site.fits(entry)


def start_without(site, entry, seconds, plan, gone) -> Span | None:
    """Return the first place that a job has for so long, next to what is planned without some running jobs."""
    own = [x for x in plan.spans if x.entry not in gone]
    with Without(site, gone):
        return site.earliest(entry, seconds, Plan(site.machine, own, site.now))


def cycle(site, tested, slot, window) -> None:
    """One cycle of the backfill loop."""
    waiting, plan = len(site.queue), site.plan()
    tested *= (site.now + window) // slot * slot >= site.now
    for entry in in_cycle(site, tested):
        length = entry.candidate
        if not site.allows(entry):
            continue

        def place_now(gone, entry=entry, plan=plan):
            span = start_without(site, entry, entry.candidate + 1, plan, gone)
            return span.place if span is not None and span.begin == site.now else None

        if place_now([]) is None and make_way(site, entry, place_now, procs):
            gone = {x.entry for x in plan.spans} - {*site.running, *site.queue}
            plan = Plan(site.machine, [x for x in plan.spans if x.entry not in gone], site.now)
        span = site.earliest(entry, length + 1, plan)
        if span is not None and span.begin == site.now:
            site.start(entry, span.place, past=site.queue[0] if site.queue[0] is not entry else None)
            if entry.run_time > 0:
                plan.take(Span(site.now, site.now + length, entry, span.place))
            continue
        span = start_without(site, entry, length, plan, candidates(site, entry)[0])
        if span is None or span.begin > site.now + window:
            continue
        begin = max(span.begin // slot * slot, site.now)
        end = max(span.begin // slot * slot + slot, -(-(span.begin + length) // slot) * slot)
        plan.take(Span(begin, max(end, begin + 1), entry, span.place))
        site.plans.append((span.begin, span.begin + entry.requested, entry.procs))
    site.changed = len(site.queue) < waiting
