"""The machine of the oracle: a count of processors, or nodes that differ; what of it is reserved or down.

A machine answers one question: on which place can a job lie during a span, next to jobs that hold theirs? All passes
ask it, so that each rule of a policy stands once, for every machine.

* `Counts`: processors alone. Reservations and failures are numbers of processors.
* `Nodes`: a job asks for equal pieces, each on one node of its set. First fit: nodes ascending, each takes as many
  pieces as fit, one if they are spread. An exclusive job takes empty nodes alone and keeps others off; so does a node
  that serves one job at a time. Reservations name nodes; failures do, or tell how many.
* `Rows`: nodes of one processor, of which a job gets the first row that is long enough.

Readings, where the pages leave something open
----------------------------------------------
1. A place for a span is found by first fit over what each node has free at every second of the span, so that no part of
   it moves; a node of which a part of the job's requested time is reserved is no part of it.
2. Reserved numbers that overlap in time are added, to the machine at most. Of N processors of which d are down, a
   failure strikes node hash(seed, number) mod (N - d): the running jobs, by row, hold the first ones.
3. A node that is down has no room, and jobs that have a part of it when it fails are stopped. Plans are made as if it
   were never repaired. Where only a number of nodes is told, the k-th failure strikes number hash(seed, k) mod n of the
   n nodes that are up then, and those that failed first are repaired first.
4. Under a ceiling a job counts with the processors that it asked for, also where it holds whole nodes; what is
   reserved or down counts with all of its processors.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass, field
from operator import itemgetter

from predictors.core.hash_random import mixed

NEVER = 10**15
first = itemgetter(0)
DRAWN = 83  # purpose of the draws of failures


@dataclass(frozen=True)
class Ask:
    """What a job asks of nodes: equal pieces as (processors, GPUs, memory)."""

    pieces: int
    piece: tuple[int, int, int]
    spread: bool = False
    exclusive: bool | str = False  # "user": other users alone are kept off
    nodes: tuple[int, ...] = ()
    told: tuple = ()  # the nodes of its partition, its constraint and its type of GPU, of which `nodes` is what is left


@dataclass(frozen=True)
class Box:
    """What a node has, whether it serves one job at a time, its weight to Slurm's loops, features, its GPUs' type.

    And the way to it from the top switch: which of the switches below, which below that one, down to its leaf switch.
    """

    has: tuple[int, int, int]
    one_job: bool = False
    weight: int = 1
    features: tuple[str, ...] = ()
    gpu_type: str = ""
    way: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Calendar:
    """Reservations (start, end, what) and changes (second, "repair" or "fail", what).

    What is a number of processors, or a tuple of nodes.
    """

    reserved: tuple = ()
    changes: tuple = ()
    requeue: bool = True
    seed: int = 0

    def level(self, second, procs):
        """Return how many processors are reserved at a second."""
        return min(procs, sum(n for start, end, n in self.reserved if start <= second < end))

    def seconds(self):
        """Return the seconds at which a reservation begins or ends."""
        return sorted({second for start, end, _ in self.reserved for second in (start, end)})


@dataclass(eq=False)
class Span:
    """A job on its place during [begin, end)."""

    begin: int
    end: int
    entry: object
    place: dict


class Plan:
    """What is held from each second on: by running jobs, by what else was planned, and by what is reserved or down.

    >>> class Job: procs = 3
    >>> machine = Counts(procs=4)
    >>> plan = Plan(machine, [Span(0, 10, Job, {0: 3})], now=5)
    >>> plan.take(Span(10, 20, Job, {0: 3}))
    >>> plan.steps
    [(5, 3), (10, 3), (20, 0)]
    """

    def __init__(self, machine, spans, now):
        self.machine, self.now, self.spans = machine, now, list(spans)
        self.steps = machine.steps(self.spans, now)

    def take(self, span):
        """Plan a job."""
        self.spans.append(span)
        self.steps = self.machine.changed(self, span, 1)

    def give(self, span):
        """Plan it no more."""
        self.spans.remove(span)
        self.steps = self.machine.changed(self, span, -1)


@dataclass
class Machine:
    """What all machines have."""

    calendar: Calendar = field(default_factory=Calendar)

    def steps(self, spans, now):
        """Return what is held from each second on, ascending from now: pairs (second, held)."""
        seconds = {now, *(s for span in spans for s in (span.begin, span.end) if s > now)}
        return [(second, [x for x in spans if x.begin <= second < x.end]) for second in sorted(seconds)]

    def changed(self, plan, span, sign):
        """Return the steps of a plan after a change."""
        return self.steps(plan.spans, plan.now)

    def place_during(self, entry, begin, end, steps):
        """Return the place of a job during [begin, end) next to what is held, or None."""
        least = None
        for second, held in steps[bisect_right(steps, begin, key=first) - 1 :]:
            if second >= end:
                break
            rooms = self.rooms(entry, held)
            least = rooms if least is None else {node: min(least[node], n) for node, n in rooms.items()}
            if self.place_in(entry, least) is None:
                return None
        return self.place_in(entry, self.without_dated(entry, least, begin))

    def without_dated(self, entry, rooms, begin):
        """Leave out the nodes that are reserved before the job has ended by its requested time."""
        return {node: n for node, n in rooms.items() if not self.is_reserved(node, begin, begin + entry.requested)}

    def fit_together(self, entries, steps):
        """Whether jobs have places now, at once."""
        now, held = steps[0]
        for entry in entries:
            place = self.place_during(entry, now, now + 1, [(now, held)])
            if place is None:
                return False
            held = [*held, Span(now, NEVER, entry, place)]
        return True

    def still_holds(self, entry, begin, end, steps, place):
        """Whether the job could lie just there during [begin, end)."""
        held = {x for second, spans in steps if second < end for x in spans if x.end > begin}
        seconds = {begin, *(x.begin for x in held if begin < x.begin < end)}
        rooms = [self.rooms(entry, [x for x in held if x.begin <= s < x.end]) for s in seconds]
        return all(room[node] >= n for room in rooms for node, n in place.items()) and not any(
            self.is_reserved(node, begin, begin + entry.requested) for node in place
        )

    def place_at(self, entry, spans, second):
        """Return the place on which a job may start at a second next to spans, or None."""
        return self.place_during(entry, second, second + 1, self.steps(spans, second))

    def place_beside(self, entry, held, second):
        """Return the place of a job next to spans at one second, whatever other jobs come later, or None."""
        return self.place_in(entry, self.without_dated(entry, self.rooms(entry, held), second))

    def place_in(self, entry, rooms):
        """First fit."""
        place, left = {}, self.pieces_of(entry)
        for node, room in rooms.items():
            if n := min(left, room):
                place[node] = n
                left -= n
        return None if left > 0 else place

    def is_reserved(self, node, begin, end):
        """Return whether a node is reserved at some second of [begin, end)."""
        return any(start < end and begin < until and node in nodes for start, until, nodes in self.calendar.reserved)

    def openings(self, now):
        """Return the seconds to come at which reservations end: instants."""
        return {end for _, end, _ in self.calendar.reserved if end > now}

    def turns(self, now):
        """Return the seconds to come at which a planned start may lie, because more is free than before."""
        return self.openings(now)


@dataclass
class Counts(Machine):
    """A number of processors."""

    procs: int = 0
    down: int = 0
    failures: int = 0

    def steps(self, spans, now):
        """Return the processors that are held, reserved or down from each second on."""
        change = Counter({now: self.down + self.calendar.level(now, self.procs)})
        for span in spans:
            if span.end > now:
                change[max(now, span.begin)] += span.entry.procs
                change[span.end] -= span.entry.procs
        for second in self.calendar.seconds() if self.calendar.reserved else ():
            if second > now:
                change[second] += self.calendar.level(second, self.procs) - self.calendar.level(second - 1, self.procs)
        steps, held = [], 0
        for second in sorted(change):
            held += change[second]
            steps.append((second, held))
        return steps

    def changed(self, plan, span, sign):
        """Return the steps of a plan after a change."""
        steps = plan.steps
        for second in (span.begin, span.end):
            i = bisect_right(steps, second, key=first)
            if steps[i - 1][0] != second:
                steps.insert(i, (second, steps[i - 1][1]))
        i, end = (bisect_left(steps, second, key=first) for second in (span.begin, span.end))
        steps[i:end] = [(second, held + sign * span.entry.procs) for second, held in steps[i:end]]
        return steps

    def place_during(self, entry, begin, end, steps):
        """Return the place of a job during [begin, end), or None."""
        room = self.procs - entry.procs
        for second, held in steps[bisect_right(steps, begin, key=first) - 1 :]:
            if second >= end:
                break
            if held > room:
                return None
        return {0: entry.procs}

    def fit_together(self, entries, steps):
        """Whether jobs have places now, at once."""
        return steps[0][1] + sum(entry.procs for entry in entries) <= self.procs

    def still_holds(self, entry, begin, end, steps, place):
        """Whether there is room."""
        return self.place_during(entry, begin, end, steps) is not None

    def closed(self, second):
        """Return how many processors are reserved or down."""
        if not self.calendar.reserved:
            return self.down
        return self.down + self.calendar.level(second, self.procs)

    def place_beside(self, entry, held, second):
        """Return the place of a job next to spans at one second, or None."""
        used = self.closed(second) + sum(x.entry.procs for x in held)
        return {0: entry.procs} if entry.procs + used <= self.procs else None

    def place_at(self, entry, spans, second):
        """Return the place on which a job may start at a second; what comes later, see `clears`."""
        return self.place_beside(entry, spans, second)

    def could_hold(self, entry):
        """Return whether the machine as it is up now could ever hold a job."""
        return entry.procs <= self.procs - self.down

    def openings(self, now):
        """Return the seconds to come at which less is reserved than before."""
        level = self.calendar.level
        return {s for s in self.calendar.seconds() if s > now and level(s, self.procs) < level(s - 1, self.procs)}

    def turns(self, now):
        """Return the seconds to come at which what is reserved changes."""
        return {second for second in self.calendar.seconds() if second > now}

    def clears(self, entry, begin, now, spans, plans):
        """Whether a start at `begin` fits next to what becomes reserved later, by requested times.

        At every second before its requested end at which more becomes reserved, it fits next to that, the jobs that may
        still run then (`spans`, by requested times) and the waiting jobs planned by then (`plans`).
        """
        for s in self.calendar.seconds():
            level = self.calendar.level(s, self.procs)
            if not (level > self.calendar.level(s - 1, self.procs) and s > now and begin < s < begin + entry.requested):
                continue
            used = level + self.down
            used += sum(x.entry.procs for x in spans if x.end > s)
            used += sum(procs for start, end, procs in plans if start < s < end)
            if used + entry.procs > self.procs:
                return False
        return True

    def fail(self, nodes, running):
        """Let nodes fail one after the other; yield the jobs that are stopped. They must be gone at the next one."""
        for _ in range(nodes):
            self.failures += 1
            node = mixed(self.calendar.seed, self.failures, DRAWN) % (self.procs - self.down)
            held = [e for e in sorted(running, key=lambda e: e.row) for _ in range(e.procs)]
            if node < len(held):
                yield held[node]
            self.down += 1

    def repair(self, nodes):
        """Bring nodes back."""
        self.down -= nodes


@dataclass
class Nodes(Machine):
    """Nodes that differ."""

    boxes: tuple[Box, ...] = ()
    down: list[int] = field(default_factory=list)  # those first that failed first
    failures: int = 0  # drawn

    @property
    def procs(self):
        """Processors of the machine."""
        return sum(box.has[0] for box in self.boxes)

    def closed(self, second):
        """Return how many processors are on nodes that are reserved or down."""
        nodes = range(len(self.boxes))
        return sum(
            self.boxes[node].has[0] for node in nodes if node in self.down or self.is_reserved(node, second, second + 1)
        )

    def pieces_of(self, entry):
        """How many pieces a job has."""
        return entry.job.ask.pieces

    def rooms(self, entry, held):
        """Return for how many pieces of a job each node of its set has room."""
        return {node: 0 if node in self.down else self.room(node, entry, held) for node in entry.job.ask.nodes}

    def room(self, node, entry, held):
        """Return for how many pieces a node has room next to the spans that hold parts of it."""
        box, ask, there = (
            self.boxes[node],
            entry.job.ask,
            [(x.entry.job.ask, x.place[node]) for x in held if node in x.place],
        )
        keeps = {ask.exclusive, *(other.exclusive for other, _ in there)}
        if there and (box.one_job or True in keeps):
            return 0
        if "user" in keeps and any(x.entry.job.user != entry.job.user for x in held if node in x.place):
            return 0
        count = 0
        while all(
            have >= (count + 1) * need + sum(n * other.piece[k] for other, n in there)
            for k, (have, need) in enumerate(zip(box.has, ask.piece, strict=True))
        ):
            count += 1
        return min(count, 1) if ask.spread else count

    def could_hold(self, entry):
        """Return whether the nodes that are up could hold a job, were they empty."""
        return self.place_in(entry, self.rooms(entry, [])) is not None

    def clears(self, entry, begin, now, spans, plans):
        """A place on nodes that are not reserved is all it takes."""
        return True

    def fail(self, nodes, running):
        """Let nodes fail, by name or so many that are drawn; yield the jobs that lie on them."""
        failed = [self.drawn() for _ in range(nodes)] if isinstance(nodes, int) else list(nodes)
        self.down += [node for node in failed if node not in self.down]
        yield from [e for e in sorted(running, key=lambda e: e.row) if set(failed) & set(e.place)]

    def drawn(self):
        """Let the next node fail that chance strikes."""
        self.failures += 1
        up = [node for node in range(len(self.boxes)) if node not in self.down]
        self.down.append(up[mixed(self.calendar.seed, self.failures, DRAWN) % len(up)])
        return self.down[-1]

    def repair(self, nodes):
        """Bring nodes back, by name or so many."""
        repaired = self.down[:nodes] if isinstance(nodes, int) else nodes
        self.down = [node for node in self.down if node not in repaired]


@dataclass
class Rows(Nodes):
    """Nodes of one processor; a job gets the first row of free ones that is long enough."""

    def place_in(self, entry, rooms):
        """Return the first row."""
        for first in range(len(self.boxes) - entry.procs + 1):
            row = range(first, first + entry.procs)
            if all(rooms.get(node) for node in row):
                return dict.fromkeys(row, 1)
        return None
