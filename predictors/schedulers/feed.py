"""Events of jobs, from the differences between two looks at a scheduler's queue."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from predictors.data.formats.columns import MISSING
from predictors.data.formats.slurm import STATES
from predictors.schedulers.forecaster import Forecaster, RefusedEvent, described
from predictors.schedulers.soft_limit import PENDING, QueuedJob
from predictors.service.client import ServiceError

_AT_ONCE: Final = 5000
_CANCELLED: Final = 5
_FORGET_AFTER: Final = 3 * 86_400
_REFUSED: Final = 422


def has_ended(job: QueuedJob) -> bool:
    """Return whether a job has ended, or was cancelled.

    >>> has_ended(QueuedJob(1, "TIMEOUT", end=60)), has_ended(QueuedJob(1, "RUNNING", end=60))
    (True, False)
    """
    return job.end is not None and (STATES.get(job.state, MISSING) != MISSING or job.state == "REQUEUED")


def has_run(job: QueuedJob) -> bool:
    """Return whether a job has run, or runs: one that waits may show when it is expected to start."""
    if job.start is None or job.state == PENDING:
        return False
    return not (job.state == "CANCELLED" and job.start == job.end)


class Feed:
    """The events of each job that a service has received.

    A task of an array is sent with its own number when it starts; before, the array's tasks have one row. The cluster's
    name goes with each event, as ids are the cluster's own.
    """

    def __init__(self, cluster: str = "") -> None:
        self._cluster = cluster
        self._told: dict[tuple[str, int], tuple[str, int]] = {}
        self._newest: dict[str, int] = {}
        self.refused = 0  # events that the service would not have

    def send(self, jobs: Iterable[QueuedJob], forecaster: Forecaster) -> int:
        """Tell a service what has happened since the last look; return how many events that were.

        It raises JobcastError if the service did not receive them; the next look sends them again. The service takes
        each event once.
        """
        new = self._new(jobs)
        for at in range(0, len(new), _AT_ONCE):
            part = new[at : at + _AT_ONCE]
            self._deliver([event for event, _ in part], forecaster)
            for event, key in part:
                self._told[key, event["submission"]] = (event["kind"], event["time"])
                self._newest[key] = max(event["submission"], self._newest.get(key, 0))
        return len(new)

    def forget(self, now: int) -> None:
        """Forget jobs that ended days ago, or of which nothing was heard for a month: to tell again does no harm."""
        ends = ("ended", "cancelled")
        old = [
            one
            for one, (kind, at) in self._told.items()
            if at < now - (_FORGET_AFTER if kind in ends else 10 * _FORGET_AFTER)
        ]
        for one in old:
            del self._told[one]
            if self._newest.get(one[0]) == one[1]:
                del self._newest[one[0]]

    def _new(self, jobs: Iterable[QueuedJob]) -> list[tuple[dict[str, Any], str]]:
        """Return the events that are new, in the order of their times, each with its job."""
        found = []
        for job in jobs:
            if job.submit is None or (job.task and not (has_run(job) or has_ended(job))):
                continue
            told = self._told.get((job.key, job.submit), ("", 0))[0]
            found += [(event, job.key) for event in self._events(job, told)]
        order = ("submitted", "started", "ended", "cancelled")
        return sorted(found, key=lambda one: (one[0]["time"], order.index(one[0]["kind"])))

    def _events(self, job: QueuedJob, told: str) -> list[dict[str, Any]]:
        assert job.submit is not None
        about = {"job_id": job.key if job.task else job.job_id, "submission": job.submit}
        if self._cluster:
            about["cluster"] = self._cluster
        found: list[dict[str, Any]] = []
        if not told:
            before = self._newest.get(job.key)
            is_open = before is not None and self._told[job.key, before][0] in ("submitted", "started")
            if (
                before is not None and is_open and before < job.submit
            ):  # requeued: the run before is over, and squeue no longer shows it
                found.append({**about, "submission": before, "kind": "cancelled", "time": job.submit})
            found.append({"kind": "submitted", "time": job.submit, **about, **described(job)})
        if told in ("", "submitted") and has_run(job):
            found.append({"kind": "started", "time": max(job.start or 0, job.submit), **about})
        if told not in ("ended", "cancelled") and has_ended(job):
            end = max(job.end or 0, job.start or 0, job.submit)
            if has_run(job):
                status = STATES.get(job.state, MISSING)
                found.append({"kind": "ended", "time": end, **about, "status": status if status >= 0 else _CANCELLED})
            else:
                found.append({"kind": "cancelled", "time": end, **about})
        return found

    def _deliver(self, events: Sequence[dict[str, Any]], forecaster: Forecaster) -> None:
        """Send events; where the service refuses them as they are, find those at fault, and go on without them."""
        try:
            forecaster.send(events)
        except ServiceError as error:
            if error.status != _REFUSED:
                raise
            self._divide(events, forecaster)
        except RefusedEvent:
            self._divide(events, forecaster)

    def _divide(self, events: Sequence[dict[str, Any]], forecaster: Forecaster) -> None:
        if len(events) == 1:
            self.refused += 1
            return
        half = len(events) // 2
        self._deliver(events[:half], forecaster)
        self._deliver(events[half:], forecaster)
