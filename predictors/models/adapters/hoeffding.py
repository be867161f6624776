"""A decision tree that grows, and is pruned where the jobs change, as jobs end: for small streams."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from predictors.core.arrays import Floats
from predictors.core.params import Count, OpenShare, Seed
from predictors.models.adapters.river import Inputs, RiverEstimator, StreamPredictor
from predictors.models.online import _linear as kernel
from predictors.models.online.linear import FEATURES
from predictors.models.prediction import known_request

if TYPE_CHECKING:
    from river.base import Regressor


@dataclass(frozen=True, eq=False)
class ShareEstimator(RiverEstimator):
    """A river model of the share of its request that a job runs; see `RiverEstimator`."""

    def predict_one(self, row: Floats) -> float:
        return super().predict_one(row) * request_of(row)

    def teach(self, row: Floats, seconds: float) -> None:
        super().teach(row, seconds / request_of(row))


@dataclass(kw_only=True, eq=False, repr=False)
class OnlineTree(StreamPredictor):
    """Hoeffding adaptive tree of the share of its request that a job runs; or a forest of such trees.

    A leaf is split when enough jobs have reached it to be sure of the better split, and a branch is replaced when one
    grown on newer jobs has become better. Inputs are those of `OnlineLinear`, without their products.

    river grows the trees, in Python: one costs about half a millisecond a job, ten cost ten times as much, and each
    time that the window is full the newest half of it is learnt again. For millions of jobs take another predictor.

    .. [1] A. Bifet, R. Gavaldà. Adaptive learning from evolving data streams. IDA 2009.
       doi:10.1007/978-3-642-03915-7_22
    .. [2] H. M. Gomes, J. P. Barddal, L. E. Boiko Ferreira, A. Bifet. Adaptive random forests for data stream
       regression. ESANN 2018.

    >>> from predictors.data.synthetic.generate import generate_log
    >>> log = generate_log(300, seed=1)
    >>> bool((OnlineTree().fit(log).predict(log) <= log.filled("requested_time")).all())
    True
    """

    name = "online-tree"
    packages = ("river",)
    features = FEATURES

    trees: Count = 1  # 1: the tree; more: an adaptive random forest of so many
    grace_period: Count = 50  # jobs that a leaf sees between attempts to split it
    delta: OpenShare = 1e-4  # chance that a split is not the better one
    random_state: Seed = 0  # seed: equal seeds, equal trees

    def fresh_model(self) -> "Regressor":
        common: dict[str, Any] = {
            "grace_period": self.grace_period,
            "delta": self.delta,
            "leaf_prediction": "mean",
            "seed": self.random_state,
        }
        if self.trees > 1:
            from river.forest import ARFRegressor

            return ARFRegressor(n_models=self.trees, **common)
        from river.tree import HoeffdingAdaptiveTreeRegressor

        return HoeffdingAdaptiveTreeRegressor(**common)

    def encoder(self) -> Callable[[Floats], Inputs]:
        return inputs_of

    def estimator_of(self, model: "Regressor") -> ShareEstimator:
        return ShareEstimator(model, self.encoder())


def request_of(row: Floats) -> float:
    """Return the request as the inputs see it [s]."""
    request = float(row[kernel.REQUESTED])
    return min(known_request(request), kernel.LONGEST_REQUEST)


def inputs_of(row: Floats) -> Inputs:
    z = np.empty(kernel.N_INPUTS)
    kernel.write_inputs(row, z)
    return {f"z{k}": value for k, value in enumerate(z[1:].tolist())}
