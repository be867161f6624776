"""Warnings about suspicious training data."""

import sys
import warnings
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Final

import numpy as np

from predictors.core.arrays import Floats
from predictors.core.errors import counted

LONGEST_REQUEST: Final = 30 * 86400
FEW: Final = 2


class TrainingDataWarning(UserWarning):
    """Something about the jobs learnt from is unusual; the message says what is done about it."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.message = message


def warn_about_training_data(name: str, features: Sequence[str], rows: Floats, seconds: Floats) -> None:
    """Warn, once for each kind, of suspicious feature rows and run times [s] to learn from.

    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_about_training_data("forest", ["requested_time"], np.array([[600.0]] * 3), np.full(3, 60.0))
    >>> str(caught[0].message)
    'forest: all 3 jobs ran for 60 s: there is nothing else to predict.'
    """
    for message in training_warnings(features, rows, seconds):
        warnings.warn(TrainingDataWarning(name, message), stacklevel=_frames_of_ours())


def _frames_of_ours() -> int:
    """Return the stack level of the code that called into the predictors, as seen from `warn_about_training_data`."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith("predictors."):
        frame, level = frame.f_back, level + 1
    return level


def training_warnings(features: Sequence[str], rows: Floats, seconds: Floats) -> Iterator[str]:
    """Yield a sentence for each suspicious fact about the training data."""
    if len(seconds) < FEW:
        yield "only one job to learn from: its run time is all that is known."
    elif np.ptp(seconds) == 0:
        yield f"all {len(seconds)} jobs ran for {seconds[0]:g} s: there is nothing else to predict."
    missing = [feature for feature, column in zip(features, rows.T, strict=True) if np.isnan(column).all()]
    if missing and len(seconds) >= FEW:
        yield f"{', '.join(missing)} missing in all jobs: learnt without."
    column = dict(zip(features, rows.T, strict=True))
    users = column.get("user")
    if users is not None and len(users) >= FEW and np.ptp(users) == 0:
        yield "all jobs are of one user: what is learnt says nothing about others."
    requests = column.get("requested_time")
    if requests is None:
        return
    if n := int((requests <= 0).sum()):
        yield f"of {counted(n, 'job')} the request is 0 s or less: it counts as unknown and caps nothing."
    if n := int((requests > LONGEST_REQUEST).sum()):
        yield f"of {counted(n, 'job')} the request is more than 30 days, as good as no limit: it hardly caps anything."
