"""A small typed client: retries what may pass, and can fail open, so that a service that is down never hurts.

It needs the standard library only, and one connection a client; a client is for one thread.
"""

import http.client
import json
import random
import ssl
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from predictors.core.errors import JobcastError
from predictors.core.prediction_bounds import UNKNOWN_REQUEST

Event = Mapping[str, Any]  # as in the API: kind, job_id, time, and what a submission tells
Job = Mapping[str, Any]  # as in the API: procs, requested_time, user, …

_MAY_PASS: Final = (429, 502, 503, 504)
_LONGEST_PAUSE: Final = 2.0
_LEAST_WAIT: Final = 0.001


class ServiceError(JobcastError):
    """The service cannot be reached, or refuses; `status` is 0 where it was not reached."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Runtime:
    """A predicted run time."""

    seconds: float | None  # prediction [s]; None for a job id that was never submitted
    lower: float | None = None  # lower, upper: the model's own interval [s]
    upper: float | None = None
    p10: float | None = None  # p10, p50, p90: quantiles by recent jobs [s]
    p50: float | None = None
    p90: float | None = None
    answered_by: str | None = None  # the predictor; `client` if the service could not be asked in time
    fallback: bool = False  # whether it is not the model's own answer
    why: str | None = None  # why not
    model: str = ""  # model, version: the model in charge
    version: int | None = None
    sequence: int = 0  # the newest event that the answer knows of


class Client:
    """Talks to a service; a call without an answer raises `ServiceError`.

    Parameters
    ----------
    url : str
        Such as http://127.0.0.1:8571.
    token : str, optional
        Bearer token.
    timeout : float
        Longest that a call takes in all, with everything that is sent again [s].
    retries : int
        How often a request is sent again that was not answered, or turned away for now. Events may be sent again
        without harm: the service keeps the first.
    fail_open : bool
        Whether `runtime` answers with the requested time where the service does not answer in time.
    tls : ssl.SSLContext, optional
        For https.

    Examples
    --------
    >>> nobody_there = Client("http://127.0.0.1:9", timeout=0.2, retries=0, fail_open=True)
    >>> answer = nobody_there.runtime([{"requested_time": 600, "user": "alice"}])[0]
    >>> answer.seconds, answer.answered_by, answer.fallback
    (600.0, 'client', True)
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 2.0,
        retries: int = 3,
        fail_open: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        try:
            parts = urlsplit(url)
            known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError as error:  # brackets that do not close, a port beyond 65535
            raise JobcastError(f"{url!r}: is no address ({error}); give one such as http://127.0.0.1:8571.") from error
        if not known:
            raise JobcastError(f"{url!r}: a service's address begins with http:// or https://, and has a host.")
        self._parts, self._tls = parts, tls
        self._timeout, self._retries, self._fail_open = timeout, retries, fail_open
        self._headers = {"Content-Type": "application/json"}
        if token is not None:
            if not (token.isascii() and token.isprintable()):
                raise JobcastError(
                    "The bearer token is no token: it has other signs than ASCII's; see `jobcast token`."
                )
            self._headers["Authorization"] = f"Bearer {token}"
        self._connection: http.client.HTTPConnection | None = None

    def send(self, events: Iterable[Event]) -> list[dict[str, Any]]:
        """Send events; return a receipt each (`sequence`, `status`). They are durable then.

        After a `ServiceError` send them again: none is taken in twice.
        """
        receipts: list[dict[str, Any]] = self.ask("POST", "/v1/events", {"events": list(events)})["events"]
        return receipts

    def runtime(self, jobs: Sequence[Job], *, as_of: int | None = None, now: int | None = None) -> list[Runtime]:
        """Return the predicted run times of jobs, as if they were submitted now."""
        asked = {"jobs": [dict(job) for job in jobs], "as_of": as_of, "now": now}
        try:
            return _runtimes(self.ask("POST", "/v1/predictions/runtime", asked))
        except ServiceError as error:
            if not self._fail_open or error.status in (400, 401, 403, 413, 422):
                raise
            return [_open(job) for job in jobs]

    def recorded(self, job_ids: Sequence[int | str | Mapping[str, Any]], *, as_of: int | None = None) -> list[Runtime]:
        """Return what was predicted for jobs at their submission; an id may come with its cluster and submission."""
        asked = {"job_ids": list(job_ids), "as_of": as_of}
        return _runtimes(self.ask("POST", "/v1/predictions/runtime", asked))

    def job(self, job_id: int | str, **key: Any) -> dict[str, Any]:
        """Return all that the service knows of a job; `cluster` and `submission` where its events had them."""
        return self.ask("GET", _address("jobs", job_id, key))

    def start_time(self, job_id: int | str, **key: Any) -> dict[str, int]:
        """Return the seconds by which a waiting job has started with a chance of 10, 50 and 90 %."""
        return self.ask("GET", _address("start-time", job_id, key))

    def forget(self, older_than: int, *, dry_run: bool = False) -> dict[str, Any]:
        """Give up the live jobs of which nothing was heard for so many seconds, or only count them."""
        asked = {"older_than": older_than, "dry_run": dry_run}
        return self.ask("POST", "/v1/jobs/forget", asked)

    def models(self) -> dict[str, Any]:
        """Return who is in which role, and the history of roles."""
        return self.ask("GET", "/v1/models")

    def reload(self) -> dict[str, Any]:
        """Make the service look at the registry now."""
        return self.ask("POST", "/v1/models/reload", {})

    def ask(self, method: str, path: str, document: Any = None) -> dict[str, Any]:
        """Send one request, again if need be; return the answer's document."""
        body = None if document is None else json.dumps(document).encode()
        until = time.monotonic() + self._timeout
        for attempt in range(self._retries + 1):
            try:
                status, wait, answer = self._once(method, path, body, until)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                failure = ServiceError(f"{self._parts.netloc}: {error or type(error).__name__}")
                wait = 0.0
            else:
                if status < 300 and answer:
                    return answer
                reason = answer.get("error", "" if status >= 300 else "is no answer of jobcast's service")
                failure = ServiceError(f"{self._parts.netloc}: {status} {reason}", status)
                if status not in _MAY_PASS:
                    raise failure
            pause = max(wait, min(0.05 * 2**attempt, _LONGEST_PAUSE)) * (0.5 + random.random())
            if attempt == self._retries or time.monotonic() + pause >= until:
                break
            time.sleep(pause)
        raise failure

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _once(self, method: str, path: str, body: bytes | None, until: float) -> tuple[int, float, dict[str, Any]]:
        left = max(until - time.monotonic(), _LEAST_WAIT)
        if self._connection is None:
            host, port = str(self._parts.hostname), self._parts.port
            if self._parts.scheme == "https":
                self._connection = http.client.HTTPSConnection(host, port, timeout=left, context=self._tls)
            else:
                self._connection = http.client.HTTPConnection(host, port, timeout=left)
        elif self._connection.sock is not None:
            self._connection.sock.settimeout(left)
        self._connection.request(method, self._parts.path.rstrip("/") + path, body, self._headers)
        if self._connection.sock is not None:
            self._connection.sock.settimeout(max(until - time.monotonic(), _LEAST_WAIT))
        response = self._connection.getresponse()
        text = response.read()
        wait = response.getheader("Retry-After", "")
        answer = None
        with suppress(ValueError):
            answer = json.loads(text)
        return response.status, float(wait) if wait.isdigit() else 0.0, answer if isinstance(answer, dict) else {}


def _address(what: str, job_id: int | str, key: Mapping[str, Any]) -> str:
    asked = urlencode({name: value for name, value in key.items() if value is not None})
    return f"/v1/{what}/{quote(str(job_id), safe='')}" + (f"?{asked}" if asked else "")


def _runtimes(document: Any) -> list[Runtime]:
    model, sequence = document["model"], int(document["sequence"])
    return [
        Runtime(
            **{name: one[name] for name in ("seconds", "lower", "upper", "answered_by", "fallback", "why")},
            **(one["quantiles"] or {}), model=model["name"], version=model["version"], sequence=sequence,
        )
        for one in document["predictions"]
    ]  # fmt: skip


def _open(job: Job) -> Runtime:
    request = job.get("requested_time")
    seconds = float(request) if request else UNKNOWN_REQUEST
    return Runtime(seconds, answered_by="client", fallback=True, why="the service did not answer in time")
