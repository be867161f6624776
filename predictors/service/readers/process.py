"""The process of a reader: it follows the database, answers questions by what it knows, and hands on all else."""

import json
import logging
import os
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route

from predictors.core.errors import JobcastError
from predictors.service.api.access import RequestLog
from predictors.service.api.auth import AuthMiddleware, Receive, Scope, Send, Token
from predictors.service.api.buckets import Buckets
from predictors.service.api.context import LargeBodies
from predictors.service.api.errors import HANDLERS, valid
from predictors.service.api.lifecycle import Listening, read_certificate
from predictors.service.api.predictions import runtimes
from predictors.service.api.schema import RuntimeIn
from predictors.service.api.server import bound, configuration, freeze_long_lived, quicken
from predictors.service.operation.audit import AuditLog
from predictors.service.operation.logs import set_up_logs, throttle
from predictors.service.operation.tracing import configured_tracing
from predictors.service.pseudonyms import Pseudonymiser
from predictors.service.readers.forward import Owner
from predictors.service.settings import Settings
from predictors.service.state.follower import MOST_BEHIND, Follower
from predictors.service.state.model import Load
from predictors.service.storage.database import StorageError

QUESTION: Final = "/v1/predictions/runtime"
BEHIND: Final = "X-Jobcast-Behind"
"""Header of a reader's answer: seconds since all that was committed was known to it."""
SOCKET, BUCKETS = "owner.sock", "buckets"
"""Files in the folder of a service and its readers."""
TELL_EVERY: Final = 1.0
"""Seconds between what a reader tells its owner."""
_log: Final = logging.getLogger("jobcast.service")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a reader is given by its owner."""

    settings: Settings
    listening: Listening
    loader: Load
    key: Pseudonymiser
    folder: Path
    log_format: str = "text"
    log_level: str = "info"


class Tally:
    """What a reader has answered since it was last told; any thread may add."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: list[tuple[str, int, float]] = []
        self._predictions: Counter[tuple[str, bool]] = Counter()

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        with self._lock:
            self._requests.append((route, status, round(seconds, 6)))

    def predictions(self, answered_by: str, fallback: bool, n: int) -> None:
        """Count predictions."""
        with self._lock:
            self._predictions[answered_by, fallback] += n

    def taken(self) -> dict[str, Any]:
        """Return what was counted, and begin anew."""
        with self._lock:
            requests, self._requests = self._requests, []
            predictions, self._predictions = self._predictions, Counter()
        return {"requests": requests, "predictions": [[*who, n] for who, n in predictions.items()]}


class Questions:
    """ASGI application of a reader.

    Parameters
    ----------
    follower : Follower
        What it knows.
    plan : Plan
        Tokens, limits, key.
    tally : Tally
        Where it counts.
    """

    def __init__(self, follower: Follower, plan: Plan, tally: Tally) -> None:
        self._follower, self._key, self._tally = follower, plan.key, tally
        self._large = LargeBodies()
        self._owner = Owner(plan.folder / SOCKET)
        route = Route(QUESTION, self._asked, methods=["POST"])
        app = Starlette(routes=[route], exception_handlers=HANDLERS)
        about = plan.listening
        buckets = Buckets(plan.folder / BUCKETS)
        auth = AuthMiddleware(app, about.tokens, about.limits, buckets)
        self._auth, self._audit = auth, AuditLog(about.audit_log)
        self._checked = RequestLog(auth, self._audit, configured_tracing(), tally.request)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a question; hand on anything else."""
        mine = scope["path"] == QUESTION and scope["method"] == "POST"
        await (self._checked if mine else self._owner)(scope, receive, send)

    def reload(self, tokens: tuple[Token, ...]) -> None:
        """Let these tokens hold from now on, and open the audit log anew."""
        self._auth.tokens = tokens
        self._audit.reopen()

    async def _asked(self, request: Request) -> Any:
        body = await request.body()
        asked = await self._large.run(len(body), lambda: valid(RuntimeIn, body))
        behind = self._follower.behind
        if asked.job_ids is not None or asked.as_of is not None or behind > MOST_BEHIND:
            return _Forwarded(self._owner, body)
        answer = await self._large.run(
            len(body), lambda: runtimes(asked, self._follower, self._key, self._tally.predictions)
        )
        answer.headers[BEHIND] = f"{behind:.3f}"
        return answer


class _Forwarded:
    """The owner's answer to a question whose body was read."""

    def __init__(self, owner: Owner, body: bytes) -> None:
        self._owner, self._body = owner, body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["forwarded"] = True
        await self._owner(scope, receive, send, self._body)


def run(plan: Plan, line: "Connection[Any, Any]") -> None:
    """Answer questions until SIGTERM, or until another model is champion; `entry.begin` sees to the rest."""
    undo = set_up_logs(plan.log_format, plan.log_level)
    throttle("uvicorn.error", "jobcast.access", "jobcast.audit")
    quicken()
    try:
        _serve(Follower(plan.settings, plan.loader, plan.key), plan, line)
    except (JobcastError, StorageError, OSError) as error:  # a certificate that cannot be read now among them
        _log.error("a reader cannot go on: %s", error)
        raise SystemExit(2) from None
    finally:
        undo()


def _serve(follower: Follower, plan: Plan, line: "Connection[Any, Any]") -> None:
    tally, about, ended = Tally(), plan.listening, threading.Event()
    app = Questions(follower, plan, tally)
    config = configuration(app, about, lambda: tally.request("other", 503, 0.0), lifespan="off")
    config.load()  # now: the owner may have files read anew from here on
    server, failed = uvicorn.Server(config), list[Exception]()

    def follow() -> None:
        try:
            follower.run()
        except Exception as error:
            _log.critical("a reader cannot follow: %s: %s", type(error).__name__, error, exc_info=error)
            failed.append(error)
        finally:
            server.should_exit = True

    def tell() -> None:
        last = False
        while not last:
            last = ended.wait(TELL_EVERY)
            told = tally.taken() | {"connections": 0 if last else len(server.server_state.connections)}
            line.send_bytes(json.dumps(told).encode())

    following, telling = (threading.Thread(target=one, daemon=True) for one in (follow, tell))
    threading.Thread(target=_listen_to_owner, args=(line, app, config, about), name="owner", daemon=True).start()
    follower.begin()  # which may take minutes: an owner whom nobody heard would wait when the line is full
    opened = bound(about.host, about.port, joins=True)
    freeze_long_lived()
    following.start()
    telling.start()
    try:
        server.run(sockets=[opened])
    finally:
        follower.stop()
        ended.set()
        telling.join(TELL_EVERY)
    if failed:
        raise SystemExit(1)


def _listen_to_owner(line: "Connection[Any, Any]", app: Questions, config: uvicorn.Config, about: Listening) -> None:
    """Take over the tokens that the owner tells; end at once when it tells no more: who would vouch for the answers."""
    while True:
        try:
            tokens = tuple(Token(**one) for one in json.loads(line.recv_bytes()))
        except (EOFError, OSError):
            os._exit(1)
        app.reload(tokens)
        with suppress(OSError):  # the owner tells why it cannot be used; what was read before stays
            read_certificate(config.ssl, about.certificate, about.key)
