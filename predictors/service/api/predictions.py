"""The routes of predictions, run time and variability, and of telemetry."""

import asyncio
import time
from collections import Counter
from typing import Any, Final

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from predictors.core.errors import JobcastError
from predictors.service.api import schema
from predictors.service.api.context import LARGE, Context, waited
from predictors.service.api.errors import Refusal, reply, valid
from predictors.service.state.answer import Answer, Published
from predictors.service.state.model import CHAMPION, Identity
from predictors.service.state.variability import Start, VariabilityState


class RuntimeRoutes:
    """Handlers of predictions of run times."""

    def __init__(self, context: Context) -> None:
        self._context, self._service = context, context.service

    async def runtime(self, request: Request) -> Response:
        """Predict run times."""
        self._context.must_be_ready()
        body = await request.body()
        in_thread = self._context.run_in_thread
        asked = await in_thread(len(body), lambda: valid(schema.RuntimeIn, body))
        published = await self._learnt(asked.as_of, asked.now)
        if asked.job_ids is None:
            return await in_thread(len(body), lambda: self._predicted(asked, published))
        if len(body) < LARGE:  # yet the database may be asked
            return await asyncio.to_thread(self._recorded, asked)
        return await in_thread(len(body), lambda: self._recorded(asked))

    def _predicted(self, asked: schema.RuntimeIn, published: Published | None) -> Response:
        now = asked.now
        if now is None and self._service.settings.clock == "unix":
            now = int(time.time())
        found = self._service.predict([job.codes(self._context.key) for job in asked.jobs or ()], now, published)
        for (name, falls_back), n in Counter((one.answered_by, one.why is not None) for one in found.answers).items():
            self._context.metrics.predictions(name, falls_back, n)
        model = identified(found.identity, found.published.sequence)
        return reply(schema.RuntimeOut(found.sequence, model, [_answer(answer) for answer in found.answers]))

    def _recorded(self, asked: schema.RuntimeIn) -> Response:
        key = self._context.key
        jobs = [one.code(key) if isinstance(one, schema.JobKeyIn) else key.code(one) for one in asked.job_ids or ()]
        found, sequence = self._service.recorded(jobs, CHAMPION), self._service.learner.sequence
        model = identified(self._service.identity, sequence)
        return reply(schema.RuntimeOut(sequence, model, [recorded(found.get(job)) for job in jobs]))

    async def _learnt(self, as_of: int | None, now: int | None) -> Published | None:
        """Wait until an event has been learnt; return the champion with all that may be known at a second."""
        if as_of is None:
            return None
        if as_of > self._service.job_state.sequence:
            raise Refusal(409, "as_of: there is no such event yet")
        learnt = asyncio.wrap_future(self._service.as_at(as_of, now))
        return await waited(learnt, "not learnt in time; ask again")


def identified(model: Identity, sequence: int | None) -> schema.ModelOut:
    """Return a model's identity and the event that it had learnt, in the API's form."""
    return schema.ModelOut(model.name, model.version, CHAMPION, model.predictor, model.trained_until, sequence)


def recorded(one: dict[str, Any] | None) -> schema.PredictionOut:
    """Return a prediction of record in the API's form; None: there was no such submission."""
    if one is None:
        return schema.PredictionOut(None, None, None, None, None, True, "no such submission")
    return schema.PredictionOut(
        one["seconds"], one["lower"], one["upper"], None, one["answered_by"], one["fallback"], None
    )


def _answer(one: Answer) -> schema.PredictionOut:
    quantiles = None if one.quantiles is None else schema.QuantilesOut(*one.quantiles)
    return schema.PredictionOut(
        one.seconds, one.lower, one.upper, quantiles, one.answered_by, one.why is not None, one.why
    )


MOST_AHEAD_SAMPLE: Final = 60  # how far a sample may lie ahead of this machine's clock [s]; beyond, one is wrong


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
        asked = valid(schema.TelemetryIn, body, schema.MOST_NODES * (schema.N_COUNTERS + 1) + 8)
        if self._context.service.settings.clock == "unix" and asked.time > time.time() + MOST_AHEAD_SAMPLE:
            raise Refusal(422, f"time: lies more than a minute ahead of the service's clock; got {asked.time:.0f}")
        if len(asked.rates) != len(asked.nodes):
            raise Refusal(422, f"rates: as many rows as nodes, {len(asked.nodes)}, are needed; got {len(asked.rates)}")
        try:
            variability_state.push(asked.time, asked.nodes, np.array(asked.rates, dtype=np.float64))
        except JobcastError as error:
            raise Refusal(409, str(error)) from None
        return reply(schema.TelemetryOut(variability_state.newest))

    def _required(self) -> VariabilityState:
        if self._variability_state is None:
            raise Refusal(404, "this service has no classifier: it was started without --classifier")
        return self._variability_state


def _judged(variability_state: VariabilityState, body: bytes) -> Response:
    asked = valid(schema.VariabilityIn, body)
    now = asked.now if asked.now is not None else (variability_state.newest or 0.0) + 0.001
    try:
        verdicts = variability_state.judge([_start(one) for one in asked.starts], now)
    except JobcastError as error:
        raise Refusal(422, str(error)) from None
    loaded = variability_state.loaded
    told = [
        schema.VerdictOut(one.label, one.probability, one.abstained, one.reason or None, one.filled) for one in verdicts
    ]
    return reply(
        schema.VariabilityOut(loaded.name or loaded.classifier.name, loaded.version, variability_state.newest, told)
    )


def _start(one: schema.StartIn) -> Start:
    nodes = None if one.nodes is None else tuple(one.nodes)
    probes = None if one.probes is None else np.array(one.probes, dtype=np.float64)
    return Start(one.application, one.workload, nodes, probes)
