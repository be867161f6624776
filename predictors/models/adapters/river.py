"""Any river regressor or pipeline as a predictor: it learns from each job when that ends."""

import copy
import importlib
import inspect
import json
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import numpy as np

from predictors.core.arrays import Floats
from predictors.core.errors import JobcastError
from predictors.core.model_files import read_arrays, write_about, write_arrays
from predictors.core.params import whole
from predictors.data.joblog import JobLog
from predictors.history.features import CATEGORIES, REIS_FEATURES
from predictors.history.history import JobHistory, Outcome
from predictors.models.adapters.sklearn import check_features
from predictors.models.base import Predictor
from predictors.models.stream import LearningForecast

if TYPE_CHECKING:
    from river.base import Regressor

Inputs = dict[str, Any]

OUTCOMES: Final = "outcomes.npz"
MODEL: Final = "river.json"
ONE_AT_A_TIME: Final = Lock()  # a lock: river's models must not be used by two threads at once


@dataclass(frozen=True, eq=False)
class RiverEstimator:
    """A river model at work. Unlike other estimators it changes when its predictor learns; threads take turns."""

    model: Any  # `predict` leaves it unchanged, `teach` changes it
    inputs: Callable[[Floats], Inputs] = field(repr=False)  # from a row to the dictionary that the model takes

    def predict(self, rows: Floats) -> Floats:
        """Return seconds, shape (n_rows,); NaN where the model gives no finite number."""
        return np.array([self.predict_one(row) for row in rows], dtype=np.float64)

    def predict_one(self, row: Floats) -> float:
        with ONE_AT_A_TIME:
            found = self.model.predict_one(self.inputs(row))
        return float(found) if found is not None and np.isfinite(found) else float("nan")

    def teach(self, row: Floats, seconds: float) -> None:
        with ONE_AT_A_TIME:
            self.model.learn_one(self.inputs(row), seconds)


@dataclass(frozen=True)
class KnownFeatures:
    """Rows as dictionaries, without what is missing.

    >>> KnownFeatures(("requested_time", "user", "group"), as_text=True)(np.array([60.0, 7.0, np.nan]))
    {'requested_time': 60.0, 'user': '7'}
    """

    features: tuple[str, ...]  # names of the columns
    as_text: bool = False  # whether categories become text

    def __call__(self, row: Floats) -> Inputs:
        """Return the dictionary of one row."""
        return {
            name: str(int(x)) if self.as_text and name in CATEGORIES else x
            for name, x in zip(self.features, row.tolist(), strict=True)
            if x == x
        }


@dataclass(kw_only=True, eq=False, repr=False)
class StreamPredictor(Predictor):
    """Base of predictors around a river model.

    It keeps the outcomes that its model has learnt from, at most `window`; beyond, the model starts again and learns
    the newest half of them again. So memory is bounded, the past is forgotten in the end, and the model is saved
    without a pickle: as those outcomes, from which it is learnt again when it is loaded, equal to the last bit.
    """

    window: Annotated[int, whole(2)] = 20_000  # newest outcomes to learn from, at least 2

    @abstractmethod
    def fresh_model(self) -> "Regressor":
        """Return a river regressor that has learnt nothing."""

    @abstractmethod
    def encoder(self) -> Callable[[Floats], Inputs]:
        """Return a function from a row to what the model takes; no closure, so that it can be copied."""

    def estimator_of(self, model: "Regressor") -> RiverEstimator:
        return RiverEstimator(model, self.encoder())

    def learn(self, rows: Floats, seconds: Floats) -> RiverEstimator:
        """Forget, then learn from the newest ended jobs in their order."""
        self._rows, self._seconds = list(rows[-self.window :].copy()), seconds[-self.window :].tolist()
        estimator = self.estimator_of(self.fresh_model())
        for row, ran in zip(self._rows, self._seconds, strict=True):
            estimator.teach(row, ran)
        return estimator

    def learn_one(self, outcome: Outcome) -> None:
        if not outcome.observed or not outcome.seconds > 0:
            return
        if not self.fitted:
            self.estimator_ = self.learn(np.empty((0, len(self.features))), np.empty(0))
        assert isinstance(self.estimator_, RiverEstimator)
        self._rows.append(np.array(outcome.row))
        self._seconds.append(float(outcome.seconds))
        if len(self._rows) > self.window:
            half = self.window // 2
            self.estimator_ = self.learn(np.array(self._rows[-half:]), np.array(self._seconds[-half:]))
        else:
            self.estimator_.teach(outcome.row, float(outcome.seconds))

    def own_forecast(self, log: JobLog, *, learns: bool, after: JobHistory | None) -> "StreamForecast":
        """Return estimates for the jobs of `log` while its events go by; each copy has a model of its own."""
        return StreamForecast(self, log, learns=learns, after=after)

    def save_estimator(self, folder: Path) -> None:
        rows = np.array(self._rows).reshape(-1, len(self.features))
        write_arrays(folder / OUTCOMES, {"rows": rows, "seconds": np.array(self._seconds)})

    def load_estimator(self, folder: Path) -> None:
        arrays = read_arrays(folder / OUTCOMES)
        rows, seconds = arrays.get("rows", np.empty(0)), arrays.get("seconds", np.empty(0))
        if rows.ndim != 2 or rows.shape[1] != len(self.features) or seconds.shape != (len(rows),):
            raise JobcastError(f"{folder / OUTCOMES}: its arrays do not fit together; train the model again.")
        if not (seconds > 0).all() or len(rows) > self.window:
            raise JobcastError(f"{folder / OUTCOMES}: holds run times that cannot be; train the model again.")
        self.estimator_ = self.learn(rows.astype(np.float64), seconds.astype(np.float64))


class StreamForecast(LearningForecast):
    """A `LearningForecast`, with the same parameters; each copy gets a model of its own."""

    def fork(self) -> "StreamForecast":
        """Return a copy that goes on by itself; it costs memory by the model and by the jobs of the whole log."""
        shared: list[object] = [self._history.log] if self._learns else [self._history.log, self.predictor]
        return copy.deepcopy(self, {id(thing): thing for thing in shared})


@dataclass(kw_only=True, eq=False, repr=False)
class RiverPredictor(StreamPredictor):
    """A river regressor or pipeline over the history's features; `adapters.from_river` makes one.

    The model gets a dictionary from feature names to numbers; what is missing is not in it.
    """

    name = "from-river"

    model: "Regressor"  # never changed: what learns is a clone. One that draws random numbers needs a seed
    # from `predictors.history.features.FEATURES`; the requested time must be among them
    features: tuple[str, ...] = REIS_FEATURES  # type: ignore[misc]  # chosen by the user, not by the class
    # whether users, groups, … are given as numbers or as text, where an encoder or model treats the two differently
    categories: Literal["codes", "text"] = "codes"

    def check(self) -> None:
        super().check()
        check_features(self.name, self.features)
        if not (hasattr(self.model, "learn_one") and hasattr(self.model, "predict_one")):
            raise JobcastError(f"{self.name}: the model needs learn_one and predict_one; got {self.model!r}.")
        if getattr(self.model, "seed", 0) is None:
            raise JobcastError(f"{self.name}: {type(self.model).__name__} draws random numbers: give it a seed.")

    def fresh_model(self) -> "Regressor":
        return self.model.clone()

    def encoder(self) -> "KnownFeatures":
        return KnownFeatures(self.features, self.categories == "text")

    def save_params(self, folder: Path) -> dict[str, Any]:
        """Write the model's classes and parameters as JSON; return the other parameters."""
        write_about(folder / MODEL, described(self.model))
        return {**self.get_params(), "model": None, "features": list(self.features)}

    @classmethod
    def from_saved(cls, folder: Path, params: dict[str, Any]) -> "RiverPredictor":
        """Return the unfitted predictor that `save_params` wrote."""
        try:
            model = rebuilt(json.loads((folder / MODEL).read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, ImportError) as error:
            raise JobcastError(f"{folder / MODEL}: cannot be read ({error}); train the model again.") from error
        return cls(**{**params, "model": model, "features": tuple(params["features"])})


def described(thing: Any) -> Any:
    """Return a river object as JSON can hold it: class and arguments; functions and the user's own classes are refused.

    >>> from river.linear_model import LinearRegression
    >>> described(LinearRegression())["class"]
    'river.linear_model.lin_reg.LinearRegression'
    """
    if thing is None or isinstance(thing, (bool, int, float, str)):
        return thing
    if isinstance(thing, (list, tuple)):
        return [described(one) for one in thing]
    kind = type(thing)
    if not kind.__module__.startswith("river."):
        raise JobcastError(
            f"A model that holds {thing!r} cannot be saved: only river's own classes and plain values can, without "
            "pickles. Keep the code that makes it, and let it learn again."
        )
    parameters = inspect.signature(kind).parameters.values()
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):  # a pipeline
        return {"class": f"{kind.__module__}.{kind.__qualname__}", "steps": _steps(thing)}
    values = {one.name: described(getattr(thing, one.name)) for one in parameters if one.kind is not one.VAR_KEYWORD}
    return {"class": f"{kind.__module__}.{kind.__qualname__}", "arguments": values}


def _steps(thing: Any) -> list[Any]:
    found: Any = ()
    for attribute in ("keys", "transformers", "steps"):
        found = getattr(thing, attribute, None) or found
    if isinstance(found, Mapping):
        return [[str(name), described(one)] for name, one in found.items()]
    return [described(one) for one in found]


def rebuilt(about: Any) -> Any:
    """Return the object that `described` described; classes outside river are refused."""
    if isinstance(about, list):
        return [rebuilt(one) for one in about]
    if not isinstance(about, dict):
        return about
    module, _, name = str(about["class"]).rpartition(".")
    if not module.startswith("river."):
        raise JobcastError(f"A saved model names {about['class']!r}, which is not river's; it is not loaded.")
    kind = getattr(importlib.import_module(module), name)
    from river.base import Base

    if not (inspect.isclass(kind) and issubclass(kind, Base)):
        raise JobcastError(f"A saved model names {about['class']!r}, which is no model; it is not loaded.")
    if "steps" in about:
        return kind(*(tuple(rebuilt(step)) if isinstance(step, list) else rebuilt(step) for step in about["steps"]))
    return kind(**{name: rebuilt(value) for name, value in about["arguments"].items()})
