"""When does each job start under Cobalt's score and a site's rules? A slow simulator that ticks every 15 seconds.

Scores are kept as Cobalt keeps them: at every tick each job in the queue gains its
increment. (The squares are added up as whole numbers, so that nothing is lost in adding.)

Readings, next to those of `easy.py`
-------------------------------------
1. Ticks lie at the multiples of 15 s. While a job is in the queue, every tick is a scheduling instant, as if a timer
   woke the scheduler; the score counts the ticks up to and including the present second, of the seconds at whose end
   the job is in the queue.
2. A second: ends; timers (children whose think time is over, commands); submissions; ticks; corrections; one pass. The
   children of a job of length zero are released in a further instant of the same second.
3. A job for which its node set has too few left is passed over, and the first such job of a set in a pass reserves
   within its set; others of the set start if they end by then, or fit next to it. The jobs before the machine's head
   are asked about their set first, those behind it last.
"""

from dataclasses import dataclass, field

from tests.oracle.orders import growth
from tests.oracle.passes import reservation
from tests.oracle.site import Site


@dataclass
class House:
    """The rules of a site, by rows of the jobs.

    Queues are (least procs, most procs, longer than, up to, share or None); parents {row: (parent's row, think)};
    commands (time, action, row, procs or None, requested or None).
    """

    queues: list = field(default_factory=lambda: [(1, 10**9, 0, 10**9, None)])
    parents: dict = field(default_factory=dict)
    failed: set = field(default_factory=set)
    stuck: bool = True
    commands: list = field(default_factory=list)
    weights: dict = field(default_factory=dict)
    starts: dict = field(default_factory=dict)

    def queue_of(self, procs, requested):
        """Return the number of the queue that takes such a job."""
        fits = [
            number
            for number, (least, most, longer, up_to, _) in enumerate(self.queues)
            if least <= procs <= most and longer < requested <= up_to
        ]
        assert len(fits) == 1
        return fits[0]


class Cobalt(Site):
    """A site with rules: jobs may be held for their user or for another job, and queues have a share of the machine."""

    def set_out(self, jobs, house):
        """Read the commands; what holds a job at its submission holds it from then on."""
        super().set_out(jobs, house)
        self.house, self.jobs, self.entries, self.from_start, self.trying = house, jobs, {}, set(), {}
        for time, action, row, *to in house.commands:
            if action == "hold" and time == jobs[row].submit:
                self.from_start.add(row)
            else:
                self.timers.append((time, self.fire, action, row, *to))

    def instant(self, ending, arriving):
        """One instant; children of jobs that end within the pass are released in a further one of the same second."""
        before = set(self.running) | set(ending)
        super().instant(ending, arriving)
        for entry in [*self.entries.values()]:
            if entry.start == self.now and entry.run_time == 0 and not entry.fate and entry not in before:
                self.over(entry, later=True)

    def one_pass(self):
        """No node set has a job that reserves yet."""
        self.trying = {}
        super().one_pass()

    def ended(self, entry):
        """Tell the children of a job that was running before this second."""
        super().ended(entry)
        if entry.run_time > 0:
            self.over(entry)

    def interrupt(self, entry):
        """A job that a failure ends for good has not ended well."""
        super().interrupt(entry)
        if entry.end >= 0:
            self.over(entry, failed=True)

    def waiting(self):
        """Held jobs wait, too."""
        return [*super().waiting(), *(entry for entry in self.entries.values() if entry.why)]

    # node sets

    def allows(self, entry):
        """Return whether the entry's node set lets it start; the first that it does not reserves within the set."""
        if not super().allows(entry):
            return False
        share = self.house.queues[entry.in_queue][-1]
        if share is None:
            return True
        mates = [e for e in self.running if e.in_queue == entry.in_queue]
        left = share - sum(e.procs for e in mates)
        if entry.in_queue in self.trying:
            shadow, extra = self.trying[entry.in_queue]
            return entry.procs <= left and (self.now + entry.candidate <= shadow or entry.procs <= extra)
        if entry.procs > left:
            self.trying[entry.in_queue] = reservation(left, entry.procs, [(e.planned_end, e.procs) for e in mates])
        return entry.procs <= left

    def use(self, entry):
        """Take from what is left next to the reservation of the entry's set."""
        if entry.in_queue in self.trying and entry.run_time > 0:
            shadow, extra = self.trying[entry.in_queue]
            if self.now + entry.candidate > shadow:
                self.trying[entry.in_queue] = shadow, extra - entry.procs

    # what holds jobs

    def submitted(self, entry):
        """Submit a job."""
        row = entry.row
        self.entries[row] = entry
        entry.base, entry.since, entry.held_at = self.house.starts.get(row, 0.0), self.now, self.now
        entry.growth = growth(entry.procs, entry.requested, self.machine.procs, self.house.weights.get(row, 1.0))
        entry.in_queue, entry.fate, entry.score_at_start = self.house.queue_of(entry.procs, entry.requested), "", 0.0
        why = {"user"} if row in self.from_start else set()
        if row in self.house.parents:
            parent, think = self.house.parents[row]
            parent = self.entries.get(parent)
            if parent is None or not parent.fate:
                why.add("parent")
            elif parent.fate == "badly" and self.house.stuck:
                why.add("failure")
            else:
                self.inherit(entry, parent)
                if parent.end + think > self.now:
                    why.add("parent")
                    self.timers.append((parent.end + think, self.fire, "free", row))
        entry.why = frozenset(why)
        if not why:
            super().submitted(entry)

    def start(self, entry, place, past=None):
        """Note the score, and start."""
        entry.score_at_start = entry.score
        super().start(entry, place, past)

    def inherit(self, entry, parent):
        """Take half of the parent's score, if that is more."""
        entry.base, entry.squares = max(entry.score, 0.5 * parent.score_at_start), 0

    def over(self, entry, later=False, failed=False):
        """Tell the children; `later`: within a pass, so nobody is queued now."""
        killed = self.kill and entry.end - entry.start == entry.requested < entry.length
        entry.fate = "badly" if entry.row in self.house.failed or killed or failed else "well"
        for row, (parent, think) in sorted(self.house.parents.items()):
            child = self.entries.get(row)
            if parent != entry.row or child is None or "parent" not in child.why:
                continue
            if entry.fate == "badly" and self.house.stuck:
                child.why = child.why - {"parent"} | {"failure"}
                continue
            self.inherit(child, entry)
            if think == 0 and not later:
                self.lift(child, {"parent"})
            else:
                self.timers.append((self.now + think, self.fire, "free", row))

    def lift(self, entry, which):
        """Take away reasons to be held."""
        if not entry.why & which:
            return
        entry.why -= which
        if not entry.why:
            entry.since += self.now - entry.held_at
            self.enqueue(entry)

    def fire(self, action, row, procs=None, requested=None):
        """Carry out a command, or release a child."""
        entry = self.entries.get(row)
        if action == "free":
            self.lift(entry, {"parent"})
        elif entry is None or entry.start >= 0:
            return
        elif action == "release":
            self.lift(entry, {"user", "failure"})
        elif action == "hold":
            self.booked.pop(entry, None)
            if not entry.why:
                entry.base, entry.squares, entry.held_at = entry.score, 0, self.now
                (self.put_off if entry in self.put_off else self.queue).remove(entry)
            entry.why |= {"user"}
        else:
            self.alter(entry, procs or entry.procs, requested or entry.requested)

    def alter(self, entry, procs, requested):
        """Change a job's width or request."""
        entry.base, entry.squares = entry.score, 0
        queue = self.house.queue_of(procs, requested)
        if queue != entry.in_queue:
            entry.base, entry.since, entry.held_at = self.house.starts.get(entry.row, 0.0), self.now, self.now
            entry.in_queue = queue
        entry.growth = growth(procs, requested, self.machine.procs, self.house.weights.get(entry.row, 1.0))
        for role in ("ordering", "candidate", "first"):  # what is the whole request stays so
            estimate = getattr(entry, role)
            setattr(entry, role, requested if estimate == entry.requested else min(estimate, requested))
        entry.running = entry.first
        entry.procs, entry.requested = procs, requested
        if self.kill:
            entry.run_time = min(self.jobs[entry.row].run_time, requested)
        self.promises.pop(entry.row, None)
        self.booked.pop(entry, None)
        if self.head is entry:
            self.head = None
        if entry in self.queue:
            self.queue.remove(entry)
            self.enqueue(entry)
        self.lift(entry, {"failure"})
