"""How is what was learnt kept, so that a predictor goes on as if it had never stopped? As arrays, where that is all.

Those that learn nothing, those that learn by gradient, batch learners, and chains and budgets around them can. A batch
learner's estimator is kept as the files that it is saved in, which hold no code, beside its window and its schedule of
fits. river's models cannot, since their next lesson depends on more than they save: the service lets them learn again.
"""

import copy
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from predictors.base import Predictor
from predictors.online import OnlinePredictor
from predictors.refit import WINDOW, RefittingPredictor
from predictors.saving import write_arrays

Arrays = dict[str, npt.NDArray[Any]]
MOST_BYTES: Final = 2**28
"""Larger estimators are learnt again; a database keeps no value of much more."""
_INSIDE: Final = "inside_"
_SCHEDULE: Final = "schedule_"
_FILE: Final = "file_"
_WITH_ALL: Final = frozenset({"history_", "codes_", "_running"})
_REFITTED: Final = _WITH_ALL | {"estimator_", "window_", "fits_", "_fitted_at", "_fitted_on"}
_AROUND: Final = _WITH_ALL | {"base_", "shares_"}


def kept(predictor: Predictor) -> Arrays | None:
    """Return what a predictor has learnt as arrays; None if that is not all it takes to go on.

    Examples
    --------
    >>> from predictors.registry import make_predictor
    >>> kept(make_predictor("last-two")), kept(make_predictor("forest")), kept(make_predictor("online-tree"))
    ({}, {}, None)
    """
    if type(predictor).learn_one is Predictor.learn_one:
        return {}
    if isinstance(predictor, OnlinePredictor):
        return predictor.gradient_.named() if hasattr(predictor, "gradient_") else {}
    has = set(vars(predictor)) - set(predictor.get_params())
    if isinstance(predictor, RefittingPredictor):
        return _refitted(predictor) if has <= _REFITTED else None
    return _around(predictor) if has <= _AROUND and "base_" in has else None


def put_back(predictor: Predictor, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Give an equal predictor what `kept` returned; what it held is replaced, never changed.

    Raises
    ------
    JobcastError, KeyError, ValueError
        If the arrays are not those of such a predictor; it is of no use any more then.
    """
    if isinstance(predictor, OnlinePredictor):
        if arrays:
            predictor.gradient_ = predictor.begin().checked(arrays)
            predictor.estimator_ = predictor.published()
    elif isinstance(predictor, RefittingPredictor):
        _put_back_refitted(predictor, arrays)
    elif arrays:
        has: Any = predictor  # a chain, or a budget
        inside = copy.copy(has.base_) if "base_" in vars(predictor) else has.made()
        put_back(inside, _part(arrays, _INSIDE))
        has.base_ = has.watching(inside)
        if "shares" in arrays:
            low, middle, high = arrays["shares"].tolist()
            has.shares_ = low, middle, high


def _around(predictor: Predictor) -> Arrays | None:
    found = kept(vars(predictor)["base_"])
    if found is None:
        return None
    arrays = {f"{_INSIDE}{name}": array for name, array in found.items()}
    if "shares_" in vars(predictor):
        arrays["shares"] = np.array(vars(predictor)["shares_"])
    return arrays


def _refitted(predictor: RefittingPredictor) -> Arrays | None:
    arrays = {f"{_SCHEDULE}{name}": array for name, array in predictor.schedule().items()}
    if not predictor.fitted:
        return arrays
    try:
        with TemporaryDirectory() as folder:
            predictor.save_estimator(Path(folder))
            files = {
                path.relative_to(folder).as_posix(): np.frombuffer(path.read_bytes(), dtype=np.uint8)
                for path in sorted(Path(folder).rglob("*"))
                if path.is_file() and path.name != WINDOW
            }
    except Exception:  # whatever it is: what cannot be saved is learnt again
        return None
    if sum(map(len, files.values())) > MOST_BYTES:
        return None
    return arrays | {f"{_FILE}{name}": content for name, content in files.items()}


def _put_back_refitted(predictor: RefittingPredictor, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    schedule, files = _part(arrays, _SCHEDULE), _part(arrays, _FILE)
    if files:
        with TemporaryDirectory() as name:
            folder = Path(name)
            for path, content in files.items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(content.tobytes())
            write_arrays(folder / WINDOW, {name: schedule[name] for name in ("rows", "seconds", "total")})
            predictor.load_estimator(folder)
    predictor.go_on(schedule)


def _part(arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
