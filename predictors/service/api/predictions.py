"""The routes of predictions, run time and variability, and of telemetry."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from predictors.core.errors import JobcastError
from predictors.service.api.context import LARGE, Context, waited
from predictors.service.api.errors import Refusal, reply, valid
from predictors.service.api.schema import (
    MOST_NODES,
    N_COUNTERS,
    JobKeyIn,
    RuntimeIn,
    StartIn,
    TelemetryIn,
    VariabilityIn,
)
from predictors.service.pseudonyms import Pseudonymiser
from predictors.service.settings import Settings
from predictors.service.state.answer import Answer, Published
from predictors.service.state.model import CHAMPION, Identity, Predicted
from predictors.service.state.variability import Start, VariabilityState
from predictors.variability.verdict import Verdict


class Predicts(Protocol):
    """A state that answers questions."""

    @property
    def settings(self) -> Settings:
        """Those of the service."""

    def predict(self, jobs: Sequence[Sequence[int]], now: int | None, published: Published | None = None) -> Predicted:
        """Return the champion's predictions of jobs if they were submitted now."""


def runtimes(
    asked: RuntimeIn,
    state: Predicts,
    key: Pseudonymiser,
    count: Callable[[str, bool, int], None],
    published: Published | None = None,
) -> Response:
    """Return the answer to a question about jobs; `count` is told who answered, whether as a fallback, and how many."""
    now = asked.now
    if now is None and state.settings.clock == "unix":
        now = int(time.time())
    jobs = [job.codes(key) for job in asked.jobs or ()]
    found = state.predict(jobs, now, published)
    for (name, falls_back), n in Counter((one.answered_by, one.why is not None) for one in found.answers).items():
        count(name, falls_back, n)
    return reply(
        {
            "sequence": found.sequence,
            "model": identified(found.identity, found.published.sequence),
            "predictions": [_answer(answer) for answer in found.answers],
        }
    )


class RuntimeRoutes:
    """Handlers of predictions of run times."""

    def __init__(self, context: Context) -> None:
        self._context, self._service = context, context.service

    async def runtime(self, request: Request) -> Response:
        """Predict run times."""
        self._context.must_be_ready()
        body = await request.body()
        in_thread = self._context.run_in_thread
        asked = await in_thread(len(body), lambda: valid(RuntimeIn, body))
        published = await self._learnt(asked.as_of, asked.now)
        if asked.job_ids is None:
            return await in_thread(len(body), lambda: self._predicted(asked, published))
        if len(body) < LARGE:  # yet the database may be asked
            return await asyncio.to_thread(self._recorded, asked)
        return await in_thread(len(body), lambda: self._recorded(asked))

    def _predicted(self, asked: RuntimeIn, published: Published | None) -> Response:
        return runtimes(asked, self._service, self._context.key, self._context.metrics.predictions, published)

    def _recorded(self, asked: RuntimeIn) -> Response:
        key = self._context.key
        jobs = [one.code(key) if isinstance(one, JobKeyIn) else key.code(one) for one in asked.job_ids or ()]
        found = self._service.recorded(jobs, CHAMPION)
        sequence = self._service.learner.sequence
        return reply(
            {
                "sequence": sequence,
                "model": identified(self._service.identity, sequence),
                "predictions": [recorded(found.get(job)) for job in jobs],
            }
        )

    async def _learnt(self, as_of: int | None, now: int | None) -> Published | None:
        """Wait until an event has been learnt; return the champion with all that may be known at a second."""
        if as_of is None:
            return None
        if as_of > self._service.job_state.sequence:
            raise Refusal(409, "as_of: there is no such event yet")
        learnt = asyncio.wrap_future(self._service.as_at(as_of, now))
        return await waited(learnt, "not learnt in time; ask again")


def identified(model: Identity, sequence: int | None) -> dict[str, Any]:
    """Return a model's identity and the event that it had learnt, in the API's form."""
    return {
        "name": model.name,
        "version": model.version,
        "alias": CHAMPION,
        "predictor": model.predictor,
        "trained_until": model.trained_until,
        "learnt_sequence": sequence,
    }


def recorded(one: dict[str, Any] | None) -> dict[str, Any]:
    """Return a prediction of record in the API's form; None: there was no such submission."""
    if one is None:
        return _answer(Answer(0.0, "", "no such submission")) | {"seconds": None, "answered_by": None}
    names = ("seconds", "lower", "upper", "answered_by", "fallback")
    return {"quantiles": None, "why": None} | {name: one[name] for name in names}


def _answer(one: Answer) -> dict[str, Any]:
    shares = one.quantiles
    return {
        "seconds": one.seconds,
        "lower": one.lower,
        "upper": one.upper,
        "quantiles": None if shares is None else {"p10": shares[0], "p50": shares[1], "p90": shares[2]},
        "answered_by": one.answered_by,
        "fallback": one.why is not None,
        "why": one.why,
    }


MOST_AHEAD_SAMPLE: Final = 60
"""A sample of counters may lie so far ahead of this machine's clock [s]; beyond, a clock is wrong."""


class VariabilityRoutes:
    """Handlers of counters and verdicts; without a classifier they answer that there is none."""

    def __init__(self, context: Context, variability_state: VariabilityState | None) -> None:
        self._context, self._variability_state = context, variability_state

    async def telemetry(self, request: Request) -> Response:
        """Take in a sample of the nodes' counters, in memory only."""
        variability_state = self._required()
        body = await request.body()
        return await self._context.run_in_thread(len(body), lambda: self._taken(variability_state, body))

    async def variability(self, request: Request) -> Response:
        """Tell whether now is a bad moment for starts."""
        variability_state = self._required()
        body = await request.body()
        return await self._context.run_in_thread(LARGE, lambda: _judged(variability_state, body))

    def _taken(self, variability_state: VariabilityState, body: bytes) -> Response:
        asked = valid(TelemetryIn, body, MOST_NODES * (N_COUNTERS + 1) + 8)
        if self._context.service.settings.clock == "unix" and asked.time > time.time() + MOST_AHEAD_SAMPLE:
            raise Refusal(422, "time: lies ahead of the service's clock")
        rates = [[_or_nan(rate) for rate in row] for row in asked.rates]
        if len(rates) != len(asked.nodes):
            raise Refusal(422, "rates: as many rows as nodes are needed")
        try:
            variability_state.push(asked.time, asked.nodes, rates)
        except JobcastError as error:
            raise Refusal(409, str(error)) from None
        return reply({"newest_sample": variability_state.newest})

    def _required(self) -> VariabilityState:
        if self._variability_state is None:
            raise Refusal(404, "this service has no classifier: it was started without --classifier")
        return self._variability_state


def _judged(variability_state: VariabilityState, body: bytes) -> Response:
    asked = valid(VariabilityIn, body)
    now = asked.now if asked.now is not None else (variability_state.newest or 0.0) + 0.001
    try:
        verdicts = variability_state.judge([_start(one) for one in asked.starts], now)
    except JobcastError as error:
        raise Refusal(422, str(error)) from None
    return reply(
        {
            "classifier": variability_state.loaded.name or variability_state.loaded.classifier.name,
            "version": variability_state.loaded.version,
            "newest_sample": variability_state.newest,
            "predictions": [_verdict(one) for one in verdicts],
        }
    )


def _start(one: StartIn) -> Start:
    nodes = None if one.nodes is None else tuple(one.nodes)
    probes = None if one.probes is None else np.array([_or_nan(wait) for wait in one.probes])
    return Start(one.application, one.workload, nodes, probes)


def _verdict(one: Verdict) -> dict[str, Any]:
    return {
        "label": one.label,
        "probability": None if one.probability != one.probability else one.probability,
        "abstained": one.abstained,
        "why": one.reason or None,
        "filled": one.filled,
    }


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
