"""Open questions of V. Reis's report: online forests, distributions, splits by category, calibration by budget.

The paper: V. Reis, "Learning job run-times in HPC systems", Master's report, MoSIG, Grenoble, section 6. Full splits on
categories are in `experiments.studies.reis_open_questions`, what errors do to a scheduler in
`experiments.studies.runtime_scheduling`.

V. Reis encodes users, groups, weekdays and exit statuses in one-hot columns, since his package splits on numbers only,
and asks for "systematic full splitting on categorical attributes". The learner is the same in all four: XGBoost's
random forest (one round of many parallel trees) on his sixteen features.
"""

from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator, RegressorMixin

from experiments.reports.figures import COLOURS, MARKERS, Axes, bar_lengths, legend_beside
from predictors.core.arrays import Floats
from predictors.core.errors import JobcastError, percent
from predictors.data.joblog import JobLog
from predictors.evaluation.evaluate import evaluate
from predictors.evaluation.metrics import coverage, pinball_loss
from predictors.evaluation.results import months_of
from predictors.history.features import CATEGORIES, REIS_FEATURES
from predictors.history.replay import replay
from predictors.models.adapters import from_sklearn
from predictors.models.base import Predictor
from predictors.models.conformal import WithBudget, reachable
from predictors.registry import make_predictor

STREAM: Final = 5_000  # newest jobs that the online forests see: ten trees take river some 10 ms a job, quiet
QUICK_STREAM: Final = 600
DAY: Final = 86_400

LEVELS: Final = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)  # quantiles of a run time that are reported
SCORED: Final = ("requested", "last-two", "similar", "boosted")
"""Predictors with answers that are moved, or asked for as quantiles, to give a distribution."""


def online_forests(log: JobLog, seed: int = 0, *, quick: bool = False) -> pd.DataFrame:
    """Return the errors of forests that learn job by job and of one that is grown again, on the newest jobs of a log.

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
                "predictor": score.name, "jobs": found.n_test, "ratio_to_last_two": score.figures.sse_ratio_to_last_two,
                "ratio_low": score.interval[0], "ratio_high": score.interval[1], "mae_s": score.figures.mae_s,
                "us_per_job": score.predict_us_per_job + score.fit_seconds / found.n_test * 1e6,
            }
            for score in found.scores
        ]
    )  # fmt: skip


def distributions(log: JobLog, seed: int = 0) -> pd.DataFrame:
    """Return scores of predicted distributions of run times on the last 20 % of a log, a row a predictor.

    Each quantile is the prediction within the budget that belongs to it (`predictors.models.conformal`): that share of
    the jobs may run longer. Columns: `crps_s`, twice the mean pinball loss over `LEVELS`, an estimate of the continuous
    ranked probability score [1]_; `relative_crps`, to the distribution by last-two; the pinball losses [s]; and
    `covered_90`, how many lie within the outermost quantiles, where 90 % should.

    .. [1] T. Gneiting, A. Raftery. Strictly proper scoring rules, prediction, and estimation. Journal of the American
       Statistical Association 102(477), 2007. doi:10.1198/016214506000001437
    """
    predicted: dict[str, dict[float, np.ndarray]] = {name: {} for name in SCORED}
    for level in LEVELS:
        found = evaluate(log, SCORED, seed=seed, budget=round(1 - level, 6))
        run_time = found.run_time
        for name in SCORED:
            predicted[name][level] = found[f"{name} within {1 - level:g}"].predicted
    rows = []
    for name, quantiles in predicted.items():
        losses = {level: pinball_loss(run_time, values, level) for level, values in quantiles.items()}
        low, high = quantiles[LEVELS[0]], quantiles[LEVELS[-1]]
        rows.append({
            "predictor": name, "crps_s": 2 * float(np.mean(list(losses.values()))),
            **{f"pinball_{level:g}_s": loss for level, loss in losses.items()},
            "covered_90": coverage(run_time, low, np.maximum(low, high)),
        })  # fmt: skip
    table = pd.DataFrame(rows)
    base = float(table.loc[table["predictor"] == "last-two", "crps_s"].iloc[0])
    table.insert(2, "relative_crps", table["crps_s"] / base)
    return table


SPLITS: Final = {  # how a tree may split on a category
    "none": "no category at all", "codes": "codes read as numbers",
    "one-hot": "one category against the others, as in the paper", "grouped": "the best two groups of categories",
    "full": "a forest for each user with enough jobs, else one for all",
}  # fmt: skip
ENOUGH: Final = 100  # jobs of a user from which on there is a forest of their own
TREES: Final = 50
QUICK_TREES: Final = 10


class CategoryForest(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """XGBoost's random forest, a scikit-learn regressor, that splits on categories in one of the ways of `SPLITS`."""

    def __init__(self, splits: str = "one-hot", trees: int = TREES, seed: int = 0) -> None:
        self.splits = splits
        self.trees = trees
        self.seed = seed

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, table: pd.DataFrame, seconds: npt.ArrayLike) -> Self:
        """Grow the forest on a table that has the features as columns, and run times [s]."""
        rows, ran = table.to_numpy(dtype=np.float64), np.asarray(seconds, dtype=np.float64)
        self.names_ = tuple(table.columns)
        self.codes_ = {
            place: np.unique(rows[~np.isnan(rows[:, place]), place])
            for place, name in enumerate(self.names_)
            if name in CATEGORIES
        }
        self.forest_ = self._grown(rows, ran)
        self.of_user_ = {}
        if self.splits == "full":
            user = rows[:, self.names_.index("user")]
            names, counts = np.unique(user[~np.isnan(user)], return_counts=True)
            self.of_user_ = {u: self._grown(rows[user == u], ran[user == u]) for u in names[counts >= ENOUGH].tolist()}
        return self

    def predict(self, table: pd.DataFrame) -> Floats:
        """Return seconds, shape (n_rows,)."""
        rows = table.to_numpy(dtype=np.float64)
        found: Floats = self.forest_.predict(self._matrix(rows)).astype(np.float64)
        user = rows[:, self.names_.index("user")]
        for name, forest in self.of_user_.items():
            own = user == name
            if own.any():
                found[own] = forest.predict(self._matrix(rows[own]))
        return found

    def _grown(self, rows: Floats, seconds: Floats) -> Any:
        import xgboost

        settings = {
            "num_parallel_tree": self.trees, "learning_rate": 1.0, "max_depth": 12, "min_child_weight": 2,
            "reg_lambda": 0.0, "subsample": 0.63, "colsample_bynode": 0.6,
            "max_cat_to_onehot": 100_000 if self.splits == "one-hot" else 1, "tree_method": "hist", "seed": self.seed,
            "nthread": 1,
        }  # fmt: skip
        return xgboost.train(settings, self._matrix(rows, seconds), num_boost_round=1)

    def _matrix(self, rows: Floats, seconds: Floats | None = None) -> Any:
        import xgboost

        native = self.splits in ("one-hot", "grouped")
        dropped = list(self.codes_) if self.splits == "none" else []
        kept = [place for place in range(rows.shape[1]) if place not in dropped]
        values = rows.copy()
        for place, codes in self.codes_.items() if native else ():
            values[:, place] = _places(rows[:, place], codes)
        kinds = ["c" if native and place in self.codes_ else "q" for place in kept]
        return xgboost.DMatrix(values[:, kept], seconds, feature_types=kinds, enable_categorical=True, nthread=1)


def _places(column: Floats, codes: Floats) -> Floats:
    """Return each value's place among the sorted codes; NaN for one that is not among them.

    >>> _places(np.array([7.0, 5.0, 6.0, np.nan]), np.array([5.0, 7.0])).tolist()
    [1.0, 0.0, nan, nan]
    """
    if not len(codes):
        return np.full(len(column), np.nan)
    place = np.minimum(np.searchsorted(codes, column), len(codes) - 1)
    return np.where(codes[place] == column, place, np.nan)


def category_splits(log: JobLog, seed: int = 0, *, quick: bool = False) -> pd.DataFrame:
    """Return the errors on the last 20 % of a log, protocol strict, a row a way to split."""
    trees = QUICK_TREES if quick else TREES
    asked = {splits: from_sklearn(CategoryForest(splits, trees, seed), REIS_FEATURES) for splits in SPLITS}
    found = evaluate(log, asked, seed=seed)
    return pd.DataFrame(
        [
            {
                "splits": splits, "meaning": meaning, "ratio_to_last_two": found[splits].figures.sse_ratio_to_last_two,
                "ratio_low": found[splits].interval[0], "ratio_high": found[splits].interval[1],
                "mae_s": found[splits].figures.mae_s, "fit_s": found[splits].fit_seconds,
            }
            for splits, meaning in SPLITS.items()
        ]
    )  # fmt: skip


BUDGETS: Final = (0.05, 0.1, 0.25, 0.5)
LEARNT: Final = 0.2  # share of the jobs, the earliest, that the predictor starts from; it is scored on the others
QUICK_JOBS: Final = 20_000  # newest jobs that a quick look takes
LEAST_JOBS: Final = 500  # jobs below which a month is not judged
BLOCK: Final = 50  # neighbouring jobs that are drawn together: a user's jobs come in bursts and fail together
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
        careful = WithBudget(predictor=make_predictor(predictor), budget=budget)
        known = replay(jobs, careful.features)
        careful.fit_rows(known[learnt], ran[learnt])
        predicted = careful.predict_as_they_end(known[cut:], jobs.filled("submit")[cut:], ran[cut:], end[cut:])[0]
        short = reachable(ran, asked.astype(np.float64))[cut:] > predicted
        periods = {OVERALL: np.ones(len(short), np.bool_), **{str(m): months == m for m in np.unique(months)}}
        for period, there in periods.items():
            if there.sum() >= (1 if period == OVERALL else LEAST_JOBS):
                low, high = block_band(short[there], random)
                alone = short[there & ended].mean() if (there & ended).any() else np.nan
                figures = (int(there.sum()), short[there].mean(), low, high, low <= budget <= high, alone)
                rows.append((predictor, budget, period, *figures))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def block_band(happened: npt.NDArray[np.bool_], random: np.random.Generator) -> tuple[float, float]:
    """Return the 95 % band of a rate by resampling blocks of neighbours, drawn with replacement.

    .. [1] H. Künsch. The jackknife and the bootstrap for general stationary observations. Annals of Statistics 17(3),
       1989. doi:10.1214/aos/1176347265

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
    """Return what a table of `calibration`, of one predictor, shows, in one sentence."""
    months = table[table["period"] != OVERALL]
    whole = table[table["period"] == OVERALL]
    name = table["predictor"].iloc[0]
    rates = ", ".join(f"{row.observed:.3f} of {row.budget:g}" for row in whole.itertuples())
    judged = f"; in {percent(months['inside'].mean())} of {len(months)} months × budgets it lies in the band"
    return f"Jobs that outran their estimate, {name} within a budget: {rates}{judged if len(months) else ''}."


def paint_calibration(axes: Axes, table: pd.DataFrame) -> None:
    """Observed share month by month, a band and a line a budget."""
    months = sorted(set(table["period"]) - {OVERALL}) or [OVERALL]
    name = table["predictor"].iloc[0]
    for number, (budget, part) in enumerate(table.groupby("budget")):
        colour, nominal = COLOURS[number % len(COLOURS)], float(str(budget))
        there = part.set_index("period").reindex(months)
        spread = bar_lengths(there, "observed")
        axes.axhline(nominal, color=colour, linestyle="--", linewidth=1)
        axes.errorbar(
            range(len(months)), there["observed"], yerr=spread, color=colour, label=f"budget {nominal:g}",
            marker=MARKERS[number % len(MARKERS)], markersize=5, capsize=2, linewidth=1,
        )  # fmt: skip
    step = max(1, len(months) // 8)
    axes.set_xticks(range(0, len(months), step), months[::step], rotation=30)
    axes.set(title=f"Jobs that outran {name} within a budget (dashed: the budget)", xlabel="month of submission")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("share of the jobs, 95 % by blocks")
    legend_beside(axes, fontsize=8)


def paint_reliability(axes: Axes, table: pd.DataFrame) -> None:
    """Observed share over the whole log against the budget, a line a predictor."""
    whole = table[table["period"] == OVERALL]
    top = 1.1 * float(max(whole["budget"].max(), whole["high"].max()))
    axes.plot([0, top], [0, top], color="#999999", linewidth=1, linestyle="--", label="as often as asked")
    for number, (name, part) in enumerate(whole.groupby("predictor", sort=False)):
        spread = bar_lengths(part, "observed")
        axes.errorbar(
            part["budget"], part["observed"], yerr=spread, color=COLOURS[number], marker=MARKERS[number], markersize=5,
            capsize=2, linewidth=1, label=str(name),
        )  # fmt: skip
    axes.set(title="Are budgets kept over the whole log?", xlabel="budget: share of jobs that may outrun the estimate")
    axes.set_ylabel("share that did, 95 % by blocks")
    axes.legend(loc="upper left")
