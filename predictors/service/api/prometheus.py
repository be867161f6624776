"""Prometheus metrics: latencies, errors, fallbacks, the lag of learning, the accuracy of recent predictions.

Names follow Prometheus' rules: base units, counters end in `_total`, times are Unix times. Labels take few values:
routes as they are written in the API, kinds, roles. Never a user, a job or a client.
"""

import platform
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.metadata import version
from typing import Any, Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from predictors.service.state.health import KINDS
from predictors.service.state.model import Model
from predictors.service.state.service import Service

_BUCKETS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0)
Values = Iterable[tuple[tuple[str, ...], float]]

RECENT: Final = {  # metric and help of each of `Model.figures`
    "outcomes": (
        "recent_outcomes",
        "Ended jobs among the newest two thousand that the figures of recent errors are of.",
    ),
    "mean_absolute_error_seconds": ("recent_absolute_error_seconds", "Mean absolute error on the newest ended jobs."),
    "last_two_mean_absolute_error_seconds": (
        "recent_last_two_absolute_error_seconds",
        "Mean absolute error of last-two on the same jobs.",
    ),
    "underestimated_share": ("recent_underestimated_ratio", "Share of the newest ended jobs predicted too short."),
    "covered_share": ("recent_covered_ratio", "Share of the newest ended jobs within P10 to P90; 0.8 is meant."),
    "squared_error_ratio_to_last_two": (
        "recent_squared_error_to_last_two_ratio",
        "Sum of squared errors over last-two's on the same jobs.",
    ),
    "absolute_error_ratio_to_last_two": (
        "recent_absolute_error_to_last_two_ratio",
        "Sum of absolute errors over last-two's on the same jobs.",
    ),
}


class Metrics:
    """Counters of one service, and what is read off it when asked."""

    def __init__(self, service: Service) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._service = service
        self._registry = CollectorRegistry(auto_describe=False)
        self._seconds = Histogram(
            "jobcast_request_seconds", "Time to answer a request.", ("route", "status"), buckets=_BUCKETS,
            registry=self._registry,
        )  # fmt: skip
        self._events = Counter(
            "jobcast_events", "Events by kind and by what became of them.", ("kind", "what"), registry=self._registry
        )
        self._predictions = Counter(
            "jobcast_predictions", "Predictions given, by who answered.", ("answered_by", "fallback"),
            registry=self._registry,
        )  # fmt: skip
        self._about = {"version": version("jobcast"), "python_version": platform.python_version()}
        self.connections: Callable[[], int] = lambda: 0  # returns how many connections are open
        self.audit_dropped: Callable[[], int] = lambda: 0  # returns how many lines of the audit log could not be kept
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._registry.register(self)

    def request(self, route: str, status: int, seconds: float) -> None:
        self._seconds.labels(route, f"{status // 100}xx" if status not in (429, 503) else str(status)).observe(seconds)

    def event(self, kind: str, what: str) -> None:
        self._events.labels(kind, what).inc()

    def predictions(self, answered_by: str, fallback: bool, n: int) -> None:
        self._predictions.labels(answered_by, str(fallback).lower()).inc(n)

    def page(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield what is read off the service now."""
        yield _gauge("build_info", "1; the version is in the labels.", tuple(self._about),
                     [(tuple(self._about.values()), 1.0)])  # fmt: skip
        yield from self._of_state()
        yield from self._of_models()

    def _of_state(self) -> Iterator[Metric]:
        service = self._service
        learner, writer, state = service.learner, service.writer, service.job_state
        order, troubles = state.event_order, service.health.troubles()
        for name, text, value in (
            ("ready", "1 if the state has been rebuilt and no failure stands.", service.ready and not service.failed),
            ("sequence", "Newest event taken in.", state.sequence),
            ("learnt_sequence", "Newest event learnt.", learner.sequence),
            ("events_waiting", "Events that wait for their commit, or to be learnt.", writer.pending + learner.pending),
            (
                "oldest_waiting_event_seconds",
                "How long the oldest event without an answer has waited; 0 if none waits.",
                writer.oldest_wait,
            ),
            ("live_jobs", "Jobs queued and running.", state.live),
            (
                "oldest_silence_seconds",
                "Since an event of a live job was due, of the one that is longest silent.",
                service.oldest_silence,
            ),
            ("held_jobs", "Jobs with events that wait for an earlier one.", order.held),
            ("storage_trouble", "1 while the database cannot be written.", writer.trouble is not None),
            ("rebuild_seconds", "What the newest rebuilding took.", service.rebuild_seconds),
            ("connections", "Open connections of clients.", self.connections()),
            ("snapshot_sequence", "Event behind which the newest snapshot stands.", service.snapshot_sequence),
        ):
            yield _gauge(name, text, (), [((), float(value))])
        for name, text, moment in (
            ("newest_event_timestamp_seconds", "Newest time of an event, by the clock of events.", state.history.now),
            ("last_commit_timestamp_seconds", "When events were last committed.", writer.last_commit),
            ("snapshot_timestamp_seconds", "When the newest snapshot was written.", service.snapshot_time),
        ):
            yield _gauge(name, text, (), [] if moment is None else [((), float(moment))])
        for name, text, count in (
            ("late_events", "Events that arrived after a newer one.", state.history.late_events),
            ("refused_events", "Events that contradicted what was taken in before.", order.refused),
            ("held_jobs_dropped", "Jobs with held events that were dropped for newer ones.", order.dropped),
            ("predictions_dropped", "Predictions of record that waited for too long.", writer.records_dropped),
            ("audit_lines_dropped", "Lines of the audit log that could not be kept.", self.audit_dropped()),
        ):
            yield _counter(name, text, (), [((), float(count))])
        yield _gauge("trouble", "1 while a trouble of the kind stands; /readyz and the log tell it.", ("kind",),
                     [((kind,), float(kind in troubles)) for kind in KINDS])  # fmt: skip

    def _of_models(self) -> Iterator[Metric]:
        models, trouble = list(self._service.learner.models.values()), self._service.roles.trouble
        gauges: tuple[tuple[str, str, Callable[[Model], float]], ...] = (
            ("model_trouble", "1 if a role's newest model is not in use.", lambda one: one.role in trouble),
            ("model_version", "Registered version in a role; 0 if it has none.", lambda one: one.identity.version or 0),
            (
                "model_worse",
                "1 if a model has become worse than last-two: the alarm of drift.",
                lambda one: one.drift.stands,
            ),
            ("model_drift_evidence_ratio", "Evidence of drift over that of an alarm.", lambda one: one.drift.evidence),
            (
                "model_drift_false_alarms_per_year",
                "False alarms of drift a year at most.",
                lambda one: one.drift.alarms_per_year,
            ),
        )
        for name, text, value in gauges:
            yield _gauge(name, text, ("role",), [((one.role,), float(value(one))) for one in models])
        yield _counter("model_failures", "Predictions that a model failed to give.", ("role", "why"),
                       [((m.role, why), float(n)) for m in models for why, n in m.failures.items()])  # fmt: skip
        yield _counter("learning_errors", "Outcomes that a model failed to learn from.", ("role",),
                       [((model.role,), float(model.learning_errors)) for model in models])  # fmt: skip
        figures = [(model.role, model.figures) for model in models]
        for key, (name, text) in RECENT.items():
            yield _gauge(name, text, ("role",), [((role,), of[key]) for role, of in figures if key in of])


def _family(kind: Any, name: str, text: str, labels: tuple[str, ...], values: Values) -> Any:
    metric = kind(f"jobcast_{name}", text, labels=labels)
    for where, value in values:
        metric.add_metric(where, value)
    return metric


_gauge, _counter = partial(_family, GaugeMetricFamily), partial(_family, CounterMetricFamily)
