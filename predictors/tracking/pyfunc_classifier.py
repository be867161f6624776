"""MLflow's view of a stored classifier: a table of inputs in, classes and probabilities out."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from predictors.core.errors import JobcastError
from predictors.tracking.model_folder import open_classifier
from predictors.tracking.pyfunc import doubles
from predictors.variability.classifiers.base import Classifier
from predictors.variability.features import Table, chosen

if TYPE_CHECKING:
    import pandas as pd

OUTPUTS: Final = ("class", "label", "probability", "abstained", "why")
"""Number and name of the class, probability of variation, whether the classifier abstained, and why."""

APPLICATION: Final = "application"  # the application to be started; only classifiers with `seen_only` look at it

_EXAMPLE_ROWS: Final = 5


class ServedClassifier:
    """A classifier as `mlflow.pyfunc.load_model` wraps it."""

    def __init__(self, classifier: Classifier) -> None:
        self._classifier = classifier

    def predict(self, table: "pd.DataFrame") -> "pd.DataFrame":
        """Return one row for each row of inputs, NaN = not measured; every input must have its column."""
        import pandas as pd

        applications = table.get(APPLICATION, None)
        if applications is None and self._classifier.seen_only:
            raise JobcastError(
                f"This model abstains for applications that it has not seen: give a column {APPLICATION!r}."
            )
        inputs = doubles(table, [name for name in self._classifier.features_ if name in table])
        found = self._classifier.judge(inputs, applications=applications)
        labels = np.array(self._classifier.class_names)[found.classes]
        values = (found.classes, labels, found.probabilities[:, -1], found.why != "", found.why)
        return pd.DataFrame(dict(zip(OUTPUTS, values, strict=True)), index=table.index)


def _load_pyfunc(data: str) -> ServedClassifier:
    """Load a model for MLflow, which calls this by name."""
    return ServedClassifier(open_classifier(Path(data)).model)


def example(classifier: Classifier, table: Table, features: tuple[str, ...], application: str) -> "pd.DataFrame":
    """Return a few rows of inputs, medians standing in for what was not measured."""
    import pandas as pd

    rows = chosen(classifier.name, table[:_EXAMPLE_ROWS], features, classifier.features_)
    filled = pd.DataFrame(np.where(np.isnan(rows), classifier.medians_, rows), columns=list(classifier.features_))
    return filled.assign(**{APPLICATION: application}) if classifier.seen_only else filled
