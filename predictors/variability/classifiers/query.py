"""The query of a scheduler before a start, and the classifier's answer as of now.

The row of inputs is the one that the model learnt from: counters of the five minutes before, of all nodes or of those
that the job would get, the last known probes, the workload. Where it cannot be made the answer is an abstention.
"""

from dataclasses import dataclass

from predictors.core.arrays import Floats, short_repr
from predictors.variability.classifiers.base import Classifier
from predictors.variability.dataset import MOST_SILENT
from predictors.variability.features import FEATURES, feature_row
from predictors.variability.verdict import NONE, Verdict


@dataclass(frozen=True, eq=False)
class Question:
    """A start that is being considered."""

    # shape (270,); the counters before it, in the order of `predictors.variability.windows.WINDOW_FEATURES`; NaN where
    # no sample
    window: Floats
    workload: str  # compute, network or io; empty where it is not known
    application: str = ""  # what is to be started
    # shape (9,), optional; last known waits of the probes [s], in the order of `predictors.data.runs.PROBES`
    probes: Floats | None = None
    silent: float = 0.0  # share of the nodes asked for that gave no sample in the window

    __repr__ = short_repr


def ask(classifier: Classifier, question: Question, version: str = "") -> Verdict:
    """Return the classifier's verdict on a start.

    >>> import numpy as np
    >>> from predictors.variability.classifiers.registry import make_classifier
    >>> rows = np.zeros((20, len(FEATURES)))
    >>> rows[10:, 0] = 1.0
    >>> model = make_classifier("adaboost").fit(rows, np.arange(20) // 10, features=FEATURES)
    >>> ask(model, Question(np.ones(270), "io")).label
    'variation'
    >>> ask(model, Question(np.full(270, np.nan), "io")).reason
    'no telemetry in the window before the start'
    """
    if question.silent > MOST_SILENT:
        return Verdict(NONE, classifier.class_names[NONE], float("nan"), True, "silent", 0, classifier.name, version)
    row = feature_row(question.window, question.probes, question.workload)
    found = classifier.judge_one(row, features=FEATURES, application=question.application)
    return found._replace(version=version)
