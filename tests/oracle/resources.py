"""When does each job start on nodes with processors, GPUs and memory? A slow simulator, written from the definitions.

It shares no code with `schedsim`. Whole-number seconds, plain Python; every question is answered from the list of the
running jobs anew: no memo, no running sums.

The rules
---------
At second t: ends; submissions, by job id; estimates that expired become the requested time; one pass. A job asks
for equal pieces, each on one node of its set. First fit: nodes ascending, each takes as many pieces as fit, one if they
are spread. An exclusive job takes empty nodes alone and keeps others off; so does a node that serves one job at a
time.

A pass starts the queue's front while it has a place. The first job without one is the head; its shadow time is the
first planned end at which it has a place once all are gone that are planned to end by then. The others, in the backfill
order, start if they have a place now, and end by the shadow time or leave the head a place then. A job of length zero
takes nothing.

Under a promise a job that is the head for the first time is promised its shadow time by requested times, and some
slack; a job behind it must also end by the promise by its requested time, or leave the head a place then beside all
that may run then by requested times. A head that keeps its place stays the head until it starts, whoever comes first.

Nodes may be reserved for spans. A job has a place on a node at t only if the node is not reserved at any second from t
to before t + requested. Ends of reservations are instants, and seconds at which the head's shadow time may lie.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Ask:
    """One job; times in seconds, pieces as (processors, GPUs, memory)."""

    job_id: int
    submit: int
    requested: int
    run_time: int
    pieces: int
    piece: tuple[int, int, int]
    spread: bool = False
    exclusive: bool = False
    nodes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Promise:
    """Slack of a promise [s]: what it is, what it grows by for each second waited, and between what it lies."""

    slack: int = 0
    growth: float = 0.0
    least: int = 0
    most: int = 10**12
    kept: bool = False


@dataclass(frozen=True)
class Box:
    """What a node has, and whether it serves one job at a time."""

    has: tuple[int, int, int]
    one_job: bool = False


def room(box, ask, there):
    """Return for how many pieces a node has room beside the jobs there: pairs of a job and its pieces."""
    if there and (ask.exclusive or box.one_job or any(other.exclusive for other, _ in there)):
        return 0
    count = 0
    while all(
        have >= (count + 1) * need + sum(n * other.piece[k] for other, n in there)
        for k, (have, need) in enumerate(zip(box.has, ask.piece, strict=True))
    ):
        count += 1
    return min(count, 1) if ask.spread else count


def place(boxes, ask, running, windows=(), time=0):
    """Return the place of a job at a second beside placed jobs, as {node: pieces}, or None."""
    found, left = {}, ask.pieces
    for node in ask.nodes:
        if any(node in nodes and begin < time + ask.requested and end > time for begin, end, nodes in windows):
            continue
        there = [(other, spot[node]) for other, spot in running if node in spot]
        if n := min(left, room(boxes[node], ask, there)):
            found[node] = n
            left -= n
    return None if left else found


def order_key(name, ask, estimate):
    """Return the key of a job in an order, smaller first."""
    procs = ask.pieces * ask.piece[0]
    keys = {"fcfs": 0, "sjf": estimate, "ljf": -estimate, "widest": -procs}
    keys |= {"saf": estimate * procs, "laf": -estimate * procs}
    return (keys[name], ask.submit, ask.job_id)


class Site:
    """The machine and its jobs at one second."""

    def __init__(self, asks, boxes, estimates, promise, windows):
        self.windows = windows  # (from, to, nodes)
        self.asks, self.boxes, self.estimates, self.now = asks, boxes, estimates, 0
        self.promise, self.promised, self.head = promise, {}, None
        self.start, self.spots, self.planned = {}, {}, {}
        self.queue, self.running = [], []  # rows

    def end(self, row):
        """Return when a job that has started ends."""
        return self.start[row] + min(self.asks[row].run_time, self.asks[row].requested)

    def placed(self, rows):
        """Return jobs with their places."""
        return [(self.asks[row], self.spots[row]) for row in rows]

    def begin(self, row, spot):
        """Start a job now."""
        self.start[row], self.spots[row], self.planned[row] = self.now, spot, self.now + self.estimates[row]
        self.queue.remove(row)
        if self.end(row) > self.now:
            self.running.append(row)

    def sorted(self, order):
        """Return the queue in an order."""
        return sorted(self.queue, key=lambda row: order_key(order, self.asks[row], self.estimates[row]))

    def spot(self, row, others, second):
        """Return the place of a job at a second beside others, or None."""
        return place(self.boxes, self.asks[row], others, self.windows, second)

    def has_place(self, row, others, second):
        """Return whether a job has a place at a second beside others."""
        return self.spot(row, others, second) is not None

    def openings(self):
        """Return the seconds to come at which reservations end."""
        return [end for _, end, _ in self.windows if end > self.now]

    def start_in_order(self, order):
        """Start jobs in order; return the first without a place, or None."""
        rows = self.sorted(order)
        if self.promise and self.promise.kept and self.head is not None:
            rows = [self.head, *(row for row in rows if row != self.head)]
        for row in rows:
            spot = self.spot(row, self.placed(self.running), self.now)
            if spot is None:
                return row
            self.begin(row, spot)
        return None

    def beyond(self, second):
        """Return the running jobs that are planned to end later."""
        return self.placed(row for row in self.running if self.planned[row] > second)

    def beyond_by_request(self, second):
        """Return the running jobs that may run beyond a second by their requested times."""
        return self.placed(row for row in self.running if self.start[row] + self.asks[row].requested > second)

    def promise_of(self, head):
        """Return by when the head starts at the latest."""
        if head not in self.promised:
            ends = sorted({self.start[row] + self.asks[row].requested for row in self.running})
            shadow = next(second for second in ends if self.has_place(head, self.beyond_by_request(second), second))
            slack = self.promise.slack + int(self.promise.growth * (self.now - self.asks[head].submit))
            self.promised[head] = shadow + max(self.promise.least, min(self.promise.most, slack))
        return self.promised[head]

    def backfill(self, order, head):
        """Start jobs that do not delay the head; None is no head."""
        shadow = None
        if head is not None:
            ends = sorted({*(self.planned[row] for row in self.running), *self.openings()})
            shadow = next(second for second in ends if self.has_place(head, self.beyond(second), second))
        by = self.promise_of(head) if self.promise and head is not None else None
        for row in self.sorted(order):
            spot = None if row == head else self.spot(row, self.placed(self.running), self.now)
            if spot is None:
                continue
            late = head is not None and self.now + self.estimates[row] > shadow
            if late and not self.has_place(head, [*self.beyond(shadow), (self.asks[row], spot)], shadow):
                continue
            beyond = by is not None and self.now + self.asks[row].requested > by
            if beyond and not self.has_place(head, [*self.beyond_by_request(by), (self.asks[row], spot)], by):
                continue
            self.begin(row, spot)


def simulate(
    asks, boxes, order="fcfs", backfill="fcfs", depth=1, estimates=None, greedy=False, promise=None, windows=()
):
    """Return start and place of each job, and the promises; rows as in `asks`, sorted by (submit, job id)."""
    site = Site(
        asks, boxes, [max(1, min(e, a.requested)) for e, a in zip(estimates, asks, strict=True)], promise, windows
    )
    while len(site.start) < len(asks):
        coming = [ask.submit for row, ask in enumerate(asks) if row not in site.start and row not in site.queue]
        site.now = min([*coming, *(site.end(row) for row in site.running), *site.openings()])
        site.running = [row for row in site.running if site.end(row) > site.now]
        site.queue += [row for row, ask in enumerate(asks) if ask.submit == site.now]
        for row in site.running:
            if site.planned[row] <= site.now:
                site.planned[row] = site.start[row] + asks[row].requested
        site.head = head = None if greedy else site.start_in_order(order)
        if greedy or (head is not None and depth > 0):
            site.backfill(backfill, head)
    rows = range(len(asks))
    return [site.start[row] for row in rows], [site.spots[row] for row in rows], site.promised
