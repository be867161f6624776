"""The route of run times: what a job would run if it were submitted now, or what was said at its submission."""

import asyncio
import time
from collections import Counter
from typing import Any

from fastapi import Request, Response

from predictors.service.answers import Answer, Published
from predictors.service.handling import LARGE, Handling, Promise
from predictors.service.model import CHAMPION, Identity
from predictors.service.replies import Refusal, parsed, reply, valid
from predictors.service.schema import RuntimeIn


class RuntimeRoutes:
    """Handlers of predictions of run times."""

    def __init__(self, handling: Handling) -> None:
        self._handling, self._service = handling, handling.service

    async def runtime(self, request: Request) -> Response:
        """Predict run times."""
        self._handling.must_be_ready()
        body = await request.body()
        beside = self._handling.beside
        asked = await beside(len(body), lambda: valid(RuntimeIn, parsed(body)))
        published = await self._learnt(asked.as_of, asked.now)
        if asked.job_ids is None:
            return await beside(len(body), lambda: self._predicted(asked, published))
        if len(body) < LARGE:  # yet the database may be asked
            return await asyncio.to_thread(self._recorded, asked)
        return await beside(len(body), lambda: self._recorded(asked))

    def _predicted(self, asked: RuntimeIn, published: Published | None) -> Response:
        now = asked.now
        if now is None and self._service.settings.clock == "unix":
            now = int(time.time())
        jobs = [job.codes(self._handling.key) for job in asked.jobs or ()]
        found = self._service.predict(jobs, now, published)
        for (who, falls_back), n in Counter((one.answered_by, one.why is not None) for one in found.answers).items():
            self._handling.metrics.predictions(who, falls_back, n)
        return reply(
            {
                "sequence": found.sequence,
                "model": identified(found.identity, found.published.sequence),
                "predictions": [_answer(answer) for answer in found.answers],
            }
        )

    def _recorded(self, asked: RuntimeIn) -> Response:
        jobs = [self._handling.key.code(name) for name in asked.job_ids or ()]
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
        service, learnt = self._service, Promise()
        if as_of > service.facts.sequence:
            raise Refusal(409, "as_of: there is no such event yet")
        service.learner.when(as_of, lambda: service.as_at(now, learnt.tell))
        published: Published = await learnt.kept("not learnt in time; ask again")
        return published


def identified(who: Identity, sequence: int | None) -> dict[str, Any]:
    """Return who a model is, and the event that it had learnt, as the API tells it."""
    return {
        "name": who.name,
        "version": who.version,
        "alias": CHAMPION,
        "predictor": who.predictor,
        "trained_until": who.trained_until,
        "learnt_sequence": sequence,
    }


def recorded(one: dict[str, Any] | None) -> dict[str, Any]:
    """Return a prediction of record as the API tells it; None: there was no such submission."""
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
