"""Answers of a classifier of variability about starts now: from a service, or from a model and telemetry files here."""

import os
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np

from predictors.core.errors import JobcastError
from predictors.schedulers.hold import Answer
from predictors.service.client import Client
from predictors.tracking.describe import LoadedClassifier
from predictors.variability.classifiers.query import Question, ask
from predictors.variability.windows import file_windows

MOST_OLD: Final = 120
"""Counters of a service that are older than this [s] say nothing about now."""


MOST_AT_ONCE: Final = 1000
"""Starts in one request; a service takes no more."""


class Asked(NamedTuple):
    """A start that is being considered, as the classifier knows it."""

    application: str
    workload: str


class Judge(Protocol):
    """Who answers."""

    def answers(self, starts: Sequence[Asked], now: int) -> list[Answer]:
        """Return the answers about starts at a second; no answer, with the reason, where there is none."""


class ServiceJudge:
    """The classifier of a service, which is sent the nodes' counters (`POST /v1/telemetry`).

    Parameters
    ----------
    client : Client
        Of the service.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def answers(self, starts: Sequence[Asked], now: int) -> list[Answer]:
        """Ask the service.

        Raises
        ------
        JobcastError
            If it does not answer, has no classifier, or one that judges by the job's own nodes.
        """
        parts = [starts[at : at + MOST_AT_ONCE] for at in range(0, len(starts), MOST_AT_ONCE)]
        return [answer for part in parts for answer in self._part(part, now)]

    def _part(self, starts: Sequence[Asked], now: int) -> list[Answer]:
        body = {"starts": [{"application": one.application[:256], "workload": one.workload} for one in starts]}
        found = self._client.ask("POST", "/v1/predictions/variability", body)
        newest, model, version = found["newest_sample"], found["classifier"], found["version"]
        about = {"model": str(model), "version": "" if version is None else str(version)}
        if newest is not None and abs(now - newest) > MOST_OLD:
            old = f"the newest counters are of {newest:.0f}, {now - newest:.0f} s before now"
            return [Answer(None, **about, why=old)] * len(starts)
        return [Answer(one["probability"], one["label"], **about, why=one["why"] or "") for one in found["predictions"]]


class LocalJudge:
    """A classifier in this process, and a folder that telemetry files come into.

    Parameters
    ----------
    loaded : LoadedClassifier
        The classifier.
    telemetry : path-like
        LDMS's CSV files, or Parquet files, of the whole machine; see docs/telemetry.md. Their times are Unix time.

    Raises
    ------
    JobcastError
        If it judges by the job's own nodes: these are not known before the start.
    """

    def __init__(self, loaded: LoadedClassifier, telemetry: str | os.PathLike[str]) -> None:
        if loaded.origin.scope == "job":
            raise JobcastError(
                f"{loaded.uri}: this classifier judges by the job's own nodes, which nobody knows before its start; "
                "take one that learnt from the counters of the whole machine."
            )
        self._loaded, self._telemetry = loaded, telemetry

    def answers(self, starts: Sequence[Asked], now: int) -> list[Answer]:
        """Read the counters before now, and ask the classifier.

        Raises
        ------
        JobcastError
            If the files cannot be read.
        """
        found, _ = file_windows(self._telemetry, [float(now)], window=self._loaded.origin.window)
        version = "" if self._loaded.version is None else str(self._loaded.version)
        answers = []
        for one in starts:
            question = Question(np.asarray(found.values[0]), one.workload, one.application)
            told = ask(self._loaded.classifier, question, version)
            probability = None if told.abstained else float(told.probability)
            name = self._loaded.name or told.model
            answers.append(Answer(probability, told.label, name, version, told.reason))
        return answers
