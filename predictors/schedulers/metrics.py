"""Metrics of the adapter for Prometheus: a file that node_exporter's textfile collector reads.

It is written whole after each look. Counters begin with the process.
"""

from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics, generate_latest

from predictors.core.errors import JobcastError
from predictors.core.files import whole_file
from predictors.schedulers.adapter import Cycle


class CycleMetrics:
    """What the looks of one process came to, kept in a file with a name that should end in .prom."""

    def __init__(self, path: Path) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._path, self._all = path, CollectorRegistry()
        self._looks = self._counter("looks", "Looks at the queue that succeeded, and that failed.", "result")
        self._changes = self._counter("changes", "Soft limits by what became of them, such as set or not-done.", "what")
        self._events = self._counter("events", "Events of jobs that the service received.")
        self._ended = self._counter("ended_jobs", "Jobs that were seen to have ended.")
        self._troubles = self._counter("troubles", "What could not be done.")
        self._jobs = self._gauge("jobs", "Jobs in the queue at the last look, pending ones and others.", "state")
        self._decisions = self._gauge("decisions", "Pending jobs at the last look by the decision's reason.", "reason")
        self._capped = self._gauge("capped_jobs", "Pending jobs at the last look of which P90 lies above the limit.")
        self._refused = self._gauge("refused", "1 where Slurm's options allow no soft limit, else 0.")
        self._seconds = self._gauge("look_seconds", "How long the last look took.")
        self._last = self._gauge("last_look_timestamp_seconds", "Slurm's clock at the last look that succeeded.")

    def add(self, done: Cycle | None) -> None:
        """Take in a look, None where it failed, and write the file."""
        self._looks.labels("failed" if done is None else "done").inc()
        if done is not None:
            for what, n in done.changed.items():
                self._changes.labels(what).inc(n)
            for counter, n in ((self._events, done.events), (self._ended, done.ended)):
                counter.inc(n)
            self._troubles.inc(len(done.troubles))
            self._jobs.labels("pending").set(done.pending)
            self._jobs.labels("other").set(done.jobs - done.pending)
            self._decisions.clear()
            for reason, n in done.decisions.items():
                self._decisions.labels(reason).set(n)
            self._capped.set(done.capped)
            self._refused.set(bool(done.refusal))
            self._seconds.set(done.seconds)
            self._last.set(done.now)
        try:
            with whole_file(self._path) as part:
                part.write_bytes(generate_latest(self._all))
        except OSError as error:
            raise JobcastError(f"{self._path}: the metrics cannot be written ({error.strerror}).") from error

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"jobcast_slurm_{name}", text, labels, registry=self._all)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"jobcast_slurm_{name}", text, labels, registry=self._all)
