"""What does a kept model remember of its log? The history of every feature, so that anyone can go on with it.

A fit keeps the history that the predictor's own features need. A model that is registered keeps all of it: a service
that begins with it knows then what it would know if the log had been driven through it.
"""

from typing import Final

import numpy as np

from predictors.base import Predictor
from predictors.data.joblog import JobLog
from predictors.data.naming import codes_of
from predictors.features import CODED, FEATURES, families_of
from predictors.history import JobHistory
from predictors.replay import LogEvents, LogHistory

WHOLE: Final = tuple({one.family: name for name, one in FEATURES.items()}.values())
"""One feature of each family: a history of these keeps what any feature needs."""
_SLICE: Final = 1 << 16  # events held at once


def remember(predictor: Predictor, log: JobLog) -> None:
    """Let a fitted predictor remember all of its log, and the names behind every code of it.

    Examples
    --------
    >>> from predictors.data.synthetic import generate_log
    >>> from predictors.registry import make_predictor
    >>> log = generate_log(40, seed=1)
    >>> model = make_predictor("last-two").fit(log)
    >>> is_whole(model.history_)
    False
    >>> remember(model, log)
    >>> is_whole(model.history_)
    True
    """
    history = LogHistory(log, WHOLE, predictor.as_of)
    rows = np.full((len(log), len(WHOLE)), np.nan)
    events, buffer = LogEvents(log), np.empty((_SLICE, 3), dtype=np.int64)
    while n := events.read(buffer):
        history.consume(buffer[:n], rows)
    predictor.history_ = history.live(rows)
    predictor.codes_ = codes_of(log, CODED)


def is_whole(history: JobHistory) -> bool:
    """Return whether a history keeps what any feature needs."""
    return families_of(history.features) == families_of(WHOLE)
