"""The route of events: durable when the answer comes."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from predictors.service.api.context import Context, waited
from predictors.service.api.errors import Refusal, reply, valid
from predictors.service.api.schema import EventIn, EventOut, EventsIn, EventsOut, ForgetIn, ForgetOut
from predictors.service.event import KIND_NAMES, Event
from predictors.service.operation.logs import log
from predictors.service.storage.store import CONFLICT, Receipt

MOST_AHEAD: Final = 3600
"""An event, and its job's submission, may lie so far ahead of this machine's clock [s]; beyond, a clock is wrong."""

_STANDS: Final = (
    "events came that contradict event %s, which stands; if it is wrong, stop the service, run "
    "`jobcast correct --withdraw NUMBER --why …`, and send the right one again"
)
_MOST_NAMED: Final = 20  # standing events that one line of the log names
_log: Final = logging.getLogger("jobcast.access")


class _Several(msgspec.Struct):
    """Tells whether a body is a list of events, or one event."""

    events: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class EventRoutes:
    """Handlers of events."""

    def __init__(self, context: Context) -> None:
        self._context, self._service = context, context.service

    async def events(self, request: Request) -> Response:
        """Take in events: durable when the answer comes."""
        self._context.must_be_ready()
        body = await request.body()
        events = await self._context.run_in_thread(len(body), lambda: self._events_of(body))
        stored = asyncio.wrap_future(self._service.writer.put(events))
        try:
            receipts = await waited(stored, "not durable in time; send it again")
        except Refusal:  # yet they may become durable: then they are logged as all others are
            request.scope["audit_later"] = partial(self._tell_later, events, stored)
            raise
        request.scope["audit"] = self._counted(events, receipts)
        told_of = [EventOut(*one) for one in receipts]  # type: ignore[arg-type]
        return reply(EventsOut(max(one.sequence for one in receipts), told_of))

    async def forget(self, request: Request) -> Response:
        """Drop live jobs that had no events for a given time: nothing is learnt from them."""
        self._context.must_be_ready()
        asked, service = valid(ForgetIn, await request.body()), self._service
        live = service.job_state.live
        if asked.dry_run:
            found, _ = await asyncio.to_thread(service.silent_jobs, asked.older_than)
            return reply(ForgetOut(live, len(found), False))
        jobs = await asyncio.to_thread(service.forget, asked.older_than)
        request.scope["audit"] = {"action": "jobs given up", "n": jobs, "older_than": asked.older_than}
        return reply(ForgetOut(live, jobs, True))

    def _tell_later(
        self, events: Sequence[Event], stored: "asyncio.Future[list[Receipt]]", tell: Callable[[dict[str, Any]], None]
    ) -> None:
        def settled(_: object) -> None:
            if not stored.cancelled() and stored.exception() is None:
                tell(self._counted(events, stored.result()))

        stored.add_done_callback(settled)

    def _counted(self, events: Sequence[Event], receipts: Sequence[Receipt]) -> dict[str, Any]:
        """Count what became of events, and log which contradict others; return the fields for the audit log."""
        count = self._context.metrics.event
        for event, receipt in zip(events, receipts, strict=True):
            count(KIND_NAMES[event.kind], receipt.what)
        stand = [str(one.sequence) for one in receipts if one.what == CONFLICT]
        if stand:
            log(_log, logging.WARNING, _STANDS, ", ".join(stand[:_MOST_NAMED]), same=stand[0])
        return {
            "action": "events",
            "n": len(events),
            "first": min(one.sequence for one in receipts),
            "last": max(one.sequence for one in receipts),
            "effects": dict(Counter(one.what for one in receipts)),
        }

    def _events_of(self, body: bytes) -> list[Event]:
        several = valid(_Several, body).events is not msgspec.UNSET
        asked = valid(EventsIn, body).events if several else [valid(EventIn, body)]
        if self._service.settings.clock == "unix":
            latest = int(time.time()) + MOST_AHEAD
            for i, one in enumerate(asked):
                if (ahead := max(one.time, one.submission or 0)) > latest:
                    place = (f"events.{i}." if several else "") + ("time" if ahead == one.time else "submission")
                    raise Refusal(422, f"{place}: lies more than an hour ahead of the service's clock; got {ahead}")
        return [one.event(self._context.key) for one in asked]
