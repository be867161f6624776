"""The route of events: durable when the answer comes."""

import time
from typing import Final

from fastapi import Request, Response

from predictors.service.events import KIND_NAMES, Event
from predictors.service.handling import Handling, Promise
from predictors.service.replies import Refusal, parsed, reply, valid
from predictors.service.schema import EventIn, EventsIn

MOST_AHEAD: Final = 3600
"""An event may lie so far ahead of this machine's clock [s]; beyond, a clock is wrong."""


class EventRoutes:
    """Handlers of events."""

    def __init__(self, handling: Handling) -> None:
        self._handling, self._service = handling, handling.service

    async def events(self, request: Request) -> Response:
        """Take in events: durable when the answer comes."""
        self._handling.must_be_ready()
        body = await request.body()
        events = await self._handling.beside(len(body), lambda: self._events_of(body))
        stored = Promise()
        self._service.take(events, lambda receipts, what: stored.tell((receipts, what)), stored.tell)
        receipts, what = await stored.kept("not durable in time; send it again")
        count = self._handling.metrics.event
        for event, effect in zip(events, what, strict=True):
            count(KIND_NAMES[event.kind], effect)
        told_of = [{"sequence": r.sequence, "status": effect} for r, effect in zip(receipts, what, strict=True)]
        return reply({"sequence": max(receipt.sequence for receipt in receipts), "events": told_of})

    def _events_of(self, body: bytes) -> list[Event]:
        document = parsed(body)
        if isinstance(document, dict) and "events" in document:
            asked = valid(EventsIn, document).events
        else:
            asked = [valid(EventIn, document)]
        if self._service.settings.clock == "unix":
            latest = time.time() + MOST_AHEAD
            if any(one.time > latest for one in asked):
                raise Refusal(422, "time: lies ahead of the service's clock")
        return [one.event(self._handling.key) for one in asked]
