"""How is what was learnt kept, so that a predictor goes on as if it had never stopped? As arrays, where that is all.

Those that learn nothing, those that learn by gradient, and chains and budgets around them can. Batch learners and
river's models cannot, since their next fit depends on more than they save: the service lets them learn again.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from predictors.base import Predictor
from predictors.online import OnlinePredictor

Arrays = dict[str, npt.NDArray[Any]]
_INSIDE = "inside_"


def kept(predictor: Predictor) -> Arrays | None:
    """Return what a predictor has learnt as arrays; None if that is not all it takes to go on.

    Examples
    --------
    >>> from predictors.registry import make_predictor
    >>> kept(make_predictor("last-two")), kept(make_predictor("forest"))
    ({}, None)
    """
    if type(predictor).learn_one is Predictor.learn_one:
        return {}
    if isinstance(predictor, OnlinePredictor):
        return predictor.gradient_.named() if hasattr(predictor, "gradient_") else {}
    inside: Predictor | None = vars(predictor).get("base_")
    if inside is None or not set(vars(predictor)) <= {
        *predictor.get_params(),
        "base_",
        "shares_",
        "history_",
        "_running",
    }:
        return None
    found = kept(inside)
    if found is None:
        return None
    arrays = {f"{_INSIDE}{name}": array for name, array in found.items()}
    if "shares_" in vars(predictor):
        arrays["shares"] = np.array(vars(predictor)["shares_"])
    return arrays


def put_back(predictor: Predictor, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Give an equal predictor what `kept` returned."""
    if isinstance(predictor, OnlinePredictor):
        if arrays:
            predictor.gradient_ = predictor.begin().checked(arrays)
            predictor.estimator_ = predictor.published()
    elif arrays:
        if "base_" not in vars(predictor):
            vars(predictor)["base_"] = predictor._made()  # type: ignore[attr-defined]
        inside = {name.removeprefix(_INSIDE): array for name, array in arrays.items() if name.startswith(_INSIDE)}
        put_back(vars(predictor)["base_"], inside)
        if "shares" in arrays:
            low, middle, high = arrays["shares"].tolist()
            vars(predictor)["shares_"] = low, middle, high
