"""Health of the service: what troubles it and why, as `/readyz`, the metrics and the log tell it."""

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from predictors.service.operation.logs import log
from predictors.service.state.roles import Roles
from predictors.service.state.writer import Writer

MOST_WAIT: Final = 5.0  # longest that an event may wait for its commit before the service is not ready [s]
STORAGE, WAITING, REBUILD, MODEL = "storage", "waiting", "rebuild", "model"
KINDS: Final = (STORAGE, WAITING, REBUILD, MODEL)
"""The database cannot be written; events wait for too long; the state was lost; a role's newest model is not in use."""
_log: Final = logging.getLogger("jobcast.service")


class EventRate:
    """Events taken in, minute by minute, of the last hour.

    >>> rate = EventRate()
    >>> for now, sequence in ((0.0, 100), (30.0, 110), (61.0, 130), (190.0, 131)):
    ...     rate.sample(now, sequence)
    >>> rate.per_minute()
    (10, 20, 0, 1)
    """

    def __init__(self) -> None:
        self._minutes: deque[int] = deque(maxlen=60)
        self._minute: int | None = None
        self._before = 0

    def sample(self, now: float, sequence: int) -> None:
        """Note how many events there are; called every so often, by one thread."""
        minute = int(now // 60)
        if self._minute is None:
            self._before, self._minute = sequence, minute
            self._minutes.append(0)
        for _ in range(min(minute - self._minute, 60)):
            self._minutes.append(0)
        self._minute = max(self._minute, minute)
        self._minutes[-1] += sequence - self._before
        self._before = sequence

    def per_minute(self) -> tuple[int, ...]:
        """Return the events of each minute, oldest first; the last one is not over yet."""
        return tuple(self._minutes)


class Health:
    """What troubles one service; any thread may ask. `failed` returns why the state cannot be kept, None if it can."""

    def __init__(self, writer: Writer, roles: Roles, failed: Callable[[], str | None]) -> None:
        self._writer, self._roles, self._failed = writer, roles, failed
        self._told: dict[str, str] = {}
        self.event_rate: Final = EventRate()

    def troubles(self) -> dict[str, str]:
        """Return the reason of each trouble that stands, by its kind."""
        found: dict[str, str] = {}
        if self._writer.trouble is not None:
            found[STORAGE] = self._writer.trouble
        if (waited := self._writer.oldest_wait) > MOST_WAIT:
            found[WAITING] = f"the oldest event has waited {waited:.0f} s for its commit"
        if (failed := self._failed()) is not None:
            found[REBUILD] = failed
        if trouble := dict(self._roles.trouble):
            found[MODEL] = "; ".join(f"{role}: {why}" for role, why in trouble.items())
        return found

    @property
    def answers(self) -> bool:
        """Whether events are taken in: no trouble but that of a new model while the old one stays."""
        return not self.troubles().keys() - {MODEL}

    def tell_changes(self) -> None:
        """Log each trouble that has come, and each that has passed; one thread calls it."""
        now = self.troubles()
        for kind, why in now.items():
            before = self._told.get(kind)
            if before is None or (before != why and kind != WAITING):
                log(_log, logging.ERROR, _COME[kind], why, trouble=kind)
        for kind in self._told.keys() - now.keys():
            log(_log, logging.WARNING, _PASSED[kind], trouble=kind)
        self._told = now


_COME: Final = {
    STORAGE: "The database cannot be written, events are answered 503: %s",
    WAITING: "The database does not answer, events wait: %s",
    REBUILD: "The state cannot be kept: %s",
    MODEL: "The newest model is not in use, the one before stays: %s",
}
_PASSED: Final = {
    STORAGE: "The database is written again.",
    WAITING: "Events are committed again.",
    REBUILD: "The state is kept again.",
    MODEL: "The newest model is in use.",
}
