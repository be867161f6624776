"""What happens in the world? The running jobs' work, the loads, the counters and the records, at one moment.

Between the seconds in which something starts, ends, or the background moves a step, nothing changes: jobs work at
constant speed, and a sample of the counters shows the loads before what happens in its own second.
"""

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import numpy.typing as npt

import schedsim.contention._kernels_loads as to
from predictors.data.counters import COUNTERS
from predictors.data.runs import Runs
from schedsim.contention._kernels_rates import IDLE, NOISE
from schedsim.contention.rates import Frame, Rates, Sink
from schedsim.contention.records import Ended, Record, to_runs
from schedsim.workload import Workload

if TYPE_CHECKING:
    from schedsim.contention.world import World

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_LEAST_PLACES: Final = 32
_DONE: Final = 1e-6
"""Work of so many seconds counts as none: rounding."""


@dataclass(frozen=True)
class Slowdown:
    """How much slower than undisturbed a job runs, as things stand.

    Parameters
    ----------
    total : float
        The factor, 1 or more: 1 + network + io.
    network, io : float
        What the network and what the file system add.
    uplink : float
        The highest utilisation of an uplink that the job uses, or would use.
    files, calls : float
        Utilisation of the file system and of its metadata server.
    """

    total: float
    network: float
    io: float
    uplink: float
    files: float
    calls: float


class Live:
    """The world of one simulation, at one moment; made by `World.begun`.

    Attributes
    ----------
    world : World
        What it is made from.
    now : int
        The engine's second that it has reached.
    load : float64 array of shape (leaves + 2,)
        Utilisation of the uplinks, the file system and its metadata server; up to date after `look`.
    """

    def __init__(self, world: "World", workload: Workload) -> None:
        self.world = world
        self._workload = workload
        self._app = [world.apps[name] for name in world.applications]
        self._machine = world.fabric.vector(world.topology)
        self._work = world.work(workload)
        leaves = world.topology.leaves
        self._spread = np.zeros((_LEAST_PLACES, leaves), dtype=np.int64)
        self._width, self._row = np.zeros((2, _LEAST_PLACES), dtype=np.int64)
        self._about = np.zeros((_LEAST_PLACES, to.ABOUT))
        self._left, self._speed = np.ones((2, _LEAST_PLACES))
        self._owner = np.full(world.topology.nodes, IDLE, dtype=np.int64)
        self._owner[list(world.topology.apart)] = IDLE if world.noise is None else NOISE
        self._spare = list(range(_LEAST_PLACES))[::-1]
        self._running: dict[int, Record] = {}
        self._ended: Ended = None
        self._frames: deque[Frame] = deque()
        self._rates: Rates = np.empty((world.topology.nodes, len(COUNTERS)), dtype=np.float32)
        self._noise_share = np.zeros(leaves) if world.noise is None else world.noise.leaving(world.topology)
        self.load: Floats = np.zeros(leaves + 2)
        self._sink = world.sink
        self.now = -world.lead - 1  # so that there is a sample at -lead
        self._stale = True
        self._step()

    def advance(self, now: int) -> None:
        """Go on to a second in which, and since which, nothing has started or ended yet."""
        step, origin = self.world.background.step, self.world.origin
        while self.now < now:
            self.look()
            clock = origin + self.now
            until = min(now, (clock // step + 1) * step - origin)
            to.work_on(self._width, self._speed, self._left, float(until - self.now))
            self._observe(clock, origin + until)
            self.now = until
            if (origin + until) % step == 0:
                self._step()

    def started(self, row: int, nodes: Ints | None) -> None:
        """Take in that a job starts now on these nodes."""
        assert nodes is not None
        self.look()
        if self.world.at_start is not None:
            self.world.at_start(self, row, nodes)
        probes, present = self.probe(row, nodes), self.slowdown(row, nodes)
        if not self._spare:
            self._grow()
        place = self._spare.pop()
        self._spread[place] = self.world.topology.spread(nodes)
        self._width[place], self._row[place] = len(nodes), row
        self._about[place] = self._app[row].vector
        self._left[place] = self._work[row]
        self._owner[nodes] = place
        self._running[row] = Record(row, self.now, place, nodes, probes, present)
        self._stale = True

    def ended(self, row: int) -> bool:
        """Take in that a job ends now; return whether its work was done."""
        record = self._running.pop(row)
        place = record.place
        left = float(self._left[place])
        region = self.now - record.start + (left / float(self._speed[place]) if left < 0 else 0.0)
        self._ended = (record, self.now, region, self._ended)
        self._width[place] = 0
        self._spread[place] = 0
        self._owner[record.nodes] = IDLE
        self._spare.append(place)
        self._stale = True
        return left <= _DONE

    def ends(self) -> tuple[Ints, Ints]:
        """Return rows, ascending, and ends of the running jobs as things stand."""
        self.look()
        rows, ends = np.empty((2, len(self._running)), dtype=np.int64)
        to.ends_of(self._width, self._row, self._speed, self._left, self.now, rows, ends)
        order = np.argsort(rows)
        return rows[order], ends[order]

    def next_step(self) -> int | None:
        """Return when the background moves next."""
        step, origin = self.world.background.step, self.world.origin
        return ((origin + self.now) // step + 1) * step - origin

    def look(self) -> None:
        """Bring loads and speeds up to date."""
        if not self._stale:
            return
        noise = self._noise * self._noise_share
        to.weigh(self._spread, self._width, self._about, noise, self._outside, self._machine, self.load)
        to.set_speeds(self._spread, self._width, self._about, self._machine, self.load, self._speed)
        self._stale = False

    def slowdown(self, row: int, nodes: Ints) -> Slowdown:
        """Return how a job would fare if it started now on these nodes, its own load included: the oracle.

        Nothing of this can be observed on a real machine; no more than the present is told.
        """
        self.look()
        spread, about = self.world.topology.spread(nodes), np.array(self._app[row].vector)
        load, out, n, leaves = self.load.copy(), np.empty(to.PARTS), len(nodes), len(spread)
        for leaf in np.flatnonzero(spread):
            pushed = to.leaving(int(spread[leaf]), n, about[to.SENDS], about[to.SPREAD], about[to.MOVES])
            load[leaf] += pushed / self._machine[to.UPLINK]
        load[leaves] += n * about[to.MOVES] / self._machine[to.FILES]
        load[leaves + 1] += n * about[to.CALLS] / self._machine[to.CALLS_SERVED]
        to.slowdown(spread, n, about, self._machine, load, out)
        total, network, io, uplink = out.tolist()
        return Slowdown(total, network, io, uplink, float(load[leaves]), float(load[leaves + 1]))

    def probe(self, row: int, nodes: Ints) -> Floats:
        """Return what the benchmarks would measure now, before a job, on its nodes; see `Probes`."""
        self.look()
        world = self.world
        job = int(self._workload.job_id[row])
        return world.probes.measure(world.seed, job, nodes, world.topology.per_leaf, self.load, world.fabric.most)

    def window(self, seconds: int) -> tuple[Floats, Rates]:
        """Return the samples of the last seconds, the present one left out: times (n,), rates (n, nodes, 90).

        The world must keep as many (`World.keep`); times are the world's clock.
        """
        period, clock = self.world.sample_period, self.world.origin + self.now
        index = np.arange(-(-(clock - seconds) // period), -(-clock // period))
        rates: Rates = np.empty((len(index), *self._rates.shape), dtype=np.float32)
        frames = iter(self._frames)
        frame = next(frames, None)
        for out, i in zip(rates, index.tolist(), strict=True):
            while frame is not None and frame.until < i * period:
                frame = next(frames, None)
            if frame is None or frame.since >= i * period:
                raise ValueError(f"The world does not keep its loads of second {i * period}.")
            frame.rates(self._machine, self.world.seed, i, self.world.lost, out)
        return (index * period).astype(np.float64), rates

    def job_ids(self) -> Ints:
        """Return the id of each node's job, 0 where there is none, shape (nodes,)."""
        ids = np.zeros(len(self._owner), dtype=np.int64)
        busy = self._owner >= 0
        ids[busy] = self._workload.job_id[self._row[self._owner[busy]]]
        return ids

    @property
    def sink(self) -> Sink | None:
        """Where its counters go: the world's sink, or in a copy a fork of it."""
        return self._sink

    def runs(self) -> Runs:
        """Return the jobs that have ended, by the world's clock."""
        return to_runs(self._ended, self.world, self._workload)

    def fork(self) -> Self:
        """Return a copy that goes its own way; its counters go to a fork of the sink if it has one, else nowhere."""
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        for name in ("_spread", "_width", "_row", "_about", "_left", "_speed", "_owner", "load", "_rates"):
            setattr(new, name, getattr(self, name).copy())
        new._spare, new._running, new._frames = list(self._spare), dict(self._running), deque(self._frames)
        fork = getattr(self._sink, "fork", None)
        new._sink = None if fork is None else fork()
        return new

    def _step(self) -> None:
        """Take the background's next step."""
        world, clock = self.world, self.world.origin + self.now
        number, place = divmod(clock // world.background.step, world.background.block_steps)
        self._outside = world.background.block(world.seed, world.topology.leaves, number)[place]
        self._noise = 0.0 if world.noise is None else world.noise.sends(world.seed, clock)
        self._stale = True

    def _observe(self, since: int, until: int) -> None:
        """Sample the counters after `since` up to `until`."""
        world = self.world
        period = world.sample_period
        if self._sink is None and not world.keep:
            return
        frame = Frame(
            since, until, self._owner, self._spread, self._width, self._about, self._speed, self.load, self._noise
        )
        if self._sink is not None:
            for index in range(since // period + 1, until // period + 1):
                frame.rates(self._machine, world.seed, index, world.lost, self._rates)
                self._sink.push(float(index * period), self._rates)
        if world.keep:
            self._frames.append(frame.copy())
            while self._frames[0].until < until - world.keep:
                self._frames.popleft()

    def _grow(self) -> None:
        old = len(self._width)
        for name in ("_spread", "_width", "_row", "_about", "_left", "_speed"):
            array = getattr(self, name)
            setattr(self, name, np.concatenate([array, np.zeros_like(array)]))
        self._spare = list(range(old, 2 * old))[::-1]
