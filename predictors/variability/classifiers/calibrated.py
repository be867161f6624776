"""Calibrated probabilities: a classifier's scores mapped to observed shares.

The map is learnt from scores for runs that the scoring model had not seen: k folds, each scored by a model of the
others. It is a logistic curve on the log-odds (Platt), or a rising step function (isotonic), one for each limit between
the classes, as they are ordered.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError
from predictors.core.model_files import read_arrays, write_arrays
from predictors.core.params import Seed, whole
from predictors.variability.classifiers.base import Classifier, Voter, between, make, read
from predictors.variability.classifiers.boosted import BoostedClassifier
from predictors.variability.classifiers.knn import Neighbours
from predictors.variability.classifiers.trees import AdaBoost, DecisionForest, ExtraTrees
from predictors.variability.labels import Scheme
from predictors.variability.splits import deal

UNCALIBRATED: Final[Mapping[str, type[Classifier]]] = MappingProxyType(
    {
        "extra-trees": ExtraTrees, "decision-forest": DecisionForest, "knn": Neighbours, "adaboost": AdaBoost,
        "boosted": BoostedClassifier,
    }
)  # fmt: skip
"""Every classifier that can be calibrated, by its name; the first four are the paper's."""

INNER: Final = "inner"
MAPS: Final = "calibration.npz"


@dataclass(frozen=True, eq=False)
class Curve:
    """A rising map from a score, 0 to 1, to a probability; linear between its points."""

    # at, value: shape (n_points,); log-odds of the score, ascending, and the probability there
    at: Floats
    value: Floats

    def __call__(self, score: Floats) -> Floats:
        return np.interp(log_odds(score), self.at, self.value)


@dataclass(frozen=True, eq=False)
class CalibratedVoter:
    """A fitted classifier, and one curve a limit between classes; immutable."""

    inner: Classifier
    curves: tuple[Curve, ...]

    def probabilities(self, rows: Floats) -> Floats:
        """Return shape (n_rows, n_classes), each row summing to 1."""
        raw = self.inner.voter_.probabilities(rows)
        return between([curve(raw[:, k:].sum(axis=1)) for k, curve in enumerate(self.curves, start=1)])


@dataclass(kw_only=True, eq=False, repr=False)
class Calibrated(Classifier):
    """Any other classifier, its probabilities calibrated.

    A threshold makes sense here: with a false alarm costing a and a miss costing b, it is a / (a + b).

    .. [1] J. Platt. Probabilistic outputs for support vector machines. Advances in Large Margin Classifiers, 1999.
    .. [2] B. Zadrozny, C. Elkan. Transforming classifier scores into accurate multiclass probability estimates.
       KDD 2002. doi:10.1145/775047.775151
    """

    name = "calibrated"

    inner: str = "adaboost"  # the classifier's name
    inner_params: Annotated[
        Mapping[str, Any] | None, ("a mapping of parameters, or None", lambda v: v is None or isinstance(v, Mapping))
    ] = None  # its parameters
    # the kind of curve: two numbers, or a step function, which wants hundreds of runs with variation
    method: Literal["sigmoid", "isotonic"] = "sigmoid"
    folds: Annotated[int, whole(2)] = 5  # how many parts the runs are cut into; fewer where a class has fewer runs
    random_state: Seed = 0  # seed of the folds, and of `inner` where it draws by chance

    def check(self) -> None:
        super().check()
        self._fresh().check()

    def _fresh(self) -> Classifier:
        if self.inner == self.name:
            raise JobcastError(f"{self.name}: inner must be another classifier.")
        fresh = make(UNCALIBRATED, self.inner, self.inner_params or {})
        seeds = "random_state" in fresh.get_params() and "random_state" not in (self.inner_params or {})
        return fresh.set_params(random_state=self.random_state) if seeds else fresh

    def learn(self, rows: Floats, classes: Ints, n_classes: int) -> CalibratedVoter:
        """Learn from all, then the curves from scores of folds that each model had not seen."""
        names = [f"{k}" for k in range(rows.shape[1])]
        scheme: Scheme = "binary" if n_classes == 2 else "three"
        fold = deal(classes, self.folds, self.random_state)
        unseen = np.full((len(rows), n_classes), np.nan)
        for k in np.unique(fold):
            part = fold != k
            if len(np.unique(classes[part])) > 1:
                model = self._fresh().fit(rows[part], classes[part], features=names, scheme=scheme)
                unseen[~part] = model.voter_.probabilities(rows[~part])
        scored = ~np.isnan(unseen[:, 0])
        if not scored.any():
            raise JobcastError(f"{self.name}: too few runs of each class to calibrate on; use {self.inner} itself.")
        curves = tuple(
            _curve(unseen[scored, k:].sum(axis=1), classes[scored] >= k, self.method) for k in range(1, n_classes)
        )
        return CalibratedVoter(self._fresh().fit(rows, classes, features=names, scheme=scheme), curves)

    def importances(self) -> Floats | None:
        self.require_fit()
        assert isinstance(self.voter_, CalibratedVoter)
        return self.voter_.inner.importances()

    def save_voter(self, folder: Path) -> None:
        assert isinstance(self.voter_, CalibratedVoter)
        (folder / INNER).mkdir(exist_ok=True)
        self.voter_.inner.save(folder / INNER)
        curves = enumerate(self.voter_.curves)
        write_arrays(folder / MAPS, {f"{part}_{k}": getattr(c, part) for k, c in curves for part in ("at", "value")})

    def load_voter(self, folder: Path) -> Voter:
        inner, arrays = read(UNCALIBRATED, folder / INNER), read_arrays(folder / MAPS)
        n = len(self.class_names) - 1
        try:
            curves = tuple(Curve(arrays[f"at_{k}"], arrays[f"value_{k}"]) for k in range(n))
        except KeyError as error:
            raise JobcastError(f"{folder / MAPS}: lacks {error}; train the model again.") from error
        sound = all(
            c.at.ndim == 1
            and c.at.shape == c.value.shape
            and len(c.at)
            and (np.diff(c.at) >= 0).all()
            and ((c.value >= 0) & (c.value <= 1)).all()
            for c in curves
        )
        if not sound or inner.features_ != tuple(f"{k}" for k in range(len(self.features_))):
            raise JobcastError(f"{folder / MAPS}: does not fit the classifier next to it; train the model again.")
        return CalibratedVoter(inner, curves)


def log_odds(score: Floats) -> Floats:
    """Return log(p / (1 - p)), p kept within [1e-9, 1 - 1e-9]."""
    p = np.clip(score, 1e-9, 1 - 1e-9)
    return np.asarray(np.log(p / (1 - p)), dtype=np.float64)


def _curve(score: Floats, above: npt.NDArray[np.bool_], method: str) -> Curve:
    if above.all() or not above.any():
        return Curve(np.zeros(1), np.full(1, float(above.all())))
    at = log_odds(score)
    if method == "isotonic":
        from sklearn.isotonic import IsotonicRegression

        steps = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(at, above.astype(np.float64))
        return Curve(np.asarray(steps.X_thresholds_, np.float64), np.asarray(steps.y_thresholds_, np.float64))
    from sklearn.linear_model import LogisticRegression

    line = LogisticRegression(C=1e6, max_iter=1000).fit(at[:, None], above)
    slope, shift = max(float(line.coef_[0, 0]), 0.0), float(line.intercept_[0])
    grid = np.linspace(at.min(), at.max(), 201) if at.max() > at.min() else at[:1]
    return Curve(grid, 1 / (1 + np.exp(-(slope * grid + shift))))
