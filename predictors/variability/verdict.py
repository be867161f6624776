"""A classifier's answer: class and probability, or an abstention with its reason."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from predictors.core.arrays import Floats, Ints, short_repr
from predictors.data.runs import Words

NONE: Final = 0  # the class "no variation": also given where the classifier abstains

ABSTENTIONS: Final[Mapping[str, str]] = MappingProxyType(  # why a classifier abstains; the first that holds is given
    {
        "window": "no telemetry in the window before the start",
        "silent": "too many of the nodes gave no sample in the window before the start",
        "workload": "the workload type is not known",
        "missing": "too many inputs are missing",
        "unseen": "the application is not among those that the model learnt from",
    }
)


class Verdict(NamedTuple):
    """The answer for one start."""

    class_: int  # number of the class; `NONE` where the classifier abstains
    label: str  # the class's name: none, little or variation
    probability: float  # of variation; NaN where the classifier abstains
    abstained: bool = False  # whether nothing stands behind the class
    why: str = ""  # reason of the abstention, from `ABSTENTIONS`; empty otherwise
    filled: int = 0  # inputs that were missing, the training part's median standing in for them
    # model, version: which model answered
    model: str = ""
    version: str = ""

    @property
    def reason(self) -> str:
        return ABSTENTIONS.get(self.why, "")


@dataclass(frozen=True, eq=False)
class Verdicts:
    """The answers for many starts."""

    classes: Ints  # shape (n,); `NONE` where the classifier abstains
    probabilities: Floats  # shape (n, n_classes); each row sums to 1; NaN where the classifier abstains
    why: Words  # shape (n,); from `ABSTENTIONS`; empty where it does not abstain
    filled: Ints  # shape (n,); inputs for which the training part's median stood in

    __repr__ = short_repr

    @property
    def scores(self) -> Floats:
        """Probability of variation, 0 where the classifier abstains: for ranking, shape (n,)."""
        return np.nan_to_num(self.probabilities[:, -1], nan=0.0)

    def abstained(self) -> dict[str, int]:
        """Return how many answers are abstentions, by reason."""
        return {why: int((self.why == why).sum()) for why in ABSTENTIONS if (self.why == why).any()}
