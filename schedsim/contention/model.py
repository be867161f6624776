"""The contention model as a value, its state at one moment, and records of runs.

Jobs and load from outside use the uplinks of the leaf switches, the file system and its metadata server; the loads
decide a job's slow-down (`_loads`).

Nothing changes between starts, ends and steps of the background: jobs work at constant speed, and a sample of the
counters shows the loads before the events of its own second.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

import schedsim.contention._loads as to
from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError
from predictors.core.hash_random import normal
from predictors.data.runs import PROBES, Runs
from predictors.data.telemetry.counters import COUNTERS
from schedsim.contention.applications import APPS, App, apps_named
from schedsim.contention.background import Background, Noise
from schedsim.contention.counters import IDLE, NOISE, Frame, Probes, Rates, Sink
from schedsim.contention.episodes import Episodes
from schedsim.contention.fabric import Fabric
from schedsim.machine.topology import Topology
from schedsim.policies.rush import Ask
from schedsim.workload.workload import Workload


class Record(NamedTuple):
    """A running job: its row and start [s], its place in the model's arrays, its nodes, and the state at its start."""

    row: int
    start: int
    place: int
    nodes: Ints
    probes: Floats
    present: "Slowdown"


Ended = tuple[Record, int, float, Any] | None
"""Jobs that have ended, the last first: (record, end [s], time at work [s], earlier jobs); shared between forks."""


def to_runs(ended: Ended, model: "ContentionModel", workload: "Workload") -> Runs:
    """Return the jobs that have ended, in the order of their ends, by the model's clock."""
    records: list[tuple[Record, int, float]] = []
    while ended is not None:
        records.append(ended[:3])
        ended = ended[3]
    records.reverse()
    rows = [record.row for record, _, _ in records]
    apps = [model.apps[model.applications[row]] for row in rows]
    region = np.array([region for _, _, region in records], dtype=np.float64)
    alone = model.work(workload)[rows] if rows else np.empty(0)
    present = [record.present for record, _, _ in records]
    return Runs.of(
        job_id=workload.job_id[rows],
        application=[app.name for app in apps],
        nodes=[record.nodes for record, _, _ in records],
        start=[model.origin + record.start for record, _, _ in records],
        end=[model.origin + end for _, end, _ in records],
        workload=[app.workload for app in apps],
        region_time=region,
        probes=np.array([record.probes for record, _, _ in records]).reshape(len(rows), len(PROBES)),
        truth={
            "true_alone": alone,
            "true_slowdown": region / np.maximum(alone, 1e-9),
            "true_slowdown_at_start": np.array([p.total for p in present]),
            "true_uplink_at_start": np.array([p.uplink for p in present]),
            "true_files_at_start": np.array([p.files for p in present]),
            "true_calls_at_start": np.array([p.calls for p in present]),
        },
    )


_LEAST_PLACES: Final = 32
_DONE: Final = 1e-6  # less work than this counts as none, because of rounding [s]


@dataclass(frozen=True)
class Slowdown:
    """The slow-down of a job in the present state."""

    total: float  # the factor, 1 or more: 1 + network + io
    # the parts of the network and of the file system
    network: float
    io: float
    uplink: float  # the highest utilisation of an uplink that the job uses, or would use
    # utilisation of the file system and of its metadata server
    files: float
    calls: float


class ContentionState:
    """The state of the model in one simulation at one moment; made by `ContentionModel.begun`."""

    def __init__(self, model: "ContentionModel", workload: Workload) -> None:
        self.model = model
        self._workload = workload
        self._app = [model.apps[name] for name in model.applications]
        self._machine = model.fabric.vector(model.topology)
        self._work = model.work(workload)
        leaves = model.topology.leaves
        self._spread = np.zeros((_LEAST_PLACES, leaves), dtype=np.int64)
        self._width, self._row = np.zeros((2, _LEAST_PLACES), dtype=np.int64)
        self._about = np.zeros((_LEAST_PLACES, to.ABOUT))
        self._left, self._speed = np.ones((2, _LEAST_PLACES))
        self._owner = np.full(model.topology.nodes, IDLE, dtype=np.int64)
        self._owner[list(model.topology.apart)] = IDLE if model.noise is None else NOISE
        self._spare = list(range(_LEAST_PLACES))[::-1]
        self._running: dict[int, Record] = {}
        self._ended: Ended = None
        self._frames: deque[Frame] = deque()
        self._rates: Rates = np.empty((model.topology.nodes, len(COUNTERS)), dtype=np.float32)
        self._noise_share = np.zeros(leaves) if model.noise is None else model.noise.leaving(model.topology)
        # utilisation of the uplinks, the file system and its metadata server; up to date after `look`
        self.load: Floats = np.zeros(leaves + 2)
        self._sink = model.sink
        # the asks of a RUSH gate that are under way, by row; while they run, their nodes send `model.probing`
        self.asks: dict[int, Ask] = {}
        self.probed: Floats | None = None  # of the job that started last, on its nodes before its start, shape (9,)
        self._probing = False
        self.now = -model.lead - 1  # the engine's second that it has reached: so that there is a sample at -lead
        self._stale = True
        self._step()

    def advance(self, now: int) -> None:
        """Advance to a second, before its starts and ends."""
        step, origin = self.model.background.step, self.model.origin
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
        assert nodes is not None
        self.look()
        if self.model.at_start is not None:
            self.model.at_start(self, row, nodes)
        probes, present = self.probe(row, nodes), self.slowdown(row, nodes)
        self.probed = probes
        if not self._spare:
            self._grow()
        place = self._spare.pop()
        self._spread[place] = self.model.topology.spread(nodes)
        self._width[place], self._row[place] = len(nodes), row
        self._about[place] = self._app[row].vector
        self._left[place] = self._work[row] * self._slow(row)
        self._owner[nodes] = place
        self._running[row] = Record(row, self.now, place, nodes, probes, present)
        self._stale = True

    def ended(self, row: int) -> bool:
        """Take in the end of a job; return whether its work was done."""
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
        """Return rows, ascending, and ends of the running jobs in the present state."""
        self.look()
        rows, ends = np.empty((2, len(self._running)), dtype=np.int64)
        to.ends_of(self._width, self._row, self._speed, self._left, self.now, rows, ends)
        order = np.argsort(rows)
        return rows[order], ends[order]

    def next_step(self) -> int | None:
        step, origin = self.model.background.step, self.model.origin
        return ((origin + self.now) // step + 1) * step - origin

    def look(self) -> None:
        """Bring loads and speeds up to date."""
        probing = self.model.probing > 0 and any(ask.until > self.now for ask in self.asks.values())
        if not self._stale and not probing and not self._probing:
            return
        self._probing = probing
        noise = self._noise * self._noise_share
        if probing:
            noise = noise + self._sent_by_probes()
        to.weigh(self._spread, self._width, self._about, noise, self._outside, self._machine, self.load)
        to.set_speeds(self._spread, self._width, self._about, self._machine, self.load, self._speed)
        self._stale = False

    def _slow(self, row: int) -> float:
        """Return the factor on the job's work by its application's own slow changes."""
        model = self.model
        if model.episodes is None:
            return 1.0
        return model.episodes.factor(model.seed, self._app[row].name, model.origin + self.now)

    def _sent_by_probes(self) -> Floats:
        """Return the load of the probes of the asks under way on each uplink [bytes/s], shape (leaves,)."""
        pushed = np.zeros(self.model.topology.leaves)
        for ask in self.asks.values():
            if ask.until > self.now:
                there = self.model.topology.spread(ask.nodes)
                pushed += self.model.probing * there * (1.0 - there / len(ask.nodes))
        return pushed

    def slowdown(self, row: int, nodes: Ints) -> Slowdown:
        """Return a job's slow-down if it started now on these nodes, including its own load: the oracle.

        A real machine cannot observe this; it uses only the present.
        """
        self.look()
        spread, about = self.model.topology.spread(nodes), np.array(self._app[row].vector)
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
        """Return what the benchmarks would measure on a job's nodes now, before it starts; see `Probes`."""
        self.look()
        model = self.model
        job = int(self._workload.job_id[row])
        return model.probes.measure(model.seed, job, nodes, model.topology.per_leaf, self.load, model.fabric.most)

    def window(self, seconds: int) -> tuple[Floats, Rates]:
        """Return the samples of the last seconds, without the present one: times (n,), rates (n, nodes, 90).

        The model must keep as many (`ContentionModel.keep`); times are by the model's clock.
        """
        period, clock = self.model.sample_period, self.model.origin + self.now
        index = np.arange(-(-(clock - seconds) // period), -(-clock // period))
        rates: Rates = np.empty((len(index), *self._rates.shape), dtype=np.float32)
        frames = iter(self._frames)
        frame = next(frames, None)
        for out, i in zip(rates, index.tolist(), strict=True):
            while frame is not None and frame.until < i * period:
                frame = next(frames, None)
            if frame is None or frame.since >= i * period:
                raise ValueError(f"The model has not kept its loads of second {i * period}.")
            frame.rates(self._machine, self.model.seed, i, self.model.lost, out)
        return (index * period).astype(np.float64), rates

    def job_ids(self) -> Ints:
        """Return the id of each node's job, 0 where there is none, shape (nodes,)."""
        ids = np.zeros(len(self._owner), dtype=np.int64)
        busy = self._owner >= 0
        ids[busy] = self._workload.job_id[self._row[self._owner[busy]]]
        return ids

    @property
    def sink(self) -> Sink | None:
        """The receiver of its counters: the model's sink, or in a copy a fork of it."""
        return self._sink

    def runs(self) -> Runs:
        """Return the jobs that have ended, by the model's clock."""
        return to_runs(self._ended, self.model, self._workload)

    def fork(self) -> Self:
        """Return an independent copy, with a fork of the sink if that can fork, else without one."""
        new = copy(self)
        for name in ("_spread", "_width", "_row", "_about", "_left", "_speed", "_owner", "load", "_rates"):
            setattr(new, name, getattr(self, name).copy())
        new._spare, new._running, new._frames = list(self._spare), dict(self._running), deque(self._frames)
        new.asks = dict(self.asks)
        fork = getattr(self._sink, "fork", None)
        new._sink = None if fork is None else fork()
        return new

    def _step(self) -> None:
        model, clock = self.model, self.model.origin + self.now
        number, place = divmod(clock // model.background.step, model.background.block_steps)
        self._outside = model.background.block(model.seed, model.topology.leaves, number)[place]
        self._noise = 0.0 if model.noise is None else model.noise.sends(model.seed, clock)
        self._stale = True

    def _observe(self, since: int, until: int) -> None:
        """Sample the counters after `since` up to `until`."""
        model = self.model
        period = model.sample_period
        if self._sink is None and not model.keep:
            return
        frame = Frame(
            since, until, self._owner, self._spread, self._width, self._about, self._speed, self.load, self._noise
        )
        if self._sink is not None:
            for index in range(since // period + 1, until // period + 1):
                frame.rates(self._machine, model.seed, index, model.lost, self._rates)
                self._sink.push(float(index * period), self._rates)
        if model.keep:
            self._frames.append(frame.copy())
            while self._frames[0].until < until - model.keep:
                self._frames.popleft()

    def _grow(self) -> None:
        old = len(self._width)
        for name in ("_spread", "_width", "_row", "_about", "_left", "_speed"):
            array = getattr(self, name)
            setattr(self, name, np.concatenate([array, np.zeros_like(array)]))
        self._spare = list(range(old, 2 * old))[::-1]


@dataclass(frozen=True, eq=False)
class ContentionModel:
    """A machine with contention: a model of run times, see `schedsim.machine.run_times.RunTimes`.

    A job's `Workload.run_time` is its work: its undisturbed run time.

    >>> from schedsim.engine.simulation import simulate
    >>> from schedsim.policies.policy import make_policy
    >>> w = Workload.from_columns([1, 2], submit=[0, 0], procs=[16, 16], requested=[900, 900], run_time=[300, 300],
    ...                           machine_procs=512)
    >>> model = ContentionModel(["AMG", "LBANN"], seed=1)
    >>> simulate(w, make_policy("easy"), run_times=model, kill=False).run_time.tolist()
    [305, 334]
    """

    applications: Sequence[str]  # the application of each job, by row of the workload
    # the machine; its nodes set apart are the noise job's
    topology: Topology = field(default_factory=lambda: Topology(16, 32))
    apps: Mapping[str, App] = field(default_factory=lambda: dict(APPS))  # the applications by name
    background: Background = field(default_factory=Background)  # load from outside; its step is the model's
    noise: Noise | None = None  # a job that always runs on the nodes set apart
    fabric: Fabric = field(default_factory=Fabric)  # capacities and clips
    probes: Probes = field(default_factory=Probes)  # the benchmarks run before each job
    seed: int = 0  # seed of all hashes, with a purpose and a job id or a number of time steps
    sink: Sink | None = None  # gets every sample of the counters
    sample_period: int = 10  # seconds between samples
    lead: int = 300  # seconds before second 0 at which the samples begin
    origin: int = 0  # the model's clock at second 0 of the simulation [s]; outside loads and samples are by that clock
    jitter: float = 0.015  # standard deviation of the logarithm of a job's work, which varies even on a quiet machine
    lost: float = 0.0  # share of the samples of single nodes that are lost
    keep: int = 0  # how many seconds of loads to keep, for windows into the past (`ContentionState.window`)
    # slow changes of single applications, unknown to the oracle (`ContentionState.slowdown`)
    episodes: Episodes | None = None
    # how much each node of a job sends to the others during a gate's ask about the job [bytes/s]; 0 unless the ask runs
    # probes
    probing: float = 0.0
    # called just before each start, with the present state, the job's row and its nodes
    at_start: Callable[[ContentionState, int, npt.NDArray[np.int64]], None] | None = None

    def __post_init__(self) -> None:
        if self.sample_period < 1 or self.lead < 0 or self.keep < 0:
            raise JobcastError("Contention: the sample period is 1 s or more, lead and keep are 0 s or more.")
        if not (self.probing >= 0 and isfinite(self.probing)):
            raise JobcastError(f"Contention: probes send 0 bytes/s or more; got {self.probing}.")
        if not (0 <= self.lost < 1 and self.jitter >= 0):
            raise JobcastError("Contention: the share of lost samples is from 0 to less than 1, the jitter 0 or more.")
        if self.noise is not None and not self.topology.apart:
            raise JobcastError("A noise job needs nodes of its own: give the topology nodes set apart.")
        apps_named(sorted(set(self.applications)), self.apps)

    def begun(self, workload: Workload) -> ContentionState:
        if len(self.applications) != len(workload):
            raise JobcastError(
                f"The model knows the applications of {len(self.applications)} jobs, {workload.name} has "
                f"{len(workload)}; give one a job, by row."
            )
        return ContentionState(self, workload)

    def work(self, workload: Workload) -> npt.NDArray[np.float64]:
        """Return the undisturbed run time of each job [s]."""
        work = workload.run_time.astype(np.float64)
        if self.jitter:
            work *= np.exp([self.jitter * normal(self.seed, job, 61) for job in workload.job_id.tolist()])
        return work
