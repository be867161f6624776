"""How is a trial of RUSH run? One queue of jobs on 512 nodes in the contention world, under one policy.

Everything of a trial but the policy hangs on (experiment's mix, seed): each policy meets the same jobs, the same load
from outside and the same noise job.
"""

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from experiments.rush_jobs import MACHINE, Jobs
from predictors.variability.ring import CounterRing
from schedsim.allocators import make_allocator
from schedsim.contention.apps import placebo
from schedsim.contention.background import Background
from schedsim.contention.live import Live
from schedsim.contention.noise import Noise
from schedsim.contention.world import World
from schedsim.engine import Simulation
from schedsim.gates import Candidate
from schedsim.policy import make_policy
from schedsim.rush import VARIATION, Classifier, Rush, rush

Ints = npt.NDArray[np.int64]

TAU: Final = 600.0
"""Correlation time of the load from outside [s]: twice a job's length, so that what is coming can be seen, and a
fourth of a trial, so that it changes while jobs wait."""


@dataclass(frozen=True)
class Surround:
    """The machine that trials and control jobs meet.

    Parameters
    ----------
    background : Background
        Load from outside.
    noise : Noise or None
        The noise job.
    allocator : str
        Who places the jobs, see `schedsim.allocators`.
    contention : bool
        Whether loads slow anybody down; if not, they are there and are counted all the same.
    """

    background: Background = field(default_factory=lambda: Background(tau=TAU))
    noise: Noise | None = field(default_factory=Noise)
    allocator: str = "scattered"
    contention: bool = True


def world_of(jobs: Jobs, around: Surround, seed: int, origin: int = 0) -> World:
    """Return the world of a trial, its counters kept in a ring of its own."""
    apps = jobs.scaled if around.contention else {name: placebo(app) for name, app in jobs.scaled.items()}
    return World(
        jobs.keys, MACHINE, apps, around.background, around.noise, seed=seed, origin=origin,
        sink=CounterRing(np.arange(MACHINE.nodes)),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Trial:
    """What came of a trial.

    Attributes
    ----------
    runs : DataFrame
        One row a job: application, nodes, submit, start, wait, run_time [s], how often it was skipped, and what the
        classifier said lastly.
    makespan : int
        From the first submission to the last end [s].
    calls, skips, met : int
        Of the gate; 0 without one.
    """

    runs: pd.DataFrame
    makespan: int
    calls: int = 0
    skips: int = 0
    met: int = 0


def run_trial(
    jobs: Jobs, world: World, allocator: str = "scattered", classifier: Classifier | None = None, **options: Any
) -> Trial:
    """Run a trial under FCFS+EASY, with RUSH's gate if there is a classifier; options as of `schedsim.rush.rush`."""
    said = None if classifier is None else Noted(classifier, len(jobs.workload))
    policy = make_policy("easy") if said is None else rush(make_policy("easy"), said, **options)
    placing = make_allocator(allocator, MACHINE, world.seed)
    simulation = Simulation(jobs.workload, policy, kill=False, world=world, allocator=placing)
    simulation.run()
    schedule, live = simulation.schedule(), simulation.world
    assert isinstance(live, Live)
    told, run_time = live.runs(), np.empty(len(jobs.workload))
    run_time[np.searchsorted(jobs.workload.job_id, told.job_id)] = told.run_time
    runs = pd.DataFrame(
        {
            "job_id": jobs.workload.job_id,
            "application": [app.name for app in jobs.apps],
            "nodes": jobs.workload.procs,
            "submit": jobs.workload.submit,
            "start": schedule.start,
            "wait": schedule.wait,
            "run_time": run_time.round(1),
            "skips": 0 if said is None else said.skips,
            "said": "" if said is None else said.words,
        }
    )
    makespan = int(schedule.end.max() - jobs.workload.submit.min())
    if not isinstance(policy.gate, Rush):
        return Trial(runs, makespan)
    tally = policy.gate.tally
    return Trial(runs, makespan, tally.calls, tally.skips, tally.met)


class Noted:
    """A classifier whose last word on each job is written down, and how often the job was skipped."""

    def __init__(self, classifier: Classifier, n_jobs: int) -> None:
        self.classifier, self.words = classifier, [""] * n_jobs
        self._holds, self._varies = np.zeros(n_jobs, dtype=np.int64), np.zeros(n_jobs, dtype=np.int64)

    @property
    def skips(self) -> Ints:
        """How often each job was skipped, if variation alone delays."""
        return self._holds + self._varies

    def foresee(self, candidate: Candidate) -> str:
        """Ask it, and write down what it says."""
        found = self.classifier.foresee(candidate)
        self.words[candidate.row] = found
        self._holds[candidate.row], self._varies[candidate.row] = candidate.holds, found == VARIATION
        return found
