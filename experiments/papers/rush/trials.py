"""One trial of RUSH, and what its classifier sees.

Everything of a trial but the policy depends on (experiment's mix, seed): each policy meets the same jobs, the same load
from outside and the same noise job.

The 282 inputs of a start are those of the datasets: the window of counters as of now, from the ring that the machine
feeds, over the job's tentative nodes or over all; the probes, run now on these nodes; the kind of the application.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from experiments.papers.rush.jobs import MACHINE, Jobs
from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError
from predictors.core.variation import CLASSES, NONE, VARIATION
from predictors.probes.measurements import ProbeUse
from predictors.tracking.client import load_classifier
from predictors.variability.classifiers.query import Question, ask
from predictors.variability.features import check_scope, feature_row
from predictors.variability.labels import UNLABELLED, Norms, classes_of
from predictors.variability.ring import CounterRing
from predictors.variability.windows import WINDOW
from schedsim.contention.applications import App, placebo
from schedsim.contention.background import Background, Noise
from schedsim.contention.episodes import Episodes
from schedsim.contention.model import ContentionModel, ContentionState
from schedsim.engine.simulation import Simulation
from schedsim.machine.allocators import make_allocator
from schedsim.policies.gates import Candidate
from schedsim.policies.policy import make_policy
from schedsim.policies.rush import Classifier, Rush, rush

if TYPE_CHECKING:
    from predictors.tracking.describe import LoadedClassifier
    from predictors.variability.classifiers.base import Classifier as TrainedClassifier


TAU: Final = 600.0
"""Correlation time of the load from outside [s]: twice a job's length, so that what is coming can be seen, and a
fourth of a trial, so that it changes while jobs wait."""


@dataclass(frozen=True)
class Environment:
    """The machine that trials and control jobs meet."""

    background: Background = field(default_factory=lambda: Background(tau=TAU))
    noise: Noise | None = field(default_factory=Noise)
    allocator: str = "scattered"  # who places the jobs, see `schedsim.machine.allocators`
    contention: bool = True  # whether loads slow anybody down; if not, they are there and are counted all the same
    episodes: Episodes | None = None  # slow changes of single applications


def contention_of(
    jobs: Jobs, environment: Environment, seed: int, origin: int = 0, *, lag: int = 0, probing: float = 0.0
) -> ContentionModel:
    """Return the contention model of a trial, its counters kept in a ring of its own.

    Windows may be asked for that end `lag` seconds ago; while probes run for an ask, each node sends `probing` bytes/s.
    """
    apps = jobs.scaled if environment.contention else {name: placebo(app) for name, app in jobs.scaled.items()}
    return ContentionModel(
        jobs.keys, MACHINE, apps, environment.background, environment.noise, seed=seed, origin=origin,
        sink=CounterRing(np.arange(MACHINE.nodes), late=lag), lead=int(WINDOW) + lag, probing=probing,
        episodes=environment.episodes,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Trial:
    """What came of a trial."""

    # one row a job: application, nodes, submit, start, wait, run_time [s], how often it was skipped, and what the
    # classifier predicted last
    runs: pd.DataFrame
    makespan: int  # from the first submission to the last end [s]
    # of the gate; 0 without one
    calls: int = 0
    skips: int = 0
    met: int = 0


def run_trial(
    jobs: Jobs,
    contention: ContentionModel,
    allocator: str = "scattered",
    classifier: Classifier | None = None,
    **options: Any,
) -> Trial:
    """Run a trial under FCFS+EASY, with RUSH's gate if there is a classifier; options as of `rush`."""
    noted = None if classifier is None else Noted(classifier, len(jobs.workload))
    policy = make_policy("easy") if noted is None else rush(make_policy("easy"), noted, **options)
    placing = make_allocator(allocator, MACHINE, contention.seed)
    simulation = Simulation(jobs.workload, policy, kill=False, run_times=contention, allocator=placing)
    simulation.run()
    schedule, live = simulation.schedule(), simulation.run_times
    assert isinstance(live, ContentionState)
    ended, run_time = live.runs(), np.empty(len(jobs.workload))
    run_time[np.searchsorted(jobs.workload.job_id, ended.job_id)] = ended.run_time
    runs = pd.DataFrame(
        {
            "job_id": jobs.workload.job_id,
            "application": [app.name for app in jobs.apps],
            "nodes": jobs.workload.procs,
            "submit": jobs.workload.submit,
            "start": schedule.start,
            "wait": schedule.wait,
            "run_time": run_time.round(1),
            "skips": 0 if noted is None else noted.skips,
            "said": "" if noted is None else noted.labels,
        }
    )
    makespan = int(schedule.end.max() - jobs.workload.submit.min())
    if not isinstance(policy.gate, Rush):
        return Trial(runs, makespan)
    tally = policy.gate.tally
    return Trial(runs, makespan, tally.calls, tally.skips, tally.met)


class Noted:
    """A classifier that notes its last word on each job, and how often the job was skipped."""

    def __init__(self, classifier: Classifier, n_jobs: int) -> None:
        self.classifier, self.labels = classifier, [""] * n_jobs
        self._holds, self._varies = np.zeros(n_jobs, dtype=np.int64), np.zeros(n_jobs, dtype=np.int64)

    @property
    def skips(self) -> Ints:
        """How often each job was skipped, if variation alone delays."""
        return self._holds + self._varies

    def foresee(self, candidate: Candidate) -> str:
        """Ask the classifier, and note its prediction."""
        found = self.classifier.foresee(candidate)
        self.labels[candidate.row] = found
        self._holds[candidate.row], self._varies[candidate.row] = candidate.holds, found == VARIATION
        return found


@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs of starts, as of now."""

    apps: Sequence[App]  # the application of each job, by row of the workload
    scope: str = "all"  # which nodes' counters are pooled: all nodes', or the job's (`all`, `job`)
    # whether the probes are run on these nodes now, or those count that the job started last had run, or none
    # (`live`, `last-known`, `absent`)
    probes: ProbeUse = "live"
    lag: int = 0  # counters are known so long after they were sampled [s]

    def __post_init__(self) -> None:
        check_scope(self.scope)

    def row(self, live: ContentionState, row: int, nodes: Ints) -> Floats:
        """Return the 282 inputs of a job that would start now on these nodes, in the order of `FEATURES`."""
        asked = self.question(live, row, nodes)
        return feature_row(asked.window, asked.probes, asked.workload)

    def question(self, live: ContentionState, row: int, nodes: Ints) -> Question:
        """Return what a classifier is asked about a job that would start now on these nodes."""
        ring = live.sink
        if not isinstance(ring, CounterRing):
            raise JobcastError(
                "RUSH needs the counters of the last minutes: give the model of contention a CounterRing as its sink."
            )
        now = float(live.model.origin + live.now - self.lag)
        pooled = nodes if self.scope == "job" else ring.nodes
        found = ring.windows(now, nodes if self.scope == "job" else None)
        probes = live.probe(row, nodes) if self.probes == "live" else None
        if self.probes == "last-known":
            probes = live.probed
        silent = float(found.silent[0]) / len(pooled)
        return Question(found.values[0], self.apps[row].workload, self.apps[row].name, probes, silent)


@dataclass(eq=False)
class Learnt:
    """A fitted classifier, asked live."""

    classifier: "TrainedClassifier"  # of two or three classes
    inputs: Inputs  # what it is shown
    # how often it did not know, or more nodes were silent than `predictors.variability.classifiers.query` lets pass;
    # the job then starts
    abstained: int = 0

    def foresee(self, candidate: Candidate) -> str:
        """Return the class that the classifier predicts, see `schedsim.policies.rush.Classifier`."""
        live, nodes = seen(candidate)
        found = ask(self.classifier, self.inputs.question(live, candidate.row, nodes))
        self.abstained += found.abstained
        return found.label


@dataclass(frozen=True, eq=False)
class Oracle:
    """Sees the true loads of now and assumes that they last: a bound for classifiers that see counters."""

    norms: Norms
    apps: Sequence[App]  # the application of each job, by row of the workload
    work: Floats = field(repr=False)  # how long each job takes where no other job disturbs it [s], shape (n_jobs,)

    def foresee(self, candidate: Candidate) -> str:
        """Return the class of the run time that the present would make."""
        live, nodes = seen(candidate)
        seconds = self.work[candidate.row] * live.slowdown(candidate.row, nodes).total
        found = int(classes_of(self.norms.z([self.apps[candidate.row].name], [len(nodes)], [seconds]), "three")[0])
        return NONE if found == UNLABELLED else CLASSES[found]


def seen(candidate: Candidate) -> tuple[ContentionState, Ints]:
    """Return the state of contention and the tentative nodes."""
    if not isinstance(candidate.run_times, ContentionState) or candidate.nodes is None:
        raise JobcastError(
            "RUSH asks about a machine with contention: simulate with a schedsim.contention ContentionModel."
        )
    return candidate.run_times, candidate.nodes


def classifier_at(where: str) -> "LoadedClassifier":
    """Return a fitted classifier from models:/NAME@ALIAS, models:/NAME/VERSION, runs:/RUN_ID, or a folder."""
    found = load_classifier(where)
    if found.origin.window != WINDOW:
        raise JobcastError(
            f"{where}: learnt from windows of {found.origin.window:g} s; RUSH's ring keeps {WINDOW:g} s. Train it on "
            "such windows."
        )
    return found
