"""What V. Reis left open about predictors: forests that learn online, and run times told as distributions.

The paper: V. Reis, "Learning job run-times in HPC systems", Master's report, MoSIG, Grenoble, section 6. Full splits on
categories are in `experiments.category_splits`, what errors do to a scheduler in `experiments.runtime_scheduling`.
"""

from typing import Final

import numpy as np
import pandas as pd

from predictors.base import Predictor
from predictors.data.joblog import JobLog
from predictors.evaluate import evaluate
from predictors.metrics import coverage, pinball_loss
from predictors.registry import make_predictor

STREAM: Final = 5_000
"""Newest jobs that the online forests see: ten trees take river some 10 ms a job, quiet."""
QUICK_STREAM: Final = 600
DAY: Final = 86_400

LEVELS: Final = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
"""Quantiles of a run time that are told."""
TOLD: Final = ("requested", "last-two", "similar", "boosted")
"""Whose answers are moved, or asked for as quantiles, to tell a distribution."""


def online_forests(log: JobLog, seed: int = 0, *, quick: bool = False) -> pd.DataFrame:
    """Return the errors of forests that learn job by job beside one that is grown again, on the newest jobs of a log.

    Prequential: every job is predicted at its submission and learnt from at its end. Costs a job with everything in it.
    """
    ran = log.select(log.filled("run_time") > 0)
    newest = ran.select(slice(-(QUICK_STREAM if quick else STREAM), None))
    asked: dict[str, Predictor] = {
        "forest, grown again every 30 days": make_predictor("forest", random_state=seed),
        "forest, grown again every day": make_predictor("forest", random_state=seed, refit_every=DAY),
        "online forest (adaptive, 10 trees)": make_predictor("online-tree", trees=10, random_state=seed),
        "online tree (Hoeffding, adaptive)": make_predictor("online-tree", random_state=seed),
        "online-linear": make_predictor("online-linear"),
        "similar-mean": make_predictor("similar-mean"),
    }
    found = evaluate(newest, asked, train=None, seed=seed)
    return pd.DataFrame(
        [
            {
                "predictor": score.name,
                "jobs": found.n_test,
                "ratio_to_last_two": score.figures.sse_ratio_to_last_two,
                "ratio_low": score.interval[0],
                "ratio_high": score.interval[1],
                "mae_s": score.figures.mae_s,
                "us_per_job": score.predict_us_per_job + score.fit_seconds / found.n_test * 1e6,
            }
            for score in found.scores
        ]
    )


def distributions(log: JobLog, seed: int = 0) -> pd.DataFrame:
    """Return how well run times are told as distributions on the last 20 % of a log, a row a predictor.

    Each quantile is the prediction within the budget that belongs to it (`predictors.with_budget`): that share of the
    jobs may run longer. Columns: `crps_s`, twice the mean pinball loss over `LEVELS`, an estimate of the continuous
    ranked probability score [1]_; `relative_crps`, to last-two told as a distribution; the pinball losses [s]; and
    `covered_90`, how many lie within the outermost quantiles, where 90 % should.

    References
    ----------
    .. [1] T. Gneiting, A. Raftery. Strictly proper scoring rules, prediction, and estimation. Journal of the American
       Statistical Association 102(477), 2007. doi:10.1198/016214506000001437
    """
    told: dict[str, dict[float, np.ndarray]] = {name: {} for name in TOLD}
    for level in LEVELS:
        found = evaluate(log, TOLD, seed=seed, budget=round(1 - level, 6))
        run_time = found.run_time
        for name in TOLD:
            told[name][level] = found[f"{name} within {1 - level:g}"].predicted
    rows = []
    for name, quantiles in told.items():
        losses = {level: pinball_loss(run_time, said, level) for level, said in quantiles.items()}
        low, high = quantiles[LEVELS[0]], quantiles[LEVELS[-1]]
        rows.append(
            {
                "predictor": name,
                "crps_s": 2 * float(np.mean(list(losses.values()))),
                **{f"pinball_{level:g}_s": loss for level, loss in losses.items()},
                "covered_90": coverage(run_time, low, np.maximum(low, high)),
            }
        )
    table = pd.DataFrame(rows)
    base = float(table.loc[table["predictor"] == "last-two", "crps_s"].iloc[0])
    table.insert(2, "relative_crps", table["crps_s"] / base)
    return table
