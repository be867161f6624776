"""What an F1 of 0.95 means: how well control jobs are foreseen with and without episodes of days.

The paper's Figure 1 has a spike in December in all applications. Where runs are slow for days, a model that knows the
days foresees them, though nothing can be gained by delaying a job for minutes. Each case is the same campaign on the
same machine, with other slow changes: none; shared episodes, which load all uplinks and the file system; episodes and
drift of single applications, which no counter shows. A campaign is one draw: each case has several, and the seeds are
the same in all cases, so that cases are compared campaign by campaign.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import pandas as pd

from experiments.papers.rush.control import MODEL, collect
from experiments.papers.rush.measures import sign_flip_p
from experiments.papers.rush.trials import TAU, Environment
from predictors.core.arrays import Bools, Floats
from predictors.core.intervals import drawn_means, expanded
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
CAMPAIGNS: Final = 6
QUICK_CAMPAIGNS: Final = 2
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


WITHOUT: Final = "none"  # the case that the others are set against
MEASURED: Final = (
    "base_rate", "f1_application_left_out", "pr_auc_application_left_out", "f1_last_30", "varying_on_ten_days",
)  # fmt: skip
COMPARED: Final = ("f1_application_left_out", "f1_last_30")
"""Figures reported as the difference from the case without episodes."""


def foreseen_with(days: int, task: tuple[str, int]) -> pd.DataFrame:
    """Return one row: how well AdaBoost foresees the control jobs of a case and a seed, by kind of split."""
    case, seed = task
    control = collect(CASES[case], seed, days)
    dataset = control.datasets[SCOPE]
    row: dict[str, object] = {"episodes": case, "seed": seed, "control_jobs": len(dataset)}
    left_out = [_scored(dataset, fold, seed) for fold in leave_one_application_out(dataset.runs) if fold.teaches]
    last, *_ = chronological(dataset.runs)
    labels = dataset.labels()
    varies = labels.classes == 1
    row |= {
        "base_rate": float(varies[labels.known].mean()),
        "f1_application_left_out": float(np.nanmean([f1 for f1, _ in left_out])),
        "pr_auc_application_left_out": float(np.nanmean([area for _, area in left_out])),
        "f1_last_30": _scored(dataset, last, seed)[0],
        "varying_on_ten_days": on_ten_days(dataset, varies),
    }
    return pd.DataFrame([row])


def over_campaigns(found: pd.DataFrame) -> pd.DataFrame:
    """Return one row a case: means over its campaigns with 95 % intervals, widened because campaigns are few.

    A figure that a campaign does not have (no slow run in its last 30 %) is left out of the mean.

    Examples
    --------
    >>> one = {"episodes": "none", **dict.fromkeys(MEASURED, 0.5)}
    >>> found = pd.DataFrame([one | {"seed": seed, "base_rate": 0.04 + 0.01 * seed} for seed in range(5)])
    >>> over_campaigns(found)[["campaigns", "base_rate", "f1_last_30"]].to_dict("records")
    [{'campaigns': 5, 'base_rate': '0.06 (0.04…0.08)', 'f1_last_30': '0.50 (0.50…0.50)'}]
    """
    rows = []
    for case, own in found.groupby("episodes", sort=False):
        told = {name: with_interval_of(own[name].to_numpy(np.float64)) for name in MEASURED}
        rows.append({"episodes": case, "campaigns": len(own), **told})
    return pd.DataFrame(rows)


def beside_none(found: pd.DataFrame) -> pd.DataFrame:
    """Return how much higher F1 is in each case than without episodes, paired by seed, with the exact p of sign flips.

    A pair with a figure missing is left out.
    """
    base, rows = found[found["episodes"] == WITHOUT].set_index("seed"), []
    for case, own in found[found["episodes"] != WITHOUT].groupby("episodes", sort=False):
        for name in COMPARED:
            higher = (own.set_index("seed")[name] - base[name]).dropna().to_numpy(np.float64)
            rows.append({"episodes": case, "figure": name, "pairs": len(higher), "higher_by": with_interval_of(higher),
                         "p": round(sign_flip_p(higher), 3)})  # fmt: skip
    return pd.DataFrame(rows, columns=["episodes", "figure", "pairs", "higher_by", "p"])


def with_interval_of(values: Floats) -> str:
    """Return the mean of some figures between -1 and 1 with its interval, see `predictors.core.intervals.expanded`.

    Examples
    --------
    >>> with_interval_of(np.array([0.25])), with_interval_of(np.array([np.nan]))
    ('0.25', '-')
    """
    known = values[~np.isnan(values)]
    if len(known) < 2:
        return f"{known[0]:.2f}" if len(known) else "-"
    low, high = expanded(drawn_means(known), len(known))
    return f"{known.mean():.2f} ({low:.2f}…{high:.2f})"


def on_ten_days(dataset: Dataset, varies: Bools) -> float:
    """Return the share of the varying runs that started on the ten days with most of them; NaN without any."""
    days = (dataset.runs.start[varies] // _DAY).astype(np.int64)
    counts = np.sort(np.unique(days, return_counts=True)[1])[::-1]
    return float(counts[:_TEN].sum() / counts.sum()) if counts.size else float("nan")


def _scored(dataset: Dataset, fold: Fold, seed: int) -> tuple[float, float]:
    predicted, probability, _ = answer(seeded(MODEL, seed), (dataset.rows, FEATURES), fold)
    found = scores(fold.classes[fold.test] == 1, predicted, probability)
    return found.f1, found.pr_auc
