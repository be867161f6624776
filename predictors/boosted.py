"""Gradient-boosted trees on the history of similar jobs: XGBoost grows them, compiled code walks them."""

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from predictors.base import REQUESTED_TIME, UNKNOWN_REQUEST
from predictors.data.errors import JobcastError
from predictors.data.files import whole_file
from predictors.features import RICH_FEATURES
from predictors.growing import GROWTH, grown
from predictors.params import BETWEEN, one_of
from predictors.refit import RefittingPredictor
from predictors.tree_arrays import compile_booster
from predictors.trees import CompiledForest

Floats = npt.NDArray[np.float64]

MODEL: Final = "boosted.json"
SETTINGS: Final = "boosted.npz"


@dataclass(frozen=True, eq=False)
class BoostedEstimator:
    """Boosted trees; immutable.

    Parameters
    ----------
    model : bytes
        What XGBoost made, in its own JSON.
    forest : CompiledForest
        The same trees.
    start : float
        What is added to the trees' sum.
    base : int
        Column of the row that is added as well, capped at the request; -1 if none.
    request : int
        Column of the requested time.
    longest : float
        Longest run time learnt from [s]: longer requests say nothing, and do not cap the base.
    factor : float
        What exp(sum) is multiplied with to be unbiased; 0: the sum is in seconds.
    """

    model: bytes
    forest: CompiledForest
    start: float
    base: int
    request: int
    longest: float
    factor: float

    def predict(self, rows: Floats) -> Floats:
        """Return seconds, shape (n_rows,); NaN for rows of which nothing is known."""
        return self._seconds(self.forest.predict(rows), rows)

    def predict_one(self, row: Floats) -> float:
        """Return seconds for one row."""
        mean = self.forest.predict_one(row.astype(np.float32))
        return float(self._seconds(np.array([mean]), row[None])[0])

    def _seconds(self, means: Floats, rows: Floats) -> Floats:
        total = means * len(self.forest.roots) + self.start
        if self.factor > 0:
            return np.exp(np.minimum(total, 30.0)) * self.factor
        return total if self.base < 0 else total + base_of(rows, self.base, self.request, self.longest)


def base_of(rows: Floats, base: int, request: int, longest: float) -> Floats:
    """Return what residuals are learnt over [s]: a column, else the request, none above the request or `longest`.

    Examples
    --------
    >>> base_of(np.array([[600.0, 70.0], [600.0, np.nan], [1e9, np.nan], [np.nan, 70.0]]), 1, 0, 5000.0).tolist()
    [70.0, 600.0, 5000.0, 70.0]
    """
    asked = rows[:, request]
    limit = np.minimum(np.where(asked > 0, asked, UNKNOWN_REQUEST), longest)
    found = rows[:, base]
    return np.where(np.isnan(found), limit, np.where(asked > 0, np.minimum(found, limit), found))


_OBJECTIVES: Final = {
    "squared": "reg:squarederror",
    "absolute": "reg:absoluteerror",
    "quantile": "reg:quantileerror",
}
_TARGETS: Final = ("seconds", "residual", "log")


class Boosted(RefittingPredictor):
    """Gradient-boosted trees on `RICH_FEATURES`.

    Parameters
    ----------
    objective : {"squared", "absolute", "quantile"}
        What is made small: the mean, the median, or the given quantile is predicted.
    quantile : float
        Of the objective `quantile`: the share of jobs that run no longer than predicted.
    target : {"seconds", "residual", "log"}
        What is learnt: run times; what they lie above the weighted mean of similar jobs; their logarithms.
    smear : bool
        Whether predictions from logarithms are scaled so that they sum up to the run times learnt from [2]_; unscaled
        they are too low on the mean.
    n_estimators, learning_rate, max_depth, min_child_weight, subsample, colsample
        As XGBoost's: trees, the share of each that counts, levels, least jobs in a leaf, shares of jobs and of features
        that a tree sees.
    random_state : int
        Seed: equal seeds, equal trees.
    window : int
        Newest outcomes that a fit on a stream learns from. Fewer cost accuracy where a log is long: the newest 60,000,
        120,000 and 200,000 of CEA-Curie's jobs leave .681, .645 and .636 of last-two's squared error to boosted trees.
    refit_every, cap, as_of
        As in `RefittingPredictor`.

    References
    ----------
    .. [1] T. Chen, C. Guestrin. XGBoost: a scalable tree boosting system. KDD 2016. doi:10.1145/2939672.2939785
    .. [2] N. Duan. Smearing estimate: a nonparametric retransformation method. Journal of the American Statistical
       Association 78(383), 1983. doi:10.1080/01621459.1983.10478017

    Examples
    --------
    >>> from predictors.data.synthetic import generate_log
    >>> log = generate_log(300, seed=1)
    >>> boosted = Boosted(n_estimators=5).fit(log)
    >>> bool((boosted.predict(log) <= log.filled("requested_time")).all())
    True
    """

    name = "boosted"
    features = RICH_FEATURES
    rules = MappingProxyType(
        {"objective": one_of(*_OBJECTIVES), "target": one_of(*_TARGETS), "quantile": BETWEEN, **GROWTH}
    )

    def __init__(
        self,
        *,
        objective: Literal["squared", "absolute", "quantile"] = "squared",
        quantile: float = 0.5,
        target: Literal["seconds", "residual", "log"] = "seconds",
        smear: bool = True,
        n_estimators: int = 300,
        learning_rate: float = 0.04,
        max_depth: int = 8,
        min_child_weight: float = 10.0,
        subsample: float = 0.7,
        colsample: float = 0.4,
        random_state: int = 0,
        refit_every: int | None = 30 * 86400,
        window: int = 200_000,
        cap: bool = True,
        as_of: str = "strict",
    ) -> None:
        super().__init__(refit_every=refit_every, window=window, cap=cap, as_of=as_of)
        self.objective = objective
        self.quantile = quantile
        self.target = target
        self.smear = smear
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.min_child_weight = min_child_weight
        self.subsample = subsample
        self.colsample = colsample
        self.random_state = random_state

    def learn(self, rows: Floats, seconds: Floats) -> BoostedEstimator:
        """Grow trees on ended jobs: rows (n_jobs, n_features) and run times (n_jobs,) [s]."""
        return boost(self, self.features, rows, seconds)

    def save_estimator(self, folder: Path) -> None:
        """Write the window and the trees, in XGBoost's own format."""
        super().save_estimator(folder)
        if not isinstance(self.estimator_, BoostedEstimator):
            raise JobcastError(f"This {self.name} has not been fitted: call fit(log) first.")
        save_boosted(self.estimator_, folder)

    def load_estimator(self, folder: Path) -> None:
        """Take back the window and the trees, after checking that they do not point outside themselves."""
        super().load_estimator(folder)
        self.estimator_ = load_boosted(folder, self.features)


def boost(how: Boosted, features: tuple[str, ...], rows: Floats, seconds: Floats) -> BoostedEstimator:
    """Return boosted trees learnt from ended jobs by the parameters of `how`."""
    request, longest = features.index(REQUESTED_TIME), float(seconds.max())
    base = features.index("similar_weighted") if how.target == "residual" else -1
    target = seconds
    if base >= 0:
        target = seconds - base_of(rows, base, request, longest)
    elif how.target == "log":
        target = np.log(np.maximum(seconds, 1.0))
    objective: dict[str, object] = {"objective": _OBJECTIVES[how.objective]}
    if how.objective == "quantile":
        objective["quantile_alpha"] = how.quantile
    least = min(how.min_child_weight, max(1.0, len(rows) / 100))
    model = grown(how, rows, objective, least, label=target)
    forest, start = compile_booster(model)
    found = BoostedEstimator(model, forest, start, base, request, longest, 1.0 if how.target == "log" else 0.0)
    if how.target != "log" or not how.smear:
        return found
    factor = float(seconds.sum() / found.predict(rows).sum())
    return BoostedEstimator(model, forest, start, base, request, longest, factor if factor > 0 else 1.0)


def save_boosted(estimator: BoostedEstimator, folder: Path) -> None:
    """Write boosted trees into a folder."""
    from predictors.saving import write_arrays

    with whole_file(folder / MODEL) as part:
        part.write_bytes(estimator.model)
    about = [estimator.base, estimator.request, estimator.longest, estimator.factor]
    write_arrays(folder / SETTINGS, {"settings": np.array(about, dtype=np.float64)})


def load_boosted(folder: Path, features: tuple[str, ...]) -> BoostedEstimator:
    """Return what `save_boosted` wrote, for rows of these features."""
    from predictors.saving import read_arrays, telling_damage

    with telling_damage(folder / MODEL):
        model = (folder / MODEL).read_bytes()
        base, request, longest, factor = read_arrays(folder / SETTINGS)["settings"].tolist()
    forest, start = compile_booster(model)
    columns = (int(base), int(request))
    if forest.n_features != len(features) or not all(-1 <= column < len(features) for column in columns):
        raise JobcastError(f"{folder / MODEL}: learnt from other features; train the model again.")
    return BoostedEstimator(model, forest, start, *columns, longest, factor)
