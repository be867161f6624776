"""On what machine do the jobs disturb one another? The contention model as a value, given to a simulation.

Jobs load the uplinks of their leaf switches, the file system and its metadata server; others do so from outside; a
job's slow-down follows from the loads (`_kernels_loads`). What happens then is in `schedsim.contention.live`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from predictors.data.errors import JobcastError
from schedsim._kernels_draws import normal, unit
from schedsim.contention.apps import APPS, App, apps_named
from schedsim.contention.background import Background
from schedsim.contention.fabric import Fabric
from schedsim.contention.live import Live
from schedsim.contention.noise import Noise
from schedsim.contention.probes import Probes
from schedsim.contention.rates import Sink
from schedsim.topology import Topology
from schedsim.workload import Workload


@dataclass(frozen=True, eq=False)
class World:
    """A machine with contention; a model of run times as `schedsim.run_times.RunTimes` asks for.

    A job's `Workload.run_time` is its work: how long it takes where nobody disturbs it.

    Parameters
    ----------
    applications : sequence of str
        The application of each job, by row of the workload.
    topology : Topology
        The machine; its nodes set apart are the noise job's.
    apps : mapping of str to App
        The applications by name.
    background : Background
        Load from outside; its step is the world's.
    noise : Noise, optional
        A job that always runs on the nodes set apart.
    fabric : Fabric
        Capacities and clips.
    probes : Probes
        The benchmarks run before each job.
    seed : int
        All random numbers are a hash of it, a purpose, and a job id or a number of time steps.
    sink : Sink, optional
        Gets every sample of the counters.
    sample_period : int
        Seconds between samples.
    lead : int
        The counters are sampled from so many seconds before second 0 on.
    origin : int
        What the world's clock shows at second 0 of the simulation [s]; outside loads and samples are by that clock.
    jitter : float
        Standard deviation of the logarithm of a job's work, which varies even on a quiet machine.
    lost : float
        Share of the samples of single nodes that are lost.
    keep : int
        How many seconds of loads to keep, for windows looked at afterwards (`Live.window`).
    at_start : callable, optional
        Called just before each start, with the world as it is then, the job's row and its nodes.

    Examples
    --------
    >>> from schedsim.engine import simulate
    >>> from schedsim.policy import make_policy
    >>> w = Workload.from_columns([1, 2], submit=[0, 0], procs=[16, 16], requested=[900, 900], run_time=[300, 300],
    ...                           machine_procs=512)
    >>> world = World(["AMG", "LBANN"], seed=1)
    >>> simulate(w, make_policy("easy"), world=world, kill=False).run_time.tolist()
    [305, 334]
    """

    applications: Sequence[str]
    topology: Topology = field(default_factory=lambda: Topology(16, 32))
    apps: Mapping[str, App] = field(default_factory=lambda: dict(APPS))
    background: Background = field(default_factory=Background)
    noise: Noise | None = None
    fabric: Fabric = field(default_factory=Fabric)
    probes: Probes = field(default_factory=Probes)
    seed: int = 0
    sink: Sink | None = None
    sample_period: int = 10
    lead: int = 300
    origin: int = 0
    jitter: float = 0.015
    lost: float = 0.0
    keep: int = 0
    at_start: Callable[[Live, int, npt.NDArray[np.int64]], None] | None = None

    def __post_init__(self) -> None:
        if self.sample_period < 1 or self.lead < 0 or self.keep < 0:
            raise JobcastError("A world's sample period is 1 s or more, its lead and what it keeps 0 s or more.")
        if not (0 <= self.lost < 1 and self.jitter >= 0):
            raise JobcastError("A world's share of lost samples is from 0 to less than 1, its jitter 0 or more.")
        if self.noise is not None and not self.topology.apart:
            raise JobcastError("A noise job needs nodes of its own: give the topology nodes set apart.")
        apps_named(sorted(set(self.applications)), self.apps)

    def begun(self, workload: Workload) -> Live:
        """Return the world before the first second of a simulation.

        Raises
        ------
        JobcastError
            If there is not one application a job.
        """
        if len(self.applications) != len(workload):
            raise JobcastError(
                f"The world knows the applications of {len(self.applications)} jobs, {workload.name} has "
                f"{len(workload)}; give one a job, by row."
            )
        return Live(self, workload)

    def work(self, workload: Workload) -> npt.NDArray[np.float64]:
        """Return how long each job takes where nobody disturbs it [s]."""
        work = workload.run_time.astype(np.float64)
        if self.jitter:
            work *= np.exp([self.jitter * normal(self.seed, job, 61) for job in workload.job_id.tolist()])
        return work

    def skews(self) -> npt.NDArray[np.float64]:
        """Return by how much each node's clock is wrong, from -0.05 to 0.05 [s], for those who write files."""
        return np.array([0.1 * unit(self.seed, node, 62) - 0.05 for node in range(self.topology.nodes)])
