"""Job streams of the RUSH experiments, with their scaling laws.

Table II of Nichols et al., and how applications change with their size.

A fifth of the jobs is there at the start, the others come uniformly over 20 minutes.

Scaling laws. The shares of an application's time are those on 16 nodes, where it works for `ALONE` seconds undisturbed.
* weak: each node has as much to do; communicating takes log2(n) / 4 times as long on n nodes.
* strong: computing and I/O take 16/n times as long, communicating (16/n)^(1/2) times, as surfaces shrink more slowly
  than volumes. So the share of communication grows with n in both.
What a node sends, moves and calls in all stays in proportion to the time that goes into it, so that the rates follow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2
from types import MappingProxyType
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from schedsim.contention.applications import ALONE, APPS, App
from schedsim.machine.topology import Topology
from schedsim.workload.workload import Workload

MACHINE: Final = Topology(leaves=16, per_leaf=32).with_apart(1 / 16)  # 16 leaf switches, two noise nodes each
AT_START: Final = 0.2
OVER: Final = 1200  # the other jobs come uniformly over so many seconds
REQUESTED: Final = 1800  # what every job requests [s]; none is killed: a job that runs longer has its estimate doubled
SIZES: Final = (8, 16, 32)
NATIVE: Final = 16  # nodes on which the applications' shares are given, and on which models learn

Scaling = Literal["none", "weak", "strong"]
EVERY: Final = tuple(sorted(APPS))
SOME: Final = ("LBANN", "Laghos", "PENNANT")
OTHERS: Final = ("AMG", "Kripke", "SWFFT", "sw4lite")


@dataclass(frozen=True)
class Experiment:
    """A row of Table II."""

    # both as in the paper
    name: str
    about: str
    applications: tuple[str, ...]  # applications of the jobs, as evenly as their number allows
    jobs: int
    learnt: tuple[str, ...] = EVERY  # applications with control jobs that the model learns from
    scaling: Scaling = "none"  # how the jobs differ in size: not at all, or over `SIZES`

    @property
    def mix(self) -> str:
        """What its jobs depend on: experiments of one mix have the same jobs by the same seed."""
        return "/".join((*self.applications, str(self.jobs), self.scaling))


EXPERIMENTS: Final[Mapping[str, Experiment]] = MappingProxyType(
    {
        one.name: one
        for one in (
            Experiment("ADAA", "all data, all applications", EVERY, 190),
            Experiment("ADPA", "all data, partial applications", SOME, 150),
            Experiment("PDPA", "partial data, partial applications", SOME, 150, OTHERS),
            Experiment("WS", "weak scaling", EVERY, 190, scaling="weak"),
            Experiment("SS", "strong scaling", EVERY, 190, scaling="strong"),
        )
    }
)


@dataclass(frozen=True, eq=False)
class Jobs:
    """The jobs of a trial, and the application of each as the model of contention sees it."""

    workload: Workload
    apps: tuple[App, ...]

    @property
    def scaled(self) -> Mapping[str, App]:
        """The applications as the model of contention names them: by name and size."""
        return {key(app.name, int(n)): app for app, n in zip(self.apps, self.workload.procs, strict=True)}

    @property
    def keys(self) -> list[str]:
        return [key(app.name, int(n)) for app, n in zip(self.apps, self.workload.procs, strict=True)]


def key(name: str, nodes: int) -> str:
    """Return what an application of a size is called in the model of contention."""
    return f"{name} on {nodes}"


def scaled(name: str, nodes: int, scaling: Scaling) -> tuple[App, float]:
    """Return an application as it is on so many nodes, and how long it works undisturbed [s].

    >>> app, seconds = scaled("SWFFT", 32, "strong")
    >>> seconds < ALONE["SWFFT"], app.network > APPS["SWFFT"].network
    (True, True)
    """
    app, alone = APPS[name], float(ALONE[name])
    if scaling == "none" or nodes == NATIVE:
        return app, alone
    share = NATIVE / nodes
    if scaling == "weak":
        compute, network, io = 1.0, log2(nodes) / log2(NATIVE), 1.0
    else:
        compute, network, io = share, share**0.5, share
    parts = app.compute * compute, app.network * network, app.io * io, app.metadata * io
    total = sum(parts)
    return replace(
        app, compute=1.0 - sum(parts[1:]) / total, network=parts[1] / total, io=parts[2] / total,
        metadata=parts[3] / total, sends=app.sends * network / total, moves=app.moves * io / total,
        calls=app.calls * io / total,
    ), alone * total  # fmt: skip


def jobs_of(experiment: Experiment, seed: int) -> Jobs:
    """Return the jobs of a trial: applications and sizes dealt out evenly, in an order drawn by chance."""
    rng = np.random.default_rng([seed, *experiment.mix.encode()])
    sizes = (NATIVE,) if experiment.scaling == "none" else SIZES
    kinds = [(name, nodes) for nodes in sizes for name in experiment.applications]
    dealt = [kinds[i] for i in rng.permutation(np.resize(rng.permutation(len(kinds)), experiment.jobs))]
    late = experiment.jobs - round(AT_START * experiment.jobs)
    submit = np.sort(np.concatenate([np.zeros(experiment.jobs - late, int), rng.integers(1, OVER + 1, late)]))
    return made(dealt, submit, experiment.scaling)


def made(kinds: Sequence[tuple[str, int]], submit: npt.ArrayLike, scaling: Scaling, first_id: int = 1) -> Jobs:
    """Return jobs of (application, nodes), in the order of their submission [s]."""
    found = [scaled(name, nodes, scaling) for name, nodes in kinds]
    n = len(kinds)
    workload = Workload.from_columns(
        np.arange(first_id, first_id + n), submit=submit, procs=[nodes for _, nodes in kinds],
        requested=[REQUESTED] * n, run_time=[round(seconds) for _, seconds in found], machine_procs=MACHINE.for_jobs,
    )  # fmt: skip
    return Jobs(workload, tuple(app for app, _ in found))
