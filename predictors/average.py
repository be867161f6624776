"""The plain average of unlike answers on the history of similar jobs: boosted trees, extra trees, a weighted mean."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from predictors.answers import REQUESTED_TIME
from predictors.boosted import Boosted, BoostedEstimator, base_of, boost, load_boosted, save_boosted
from predictors.data.errors import JobcastError
from predictors.data.joblog import Ints
from predictors.features import KERNEL_MEANS, RICH_FEATURES, WIDE_FEATURES
from predictors.params import whole
from predictors.refit import RefittingPredictor
from predictors.tree_arrays import forest_arrays, forest_from_arrays
from predictors.trees import CompiledForest, node_budget

Floats = npt.NDArray[np.float64]

MISSING: Final = -1.0
"""What missing values read as in extra trees: every known one is >= 0."""

BOOSTED: Final[Mapping[str, tuple[Literal["seconds", "residual"], tuple[str, ...]]]] = MappingProxyType(
    {
        "over-similar": ("residual", RICH_FEATURES),
        "seconds": ("seconds", RICH_FEATURES),
        "seconds-kernel": ("seconds", (*RICH_FEATURES, *KERNEL_MEANS)),
        "seconds-wide": ("seconds", WIDE_FEATURES),
    }
)
"""What each of the boosted members learns (`Boosted`'s target), and from which features."""
FORESTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({"extra": RICH_FEATURES, "extra-wide": WIDE_FEATURES})
"""From which features each of the extra-trees members learns."""
BASE: Final = WIDE_FEATURES.index("similar_weighted")
REQUEST: Final = WIDE_FEATURES.index(REQUESTED_TIME)
"""Columns of the member that learns nothing, and of what stands in for it."""
SETTINGS: Final = "average.npz"


def columns_of(features: tuple[str, ...]) -> Ints:
    """Return which columns of a row a member reads."""
    return np.array([WIDE_FEATURES.index(feature) for feature in features], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class AverageEstimator:
    """The mean of the members' answers; immutable.

    Parameters
    ----------
    boosted, forests : tuples of (int64 array, estimator)
        Members, each with the columns that it reads.
    longest : float
        Longest run time learnt from [s], which caps the request where it stands in for similar jobs.
    """

    boosted: tuple[tuple[Ints, BoostedEstimator], ...]
    forests: tuple[tuple[Ints, CompiledForest], ...]
    longest: float

    def predict(self, rows: Floats) -> Floats:
        """Return seconds, shape (n_rows,)."""
        filled = np.where(np.isnan(rows), MISSING, rows)
        answers = [member.predict(rows[:, columns]) for columns, member in self.boosted]
        answers += [member.predict(filled[:, columns]) for columns, member in self.forests]
        answers.append(base_of(rows, BASE, REQUEST, self.longest))
        total = answers[0]
        for answer in answers[1:]:
            total = total + answer
        return total / len(answers)

    def predict_one(self, row: Floats) -> float:
        """Return seconds for one row."""
        filled = np.where(np.isnan(row), MISSING, row).astype(np.float32)
        answers = [member.predict_one(row[columns]) for columns, member in self.boosted]
        answers += [member.predict_one(filled[columns]) for columns, member in self.forests]
        answers.append(float(base_of(row[None], BASE, REQUEST, self.longest)[0]))
        return sum(answers) / len(answers)


class Average(RefittingPredictor):
    """Mean of seven unlike answers: four boosters (`BOOSTED`), two of extra trees (`FORESTS`), a weighted mean.

    The last is that of similar jobs, which learns nothing, and so steadies the others where a few bursts of one user
    hold most of the error. They err differently: their plain mean has less squared error than each of them on most
    logs, and weights learnt for them do no better.

    Parameters
    ----------
    n_boosted : int
        Trees of each booster.
    n_forest : int
        Extra trees of each kind, each grown on half of the jobs, drawn with replacement.
    random_state : int
        Seed: equal seeds, equal trees.
    window : int
        Newest outcomes that a fit on a stream learns from; see `Boosted`.
    refit_every, cap, as_of
        As in `RefittingPredictor`.

    References
    ----------
    .. [1] P. Geurts, D. Ernst, L. Wehenkel. Extremely randomized trees. Machine Learning 63(1), 2006.
       doi:10.1007/s10994-006-6226-1

    Examples
    --------
    >>> from predictors.data.synthetic import generate_log
    >>> log = generate_log(300, seed=1)
    >>> average = Average(n_boosted=5, n_forest=3).fit(log)
    >>> bool((average.predict(log) <= log.filled("requested_time")).all())
    True
    """

    name = "average"
    features = WIDE_FEATURES
    rules = MappingProxyType({"n_boosted": whole(1), "n_forest": whole(1), "random_state": whole(0)})

    def __init__(
        self,
        *,
        n_boosted: int = 300,
        n_forest: int = 60,
        random_state: int = 0,
        refit_every: int | None = 30 * 86400,
        window: int = 200_000,
        cap: bool = True,
        as_of: str = "strict",
    ) -> None:
        super().__init__(refit_every=refit_every, window=window, cap=cap, as_of=as_of)
        self.n_boosted = n_boosted
        self.n_forest = n_forest
        self.random_state = random_state

    def learn(self, rows: Floats, seconds: Floats) -> AverageEstimator:
        """Grow both on ended jobs: rows (n_jobs, n_features) and run times (n_jobs,) [s]."""
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
                max_samples=0.5 if len(rows) > 1 else None,
                max_leaf_nodes=node_budget(self.n_forest),
                random_state=self.random_state,
                n_jobs=1,
            )
            columns = columns_of(features)
            forests.append((columns, CompiledForest.from_sklearn(forest.fit(filled[:, columns], seconds))))
        return AverageEstimator(tuple(boosted), tuple(forests), float(seconds.max()))

    def save_estimator(self, folder: Path) -> None:
        """Write the window, the boosted trees in XGBoost's own format, and the extra trees as arrays."""
        from predictors.saving import write_arrays

        super().save_estimator(folder)
        if not isinstance(self.estimator_, AverageEstimator):
            raise JobcastError(f"This {self.name} has not been fitted: call fit(log) first.")
        for name, (_, booster) in zip(BOOSTED, self.estimator_.boosted, strict=True):
            (folder / name).mkdir(exist_ok=True)
            save_boosted(booster, folder / name)
        for name, (_, forest) in zip(FORESTS, self.estimator_.forests, strict=True):
            write_arrays(folder / f"{name}.npz", forest_arrays(forest))
        write_arrays(folder / SETTINGS, {"longest": np.array(self.estimator_.longest)})

    def load_estimator(self, folder: Path) -> None:
        """Take back what was written, after checking that no tree points outside itself."""
        from predictors.saving import read_arrays

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
        longest = read_arrays(folder / SETTINGS).get("longest", np.empty(0))
        if longest.shape != () or not np.isfinite(longest):
            raise JobcastError(f"{folder / SETTINGS}: does not hold the longest run time; train the model again.")
        self.estimator_ = AverageEstimator(tuple(boosted), tuple(forests), float(longest))
