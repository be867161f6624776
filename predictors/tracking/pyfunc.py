"""MLflow's view of a stored run-time model: a table of features in, predicted seconds out."""

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from predictors.core.errors import JobcastError
from predictors.history.features import REQUESTED_TIME
from predictors.history.replay import replay
from predictors.models.base import Predictor
from predictors.tracking.model_folder import open_model

if TYPE_CHECKING:
    import pandas as pd

    from predictors.data.joblog import JobLog

OUTPUT: Final = "predicted_seconds"  # the column of predicted run times [s]

REQUIRED: Final = (REQUESTED_TIME,)  # columns that a table must have, known or not; every other one may be absent

NEEDED: Final = ("jobcast", "numpy", "scipy", "pandas", "numba", "scikit-learn", "skops", "xgboost-cpu", "river")
"""Packages without which a saved model cannot be read."""

NUMBER: Final = "number"  # kind of a column of whole numbers, fractions and missing values: MLflow accepts anything

_EXAMPLE_ROWS: Final = 5


class ServedModel:
    """A predictor as `mlflow.pyfunc.load_model` wraps it.

    >>> import pandas as pd
    >>> from predictors.registry import make_predictor
    >>> ServedModel(make_predictor("last-two")).predict(pd.DataFrame({"requested_time": [600.0, 60.0]}))
       predicted_seconds
    0              600.0
    1               60.0
    """

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor

    def predict(self, table: "pd.DataFrame") -> "pd.DataFrame":
        """Return one predicted run time [s] for each row of features as of a submission; an absent one is missing."""
        import pandas as pd

        seconds = self._predictor.predict(doubles(table, self._predictor.features))
        return pd.DataFrame({OUTPUT: seconds}, index=table.index)


def doubles(table: "pd.DataFrame", columns: Iterable[str]) -> "pd.DataFrame":
    """Return columns of a table as float64; an absent one is missing."""
    found = table.reindex(columns=list(columns))
    for name, values in found.items():
        try:
            found[name] = values.astype("float64")
        except (TypeError, ValueError) as error:
            raise JobcastError(f"Column {name!r} of the inputs must hold numbers, or nothing; {error}.") from None
    return found


def _load_pyfunc(data: str) -> ServedModel:
    """Load a model for MLflow, which calls this by name."""
    return ServedModel(open_model(Path(data)).model)


def example(predictor: Predictor, log: "JobLog") -> "pd.DataFrame":
    """Return feature rows of the log's last jobs; columns of which nothing is known there are left out."""
    import pandas as pd

    rows = replay(log, predictor.features, predictor.as_of)[-_EXAMPLE_ROWS:]
    known = [name in REQUIRED or not np.isnan(rows[:, k]).all() for k, name in enumerate(predictor.features)]
    return pd.DataFrame(rows, columns=list(predictor.features)).loc[:, known]


def requirements() -> list[str]:
    """Return the installed versions of `NEEDED`, as pip takes them."""
    found = []
    for package in NEEDED:
        try:
            found.append(f"{package}=={version(package)}")
        except PackageNotFoundError:
            continue
    return found
