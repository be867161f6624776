"""k nearest neighbours among the runs learnt from, by scikit-learn, inputs standardised."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError
from predictors.core.model_files import load_sklearn, save_sklearn
from predictors.core.params import Count
from predictors.variability.classifiers.base import Classifier

MODEL: Final = "classifier.skops"


@dataclass(frozen=True, eq=False)
class NeighbourVoter:
    """A fitted pipeline of scaling and neighbours; immutable."""

    model: Any  # as fitted
    n_classes: int  # classes of the labels, some of which may not have been seen

    def probabilities(self, rows: Floats) -> Floats:
        """Return shape (n_rows, n_classes), each row summing to 1."""
        wide = np.zeros((len(rows), self.n_classes))
        wide[:, np.asarray(self.model.classes_, dtype=np.int64)] = self.model.predict_proba(rows)
        return wide


@dataclass(kw_only=True, eq=False, repr=False)
class Neighbours(Classifier):
    """k nearest neighbours by Euclidean distance between standardised inputs.

    .. [1] T. Cover, P. Hart. Nearest neighbor pattern classification. IEEE Transactions on Information Theory 13(1),
       1967. doi:10.1109/TIT.1967.1053964
    """

    name = "knn"

    n_neighbors: Count = 5  # how many vote; fewer if fewer were learnt from
    weights: Literal["uniform", "distance"] = "uniform"  # whether nearer ones weigh more

    def learn(self, rows: Floats, classes: Ints, n_classes: int) -> NeighbourVoter:
        from sklearn.neighbors import KNeighborsClassifier
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        vote = KNeighborsClassifier(min(self.n_neighbors, len(rows)), weights=self.weights, algorithm="brute", n_jobs=1)
        return NeighbourVoter(make_pipeline(StandardScaler(), vote).fit(rows, classes), n_classes)

    def save_voter(self, folder: Path) -> None:
        assert isinstance(self.voter_, NeighbourVoter)
        save_sklearn(folder / MODEL, self.voter_.model, ())

    def load_voter(self, folder: Path) -> NeighbourVoter:
        from sklearn.pipeline import Pipeline

        model, n_classes = load_sklearn(folder / MODEL, ()), len(self.class_names)
        seen = np.asarray(getattr(model, "classes_", ()))
        if (
            type(model) is not Pipeline
            or int(model.n_features_in_) != len(self.features_)
            or not (len(seen) and ((seen >= 0) & (seen < n_classes)).all())
        ):
            raise JobcastError(
                f"{folder / MODEL}: holds no neighbours of {len(self.features_)} inputs; train the model again."
            )
        return NeighbourVoter(model, n_classes)
