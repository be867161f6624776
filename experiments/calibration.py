"""Do jobs outrun their estimates just as often as the budget says? By budget, over a whole log and month by month."""

from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes

from experiments.figures import COLOURS, MARKERS
from predictors.calibration import reachable
from predictors.data.errors import JobcastError
from predictors.data.joblog import JobLog
from predictors.replay import replay
from predictors.slices import months_of
from predictors.with_budget import WithBudget

BUDGETS: Final = (0.05, 0.1, 0.25, 0.5)
LEARNT: Final = 0.2
"""Share of the jobs, the earliest, that the predictor starts from; the others are scored as they come."""
QUICK_JOBS: Final = 20_000
"""Newest jobs that a quick look takes."""
LEAST_JOBS: Final = 500
"""Jobs below which a month is not judged."""
BLOCK: Final = 50
"""Neighbouring jobs that are drawn together: a user's jobs come in bursts and fail together."""
RESAMPLES: Final = 1000
OVERALL: Final = "overall"
COLUMNS: Final = ("predictor", "budget", "period", "jobs", "observed", "low", "high", "inside", "without_killed")


def calibration(log: JobLog, predictor: str = "similar", *, quick: bool = False, seed: int = 0) -> pd.DataFrame:
    """Return how often jobs outran a predictor within each budget; a row a budget and period.

    A job that was stopped at its request, or ran past it, counts as run for just as long as it asked for: no estimate
    could have been longer, and that is what `with-budget` keeps to.

    Columns: predictor, budget, period (`overall`, or a month with at least 500 jobs), jobs, observed (share of them
    that ran longer than estimated), low and high (95 % by resampling blocks of 50 neighbours), whether the budget is
    inside, and without_killed: the same share of the jobs that ran within their request.

    Raises
    ------
    JobcastError
        If fewer than 2 jobs are left to learn from, or none to be counted.
    """
    jobs = log.select(log.known("run_time") & (log.filled("run_time") > 0))
    jobs = jobs.select(slice(-QUICK_JOBS, None)) if quick and len(jobs) > QUICK_JOBS else jobs
    cut, end = int(LEARNT * len(jobs)), jobs.filled("submit") + jobs.filled("wait", 0) + jobs.filled("run_time")
    ran, asked = jobs.filled("run_time").astype(np.float64), jobs.filled("requested_time")
    learnt = (np.arange(len(jobs)) < cut) & (end < jobs.filled("submit")[cut]) if len(jobs) else np.empty(0, np.bool_)
    ended = ((ran <= asked) | (asked <= 0))[cut:]
    if learnt.sum() < 2 or cut == len(jobs):
        raise JobcastError(f"{log.name}: too few jobs to calibrate on.")
    months, random, rows = months_of(jobs)[cut:], np.random.default_rng(seed), []
    for budget in BUDGETS:
        careful = WithBudget(predictor=predictor, budget=budget)
        known = replay(jobs, careful.features)
        careful.fit_rows(known[learnt], ran[learnt])
        said = careful.predict_as_they_end(known[cut:], jobs.filled("submit")[cut:], ran[cut:], end[cut:])[0]
        short = reachable(ran, asked.astype(np.float64))[cut:] > said
        periods = {OVERALL: np.ones(len(short), np.bool_), **{str(m): months == m for m in np.unique(months)}}
        for period, there in periods.items():
            if there.sum() >= (1 if period == OVERALL else LEAST_JOBS):
                low, high = block_band(short[there], random)
                alone = short[there & ended].mean() if (there & ended).any() else np.nan
                told = (int(there.sum()), short[there].mean(), low, high, low <= budget <= high, alone)
                rows.append((predictor, budget, period, *told))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def block_band(happened: npt.NDArray[np.bool_], random: np.random.Generator) -> tuple[float, float]:
    """Return the 95 % band of a rate by resampling blocks of neighbours, drawn with replacement.

    References
    ----------
    .. [1] H. Künsch. The jackknife and the bootstrap for general stationary observations. Annals of Statistics 17(3),
       1989. doi:10.1214/aos/1176347265

    Examples
    --------
    >>> block_band(np.zeros(200, dtype=bool), np.random.default_rng(0))
    (0.0, 0.0)
    >>> low, high = block_band(np.arange(1000) % 10 == 0, np.random.default_rng(0))
    >>> bool(low == high == 0.1)  # all blocks are alike
    True
    """
    begins = np.arange(0, len(happened), BLOCK)
    sums = np.add.reduceat(happened.astype(np.int64), begins)
    sizes = np.diff(np.append(begins, len(happened)))
    drawn = random.integers(0, len(begins), (RESAMPLES, len(begins)))
    low, high = np.quantile(sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1), [0.025, 0.975])
    return float(low), float(high)


def in_words(table: pd.DataFrame) -> str:
    """Return what a table of `calibration`, of one predictor, says in one sentence."""
    months = table[table["period"] != OVERALL]
    whole = table[table["period"] == OVERALL]
    name = table["predictor"].iloc[0]
    rates = ", ".join(f"{row.observed:.3f} of {row.budget:g}" for row in whole.itertuples())
    judged = f"; in {months['inside'].mean():.0%} of {len(months)} months × budgets it lies in the band"
    return f"Jobs that outran their estimate, {name} within a budget: {rates}{judged if len(months) else ''}."


def paint_calibration(axes: Axes, table: pd.DataFrame) -> None:
    """Observed share month by month, a band and a line a budget."""
    months = sorted(set(table["period"]) - {OVERALL}) or [OVERALL]
    name = table["predictor"].iloc[0]
    for number, (budget, part) in enumerate(table.groupby("budget")):
        colour, nominal = COLOURS[number % len(COLOURS)], float(str(budget))
        there = part.set_index("period").reindex(months)
        spread = np.abs(there[["low", "high"]].to_numpy().T - there["observed"].to_numpy())
        axes.axhline(nominal, color=colour, linestyle="--", linewidth=1)
        axes.errorbar(
            range(len(months)),
            there["observed"],
            yerr=spread,
            color=colour,
            label=f"budget {nominal:g}",
            marker=MARKERS[number % len(MARKERS)],
            markersize=5,
            capsize=2,
            linewidth=1,
        )
    step = max(1, len(months) // 8)
    axes.set_xticks(range(0, len(months), step), months[::step], rotation=30)
    axes.set(title=f"Jobs that outran {name} within a budget (dashed: the budget)", xlabel="month of submission")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("share of the jobs, 95 % by blocks")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)


def paint_reliability(axes: Axes, table: pd.DataFrame) -> None:
    """Observed share over the whole log against the budget, a line a predictor."""
    whole = table[table["period"] == OVERALL]
    top = 1.1 * float(max(whole["budget"].max(), whole["high"].max()))
    axes.plot([0, top], [0, top], color="#999999", linewidth=1, linestyle="--", label="as often as asked")
    for number, (name, part) in enumerate(whole.groupby("predictor", sort=False)):
        spread = np.abs(part[["low", "high"]].to_numpy().T - part["observed"].to_numpy())
        axes.errorbar(
            part["budget"], part["observed"], yerr=spread, color=COLOURS[number], marker=MARKERS[number], markersize=5,
            capsize=2, linewidth=1, label=str(name),
        )  # fmt: skip
    axes.set(title="Are budgets kept over the whole log?", xlabel="budget: share of jobs that may outrun the estimate")
    axes.set_ylabel("share that did, 95 % by blocks")
    axes.legend(loc="upper left")
