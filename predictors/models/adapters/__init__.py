"""Regressors of scikit-learn and river as predictors, and ours as theirs.

Such a predictor goes wherever others go: into `evaluate`, into a simulation as its forecast, on a folder and back.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from predictors.core.model_files import trusting
from predictors.history.features import REIS_FEATURES
from predictors.models.adapters.river import RiverPredictor
from predictors.models.adapters.sklearn import SklearnPredictor

if TYPE_CHECKING:
    from river.base import Regressor
    from sklearn.base import RegressorMixin

__all__ = ["ADAPTERS", "RiverPredictor", "SklearnPredictor", "from_river", "from_sklearn", "trusting"]

ADAPTERS: Final[Mapping[str, type[SklearnPredictor] | type[RiverPredictor]]] = MappingProxyType(
    {SklearnPredictor.name: SklearnPredictor, RiverPredictor.name: RiverPredictor}
)
"""The classes of saved predictors around models of other libraries, by name."""


def from_sklearn(
    regressor: "RegressorMixin", features: Sequence[str] = REIS_FEATURES, **params: Any
) -> SklearnPredictor:
    """Return a predictor around a scikit-learn regressor or pipeline; see `SklearnPredictor`.

    >>> from sklearn.linear_model import Ridge
    >>> from predictors.data.synthetic.generate import generate_log
    >>> log = generate_log(300, seed=1)
    >>> from_sklearn(Ridge()).fit(log).predict(log).shape
    (300,)
    """
    predictor = SklearnPredictor(regressor=regressor, features=tuple(features), **params)
    predictor.check()
    return predictor


def from_river(model: "Regressor", features: Sequence[str] = REIS_FEATURES, **params: Any) -> RiverPredictor:
    """Return a predictor around a river regressor or pipeline; see `RiverPredictor`.

    >>> from river.tree import HoeffdingTreeRegressor
    >>> from predictors.data.synthetic.generate import generate_log
    >>> log = generate_log(300, seed=1)
    >>> from_river(HoeffdingTreeRegressor()).fit(log).predict(log).shape
    (300,)
    """
    predictor = RiverPredictor(model=model, features=tuple(features), **params)
    predictor.check()
    return predictor
