"""What is normal, and what do RUSH's models learn from? Control jobs on the experiments' machine, months before them.

The control jobs meet the same machine, background and noise job as the experiments, while other jobs keep it busy. What
is normal for an application on so many nodes is their mean and standard deviation, frozen: every policy's runs are
measured against the same. Models learn from those on 16 nodes alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from experiments.rush_jobs import MACHINE, NATIVE, SIZES, Scaling, key, scaled
from experiments.rush_trials import Surround
from predictors.variability.classifier import Classifier
from predictors.variability.comparison import Plan, answer
from predictors.variability.dataset import Dataset
from predictors.variability.features import FEATURES
from predictors.variability.labels import Norms
from predictors.variability.scores import scores
from predictors.variability.selection import train
from predictors.variability.splits import chronological, random_folds
from predictors.variability.workers import work
from schedsim.contention.apps import ALONE, placebo
from schedsim.contention.campaign import Campaign, Collected

if TYPE_CHECKING:
    import pandas as pd

DAYS: Final = 212
"""August to February."""
NORM_DAYS: Final = 60
"""On 8 and 32 nodes, where nothing is learnt, control jobs of so many days tell what is normal."""


@dataclass(frozen=True, eq=False)
class Control:
    """Control jobs.

    Attributes
    ----------
    datasets : mapping of str to Dataset
        Those on 16 nodes with their inputs, by node scope.
    norms : mapping of str to Norms
        What is normal, by scaling.
    """

    datasets: Mapping[str, Dataset]
    norms: Mapping[Scaling, Norms]

    def of(self, applications: Sequence[str], scope: str) -> Dataset:
        """Return the dataset of some applications."""
        dataset = self.datasets[scope]
        return dataset.select(np.isin(dataset.runs.application, applications))


def collect(
    around: Surround, seed: int, days: int = DAYS, scalings: Sequence[Scaling] = ("none",), workers: int = 1
) -> Control:
    """Run the control jobs, on 16 nodes and, for what scales, on 8 and 32."""
    sizes = [(scaling, nodes) for scaling in scalings if scaling != "none" for nodes in SIZES if nodes != NATIVE]
    tasks: list[tuple[Scaling, int]] = [("none", NATIVE), *sizes]
    native, *others = work(_collected, (around, seed, days), tasks, workers)
    about: dict[str, Any] = {"days": days, "seed": seed, "tau": around.background.tau, "allocator": around.allocator}
    datasets = {
        scope: Dataset.build(native.runs, windows, scope, about)[0]
        for scope, windows in (("all", native.machine), ("job", native.own))
    }
    norms: dict[Scaling, Norms] = {}
    for scaling in scalings:
        parts = [native.runs, *(one.runs for one, task in zip(others, sizes, strict=True) if task[0] == scaling)]
        columns = ([getattr(runs, name) for runs in parts] for name in ("application", "node_count", "run_time"))
        norms[scaling] = Norms.of(*(np.concatenate(column) for column in columns))
    return Control(datasets, norms)


def _collected(shared: tuple[Surround, int, int], task: tuple[Scaling, int]) -> Collected:
    around, seed, days = shared
    scaling, nodes = task
    days = days if scaling == "none" else min(days, NORM_DAYS)
    found = {key(name, nodes): scaled(name, nodes, scaling) for name in ALONE}
    return Campaign(
        days=days,
        alone={name: round(seconds) for name, (_, seconds) in found.items()},
        apps={name: app if around.contention else placebo(app) for name, (app, _) in found.items()},
        nodes=nodes, topology=MACHINE, background=around.background, noise=around.noise, allocator=around.allocator,
        seed=seed,
    ).collect()  # fmt: skip


def learn(dataset: Dataset, model: str = "adaboost", seed: int = 0) -> Classifier:
    """Return a classifier of three classes that has learnt from all of a dataset's runs."""
    return train(dataset, model, Plan(models=(model,), seed=seed))[0]


def judged(
    control: Control, model: str = "adaboost", seed: int = 0, scopes: Sequence[str] = ("all", "job")
) -> "pd.DataFrame":
    """Return how well a model learns from control jobs, by node scope: the last 30 % judged, or a fourth by chance."""
    import pandas as pd

    rows = []
    for scope in scopes:
        dataset = control.datasets[scope]
        folds = {"chronological": chronological(dataset.runs), "shuffled": random_folds(dataset.runs, 4, seed)}
        for split, (fold, *_) in folds.items():
            said, probability, _ = answer(model, {}, seed, (dataset.rows, FEATURES), fold)
            found = scores(fold.classes[fold.test] == 1, said, probability)
            rows.append({"scope": scope, "split": split, "runs": found.n_test, "base_rate": found.base_rate,
                         "f1": found.f1, "pr_auc": found.pr_auc})  # fmt: skip
    return pd.DataFrame(rows).round(3)
