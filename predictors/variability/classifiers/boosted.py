"""Gradient-boosted trees for the classes of variability: XGBoost grows them, compiled code walks them.

Classes are ordered (none < little < variation), so there is one model for each limit between them: the probability of
lying above it. So the probability of variation is the same with two classes and with three.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError
from predictors.core.files import whole_file
from predictors.core.params import Count, NotNegative, Share
from predictors.models.boosted import TreeGrowth, grow_trees
from predictors.models.trees import CompiledForest, compile_booster
from predictors.variability.classifiers.base import Classifier, between


@dataclass(frozen=True, eq=False)
class BoostedVoter:
    """One boosted model a limit between classes; immutable."""

    # what XGBoost made, in its own JSON; empty where no run lay above the limit, or none below
    models: tuple[bytes, ...]
    forests: tuple[CompiledForest | None, ...]  # the same trees
    starts: tuple[float, ...]  # what is added to the trees' sums; infinite where there is no model

    @classmethod
    def of(cls, models: tuple[bytes, ...]) -> "BoostedVoter":
        """Compile models; an empty one stands for "never above"."""
        forests: list[CompiledForest | None] = []
        starts = []
        for model in models:
            forest, base = compile_booster(model) if model else (None, 0.0)
            if model and not 0 < base < 1:
                raise JobcastError("The boosted model gives no probabilities; the file is damaged: train it again.")
            forests.append(forest)
            starts.append(float(np.log(base / (1 - base))) if model else -np.inf)
        return cls(models, tuple(forests), tuple(starts))

    def probabilities(self, rows: Floats) -> Floats:
        """Return shape (n_rows, n_classes), each row summing to 1."""
        above = []
        for forest, start in zip(self.forests, self.starts, strict=True):
            sums = np.zeros(len(rows)) if forest is None else forest.predict(rows) * len(forest.roots)
            above.append(1 / (1 + np.exp(-(start + sums))))
        return between(above)


@dataclass(kw_only=True, eq=False, repr=False)
class BoostedClassifier(TreeGrowth, Classifier):
    """Gradient-boosted trees, one model for each limit between the classes.

    .. [1] T. Chen, C. Guestrin. XGBoost: a scalable tree boosting system. KDD 2016. doi:10.1145/2939672.2939785
    """

    name = "boosted"

    n_estimators: Count = 150  # trees of a model
    learning_rate: Share = 0.1  # how much each tree counts
    max_depth: Count = 4  # of a tree
    min_child_weight: NotNegative = 1.0  # least sum of weights, p (1 - p) a run, in a leaf
    subsample: Share = 0.8  # subsample, colsample: shares of the runs and inputs that each tree sees
    colsample: Share = 0.3

    def learn(self, rows: Floats, classes: Ints, n_classes: int) -> BoostedVoter:
        return BoostedVoter.of(tuple(self._above(rows, classes >= k) for k in range(1, n_classes)))

    def _above(self, rows: Floats, above: Any) -> bytes:
        if not above.any():
            return b""
        objective = {"objective": "binary:logistic", "base_score": float(np.clip(above.mean(), 1e-6, 1 - 1e-6))}
        return grow_trees(self, rows, objective, self.min_child_weight, label=above.astype(np.float32))

    def importances(self) -> Floats:
        import xgboost

        self.require_fit()
        assert isinstance(self.voter_, BoostedVoter)
        shares = np.zeros(len(self.features_))
        if self.voter_.models[-1]:
            booster = xgboost.Booster(model_file=bytearray(self.voter_.models[-1]))
            for name, gain in booster.get_score(importance_type="total_gain").items():
                shares[int(name.removeprefix("f"))] = float(np.mean(gain))
        return shares / shares.sum() if shares.sum() > 0 else np.full(len(shares), 1 / len(shares))

    def save_voter(self, folder: Path) -> None:
        assert isinstance(self.voter_, BoostedVoter)
        for k, model in enumerate(self.voter_.models, start=1):
            if model:
                with whole_file(_file(folder, k)) as part:
                    part.write_bytes(model)

    def load_voter(self, folder: Path) -> BoostedVoter:
        files = [_file(folder, k) for k in range(1, len(self.class_names))]
        try:
            models = tuple(file.read_bytes() if file.exists() else b"" for file in files)
        except OSError as error:
            raise JobcastError(f"{folder}: cannot be read ({error}); train the model again.") from error
        voter = BoostedVoter.of(models)
        if not any(models) or any(f is not None and f.n_features != len(self.features_) for f in voter.forests):
            raise JobcastError(f"{folder}: holds no trees of {len(self.features_)} inputs; train the model again.")
        return voter


def _file(folder: Path, limit: int) -> Path:
    return folder / f"above-{limit}.json"
