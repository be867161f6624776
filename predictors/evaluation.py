"""What an evaluation finds: every figure of every predictor, typed, and as the JSON document of the command line."""

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from predictors.base import Floats, Predictor
from predictors.data.errors import unknown_name
from predictors.last_two import LastTwo
from predictors.metrics import Figures
from predictors.slices import Slice

JSON_FIGURES: Final = (
    "n_test",
    "sse_s2",
    "sse_ratio_to_last_two",
    "mae_s",
    "rmse_s",
    "median_ae_s",
    "r2",
    "mean_accuracy",
    "underestimation_rate",
)


@dataclass(frozen=True, kw_only=True)
class Score:
    """How one predictor did.

    Attributes
    ----------
    name : str
        The predictor's registered name, or what the caller calls it.
    figures : Figures
        On all test jobs.
    interval : tuple of float
        95 % interval of the ratio to last-two, resampling users.
    fit_seconds : float
        Time spent learning, the features not included [s].
    predict_us_per_job : float
        Time spent predicting, a job [µs]; prequential: history included.
    slices : tuple of Slice
        By run time, cold and warm users, and month.
    predicted : float64 array of shape (n_test,)
        Predictions [s].
    predictor : Predictor
        As fitted here.
    """

    name: str
    figures: Figures
    interval: tuple[float, float]
    fit_seconds: float
    predict_us_per_job: float
    slices: tuple[Slice, ...] = field(repr=False)
    predicted: Floats = field(repr=False)
    predictor: Predictor = field(repr=False)

    def to_json(self, detailed: bool = False) -> dict[str, Any]:
        """Return the figures by name; `detailed` adds the interval, the remaining figures and the slices."""
        found = self.figures.to_dict()
        short = {"name": self.name, **{name: found[name] for name in JSON_FIGURES}}
        times = {"fit_seconds": self.fit_seconds, "predict_us_per_job": self.predict_us_per_job}
        if not detailed:
            return short | times
        more = {name: value for name, value in found.items() if name not in JSON_FIGURES}
        parts = [{"by": part.by, "slice": part.label, **part.figures.to_dict()} for part in self.slices]
        return short | times | more | {"sse_ratio_interval": list(self.interval), "slices": parts}


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What was predicted, how, and how well.

    Attributes
    ----------
    log, split, protocol : str
        Name of the log, the split in words, the protocol's name.
    partition : int or None
        The partition that the log was cut down to.
    capped : bool
        Whether predictions were capped at the request.
    n_train, n_test : int
        Jobs learnt from and scored.
    run_time : float64 array of shape (n_test,)
        True run times of the test jobs [s].
    user : int64 array of shape (n_test,)
        Whose jobs they are; -1 is unknown.
    scores : tuple of Score
        The baseline, last-two, is always among them, and first.
    """

    log: str
    split: str
    protocol: str
    partition: int | None
    capped: bool
    n_train: int
    n_test: int
    run_time: Floats = field(repr=False)
    user: npt.NDArray[np.int64] = field(repr=False)
    scores: tuple[Score, ...]

    def __getitem__(self, name: str) -> Score:
        for score in self.scores:
            if score.name == name:
                return score
        raise unknown_name("score of a predictor", name, [score.name for score in self.scores])

    def to_json(self, detailed: bool = False) -> dict[str, Any]:
        """Return the document that `jobcast evaluate --json` prints; NaN stands for figures that do not exist."""
        return {
            "log": self.log,
            "split": self.split,
            "protocol": self.protocol,
            "baseline": {"name": LastTwo.name, "capped": self.capped, "rows": self.n_test},
            "predictors": [score.to_json(detailed) for score in self.scores],
        }
