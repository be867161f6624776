"""Prometheus metrics: latencies, errors, fallbacks, the lag of learning, the accuracy of recent predictions.

Labels take few values: routes as they are written in the API, kinds, roles. Never a user, a job or a client.
"""

from collections.abc import Iterator
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from predictors.service.state.service import Service

_BUCKETS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0)


class Metrics:
    """Counters of one service, and the gauges that are read off it when asked."""

    def __init__(self, service: Service) -> None:
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
        self._registry.register(self)

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._seconds.labels(route, f"{status // 100}xx" if status not in (429, 503) else str(status)).observe(seconds)

    def event(self, kind: str, what: str) -> None:
        """Count an event."""
        self._events.labels(kind, what).inc()

    def predictions(self, answered_by: str, fallback: bool, n: int) -> None:
        """Count predictions."""
        self._predictions.labels(answered_by, str(fallback).lower()).inc(n)

    def page(self) -> bytes:
        """Return the page that Prometheus reads."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges as they are now."""
        service = self._service
        learner, writer, event_order = service.learner, service.writer, service.job_state.event_order
        for name, text, value in (
            ("ready", "1 if the state has been rebuilt and no failure stands.", service.ready and not service.failed),
            ("sequence", "Newest event taken in.", service.job_state.sequence),
            ("learnt_sequence", "Newest event learnt.", learner.sequence),
            ("events_waiting", "Events that wait for their commit, or to be learnt.", writer.pending + learner.pending),
            ("live_jobs", "Jobs queued and running.", service.job_state.live),
            (
                "oldest_silence_seconds",
                "Since an event of a live job was due, of the one that is longest silent.",
                service.oldest_silence,
            ),
            ("held_jobs", "Jobs with events that wait for an earlier one.", event_order.held),
            ("late_events", "Events that arrived after a newer one.", service.job_state.history.late_events),
            ("refused_events", "Events that contradicted what was taken in before.", event_order.refused),
            ("storage_trouble", "1 while the database cannot be written.", writer.trouble is not None),
            ("rebuild_seconds", "What the newest rebuilding took.", service.rebuild_seconds),
        ):
            yield _gauge(name, text, (), [((), float(value))])
        models = list(learner.models.values())
        trouble = service.model_trouble
        yield _gauge("model_trouble", "1 if a role's newest model is not in use.", ("role",),
                     [((model.role,), float(model.role in trouble)) for model in models])  # fmt: skip
        yield _gauge("model_version", "Registered version in a role; 0 if it has none.", ("role",),
                     [((model.role,), float(model.identity.version or 0)) for model in models])  # fmt: skip
        yield _gauge("model_failures", "Predictions that a model failed to give.", ("role", "why"),
                     [((m.role, why), float(n)) for m in models for why, n in m.failures.items()])  # fmt: skip
        yield _gauge("learning_errors", "Outcomes that a model failed to learn from.", ("role",),
                     [((model.role,), float(model.learning_errors)) for model in models])  # fmt: skip
        yield _gauge("model_worse", "1 if a model is surely worse than last-two on the newest ended jobs.", ("role",),
                     [((model.role,), float(model.worse)) for model in models])  # fmt: skip
        yield _gauge("recent", "Over the newest two thousand jobs that ended.", ("role", "figure"),
                     [((m.role, name), value) for m in models for name, value in m.figures.items()])  # fmt: skip


def _gauge(name: str, text: str, labels: tuple[str, ...], values: list[tuple[tuple[str, ...], float]]) -> Metric:
    gauge: Any = GaugeMetricFamily(f"jobcast_{name}", text, labels=labels)
    for where, value in values:
        gauge.add_metric(where, value)
    return gauge  # type: ignore[no-any-return]
