"""Predictors by name: our own, and those of installed packages.

The behaviour of a name never changes.
"""

from inspect import isabstract
from typing import Any, Final

from predictors.core.errors import JobcastError
from predictors.entry_points import Registry
from predictors.models import baselines
from predictors.models.adapters import ADAPTERS
from predictors.models.adapters.hoeffding import OnlineTree
from predictors.models.base import Predictor
from predictors.models.boosted import Average, Boosted
from predictors.models.budgets.by_class import BudgetByClass
from predictors.models.censored import Censored
from predictors.models.conformal import WithBudget
from predictors.models.fallback import Chain
from predictors.models.forest import Forest
from predictors.models.online.gaussier import Gaussier
from predictors.models.online.linear import OnlineLinear
from predictors.models.similar_jobs import ALIASES, REVISED_ESTIMATES
from predictors.models.stack import Stack
from predictors.models.wrapper import Wrapper, settings_of


def _accepted(name: str, found: object) -> type[Predictor]:
    if not isinstance(found, type) or not issubclass(found, Predictor) or isabstract(found):
        raise JobcastError(f"it must be a class derived from jobcast.Predictor with a method learn; got {found!r}.")
    if getattr(found, "name", None) != name:
        raise JobcastError(f"the class attribute `name` must be {name!r}, too; got {getattr(found, 'name', None)!r}.")
    found().check()
    return found


TAKEN: Final = frozenset({*ADAPTERS, *REVISED_ESTIMATES, *ALIASES, "clairvoyant", "cqsim"})
"""Names of other estimates, and of adapters in saved models."""

PREDICTORS: Final[Registry[type[Predictor]]] = Registry(  # every predictor by its name; a changed rule gets a new name
    "predictor",
    {
        "requested": baselines.Requested,
        "last-two": baselines.LastTwo,
        "tsafrir": baselines.Tsafrir,
        "user-mean": baselines.UserMean,
        "forest": Forest,
        "online-linear": OnlineLinear,
        "gaussier": Gaussier,
        "online-tree": OnlineTree,
        "similar": baselines.Similar,
        "similar-mean": baselines.SimilarMean,
        "similar-low": baselines.SimilarLow,
        "boosted": Boosted,
        "average": Average,
        "stack": Stack,
        "with-budget": WithBudget,
        "chain": Chain,
        "censored": Censored,
        "similar-names": baselines.SimilarNames,
        "similar-names-mean": baselines.SimilarNamesMean,
        "knn-text": baselines.KnnText,
        "logged": baselines.Logged,
        "with-budget-by-class": BudgetByClass,
        "cesnet": baselines.Cesnet,
        "metastack": baselines.Metastack,
    },
    _accepted,
    TAKEN.__contains__,
)


def make_predictor(name: str, **params: Any) -> Predictor:
    """Return a fresh, unfitted predictor by its registered name.

    Parameters
    ----------
    name : str
        One of `PREDICTORS`; a package may add some (entry points of the group `jobcast.predictors`).
    **params
        Its parameters. Of one around another (`predictors.models.wrapper`) `predictor` names the one inside, and
        `settings` are the parameters of that one.

    Examples
    --------
    >>> make_predictor("last-two", cap=False)
    LastTwo(cap=False)
    >>> make_predictor("with-budget", predictor="last-two", budget=0.1)
    WithBudget(predictor='last-two', budget=0.1)
    >>> make_predictor("last-tow")
    Traceback (most recent call last):
        ...
    predictors.core.errors.JobcastError: No predictor 'last-tow'; did you mean 'last-two'? Known: requested, ...
    """
    made = PREDICTORS.named(name)()
    if isinstance(made, Wrapper) and isinstance(inside := params.get("predictor", made.pattern.name), str):
        params["predictor"] = make_predictor(inside, **settings_of(params))
    return made.set_params(**params)


def seeded(name: str, seed: int) -> dict[str, int]:
    """Return the parameters that make a predictor draw by a seed: none, if it draws nothing.

    >>> seeded("forest", 7), seeded("last-two", 7)
    ({'random_state': 7}, {})
    """
    return {"random_state": seed} if "random_state" in make_predictor(name).get_params() else {}
