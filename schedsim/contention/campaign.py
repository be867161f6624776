"""A campaign: half a year of control jobs.

As in Section III of Nichols et al. (IPDPS 2022), each proxy application runs two or three times a day, at various
times, on 16 nodes, while other jobs keep the machine busy under EASY. The campaign reads the counters only in the five
minutes before each control job's start, and never holds months of samples.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Final

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, Ints, short_repr
from predictors.core.errors import JobcastError
from predictors.core.hash_random import normal, unit
from predictors.data.runs import Runs
from predictors.data.telemetry.counters import COUNTERS
from schedsim.contention.applications import ALONE, APPS, App, apps_named
from schedsim.contention.background import Background, Noise
from schedsim.contention.counters import pool
from schedsim.contention.episodes import Episodes
from schedsim.contention.fabric import Fabric
from schedsim.contention.model import ContentionModel, ContentionState
from schedsim.engine.simulation import Simulation
from schedsim.machine.allocators import make_allocator
from schedsim.machine.topology import Topology
from schedsim.policies.policy import make_policy
from schedsim.workload.workload import Workload

DAY: Final = 86_400
WINDOW: Final = 300  # window of counters before a start [s]
_WIDTHS: Final = (4, 8, 16, 24, 32, 48, 64)  # of other jobs
_MEDIAN_LENGTH: Final = 2400.0  # s
_SPREAD_LENGTH: Final = 0.7  # of the logarithm


@dataclass(frozen=True)
class Campaign:
    """A plan of control jobs.

    >>> data = Campaign(days=1, alone={"AMG": 280, "LBANN": 260}, seed=1).collect()
    >>> len(data.runs), data.machine.shape, sorted(set(data.runs.application.tolist()))
    (5, (5, 270), ['AMG', 'LBANN'])
    """

    days: int = 212  # its length; 212 days are August to February
    # the applications, and the undisturbed run times of their control jobs [s]
    alone: Mapping[str, int] = field(default_factory=lambda: dict(ALONE))
    nodes: int = 16  # nodes of a control job
    # share of the machine that other jobs would keep busy if undisturbed; disturbed, they take longer
    load: float = 0.6
    # topology, background, noise, fabric, episodes: of the machine, see `ContentionModel`
    topology: Topology = field(default_factory=lambda: Topology(16, 32))
    background: Background = field(default_factory=Background)
    noise: Noise | None = None
    fabric: Fabric = field(default_factory=Fabric)
    apps: Mapping[str, App] = field(default_factory=lambda: dict(APPS))
    allocator: str = "scattered"  # see `ALLOCATORS`
    lost: float = 0.0  # share of lost samples
    sample_period: int = 10  # seconds between samples
    seed: int = 0  # seed of all hashes
    episodes: Episodes | None = None

    def __post_init__(self) -> None:
        if self.days < 1 or not self.alone or min(self.alone.values()) < 1:
            raise JobcastError("A campaign lasts a day or more, with one application or more of 1 s or more.")
        if not 1 <= self.nodes <= self.topology.for_jobs:
            raise JobcastError(f"Control jobs have 1 to {self.topology.for_jobs} nodes; got {self.nodes}.")
        if not (0 <= self.load < 1 and isfinite(self.load)):
            raise JobcastError(f"The load of other jobs is from 0 to less than 1; got {self.load}.")
        apps_named(list(self.alone), self.apps)

    def collect(self) -> "Collected":
        jobs, names, control = self._jobs()
        found: dict[int, tuple[Floats, Floats]] = {}
        everywhere = np.arange(self.topology.nodes)

        def look(live: ContentionState, row: int, nodes: Ints) -> None:
            if control[row]:
                rates = live.window(WINDOW)[1]
                found[row] = _pooled(rates, everywhere), _pooled(rates, nodes)

        model = ContentionModel(
            names, self.topology, self.apps, self.background, self.noise, self.fabric, seed=self.seed,
            sample_period=self.sample_period, lost=self.lost, lead=WINDOW, keep=WINDOW, at_start=look,
            episodes=self.episodes,
        )  # fmt: skip
        allocator = make_allocator(self.allocator, self.topology, self.seed)
        simulation = Simulation(jobs, make_policy("easy"), kill=False, allocator=allocator, run_times=model)
        simulation.run()
        assert isinstance(simulation.run_times, ContentionState)
        runs = simulation.run_times.runs()
        rows = np.searchsorted(jobs.job_id, runs.job_id)
        chosen = np.flatnonzero(control[rows])
        order = chosen[np.lexsort((runs.job_id[chosen], runs.start[chosen]))]
        machine, own = (np.array([found[row][i] for row in rows[order].tolist()]) for i in (0, 1))
        return Collected(runs.select(order), machine, own)

    def _jobs(self) -> tuple[Workload, list[str], npt.NDArray[np.bool_]]:
        table: list[tuple[int, int, int, int, str, bool]] = []  # submit, width, requested, length, application, control
        for day in range(self.days):
            for i, (name, length) in enumerate(self.alone.items()):
                number = len(self.alone) * day + i
                for turn in range(2 + (unit(self.seed, number, 81) < 0.5)):
                    submit = DAY * day + int(DAY * unit(self.seed, 3 * number + turn, 82))
                    table.append((submit, self.nodes, 10 * length, length, name, True))
        table += self._others()
        table.sort(key=lambda job: job[0])
        columns = [np.array([job[i] for job in table]) for i in range(4)]
        workload = Workload.from_columns(
            np.arange(1, len(table) + 1), submit=columns[0] - columns[0][0], procs=columns[1], requested=columns[2],
            run_time=columns[3], machine_procs=self.topology.for_jobs,
        )  # fmt: skip
        return workload, [job[4] for job in table], np.array([job[5] for job in table])

    def _others(self) -> list[tuple[int, int, int, int, str, bool]]:
        """Return the jobs that keep the machine busy: Poisson arrivals; widths, lengths and applications by hash."""
        names = list(self.alone)
        widths = [width for width in _WIDTHS if width <= self.topology.for_jobs]
        work = float(np.mean(widths)) * _MEDIAN_LENGTH * float(np.exp(_SPREAD_LENGTH**2 / 2))
        every = work / (self.load * self.topology.for_jobs) if self.load else np.inf
        jobs: list[tuple[int, int, int, int, str, bool]] = []
        time, number = 0.0, 0
        while True:
            time -= every * np.log(1.0 - unit(self.seed, number, 83))
            if not time < DAY * self.days:
                return jobs
            length = max(60, int(_MEDIAN_LENGTH * np.exp(_SPREAD_LENGTH * normal(self.seed, number, 84))))
            width = widths[int(unit(self.seed, number, 85) * len(widths))]
            name = names[int(unit(self.seed, number, 86) * len(names))]
            jobs.append((int(time), width, 2 * length, length, name, False))
            number += 1


@dataclass(frozen=True, eq=False)
class Collected:
    """Control jobs and the state of the machine before each."""

    runs: Runs  # the control jobs in the order of their starts, probes and truth included
    # minimum, maximum and mean of each counter in the five minutes before the start, over all nodes and over the job's
    # own; NaN where there is no sample, shape (n, 270)
    machine: Floats
    own: Floats

    __repr__ = short_repr


def _pooled(rates: npt.NDArray[np.float32], nodes: Ints) -> Floats:
    out = np.empty(3 * len(COUNTERS))
    pool(rates, nodes, out)
    return out
