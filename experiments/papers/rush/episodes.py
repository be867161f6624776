"""What an F1 of 0.95 means: how well control jobs are foreseen with and without episodes of days.

The paper's Figure 1 has a spike in December in all applications. Where runs are slow for days, a model that knows the
days foresees them, though nothing can be gained by delaying a job for minutes. Each case is the same campaign on the
same machine, with other slow changes: none; shared episodes, which load all uplinks and the file system; episodes and
drift of single applications, which no counter shows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
import pandas as pd

from experiments.papers.rush.control import MODEL, collect
from experiments.papers.rush.trials import TAU, Environment
from predictors.core.arrays import Bools
from predictors.variability.classifiers.registry import seeded
from predictors.variability.dataset import Dataset
from predictors.variability.features import FEATURES
from predictors.variability.selection.compare import answer
from predictors.variability.selection.scores import scores
from predictors.variability.splits import Fold, chronological, leave_one_application_out
from schedsim.contention.background import Background
from schedsim.contention.episodes import Episodes

DAYS: Final = 150
QUICK_DAYS: Final = 16
SCOPE: Final = "all"
_DAY: Final = 86_400
_TEN: Final = 10  # days

CASES: Final[Mapping[str, Environment]] = MappingProxyType(
    {
        "none": Environment(),
        "shared, of about four days": Environment(Background.two_scales(tau=TAU)),
        "of single applications": Environment(episodes=Episodes(drift=0.0)),
        "drift of single applications": Environment(episodes=Episodes(every=0.0)),
        "all of them": Environment(Background.two_scales(tau=TAU), episodes=Episodes()),
    }
)
"""Machines by their slow changes; the load from outside changes within ten minutes in all."""


@dataclass(frozen=True)
class EpisodePlan:
    """How many control jobs, and of which seed."""

    seed: int
    days: int


def foreseen_with(plan: EpisodePlan, case: str) -> pd.DataFrame:
    """Return one row: how well AdaBoost foresees the control jobs of a case, by kind of split."""
    control = collect(CASES[case], plan.seed, plan.days)
    dataset = control.datasets[SCOPE]
    row: dict[str, object] = {"episodes": case, "control_jobs": len(dataset)}
    left_out = [_scored(dataset, fold, plan.seed) for fold in leave_one_application_out(dataset.runs) if fold.teaches]
    last, *_ = chronological(dataset.runs)
    labels = dataset.labels()
    varies = labels.classes == 1
    row |= {
        "base_rate": float(varies[labels.known].mean()),
        "f1_application_left_out": float(np.nanmean([f1 for f1, _ in left_out])),
        "pr_auc_application_left_out": float(np.nanmean([area for _, area in left_out])),
        "f1_last_30": _scored(dataset, last, plan.seed)[0],
        "varying_on_ten_days": on_ten_days(dataset, varies),
    }
    return pd.DataFrame([row])


def on_ten_days(dataset: Dataset, varies: Bools) -> float:
    """Return the share of the varying runs that started on the ten days with most of them; NaN without any."""
    days = (dataset.runs.start[varies] // _DAY).astype(np.int64)
    counts = np.sort(np.unique(days, return_counts=True)[1])[::-1]
    return float(counts[:_TEN].sum() / counts.sum()) if counts.size else float("nan")


def _scored(dataset: Dataset, fold: Fold, seed: int) -> tuple[float, float]:
    predicted, probability, _ = answer(seeded(MODEL, seed), (dataset.rows, FEATURES), fold)
    found = scores(fold.classes[fold.test] == 1, predicted, probability)
    return found.f1, found.pr_auc
