"""Slurm's two loops on nodes that differ: blocked jobs close nodes, plans take whole ones (see slurm-priorities.md).

Readings, where the page leaves something open
----------------------------------------------
1. Running jobs with the same planned end are released in the order of submission.
2. A job that a cycle has started counts as a running job: by its running estimate.
3. An estimate that is corrected at an instant is a change, after which a cycle is due.
4. The last slot ends with the window; a reservation that begins there or later is not kept.
"""

from collections import Counter
from dataclasses import replace

from tests.oracle.limits import fall
from tests.oracle.preemption import candidates, make_way, set_retry

WINDOW, YEAR = 30, 365 * 86_400


def loops_on_nodes(site) -> None:
    """The main loop at each event; a cycle of the backfill loop by its own clock."""
    if not site.queue:
        set_retry(site, True)
        return
    main_loop(site)
    tested, _, slot, window = site.rule.loops
    due = is_due(site)
    if due:
        one_cycle(site, tested, slot, window)
    set_retry(site, due or not site.leaves)
    set_next(site)


def in_main_loop(site):
    """Give the jobs that a run of the main loop tests, one after the other; none while it pauses."""
    _, depth, every, pause = site.rule.pace
    site.is_cut = site.leaves = site.now < site.main_at + pause
    if site.is_cut:
        return
    site.main_at = site.now
    tests_all = not depth or site.now % every == 0 or site.now >= site.all_at
    if tests_all:
        site.all_at = 10**12
    found = within_quota(site, site.rule.main_quota)
    site.leaves = len(found) < len(site.queue)
    for tested, entry in enumerate(found):
        if tested == depth and not tests_all:
            site.all_at = min(site.all_at, (site.now // every + 1) * every)
            site.is_cut = site.leaves = True
            return
        yield entry


def in_cycle(site, tested) -> list:
    """Return the jobs that a cycle tests."""
    found = within_quota(site, site.rule.quota)[:tested]
    site.next_at = site.now - -(len(found) * site.rule.pace[0]) // 10**6 + site.rule.loops[1]
    return found


def cycle_from(site, second) -> int:
    """Return the first second from one on at which a cycle may begin."""
    interval = site.rule.loops[1]
    return max(second, site.next_at) if site.rule.pace[0] else -(-second // interval) * interval


def is_due(site) -> bool:
    """Whether a cycle of the backfill loop is due; cycles that take time do not begin in a second in which jobs end."""
    waits = site.rule.pace[0] and site.jobs_end
    return not waits and cycle_from(site, site.now) == site.now and (site.changed or site.now == site.timer)


def set_next(site) -> None:
    """Set the next cycle: after a change, or where priorities and usage change at a tick; and the next main loop."""
    period, when = site.rule.limits.period, None
    if site.changed:
        when = cycle_from(site, site.now + 1)
    elif period and (site.running or site.to_come or fall(site)):
        when = cycle_from(site, (site.now // period + 1) * period)
    if site.queue and when is not None and not site.now < site.timer <= when:
        site.timer = when
        site.timers.append((when, None))
    if site.queue and site.is_cut:
        when = site.main_at + site.rule.pace[3]
        if site.main_at == site.now:
            when = max(when, site.all_at)
        if not site.now < site.main_timer <= when:
            site.main_timer = when
            site.timers.append((when, None))


def one_cycle(site, tested, slot, window) -> None:
    """One cycle of the backfill loop."""
    waiting, cycle = len(site.queue), Cycle(site, slot, window)
    tested *= cycle.end >= site.now
    for entry in in_cycle(site, tested):
        if not site.allows(entry):
            continue
        start, place = cycle.first_start(entry)
        if start == site.now:
            nodes = cycle.usable(entry, site.now)[0]
            place = place_of(site, entry, nodes, site.spans(), site.now) or place_by_force(site, entry, nodes)
            site.start(entry, place, past=entry)
            site.as_candidates.clear()
        else:
            site.retry_at += candidates(site, entry)[1]
            if start is not None:
                cycle.reserve(entry, start, place)
    site.changed = len(site.queue) < waiting


def place_by_force(site, entry, nodes) -> dict | None:
    """Return the place that a job gets by stopping others, or None."""

    def without(gone):
        return place_of(site, entry, nodes, [x for x in site.spans() if x.entry not in gone], site.now)

    made = make_way(site, entry, without, lambda other, place: len(set(other.place) & set(place)))
    return without([]) if made else None


def within_quota(site, most) -> list:
    """Return the waiting jobs without those behind the first so many of their user."""
    seen, kept = Counter(), []
    for entry in site.queue:
        if most is None or entry.user < 0 or seen[entry.user] < most:
            kept.append(entry)
            seen[entry.user] += 1
    return kept


def main_loop(site) -> None:
    """Start jobs in turn; one that waits for running jobs closes the nodes of its partition."""
    closed: set[int] = set()
    for entry in in_main_loop(site):
        if not site.allows(entry):
            continue
        nodes = set(entry.job.ask.nodes) - closed
        place = place_of(site, entry, nodes, site.spans(), site.now) or place_by_force(site, entry, nodes)
        if place is None:
            site.leaves = True
            if waits_for_jobs(site, entry, closed):
                closed |= partition_of(entry)
            if len(closed) == len(site.machine.boxes):
                return
        else:
            site.start(entry, place)


def partition_of(entry) -> set:
    """Return the nodes of a job's partition."""
    return set(entry.job.ask.told[0] if entry.job.ask.told else entry.job.ask.nodes)


def waits_for_jobs(site, entry, closed) -> bool:
    """Return whether a job without a place waits for running jobs, not for nodes that are closed."""
    machine, ask = site.machine, entry.job.ask
    left = {node for node in range(len(machine.boxes)) if node not in closed and node not in machine.down}
    if len(left & partition_of(entry)) < (ask.pieces if ask.spread else 1):
        return True
    empty = replace(machine, down=[])
    rooms = empty.without_dated(entry, empty.rooms(entry, []), site.now)
    if sum(room for node, room in rooms.items() if node in left) >= ask.pieces:
        return True
    if site.rule.preempts or sum(rooms.values()) < ask.pieces:
        return False
    on = {node: [x.entry.job.ask for x in site.spans() if node in x.place] for node in left & set(rooms)}
    return any(
        others and (ask.exclusive or machine.boxes[node].one_job or any(other.exclusive for other in others))
        for node, others in on.items()
    )


def place_of(site, entry, nodes, spans, begin) -> dict | None:
    """Return Slurm's place for a job on some nodes next to spans, from a second on; None: there is none."""
    machine, ask = site.machine, entry.job.ask
    rooms = machine.without_dated(entry, machine.rooms(entry, spans), begin)
    rooms = {node: room for node, room in rooms.items() if room and node in nodes}
    if ask.pieces == 1:
        return {min(rooms, key=lambda node: (machine.boxes[node].weight, node)): 1} if rooms else None
    procs = {node: room * ask.piece[0] for node, room in rooms.items()}
    if machine.boxes[0].way is not None:
        place = place_in_tree(machine.boxes, ask, rooms, procs)
        return place and dict(sorted(place.items()))
    runs, left, place = runs_of(machine, rooms), ask.pieces, {}
    while left and runs:
        run = best_of(runs, procs, machine, left * ask.piece[0], left if ask.spread else 1)
        runs.remove(run)
        if left == 1 or not ask.spread:
            enough = [node for node in run if procs[node] >= left * ask.piece[0]]
            run = [min(enough, key=lambda node: procs[node])] if enough else run
        for node in run:
            if pieces := min(left, rooms[node]):
                place[node] = pieces
                left -= pieces
    return None if left else dict(sorted(place.items()))


def runs_of(machine, rooms) -> list[list[int]]:
    """Return the nodes with room in runs of equal weight with neighbouring numbers."""
    runs: list[list[int]] = []
    for node in sorted(rooms):
        if runs and runs[-1][-1] == node - 1 and machine.boxes[node].weight == machine.boxes[node - 1].weight:
            runs[-1].append(node)
        else:
            runs.append([node])
    return runs


def best_of(runs, procs, machine, need, nodes) -> list[int]:
    """Return the run to take next: the lightest; of these the smallest that holds all, else the largest."""
    best, best_suffices = None, False
    for run in runs:
        size = sum(procs[node] for node in run)
        suffices = size >= need and len(run) >= nodes
        if best is not None:
            weight, least = machine.boxes[run[0]].weight, machine.boxes[best[0]].weight
            most = sum(procs[node] for node in best)
            fits_better = (not best_suffices or size < most) if suffices else size > most
            if weight > least or (weight == least and not fits_better):
                continue
        best, best_suffices = run, suffices
    return best


def place_in_tree(boxes, ask, rooms, procs) -> dict | None:
    """Return Slurm's place for a job where nodes are on leaf switches."""
    place, best = {}, []
    for weight in sorted({boxes[node].weight for node in rooms}):
        place = {node: rooms[node] for node in best}
        best += [node for node in rooms if boxes[node].weight == weight]
        if sum(rooms[node] for node in best) >= ask.pieces:
            break
    else:
        return None
    nodes = Counter(switch for node in best for switch in upwards(boxes[node].way))
    held = Counter()
    for node in rooms:
        held.update(dict.fromkeys(upwards(boxes[node].way), procs[node]))
    begun = sorted({switch for node in place for switch in upwards(boxes[node].way)})
    leaves, total = sorted({boxes[node].way for node in best}), 0

    def take(leaf):
        """Fill a leaf switch; return how many nodes of it the job takes."""
        n = 0
        for node in sorted(best):
            left = ask.pieces - sum(place.values())
            if boxes[node].way == leaf and node not in place and left:
                place[node] = min(left, rooms[node])
                n += 1
        return n

    def lessen(leaf, n):
        for switch in upwards(leaf):
            nodes[switch] = max(0, nodes[switch] - n)

    for leaf in leaves:
        if leaf in begun:
            total += take(leaf)
            lessen(leaf, total)
    leaves = [leaf for leaf in leaves if leaf not in begun]
    while (left := ask.pieces - sum(place.values())) > 0:
        need = left if ask.spread else 0 if place else 1
        closest = leaves[0]
        for leaf in leaves[1:]:
            if is_closer(leaf, closest, boxes, begun, nodes, held, (need, left * ask.piece[0])):
                closest = leaf
        take(closest)
        lessen(closest, nodes[closest])
        leaves.remove(closest)
        begun.append(closest)
    return place


def upwards(way) -> list[tuple]:
    """Return the switches on a way, from the leaf switch up to the top."""
    return [way[:n] for n in range(len(way), -1, -1)]


def hops(one, other) -> int:
    """Return how many links lie between two switches."""
    return len({*upwards(one)} ^ {*upwards(other)})


def is_closer(one, other, boxes, begun, nodes, held, need) -> bool:
    """Return whether a leaf switch comes before another one that is earlier in the file."""
    far = [sum(hops(leaf, switch) for switch in begun) for leaf in (one, other)]
    if far[0] > far[1]:
        return False
    for a, b in zip(upwards(one), upwards(other), strict=False):
        fits = [nodes[switch] >= need[0] and held[switch] >= need[1] for switch in (a, b)]
        if any(fits) or a[:-1] == b[:-1] or () in (a, b):
            break
    if far[0] < far[1]:
        return fits[0]
    if fits[0] != fits[1]:
        return fits[0]
    if nodes[a] != nodes[b]:
        return (nodes[a] < nodes[b]) == fits[0]
    levels = [max(len(x.way) - len(s) for x in boxes if x.way[: len(s)] == s) for s in (a, b)]
    return levels[0] < levels[1]


class Cycle:
    """The plan of a cycle: from each second on the nodes that no job has reserved."""

    def __init__(self, site, resolution, window) -> None:
        self.site, self.resolution, self.window = site, resolution, window
        self.end = self.floor(site.now + window)
        self.slots = [(self.floor(site.now), set(range(len(site.machine.boxes))))]

    def floor(self, second) -> int:
        """Return the multiple of the resolution before a second."""
        return second // self.resolution * self.resolution

    def until(self, i) -> int:
        """Return when a slot ends."""
        return self.slots[i + 1][0] if i + 1 < len(self.slots) else self.end

    def first_start(self, entry) -> tuple[int | None, dict | None]:
        """Return when and where a job starts."""
        now = begin = self.site.now
        while begin <= self.end:
            nodes, later = self.usable(entry, begin)
            later = min(self.site.machine.openings(begin) | {later or 10**18})
            start, place = self.start_between(entry, nodes, begin, later)
            if start is None:
                if later == 10**18:
                    return None, None
                begin = later
            elif start > now and self.collides(entry, start, place):
                begin = start if start > begin else start + self.resolution
            else:
                return (start, place) if start <= now + self.window else (None, None)
        return None, None

    def usable(self, entry, begin) -> tuple[set[int], int | None]:
        """Return the nodes that stay unreserved for a job, and when another one of its set comes free."""
        own, later, end = set(entry.job.ask.nodes), None, begin + entry.candidate
        nodes = set(own)
        for i, (second, unreserved) in enumerate(self.slots):
            if self.until(i) <= begin:
                continue
            if later is None and i + 1 < len(self.slots) and own & (self.slots[i + 1][1] - unreserved):
                later = self.until(i)
            if second <= end:
                nodes &= unreserved
        return nodes, later

    def start_between(self, entry, nodes, begin, later) -> tuple[int | None, dict | None]:
        """Return the first start that the end windows find."""
        site = self.site
        gone = candidates(site, entry)[0]  # as if they were
        running = sorted((x for x in site.spans() if x.entry not in gone), key=lambda x: (x.end, x.entry.row))
        held = [x for x in running if x.end > begin]
        place = place_of(site, entry, nodes, held, begin)
        if place is not None:
            return begin, place
        released, bound, window, is_new = [], None, WINDOW, False
        for i, span in enumerate(x for x in held if x.end <= later):
            released.append(span)
            if not nodes & set(span.place):
                continue
            is_new, bound = True, bound or (span.end // WINDOW + 1) * WINDOW
            following = held[i + 1].end if i + 1 < len(held) else None
            if following is not None and following <= bound + window:
                continue
            if (place := place_of(site, entry, nodes, held[i + 1 :], begin)) is not None:
                return last_end(released, place), place
            is_new, window = False, 2 * window
            while following is not None and window <= YEAR and following > bound + window:
                window *= 2
        if is_new and (place := place_of(site, entry, nodes, held[len(released) :], begin)) is not None:
            return last_end(released, place), place
        return None, None

    def collides(self, entry, start, place) -> bool:
        """Whether the nodes of a place are reserved while the job runs."""
        if any(self.site.machine.is_reserved(node, start, start + entry.requested) for node in place):
            return True
        begin, end = self.floor(start), self.floor(start + entry.candidate + self.resolution - 1)
        return any(
            self.until(i) > begin and second < end and set(place) - nodes
            for i, (second, nodes) in enumerate(self.slots)
        )

    def reserve(self, entry, start, place) -> None:
        """Reserve whole nodes in whole slots."""
        begin = max(self.floor(start), self.slots[0][0])
        end = max(self.floor(start + entry.candidate + self.resolution - 1), begin + self.resolution)
        if begin >= self.end:
            return
        for second in (begin, end):
            if second < self.end and second not in dict(self.slots):
                i = max(i for i, slot in enumerate(self.slots) if slot[0] <= second)
                self.slots.insert(i + 1, (second, set(self.slots[i][1])))
        for second, nodes in self.slots:
            if begin <= second < end:
                nodes -= set(place)


def last_end(spans, place) -> int:
    """Return when the last of these ends that lie on the nodes of a place."""
    return max(x.end for x in spans if set(place) & set(x.place))
