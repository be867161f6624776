"""What has happened so far in a simulation: events and a note on each, in chunks that forks share."""

from dataclasses import dataclass, field
from typing import Self

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(eq=False)
class EventLog:
    """Append-only log; the kernels write into the last chunk, earlier ones are frozen and may be shared.

    Parameters
    ----------
    events : int64 array of shape (room, 3)
        The last chunk: time, kind, job row.
    notes : int64 array of shape (room,)
        For a start 4 * estimate + how it started; for an end the estimate valid then.
    past : list of (events, notes)
        Frozen chunks.
    """

    events: Ints
    notes: Ints
    past: list[tuple[Ints, Ints]] = field(default_factory=list)

    @classmethod
    def with_room(cls, room: int) -> Self:
        """Return an empty log with room for so many events."""
        return cls(np.empty((room, 3), dtype=np.int64), np.empty(room, dtype=np.int64))

    def continued(self, used: int, handed: int, room: int) -> Self:
        """Return a log that goes on behind `used` events of the last chunk without ever writing into it.

        The events from `handed` on are copied to the front of the new chunk, so that they lie in one piece with those
        to come.
        """
        tail = used - handed
        new = self.with_room(tail + room)
        new.events[:tail] = self.events[handed:used]
        new.notes[:tail] = self.notes[handed:used]
        new.past = [*self.past, (self.events[:handed], self.notes[:handed])]
        return new

    def read(self, used: int) -> tuple[Ints, Ints]:
        """Return all events and notes, shapes (n, 3) and (n,), the last chunk up to `used`."""
        chunks = [*self.past, (self.events[:used], self.notes[:used])]
        return np.concatenate([e for e, _ in chunks]), np.concatenate([n for _, n in chunks])
