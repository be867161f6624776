"""Any scikit-learn regressor or pipeline as a predictor: learnt from the history's rows, fitted again on a stream."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from predictors.core.arrays import Floats
from predictors.core.errors import JobcastError
from predictors.core.model_files import load_sklearn, save_sklearn
from predictors.history.features import REIS_FEATURES, REQUESTED_TIME, feature_plan
from predictors.models.refit import RefittingPredictor

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.base import RegressorMixin


MODEL: Final = "regressor.skops"
UNFITTED: Final = "unfitted.skops"


@dataclass(frozen=True, eq=False)
class SklearnEstimator:
    """A fitted scikit-learn regressor over tables that have the features as columns; it is not changed any more."""

    model: Any  # as fitted
    features: tuple[str, ...]  # names of the columns

    def predict(self, rows: Floats) -> Floats:
        """Return seconds, shape (n_rows,); NaN where the regressor gives no finite number."""
        if not len(rows):
            return np.empty(0)
        found = np.asarray(self.model.predict(table(rows, self.features)), dtype=np.float64).reshape(len(rows))
        return np.where(np.isfinite(found), found, np.nan)

    def predict_one(self, row: Floats) -> float:
        return float(self.predict(row[np.newaxis])[0])


@dataclass(kw_only=True, eq=False, repr=False)
class SklearnPredictor(RefittingPredictor):
    """A scikit-learn regressor or pipeline over the history's features; `adapters.from_sklearn` makes one.

    It gets tables with the features as columns; categories are the codes of the log. If it takes no missing values,
    they are filled by the median that the jobs it learns from have (0 where they have none). One prediction costs what
    the regressor's `predict` costs for a table of one row, often a millisecond.
    """

    name = "from-sklearn"

    regressor: "RegressorMixin"  # never changed: each fit works on a clone
    # from `predictors.history.features.FEATURES`; the requested time must be among them
    features: tuple[str, ...] = REIS_FEATURES  # type: ignore[misc]  # chosen by the user, not by the class

    def check(self) -> None:
        super().check()
        check_features(self.name, self.features)
        if not (hasattr(self.regressor, "fit") and hasattr(self.regressor, "predict")):
            raise JobcastError(
                f"{self.name}: the regressor needs fit and predict, as scikit-learn's have; got {self.regressor!r}."
            )

    def learn(self, rows: Floats, seconds: Floats) -> SklearnEstimator:
        from sklearn.base import clone

        model = clone(self.regressor)
        if not takes_missing(model):
            model = _filled(model)
        return SklearnEstimator(model.fit(table(rows, self.features), seconds), self.features)

    def save_estimator(self, folder: Path) -> None:
        super().save_estimator(folder)
        assert isinstance(self.estimator_, SklearnEstimator)
        save_sklearn(folder / MODEL, self.estimator_.model)

    def load_estimator(self, folder: Path) -> None:
        super().load_estimator(folder)
        self.estimator_ = SklearnEstimator(load_sklearn(folder / MODEL), self.features)

    def save_params(self, folder: Path) -> dict[str, Any]:
        """Write the regressor as it was before any fit; return the other parameters."""
        save_sklearn(folder / UNFITTED, self.regressor)
        return {**self.get_params(), "regressor": None, "features": list(self.features)}

    @classmethod
    def from_saved(cls, folder: Path, params: dict[str, Any]) -> "SklearnPredictor":
        """Return the unfitted predictor that `save_params` wrote."""
        given = {**params, "regressor": load_sklearn(folder / UNFITTED), "features": tuple(params["features"])}
        return cls(**given)


def check_features(name: str, features: Sequence[str]) -> None:
    """Raise a `JobcastError` if a feature is unknown or the requested time is not among them."""
    feature_plan(features)
    if REQUESTED_TIME not in features or not isinstance(features, tuple):
        raise JobcastError(f"{name}: features must be a tuple with {REQUESTED_TIME!r} in it; got {features!r}.")


def table(rows: Floats, features: Sequence[str]) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(rows, columns=list(features))


def takes_missing(model: Any) -> bool:
    """Return whether a regressor takes missing values: by its tags, a pipeline if each step until an imputer does.

    A column transformer counts as taking them: its author handles each column.
    """
    from sklearn.utils import get_tags

    for part in [step for _, step in model.steps] if hasattr(model, "steps") else [model]:
        if hasattr(part, "transformers") or type(part).__name__.endswith("Imputer"):
            return True
        if part not in (None, "passthrough") and not get_tags(part).input_tags.allow_nan:
            return False
    return True


def _filled(model: Any) -> Any:
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline

    imputer = SimpleImputer(strategy="median", keep_empty_features=True).set_output(transform="pandas")
    return make_pipeline(imputer, model)
