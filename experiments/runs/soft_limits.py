"""Who gives the bounds of soft limits in a simulation: the model of the adapter, or run times given beforehand."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import numpy as np

from predictors.core.arrays import Ints
from predictors.core.events import CANCELLED, ENDED, RETURNED, SUBMITTED
from predictors.data.joblog import JobLog
from predictors.models.base import Predictor
from predictors.schedulers.forecaster import bounds, runtime_of
from predictors.schedulers.soft_limit import Bound, QueuedJob
from predictors.service.client import Runtime
from predictors.service.event import UNKNOWN, Event
from predictors.service.pseudonyms import Pseudonymiser
from predictors.service.state.jobs import JobState
from predictors.service.state.model import Identity, Model

_COLUMNS: Final = ("requested_time", "user", "group", "executable", "queue", "partition")
_DESCRIBED: Final = ("procs", *_COLUMNS)


class GivenBounds:
    """Run times given beforehand [s], one for each job of a log."""

    def __init__(self, log: JobLog, seconds: Ints) -> None:
        self._log, self._seconds = log, seconds
        self._columns = ("user", "group", "executable", log.partition_column)
        self._names = {column: log.names(column) for column in self._columns}

    def job(self, row: int) -> QueuedJob:
        user, group, executable, partition = (self._text(column, row) for column in self._columns)
        limit, procs = int(self._log.values["requested_time"][row]), int(self._log.procs[row])
        return QueuedJob(row, limit=limit, user=user, account=group, name=executable, partition=partition, procs=procs)

    def take(self, events: Ints) -> None:
        """Nothing is learnt."""

    def of(self, jobs: Sequence[QueuedJob]) -> Sequence[Bound]:
        return [Bound(float(self._seconds[job.job_id])) for job in jobs]

    def fork(self) -> Self:
        return self

    def _text(self, column: str, row: int) -> str:
        code, names = int(self._log.filled(column)[row]), self._names[column]
        return names[code] if 0 <= code < len(names) else "" if code < 0 else str(code)


class LearntBounds(GivenBounds):
    """P90 of a model that receives the same events as the adapter's, and learns as the jobs end."""

    def __init__(self, log: JobLog, predictor: Predictor) -> None:
        super().__init__(log, np.empty(0, dtype=np.int64))
        name, key = predictor.name, Pseudonymiser()
        self._state = JobState(
            epoch=log.epoch, time_zone=log.time_zone, as_of=predictor.as_of, machine_procs=log.max_procs
        )
        self._model = Model(Identity(name, name, None, name), copy.deepcopy(predictor), key=key)
        self._model.forget_log()
        codes = [_codes(log, column, key) for column in _COLUMNS]
        self._described: Final = np.stack([log.procs, *codes], axis=1)
        self._status: Final = log.filled("status")
        self._number: dict[int, int] = {}  # of jobs that were submitted again: the service knows each time as a job
        self._sequence = 0

    def take(self, events: Ints) -> None:
        """Take in events in the order in which the adapter tells them."""
        if not (events[:, 1] == RETURNED).any():
            events = events[np.lexsort((events[:, 2], events[:, 1], events[:, 0]))]
        told: list[Event] = []
        for time, kind, row in events.tolist():
            if kind == RETURNED:
                told.append(self._event(row, CANCELLED, time))
                self._number[row] = len(self._described) + self._sequence
                kind = SUBMITTED
            told.append(self._event(row, kind, time))
        _, happened = self._state.take(told)
        self._model.follow(happened, self._sequence)

    def of(self, jobs: Sequence[QueuedJob]) -> Sequence[Bound]:
        return bounds(self, [self._told(job.job_id) for job in jobs])

    def runtime(self, jobs: Sequence[Mapping[str, Any]]) -> list[Runtime]:
        """Return the predicted run times of jobs, as if they were submitted now."""
        rows, sequence = self._state.rows([[job.get(name, UNKNOWN) for name in _DESCRIBED] for job in jobs], None)
        return [runtime_of(one, self._model.identity, sequence) for one in self._model.published.answers(rows)]

    def fork(self) -> Self:
        shared = (self._log, self._described, self._status, self._names)
        return copy.deepcopy(self, {id(one): one for one in shared})

    def _told(self, row: int) -> dict[str, int]:
        return {name: code for name, code in zip(_DESCRIBED, self._described[row].tolist(), strict=True) if code >= 0}

    def _event(self, row: int, kind: int, time: int) -> Event:
        self._sequence += 1
        about = dict(zip(_DESCRIBED, self._described[row].tolist(), strict=True)) if kind == SUBMITTED else {}
        about |= {"status": int(self._status[row])} if kind == ENDED else {}
        return Event(self._number.get(row, row), kind, time, **about, sequence=self._sequence)


def _codes(log: JobLog, column: str, key: Pseudonymiser) -> Ints:
    """Return a column as a service receives it: names as hashes, numbers as they are."""
    codes, names = log.filled(column), log.names(column)
    if not names:
        return codes
    hashed = np.array([key.code(name) for name in names], dtype=np.int64)
    is_named = (codes >= 0) & (codes < len(names))
    return np.where(is_named, hashed[np.clip(codes, 0, len(names) - 1)], codes)
