"""Control jobs, and the norms of run times that they give.

Control jobs on the experiments' machine, months before them.

The control jobs meet the same machine, background and noise job as the experiments, while other jobs keep it busy. What
is normal for an application on so many nodes is their mean and standard deviation, frozen: every policy's runs are
measured against the same. Models learn from those on 16 nodes alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from experiments.papers.rush.jobs import MACHINE, NATIVE, SIZES, Scaling, key, scaled
from experiments.papers.rush.trials import Environment
from predictors.data.runs import Runs
from predictors.data.telemetry.counters import COUNTERS
from predictors.variability.classifiers.base import Classifier
from predictors.variability.classifiers.registry import seeded
from predictors.variability.dataset import Dataset
from predictors.variability.features import FEATURES
from predictors.variability.labels import Norms
from predictors.variability.selection.compare import Plan, answer
from predictors.variability.selection.scores import scores
from predictors.variability.selection.select import train
from predictors.variability.splits import chronological, random_folds
from schedsim.contention.applications import ALONE, placebo
from schedsim.contention.campaign import Campaign

MODEL: Final = "adaboost"  # the paper's best model
DAYS: Final = 212  # August to February
NORM_DAYS: Final = 60  # on 8 and 32 nodes, where nothing is learnt, control jobs of so many days tell what is normal
MACHINE_WINDOW, OWN_WINDOW = ([f"{whose} {i}" for i in range(3 * len(COUNTERS))] for whose in ("machine", "own"))
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


def learn(dataset: Dataset, model: str = MODEL, seed: int = 0) -> Classifier:
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
