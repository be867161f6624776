"""Which predictors are there, and how do I make one by name? A name keeps its behaviour for ever."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from predictors.average import Average
from predictors.base import Predictor
from predictors.boosted import Boosted
from predictors.censored import Censored
from predictors.chain import Chain
from predictors.data.errors import unknown_name
from predictors.forest import Forest
from predictors.gaussier import Gaussier
from predictors.last_two import LastTwo
from predictors.online_linear import OnlineLinear
from predictors.online_tree import OnlineTree
from predictors.requested import Requested
from predictors.similar import Similar, SimilarLow, SimilarMean
from predictors.tsafrir import Tsafrir
from predictors.user_mean import UserMean
from predictors.with_budget import WithBudget

PREDICTORS: Final[Mapping[str, type[Predictor]]] = MappingProxyType(
    {
        "requested": Requested,
        "last-two": LastTwo,
        "tsafrir": Tsafrir,
        "user-mean": UserMean,
        "forest": Forest,
        "online-linear": OnlineLinear,
        "gaussier": Gaussier,
        "online-tree": OnlineTree,
        "similar": Similar,
        "similar-mean": SimilarMean,
        "similar-low": SimilarLow,
        "boosted": Boosted,
        "average": Average,
        "with-budget": WithBudget,
        "chain": Chain,
        "censored": Censored,
    }
)
"""Every predictor by its name; a changed rule gets a new name."""


def make_predictor(name: str, **params: Any) -> Predictor:
    """Return a fresh, unfitted predictor by its registered name.

    Raises
    ------
    JobcastError
        If there is no predictor, or no parameter, of that name.

    Examples
    --------
    >>> make_predictor("last-two", cap=False)
    LastTwo(cap=False)
    >>> make_predictor("last-tow")
    Traceback (most recent call last):
        ...
    predictors.data.errors.JobcastError: No predictor 'last-tow'; did you mean 'last-two'? Known: requested, ...
    """
    if name not in PREDICTORS:
        raise unknown_name("predictor", name, PREDICTORS)
    return PREDICTORS[name]().set_params(**params)


def seeded(name: str, seed: int) -> dict[str, int]:
    """Return the parameters that make a predictor draw by a seed: none, if it draws nothing.

    Examples
    --------
    >>> seeded("forest", 7), seeded("last-two", 7)
    ({'random_state': 7}, {})
    """
    return {"random_state": seed} if "random_state" in make_predictor(name).get_params() else {}
