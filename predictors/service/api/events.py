"""The route of events: durable when the answer comes."""

import time
from collections import Counter
from typing import Final

from fastapi import Request, Response

from predictors.service.api.context import Context, Future
from predictors.service.api.errors import Refusal, parsed, reply, valid
from predictors.service.api.schema import EventIn, EventsIn
from predictors.service.event import KIND_NAMES, Event

MOST_AHEAD: Final = 3600
"""An event may lie so far ahead of this machine's clock [s]; beyond, a clock is wrong."""


class EventRoutes:
    """Handlers of events."""

    def __init__(self, context: Context) -> None:
        self._context, self._service = context, context.service

    async def events(self, request: Request) -> Response:
        """Take in events: durable when the answer comes."""
        self._context.must_be_ready()
        body = await request.body()
        events = await self._context.run_in_thread(len(body), lambda: self._events_of(body))
        stored = Future()
        self._service.take(events, lambda receipts, what: stored.set((receipts, what)), stored.set)
        receipts, what = await stored.result("not durable in time; send it again")
        count = self._context.metrics.event
        for event, effect in zip(events, what, strict=True):
            count(KIND_NAMES[event.kind], effect)
        request.scope["audit"] = {
            "action": "events",
            "n": len(events),
            "first": min(receipt.sequence for receipt in receipts),
            "last": max(receipt.sequence for receipt in receipts),
            "effects": dict(Counter(what)),
        }
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
        return [one.event(self._context.key) for one in asked]
