"""PostgreSQL's connections: a statement that gets no answer ends, although the server never said so.

`statement_timeout` is the server's own: it ends nothing where the server, or the network, is what hangs. So every wait
for an answer has an end here, and the system's timers find a peer that is gone.
"""

import time
from collections.abc import Generator
from typing import Any, Final

from sqlalchemy import Engine, event

STATEMENT_SECONDS: Final = 5  # longest that a statement may take; the server ends it
MOST_WAIT: Final = 7.0  # longest wait for the server's answer, past its own limit; then the connection is given up [s]
ADDRESS: Final[dict[str, Any]] = {  # options of a connection by which the system finds a peer that is gone
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 1000 * STATEMENT_SECONDS,
}


def bound_waits(engine: Engine) -> None:
    """Let every connection of an engine of psycopg give up a wait that is too long."""
    from psycopg import Connection, OperationalError

    class Bounded(Connection[Any]):
        """A connection with bounded waits."""

        def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
            """Wait for an answer; give the connection up where there is none in time."""
            return super().wait(self._until(gen, time.monotonic() + MOST_WAIT), *args, **options)

        def _until(self, gen: Any, end: float) -> Generator[Any, Any, Any]:
            try:
                wanted = next(gen)
                while True:
                    ready = yield wanted
                    if not ready and time.monotonic() > end:
                        self.pgconn.finish()
                        raise OperationalError(f"the database has not answered for {MOST_WAIT:g} s")
                    wanted = gen.send(ready)
            except StopIteration as done:
                return done.value

    def connect(_dialect: Any, _record: Any, positional: Any, options: Any) -> Any:
        return Bounded.connect(*positional, **ADDRESS | options)

    event.listen(engine, "do_connect", connect)
