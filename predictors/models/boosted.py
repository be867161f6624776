"""XGBoost on the rich features, and the average of several members."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, Self

import numpy as np

from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError
from predictors.core.files import whole_file
from predictors.core.model_files import damage_as_error, read_arrays, write_arrays
from predictors.core.params import Count, NotNegative, OpenShare, Parameters, Seed, Share
from predictors.core.prediction_bounds import UNKNOWN_REQUEST
from predictors.history.features import KERNEL_MEANS, REQUESTED_TIME, RICH_FEATURES, WIDE_FEATURES
from predictors.models.base import Estimator
from predictors.models.refit import RefittingPredictor
from predictors.models.trees import CompiledForest, compile_booster, forest_arrays, forest_from_arrays, node_budget


@dataclass(kw_only=True, eq=False, repr=False)
class TreeGrowth(Parameters):
    """Parameters of the growth of trees, in XGBoost's terms."""

    n_estimators: Count = 300  # trees
    learning_rate: Share = 0.04  # share of each tree that counts
    max_depth: Count = 8  # levels of a tree
    min_child_weight: NotNegative = 10.0  # least weight in a leaf
    # subsample, colsample: shares of the rows and of the features that a tree sees; the second is XGBoost's
    # `colsample_bytree`
    subsample: Share = 0.7
    colsample: Share = 0.4
    random_state: Seed = 0  # seed: equal seeds, equal trees


def grow_trees(
    how: TreeGrowth,  # how they grow
    rows: Floats,  # shape (n, n_features); what they learn from; missing is NaN
    objective: Mapping[str, Any],  # what is made small: XGBoost's `objective` and the settings that belong to it
    min_child_weight: float,  # least weight in a leaf, for so many rows
    # what is learnt, as `xgboost.QuantileDMatrix` takes it: `label`, or `label_lower_bound` and `label_upper_bound`
    **labels: Any,
) -> bytes:
    import xgboost

    settings = {
        **objective,
        "learning_rate": how.learning_rate,
        "max_depth": how.max_depth,
        "min_child_weight": min_child_weight,
        "subsample": how.subsample,
        "colsample_bytree": how.colsample,
        "seed": how.random_state,
        "tree_method": "hist",
        "nthread": 1,
        "verbosity": 0,
    }
    jobs = xgboost.QuantileDMatrix(rows.astype(np.float32), nthread=1, **labels)
    return bytes(xgboost.train(settings, jobs, num_boost_round=how.n_estimators).save_raw("json"))


MODEL: Final = "boosted.json"
SETTINGS: Final = "boosted.npz"


@dataclass(frozen=True, eq=False)
class BoostedEstimator:
    """Boosted trees; immutable."""

    model: bytes  # what XGBoost made, in its own JSON
    forest: CompiledForest  # the same trees
    start: float  # what is added to the trees' sum
    base: int  # column of the row that is added as well, capped at the request; -1 if none
    request: int  # column of the requested time
    longest: float  # longest run time learnt from [s]: longer requests say nothing, and do not cap the base
    factor: float  # what exp(sum) is multiplied with to be unbiased; 0: the sum is in seconds

    @classmethod
    def of(cls, model: bytes, base: int, request: int, longest: float, factor: float = 0.0) -> Self:
        """Return the estimator of what XGBoost made, after checking that its trees do not point outside themselves."""
        forest, start = compile_booster(model)
        return cls(model, forest, start, base, request, longest, factor)

    def predict(self, rows: Floats) -> Floats:
        """Return seconds, shape (n_rows,); NaN for rows of which nothing is known."""
        return self._seconds(self.forest.predict(rows), rows)

    def predict_one(self, row: Floats) -> float:
        mean = self.forest.predict_one(row.astype(np.float32))
        return float(self._seconds(np.array([mean]), row[None])[0])

    def _seconds(self, means: Floats, rows: Floats) -> Floats:
        total = means * len(self.forest.roots) + self.start
        if self.factor > 0:
            return np.exp(np.minimum(total, 30.0)) * self.factor
        return total if self.base < 0 else total + base_of(rows, self.base, self.request, self.longest)


def base_of(rows: Floats, base: int, request: int, longest: float) -> Floats:
    """Return what residuals are learnt over [s]: a column, else the request, none above the request or `longest`.

    >>> base_of(np.array([[600.0, 70.0], [600.0, np.nan], [1e9, np.nan], [np.nan, 70.0]]), 1, 0, 5000.0).tolist()
    [70.0, 600.0, 5000.0, 70.0]
    """
    asked = rows[:, request]
    limit = np.minimum(np.where(asked > 0, asked, UNKNOWN_REQUEST), longest)
    found = rows[:, base]
    return np.where(np.isnan(found), limit, np.where(asked > 0, np.minimum(found, limit), found))


_OBJECTIVES: Final = {"squared": "reg:squarederror", "absolute": "reg:absoluteerror", "quantile": "reg:quantileerror"}


@dataclass(kw_only=True, eq=False, repr=False)
class BoostingPredictor(TreeGrowth, RefittingPredictor):
    """Base of predictors with boosted trees as estimator: the parameters of their growth, and their files."""

    # fewer cost accuracy where a log is long: the newest 60,000, 120,000 and 200,000 of CEA-Curie's jobs leave .681,
    # .645 and .636 of last-two's squared error to boosted trees
    window: Count = 200_000

    def save_estimator(self, folder: Path) -> None:
        super().save_estimator(folder)
        assert isinstance(self.estimator_, BoostedEstimator)
        save_boosted(self.estimator_, folder)

    def load_estimator(self, folder: Path) -> None:
        super().load_estimator(folder)
        self.estimator_ = load_boosted(folder, self.features)


@dataclass(kw_only=True, eq=False, repr=False)
class Boosted(BoostingPredictor):
    """Gradient-boosted trees on `RICH_FEATURES`.

    .. [1] T. Chen, C. Guestrin. XGBoost: a scalable tree boosting system. KDD 2016. doi:10.1145/2939672.2939785
    .. [2] N. Duan. Smearing estimate: a nonparametric retransformation method. Journal of the American Statistical
       Association 78(383), 1983. doi:10.1080/01621459.1983.10478017

    >>> from predictors.data.synthetic.generate import generate_log
    >>> log = generate_log(300, seed=1)
    >>> boosted = Boosted(n_estimators=5).fit(log)
    >>> bool((boosted.predict(log) <= log.filled("requested_time")).all())
    True
    """

    name = "boosted"
    packages = ("xgboost",)
    features = RICH_FEATURES

    # what is made small: the mean, the median, or the given quantile is predicted
    objective: Literal["squared", "absolute", "quantile"] = "squared"
    quantile: OpenShare = 0.5  # of the objective `quantile`: the share of jobs that run no longer than predicted
    # what is learnt: run times; what they lie above the weighted mean of similar jobs; their logarithms
    target: Literal["seconds", "residual", "log"] = "seconds"
    # whether predictions from logarithms are scaled so that they sum up to the run times learnt from [2]_; unscaled
    # they are too low on the mean
    smear: bool = True

    def learn(self, rows: Floats, seconds: Floats) -> BoostedEstimator:
        return boost(self, self.features, rows, seconds)


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
    model = grow_trees(how, rows, objective, least, label=target)
    found = BoostedEstimator.of(model, base, request, longest, 1.0 if how.target == "log" else 0.0)
    if how.target != "log" or not how.smear:
        return found
    factor = float(seconds.sum() / found.predict(rows).sum())
    return replace(found, factor=factor) if factor > 0 else found


def save_boosted(estimator: BoostedEstimator, folder: Path) -> None:
    with whole_file(folder / MODEL) as part:
        part.write_bytes(estimator.model)
    about = [estimator.base, estimator.request, estimator.longest, estimator.factor]
    write_arrays(folder / SETTINGS, {"settings": np.array(about, dtype=np.float64)})


def load_boosted(folder: Path, features: tuple[str, ...]) -> BoostedEstimator:
    """Return what `save_boosted` wrote, for rows of these features."""
    with damage_as_error(folder / MODEL):
        model = (folder / MODEL).read_bytes()
        base, request, longest, factor = read_arrays(folder / SETTINGS)["settings"].tolist()
    found = BoostedEstimator.of(model, int(base), int(request), longest, factor)
    in_rows = all(-1 <= column < len(features) for column in (found.base, found.request))
    if found.forest.n_features != len(features) or not in_rows:
        raise JobcastError(f"{folder / MODEL}: learnt from other features; train the model again.")
    return found


MISSING: Final = -1.0  # stands for a missing value in extra trees: every known one is >= 0

BOOSTED: Final[Mapping[str, tuple[Literal["seconds", "residual"], tuple[str, ...]]]] = MappingProxyType(
    {
        "over-similar": ("residual", RICH_FEATURES),
        "seconds": ("seconds", RICH_FEATURES),
        "seconds-kernel": ("seconds", (*RICH_FEATURES, *KERNEL_MEANS)),
        "seconds-wide": ("seconds", WIDE_FEATURES),
    }
)
"""The boosted members: the target of each (as in `Boosted`) and its features."""
FORESTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({"extra": RICH_FEATURES, "extra-wide": WIDE_FEATURES})
"""The extra-trees members and their features."""
BASE: Final = WIDE_FEATURES.index("similar_weighted")
REQUEST: Final = WIDE_FEATURES.index(REQUESTED_TIME)
"""Columns of the member that learns nothing, and of the request, which stands in where it is missing."""
AVERAGE_SETTINGS: Final = "average.npz"


def columns_of(features: tuple[str, ...]) -> Ints:
    """Return which columns of a row a member reads."""
    return np.array([WIDE_FEATURES.index(feature) for feature in features], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class AverageEstimator:
    """The mean of the members' answers; immutable."""

    # boosted, forests: members, each with the columns that it reads
    boosted: tuple[tuple[Ints, BoostedEstimator], ...]
    forests: tuple[tuple[Ints, CompiledForest], ...]
    longest: float  # longest run time learnt from [s], which caps the request where it stands in for similar jobs

    def predict(self, rows: Floats) -> Floats:
        answers = self.answers(rows)
        total = answers[0]
        for answer in answers[1:]:
            total = total + answer
        return total / len(answers)

    def predict_one(self, row: Floats) -> float:
        answers = self.answers_one(row)
        return sum(answers) / len(answers)

    def answers(self, rows: Floats) -> list[Floats]:
        """Return what each member says [s], each of shape (n_rows,): boosters, extra trees, the weighted mean."""
        filled = np.where(np.isnan(rows), MISSING, rows)
        answers = [member.predict(rows[:, columns]) for columns, member in self.boosted]
        answers += [member.predict(filled[:, columns]) for columns, member in self.forests]
        return [*answers, base_of(rows, BASE, REQUEST, self.longest)]

    def answers_one(self, row: Floats) -> list[float]:
        filled = np.where(np.isnan(row), MISSING, row).astype(np.float32)
        answers = [member.predict_one(row[columns]) for columns, member in self.boosted]
        answers += [member.predict_one(filled[columns]) for columns, member in self.forests]
        return [*answers, float(base_of(row[None], BASE, REQUEST, self.longest)[0])]


@dataclass(kw_only=True, eq=False, repr=False)
class Average(RefittingPredictor):
    """Mean of seven unlike answers: four boosters (`BOOSTED`), two of extra trees (`FORESTS`), a weighted mean.

    The last is that of similar jobs, which learns nothing, and so steadies the others where a few bursts of one user
    hold most of the error. They err differently: their plain mean has less squared error than each of them on most
    logs, and weights learnt for them do no better.

    .. [1] P. Geurts, D. Ernst, L. Wehenkel. Extremely randomized trees. Machine Learning 63(1), 2006.
       doi:10.1007/s10994-006-6226-1

    >>> from predictors.data.synthetic.generate import generate_log
    >>> log = generate_log(300, seed=1)
    >>> average = Average(n_boosted=5, n_forest=3).fit(log)
    >>> bool((average.predict(log) <= log.filled("requested_time")).all())
    True
    """

    name = "average"
    packages = ("sklearn", "xgboost")
    features = WIDE_FEATURES

    n_boosted: Count = 300  # trees of each booster
    n_forest: Count = 60  # extra trees of each kind, each grown on half of the jobs, drawn with replacement
    random_state: Seed = 0  # seed: equal seeds, equal trees
    window: Count = 200_000  # newest outcomes that a fit on a stream learns from; see `Boosted`

    def learn(self, rows: Floats, seconds: Floats) -> Estimator:
        return self.grow(rows, seconds)

    @property
    def members(self) -> AverageEstimator:
        assert isinstance(self.estimator_, AverageEstimator)
        return self.estimator_

    def grow(self, rows: Floats, seconds: Floats) -> AverageEstimator:
        """Return the members grown on ended jobs: rows (n_jobs, n_features) and run times (n_jobs,) [s]."""
        from sklearn.ensemble import ExtraTreesRegressor

        boosted, forests = [], []
        for target, features in BOOSTED.values():
            how = Boosted(target=target, n_estimators=self.n_boosted, random_state=self.random_state)
            columns = columns_of(features)
            boosted.append((columns, boost(how, features, rows[:, columns], seconds)))
        filled = np.where(np.isnan(rows), MISSING, rows).astype(np.float32)
        for features in FORESTS.values():
            forest = ExtraTreesRegressor(
                self.n_forest,
                max_features=0.33,
                min_samples_leaf=3,
                bootstrap=True,
                max_samples=max(len(rows) // 2, 1),  # the share 0.5 warns of few jobs
                max_leaf_nodes=node_budget(self.n_forest),
                random_state=self.random_state,
                n_jobs=1,
            )
            columns = columns_of(features)
            forests.append((columns, CompiledForest.from_sklearn(forest.fit(filled[:, columns], seconds))))
        return AverageEstimator(tuple(boosted), tuple(forests), float(seconds.max()))

    def save_estimator(self, folder: Path) -> None:
        super().save_estimator(folder)
        for name, (_, booster) in zip(BOOSTED, self.members.boosted, strict=True):
            (folder / name).mkdir(exist_ok=True)
            save_boosted(booster, folder / name)
        for name, (_, forest) in zip(FORESTS, self.members.forests, strict=True):
            write_arrays(folder / f"{name}.npz", forest_arrays(forest))
        write_arrays(folder / AVERAGE_SETTINGS, {"longest": np.array(self.members.longest)})

    def load_estimator(self, folder: Path) -> None:
        super().load_estimator(folder)
        forests = []
        for name, features in FORESTS.items():
            forest = forest_from_arrays(read_arrays(folder / f"{name}.npz"))
            if forest.n_features != len(features):
                raise JobcastError(f"{folder / name}.npz: learnt from other features; train the model again.")
            forests.append((columns_of(features), forest))
        boosted = [
            (columns_of(features), load_boosted(folder / name, features)) for name, (_, features) in BOOSTED.items()
        ]
        longest = read_arrays(folder / AVERAGE_SETTINGS).get("longest", np.empty(0))
        if longest.shape != () or not np.isfinite(longest):
            raise JobcastError(f"{folder / SETTINGS}: does not hold the longest run time; train the model again.")
        self.estimator_ = AverageEstimator(tuple(boosted), tuple(forests), float(longest))
