"""Answers of a classifier of variability about starts now: from a service, or from a model and telemetry files here."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import numpy as np

from predictors.core.errors import JobcastError
from predictors.data.telemetry.read import Scan
from predictors.data.telemetry.samples import Samples
from predictors.schedulers.hold import Answer
from predictors.service.client import Client
from predictors.tracking.describe import LoadedClassifier
from predictors.variability.classifiers.query import Question, ask
from predictors.variability.windows import windows

MOST_OLD: Final = 120  # counters that are older than this [s] say nothing about now


MOST_AT_ONCE: Final = 1000  # starts in one request; a service takes no more


class Asked(NamedTuple):
    """A start that is being considered, as the classifier knows it."""

    application: str
    workload: str


class Judge(Protocol):
    """Who answers."""

    def answers(self, starts: Sequence[Asked], now: int) -> list[Answer]:
        """Return the answers about starts at a second; no answer, with the reason, where there is none."""


class ServiceJudge:
    """The classifier of a service, which is sent the nodes' counters (`POST /v1/telemetry`)."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def answers(self, starts: Sequence[Asked], now: int) -> list[Answer]:
        """Ask the service; a classifier that judges by the job's own nodes is refused, since none are known yet."""
        parts = [starts[at : at + MOST_AT_ONCE] for at in range(0, len(starts), MOST_AT_ONCE)]
        return [answer for part in parts for answer in self._part(part, now)]

    def _part(self, starts: Sequence[Asked], now: int) -> list[Answer]:
        body = {"starts": [{"application": one.application[:256], "workload": one.workload} for one in starts]}
        found = self._client.ask("POST", "/v1/predictions/variability", body)
        newest, model, version = found["newest_sample"], found["classifier"], found["version"]
        about = {"model": str(model), "version": "" if version is None else str(version)}
        if newest is not None and (old := _age(newest, now)):
            return [Answer(None, **about, why=old)] * len(starts)
        return [Answer(one["probability"], one["label"], **about, why=one["why"] or "") for one in found["predictions"]]


class LocalJudge:
    """A classifier in this process, and a folder of telemetry files; it may not judge by the job's own nodes.

    `telemetry` holds LDMS's CSV files, or Parquet files, of the whole machine; see docs/telemetry.md. Their times are
    Unix time.
    """

    def __init__(self, loaded: LoadedClassifier, telemetry: str | os.PathLike[str]) -> None:
        if loaded.origin.scope == "job":
            raise JobcastError(
                f"{loaded.uri}: this classifier judges by the job's own nodes, which are unknown before its start; "
                "take one that learnt from the counters of the whole machine."
            )
        self._loaded, self._telemetry = loaded, telemetry
        self._seen: frozenset[tuple[str, int, int]] | None = None
        self._newest = -np.inf

    def answers(self, starts: Sequence[Asked], now: int) -> list[Answer]:
        """Read the counters before now, and ask the classifier.

        It does not answer where the newest counters are older than `MOST_OLD`. Then nothing is read either, until a
        file of the folder has changed.
        """
        version = "" if self._loaded.version is None else str(self._loaded.version)
        seen = self._files()
        if seen is not None and seen == self._seen and (old := _age(self._newest, now)):
            return [self._silent(version, old)] * len(starts)
        window = self._loaded.origin.window
        parts = _Timed(Scan(self._telemetry, between=[[now - window, now]]), now)
        found = windows(parts, [float(now)], window=window)
        self._seen, self._newest = None if parts.goes_on else seen, parts.newest
        if old := _age(self._newest, now):
            return [self._silent(version, old)] * len(starts)
        answers = []
        for one in starts:
            question = Question(np.asarray(found.values[0]), one.workload, one.application)
            told = ask(self._loaded.classifier, question, version)
            probability = None if told.abstained else float(told.probability)
            name = self._loaded.name or told.model
            answers.append(Answer(probability, told.label, name, version, told.reason))
        return answers

    def _silent(self, version: str, why: str) -> Answer:
        return Answer(None, model=self._loaded.name or "", version=version, why=why)

    def _files(self) -> frozenset[tuple[str, int, int]] | None:
        """Return the files of the folder, by size and time of their last change; None where that is unknown."""
        root = Path(self._telemetry)
        files = [one for one in root.rglob("*") if one.is_file()] if root.is_dir() else [root]
        try:
            states = [(str(one), one.stat()) for one in files]
        except OSError:  # one was moved away meanwhile
            return None
        return frozenset((name, state.st_size, state.st_mtime_ns) for name, state in states)


class _Timed:
    """Parts of telemetry as they come, the time of the newest row until a second, and whether rows follow it."""

    def __init__(self, parts: Iterable[Samples], until: int) -> None:
        self._parts, self._until, self.newest, self.goes_on = parts, until, -np.inf, False

    def __iter__(self) -> Iterator[Samples]:
        for part in self._parts:
            past = part.time[part.time <= self._until]
            self.newest = max(self.newest, float(past.max(initial=-np.inf)))
            self.goes_on |= past.size < part.time.size
            yield part


def _age(newest: float, now: int) -> str:
    """Return why counters say nothing about now; empty where they do."""
    if newest == -np.inf:
        return f"there are no counters near {now}"
    if abs(now - newest) <= MOST_OLD:
        return ""
    return f"the newest counters are of {newest:.0f}, {now - newest:.0f} s before now"
