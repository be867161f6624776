"""Replays a log through a service and compares its predictions with the evaluation.

The log's own times are the clock. Before each submission the service is asked, by as_of, with all events until then
learnt; or, in batches, it is asked for its predictions at the submissions. Both must be the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats
from predictors.core.errors import JobcastError
from predictors.core.events import ENDED, STARTED, SUBMITTED
from predictors.data.joblog import JobLog
from predictors.data.names import Codes, names_against_numbers
from predictors.history.replay import log_events
from predictors.service.client import Client
from predictors.service.event import KIND_NAMES

_CODES: Final = ("user", "group", "executable", "queue", "partition")
_NOTHING_KNOWN: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True)
class Replayed:
    """The service's predictions of a log."""

    seconds: Floats  # shape (n_jobs,); predictions [s]
    answered_by: tuple[str, ...]  # which predictor gave each
    # first, last: sequence numbers of the first and the last event
    first: int
    last: int


def drive(
    # of a service with a clock and time zone that suit the log; without events so far, to be comparable
    client: Client,
    log: JobLog,  # jobs with known run times
    # 1: ask before each submission, as of the event before it. More: send so many events at a time, then ask for what
    # was predicted at the submissions among them.
    batch: int = 1,
) -> Replayed:
    """Send a log's events in order, and ask for every job's prediction; refuse a service that is out of step."""
    about = client.models()
    offset = _offset(about, log)
    events, jobs = log_events(log), _Jobs(log, offset, _goes_by(about))
    seconds, answered_by = np.full(len(log), np.nan), [""] * len(log)
    last = first = int(about["sequence"])
    for begin, end in _parts(events[:, 1], batch):
        if batch == 1 and events[end - 1, 1] == SUBMITTED:
            last = _send(client, jobs, events[begin : end - 1], last)
            time, _, row = events[end - 1].tolist()
            found = client.runtime([jobs.described(row)], as_of=last, now=time + offset)[0]
            if found.sequence != last:
                raise JobcastError(f"The service knows of event {found.sequence}, not {last}: others send events too.")
            seconds[row], answered_by[row] = found.seconds or np.nan, found.answered_by or ""
            last = _send(client, jobs, events[end - 1 : end], last)
            continue
        last = _send(client, jobs, events[begin:end], last)
        rows = events[begin:end][events[begin:end, 1] == SUBMITTED, 2].tolist()
        if rows:
            for row, answer in zip(rows, client.recorded([jobs.ids[r] for r in rows], as_of=last), strict=True):
                seconds[row] = np.nan if answer.seconds is None else answer.seconds
                answered_by[row] = answer.answered_by or ""
    return Replayed(seconds, tuple(answered_by), first + 1, last)


class _Jobs:
    """The log's jobs as the API takes them."""

    def __init__(self, log: JobLog, offset: int, goes_by: Mapping[str, str] = _NOTHING_KNOWN) -> None:
        self.ids: list[int] = log.filled("job_id").tolist()
        self._offset = offset
        self._status: list[int] = log.filled("status").tolist()
        columns = {"procs": log.procs, "requested_time": log.filled("requested_time")}
        columns |= {name: log.filled(name) for name in _CODES}
        self._columns: dict[str, list[int]] = {name: values.tolist() for name, values in columns.items()}
        self._names = {name: _names(log, name, goes_by[name]) for name in _CODES if name in goes_by}

    def described(self, row: int) -> dict[str, Any]:
        found: dict[str, Any] = {name: values[row] for name, values in self._columns.items() if values[row] >= 0}
        for column, names in self._names.items():
            if column in found:
                found[column] = names.get(found[column], found[column])
        return found

    def event(self, time: int, kind: int, row: int) -> dict[str, Any]:
        found: dict[str, Any] = {"kind": KIND_NAMES[kind], "job_id": self.ids[row], "time": time + self._offset}
        if kind == SUBMITTED:
            return found | self.described(row)
        if kind == ENDED and self._status[row] >= 0:
            return found | {"status": self._status[row]}
        return found


def _send(client: Client, jobs: _Jobs, events: npt.NDArray[np.int64], last: int) -> int:
    if not len(events):
        return last
    receipts = client.send(jobs.event(*one) for one in events.tolist())
    for one, receipt in zip(events.tolist(), receipts, strict=True):
        status, again = receipt["status"], receipt["status"] == "duplicate" and receipt["sequence"] > last
        if status != "applied" and not again and not (status == "held" and one[1] == STARTED):
            raise JobcastError(
                f"Job {jobs.ids[one[2]]}: the service answers {receipt['status']!r} to its event "
                f"{KIND_NAMES[one[1]]!r}; replay into a service with an empty database."
            )
    return max(int(receipt["sequence"]) for receipt in receipts)


def _parts(kinds: npt.NDArray[np.int64], batch: int) -> list[tuple[int, int]]:
    """Return slices: each ends behind a submission if `batch` is 1, else after so many events."""
    if batch > 1:
        cuts = np.append(np.arange(batch, len(kinds), batch), len(kinds))
    else:
        cuts = np.unique(np.append(np.flatnonzero(kinds == SUBMITTED) + 1, len(kinds)))
    return list(zip([0, *cuts[:-1].tolist()], cuts.tolist(), strict=True))


def _goes_by(about: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = next(one["codes"] for one in about["models"] if one["role"] == "champion")
    return found


def _names(log: JobLog, column: str, goes_by: str) -> dict[int, str]:
    """Return the names to send in the place of codes; those of a model that learnt numbers are none."""
    names = Codes.of(log, column).names
    if log.known(column).any() and bool(names) != (goes_by == "names"):
        raise names_against_numbers(log, column, bool(names), "the service's model")
    return {code: name for name, code in names.items()}


def _offset(about: Mapping[str, Any], log: JobLog) -> int:
    """Return what makes the log's times those of the service's clock."""
    if about["machine_procs"] != log.max_procs:
        raise JobcastError(
            f"{log.name} is of a machine of {log.max_procs} processors, the service of {about['machine_procs']}: start "
            f"it {'without --machine-procs' if log.max_procs is None else f'with --machine-procs {log.max_procs}'}."
        )
    if about["clock"] == "log":
        if log.epoch is not None:
            raise JobcastError(f"{log.name} tells its date, and the service was started with --clock log: use unix.")
        return 0
    if log.epoch is None:
        raise JobcastError(f"{log.name} does not tell its date: start the service with --clock log.")
    if (about["time_zone"] or "UTC") != (log.time_zone or "UTC"):
        raise JobcastError(
            f"{log.name} is of time zone {log.time_zone or 'UTC'}, the service of {about['time_zone'] or 'UTC'}: start "
            f"it with --time-zone {log.time_zone or 'UTC'}."
        )
    return log.epoch
