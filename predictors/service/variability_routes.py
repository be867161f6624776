"""The routes of variability: counters in, and whether now is a bad moment for a start."""

import asyncio
import time
from typing import Any, Final

import numpy as np
from fastapi import Request, Response

from predictors.data.errors import JobcastError
from predictors.service.handling import Handling
from predictors.service.replies import Refusal, parsed, reply, valid
from predictors.service.schema import StartIn, TelemetryIn, VariabilityIn
from predictors.service.variability import Desk, Start
from predictors.variability.verdict import Verdict

MOST_AHEAD_SAMPLE: Final = 60
"""A sample of counters may lie so far ahead of this machine's clock [s]; beyond, a clock is wrong."""


class VariabilityRoutes:
    """Handlers of counters and verdicts; without a desk they say that there is none."""

    def __init__(self, handling: Handling, desk: Desk | None) -> None:
        self._handling, self._asked_desk = handling, desk

    async def telemetry(self, request: Request) -> Response:
        """Take in a sample of the nodes' counters, in memory only."""
        desk = self._desk()
        body = await request.body()
        return await self._handling.beside(len(body), lambda: self._taken(desk, body))

    async def variability(self, request: Request) -> Response:
        """Tell whether now is a bad moment for starts."""
        desk = self._desk()
        body = await request.body()
        return await asyncio.get_running_loop().run_in_executor(self._handling.threads, lambda: _judged(desk, body))

    def _taken(self, desk: Desk, body: bytes) -> Response:
        asked = valid(TelemetryIn, parsed(body))
        if self._handling.service.settings.clock == "unix" and asked.time > time.time() + MOST_AHEAD_SAMPLE:
            raise Refusal(422, "time: lies ahead of the service's clock")
        rates = [[_or_nan(rate) for rate in row] for row in asked.rates]
        if len(rates) != len(asked.nodes):
            raise Refusal(422, "rates: as many rows as nodes are needed")
        try:
            desk.push(asked.time, asked.nodes, rates)
        except JobcastError as error:
            raise Refusal(409, str(error)) from None
        return reply({"newest_sample": desk.newest})

    def _desk(self) -> Desk:
        if self._asked_desk is None:
            raise Refusal(404, "this service has no classifier: it was started without --classifier")
        return self._asked_desk


def _judged(desk: Desk, body: bytes) -> Response:
    asked = valid(VariabilityIn, parsed(body))
    now = asked.now if asked.now is not None else (desk.newest or 0.0) + 0.001
    try:
        verdicts = desk.judge([_start(one) for one in asked.starts], now)
    except JobcastError as error:
        raise Refusal(422, str(error)) from None
    return reply(
        {
            "classifier": desk.loaded.name or desk.loaded.classifier.name,
            "version": desk.loaded.version,
            "newest_sample": desk.newest,
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
