"""One trial of RUSH, and what its classifier sees.

Everything of a trial but the policy depends on (experiment's mix, seed): each policy meets the same jobs, the same load
from outside and the same noise job.

The 282 inputs of a start are those of the datasets: the window of counters as of now, from the ring that the machine
feeds, over the job's tentative nodes or over all; the probes, run now on these nodes; the kind of the application.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from experiments.papers.rush.jobs import MACHINE, NATIVE, SIZES, Jobs, Scaling, key, scaled
from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError
from predictors.core.variation import CLASSES, NONE, VARIATION
from predictors.data.runs import Runs
from predictors.data.telemetry.counters import COUNTERS
from predictors.probes.measurements import ProbeUse
from predictors.tracking.client import load_classifier
from predictors.variability.classifiers.base import Classifier as TrainedClassifier
from predictors.variability.classifiers.query import Question, ask
from predictors.variability.classifiers.registry import seeded
from predictors.variability.dataset import Dataset
from predictors.variability.features import FEATURES, check_scope, feature_row
from predictors.variability.labels import UNLABELLED, Norms, classes_of
from predictors.variability.ring import CounterRing
from predictors.variability.selection.compare import Plan, answer
from predictors.variability.selection.scores import scores
from predictors.variability.selection.select import train
from predictors.variability.splits import chronological, random_folds
from predictors.variability.windows import WINDOW
from schedsim.contention.applications import ALONE, App, placebo
from schedsim.contention.background import Background, Noise
from schedsim.contention.campaign import Campaign
from schedsim.contention.episodes import Episodes
from schedsim.contention.model import ContentionModel, ContentionState
from schedsim.engine.simulation import Simulation
from schedsim.machine.allocators import make_allocator
from schedsim.policies.gates import Candidate
from schedsim.policies.policy import make_policy
from schedsim.policies.rush import Classifier, Rush, rush

if TYPE_CHECKING:
    from predictors.tracking.describe import LoadedClassifier

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
    """Return a trial's contention model, with counters to `lag` seconds ago and probes of `probing` bytes/s."""
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
            "job_id": jobs.workload.job_id, "application": [app.name for app in jobs.apps],
            "nodes": jobs.workload.procs, "submit": jobs.workload.submit, "start": schedule.start,
            "wait": schedule.wait, "run_time": run_time.round(1), "skips": 0 if noted is None else noted.skips,
            "said": "" if noted is None else noted.labels,
        }
    )  # fmt: skip
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

    classifier: TrainedClassifier  # of two or three classes
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


MODEL: Final = "adaboost"  # the paper's best model
DAYS: Final = 120
NORM_DAYS: Final = 30  # on 8 and 32 nodes, where nothing is learnt, control jobs of so many days tell what is normal
MACHINE_WINDOW, OWN_WINDOW = ([f"{owner} {i}" for i in range(3 * len(COUNTERS))] for owner in ("machine", "own"))
WINDOWS: Final = [*MACHINE_WINDOW, *OWN_WINDOW]  # columns of `schedsim.contention.campaign.Collected`


@dataclass(frozen=True, eq=False)
class Control:
    """Control jobs."""

    datasets: Mapping[str, Dataset]  # those on 16 nodes with their inputs, by node scope
    norms: Mapping[Scaling, Norms]  # what is normal, by scaling

    def of(self, applications: Sequence[str], scope: str) -> Dataset:
        """Return the dataset of some applications."""
        dataset = self.datasets[scope]
        return dataset.select(np.isin(dataset.runs.application, applications))


ControlSetting = tuple[Environment, int, int]  # the machine, the seed, the days
Task = tuple[Scaling, int]
Do = Callable[[Callable[[ControlSetting, Task], pd.DataFrame], ControlSetting, Sequence[Task]], list[pd.DataFrame]]


def one_by_one(
    function: Callable[[ControlSetting, Task], pd.DataFrame], shared: ControlSetting, tasks: Sequence[Task]
) -> list[pd.DataFrame]:
    """Return `function(shared, task)` for each task."""
    return [function(shared, task) for task in tasks]


def collect(
    environment: Environment, seed: int, days: int = DAYS, scalings: Sequence[Scaling] = ("none",), do: Do = one_by_one
) -> Control:
    """Run the control jobs, on 16 nodes and, for what scales, on 8 and 32; `do` maps tasks."""
    sizes = [(scaling, nodes) for scaling in scalings if scaling != "none" for nodes in SIZES if nodes != NATIVE]
    tables = do(control_jobs, (environment, seed, days), [("none", NATIVE), *sizes])
    native, *others = (Runs.from_frame(table.drop(columns=WINDOWS)) for table in tables)
    tau, allocator = environment.background.tau, environment.allocator
    about: dict[str, Any] = {"days": days, "seed": seed, "tau": tau, "allocator": allocator}
    datasets = {
        scope: Dataset.build(native, tables[0][columns].to_numpy(), scope, about)[0]
        for scope, columns in (("all", MACHINE_WINDOW), ("job", OWN_WINDOW))
    }
    norms: dict[Scaling, Norms] = {}
    for scaling in scalings:
        parts = [native, *(one for one, task in zip(others, sizes, strict=True) if task[0] == scaling)]
        columns = ([getattr(runs, name) for runs in parts] for name in ("application", "node_count", "run_time"))
        norms[scaling] = Norms.of(*(np.concatenate(column) for column in columns))
    return Control(datasets, norms)


def control_jobs(shared: ControlSetting, task: Task) -> pd.DataFrame:
    """Return control jobs as `Runs.to_frame` has them, and the windows before them, over all nodes and their own."""
    environment, seed, days = shared
    scaling, nodes = task
    days = days if scaling == "none" else min(days, NORM_DAYS)
    found = {key(name, nodes): scaled(name, nodes, scaling) for name in ALONE}
    collected = Campaign(
        days=days,
        alone={name: round(seconds) for name, (_, seconds) in found.items()},
        apps={name: app if environment.contention else placebo(app) for name, (app, _) in found.items()},
        nodes=nodes, topology=MACHINE, background=environment.background, noise=environment.noise,
        allocator=environment.allocator, seed=seed, episodes=environment.episodes,
    ).collect()  # fmt: skip
    windows = pd.DataFrame(np.hstack([collected.machine, collected.own]), columns=WINDOWS)
    return pd.concat([collected.runs.to_frame(), windows], axis=1)


def learn(dataset: Dataset, model: str = MODEL, seed: int = 0) -> TrainedClassifier:
    """Return a classifier of three classes that has learnt from all of a dataset's runs."""
    return train(dataset, model, Plan(models=(model,), seed=seed))[0]


def judged(control: Control, model: str = MODEL, seed: int = 0, scopes: Sequence[str] = ("all", "job")) -> pd.DataFrame:
    """Return how well a model learns from control jobs, by node scope: the last 30 % judged, or a fourth by chance."""
    rows = []
    for scope in scopes:
        dataset = control.datasets[scope]
        folds = {"chronological": chronological(dataset.runs), "shuffled": random_folds(dataset.runs, 4, seed)}
        for split, (fold, *_) in folds.items():
            predicted, probability, _ = answer(seeded(model, seed), (dataset.rows, FEATURES), fold)
            found = scores(fold.classes[fold.test] == 1, predicted, probability)
            rows.append({"scope": scope, "split": split, "runs": found.n_test, "base_rate": found.base_rate,
                         "f1": found.f1, "pr_auc": found.pr_auc})  # fmt: skip
    return pd.DataFrame(rows).round(3)
