"""Run-time predictors, as-of histories and job logs.

The names below are the public interface. They are imported when they are first used, so that importing a part of the
package does not import all of it. What a page imports from a module is public too, and stands on the page of
references; everything else is private to its folder.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from predictors.core.errors import JobcastError
    from predictors.data.cleaning import clean
    from predictors.data.formats.detect import read_log, write_log
    from predictors.data.joblog import JobLog
    from predictors.data.synthetic.generate import generate_log
    from predictors.evaluation.evaluate import evaluate
    from predictors.history.history import JobHistory
    from predictors.history.replay import replay
    from predictors.models.adapters import from_river, from_sklearn
    from predictors.models.base import Predictor
    from predictors.models.stream import forecast
    from predictors.registry import make_predictor
    from predictors.serialise import load, save

_HOMES = {
    "JobHistory": "predictors.history.history",
    "JobLog": "predictors.data.joblog",
    "JobcastError": "predictors.core.errors",
    "Predictor": "predictors.models.base",
    "clean": "predictors.data.cleaning",
    "evaluate": "predictors.evaluation.evaluate",
    "forecast": "predictors.models.stream",
    "from_river": "predictors.models.adapters",
    "from_sklearn": "predictors.models.adapters",
    "generate_log": "predictors.data.synthetic.generate",
    "load": "predictors.serialise",
    "make_predictor": "predictors.registry",
    "read_log": "predictors.data.formats.detect",
    "replay": "predictors.history.replay",
    "save": "predictors.serialise",
    "write_log": "predictors.data.formats.detect",
}
__all__ = [
    "JobHistory",
    "JobLog",
    "JobcastError",
    "Predictor",
    "clean",
    "evaluate",
    "forecast",
    "from_river",
    "from_sklearn",
    "generate_log",
    "load",
    "make_predictor",
    "read_log",
    "replay",
    "save",
    "write_log",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'predictors' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
