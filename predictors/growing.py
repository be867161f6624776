"""How do XGBoost's trees grow here? By the histogram, on one thread, by seed: equal input, equal trees."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from predictors.params import FROM_0, SHARE, Rule, whole

Floats = npt.NDArray[np.float64]

GROWTH: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "n_estimators": whole(1),
        "learning_rate": SHARE,
        "max_depth": whole(1),
        "min_child_weight": FROM_0,
        "subsample": SHARE,
        "colsample": SHARE,
        "random_state": whole(0),
    }
)
"""Rules of the parameters that say how trees grow."""


class Growth(Protocol):
    """Whoever has these parameters, with XGBoost's meanings; `colsample` is its `colsample_bytree`."""

    n_estimators: int
    learning_rate: float
    max_depth: int
    subsample: float
    colsample: float
    random_state: int


def grown(how: Growth, rows: Floats, objective: Mapping[str, Any], min_child_weight: float, **labels: Any) -> bytes:
    """Return trees in XGBoost's own JSON.

    Parameters
    ----------
    how : Growth
        How they grow.
    rows : float64 array of shape (n, n_features)
        What they learn from; missing is NaN.
    objective : mapping
        What is made small: XGBoost's `objective` and the settings that belong to it.
    min_child_weight : float
        Least weight in a leaf, for so many rows.
    **labels
        What is learnt, as `xgboost.QuantileDMatrix` takes it: `label`, or `label_lower_bound` and
        `label_upper_bound`.
    """
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
