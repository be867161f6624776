"""Context of the routes: the service, the pseudonymiser, the metrics, threads for large requests."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from starlette.requests import Request

from predictors.service.api.errors import Refusal
from predictors.service.api.prometheus import Metrics
from predictors.service.api.schema import MOST_SECONDS
from predictors.service.pseudonyms import Pseudonymiser, is_number
from predictors.service.state.service import Service

T = TypeVar("T")
LARGE: Final = 32 * 1024  # larger bodies are handled outside the event loop, so that small ones do not wait
PATIENCE: Final = 10.0  # longest wait for a commit, or until the learner has reached an event [s]
_LARGE_AT_ONCE: Final = 8


class LargeBodies:
    """Threads for large requests: two at once, some more that wait."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="large")
        self._n = 0

    async def run(self, size: int, work: Callable[[], T]) -> T:
        """Do work at once if it is small, else in a thread of the pool; refuse it if too many wait there."""
        if size < LARGE:
            return work()
        if self._n >= _LARGE_AT_ONCE:
            raise Refusal(503, "too many large requests at once", 1)
        self._n += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._n -= 1


class Context:
    """Objects that the handlers of one service share."""

    def __init__(self, service: Service, key: Pseudonymiser) -> None:
        self.service, self.key = service, key
        self.metrics = Metrics(service)
        self.run_in_thread = LargeBodies().run

    def must_be_ready(self) -> None:
        """Refuse until the state has been rebuilt."""
        if not self.service.ready or self.service.failed:
            raise Refusal(503, "the state is being rebuilt", 1)

    def jobs_of(self, request: Request) -> tuple[int, ...]:
        """Return the numbers of the jobs that an address may mean: digits are a number, or else a name."""
        text, cluster = request.path_params["job_id"], request.query_params.get("cluster")
        submission = request.query_params.get("submission")
        for name, part in (("job_id", text), ("cluster", cluster)):
            if part is not None and not 1 <= len(part) <= 256:
                raise Refusal(422, f"{name}: expected 1 to 256 characters in the address; got {part[:40]!r}")
        if submission is not None and not (is_number(submission) and int(submission) < MOST_SECONDS):
            raise Refusal(422, f"submission: expected a whole number below {MOST_SECONDS}; got {submission[:40]!r}")
        since = None if submission is None else int(submission)
        names: list[int | str] = [int(text), text] if is_number(text) else [text]
        return tuple(self.key.job(name, cluster, since) for name in names)


async def waited(future: "asyncio.Future[T]", otherwise: str) -> T:
    """Return what the service was asked for; after `PATIENCE` raise a `Refusal` with the reason, and let it go on."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await asyncio.shield(future)
    except TimeoutError:
        raise Refusal(503, otherwise, 1) from None
