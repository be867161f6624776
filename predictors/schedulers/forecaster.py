"""Upper quantiles of run times: what the adapter asks of a service, or of a model in this process."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from predictors.core.errors import JobcastError
from predictors.schedulers.soft_limit import Bound, QueuedJob
from predictors.service.client import Event, Job, Runtime
from predictors.service.state.answer import Answer
from predictors.service.state.model import Identity

_AT_ONCE: Final = 5000


class RefusedEvent(JobcastError):
    """An event that is none."""


class RuntimeSource(Protocol):
    """Who predicts run times."""

    def runtime(self, jobs: Sequence[Job]) -> list[Runtime]:
        """Return the predicted run times of jobs, as if they were submitted now."""


class Forecaster(RuntimeSource, Protocol):
    """What the adapter asks: the client of a service, or `Embedded`."""

    def send(self, events: Iterable[Event]) -> list[dict[str, Any]]:
        """Take in events; return a receipt each."""

    def close(self) -> None:
        """Let go."""


def described(job: QueuedJob) -> dict[str, Any]:
    """Return a job as predictors know it: Slurm's account, name and partition are group, executable and queue.

    >>> described(QueuedJob(1, limit=3600, procs=8, user="eve", account="bio", name="fit"))
    {'procs': 8, 'requested_time': 3600, 'user': 'eve', 'group': 'bio', 'executable': 'fit'}
    """
    texts = {"user": job.user, "group": job.account, "executable": job.name, "queue": job.partition}
    found: dict[str, Any] = {"procs": job.procs}
    if job.limit is not None:
        found["requested_time"] = job.limit
    return found | {name: text[:256] for name, text in texts.items() if text}


def runtime_of(answer: Answer, identity: Identity, sequence: int) -> Runtime:
    """Return a model's answer as a client of the service gives it."""
    p10, p50, p90 = answer.quantiles or (None, None, None)
    return Runtime(
        answer.seconds, answer.lower, answer.upper, p10, p50, p90, answer.answered_by, answer.why is not None,
        answer.why, identity.name, identity.version, sequence,
    )  # fmt: skip


def bounds(forecaster: RuntimeSource, jobs: Sequence[Mapping[str, Any]]) -> list[Bound]:
    """Return P90 of each job's run time; equal jobs are asked for once.

    A prediction that is a fallback has no quantile that could be relied on, so there is none. A P90 below the
    prediction itself comes of a calibration that has seen little: then the prediction counts. One above the requested
    time is that time: no job runs longer.
    """
    keys = [tuple(sorted(one.items())) for one in jobs]
    different = list(dict.fromkeys(keys))
    found: dict[Any, Bound] = {}
    for at in range(0, len(different), _AT_ONCE):
        part = different[at : at + _AT_ONCE]
        answers = forecaster.runtime([dict(one) for one in part])
        found |= {one: _bound(answer, dict(one)) for one, answer in zip(part, answers, strict=True)}
    return [found[key] for key in keys]


def _bound(answer: Runtime, job: Mapping[str, Any]) -> Bound:
    if answer.fallback or answer.p90 is None:
        why = answer.why or f"{answer.answered_by} gives no quantiles yet"
        return Bound(None, answer.model, answer.version, why)
    seconds, limit = max(answer.p90, answer.seconds or 0.0), job.get("requested_time")
    is_capped = limit is not None and seconds > limit
    why = f"P90 of {answer.answered_by}"
    return Bound(limit if is_capped else seconds, answer.model, answer.version, why, is_capped)
