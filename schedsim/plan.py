"""How many processors are free from when on, if all goes as planned? A plan that reads as it is defined."""

from dataclasses import dataclass, field

from schedsim.instant import Queued


def fits_at(releases: list[tuple[int, int]], free: int, need: int) -> tuple[int, int]:
    """Return when so many processors are free, if those running end as planned, and how many are left over then.

    Examples
    --------
    >>> fits_at([(200, 4), (100, 2), (100, 2)], free=2, need=5)
    (100, 1)
    """
    for end in sorted({end for end, _ in releases}):
        then = free + sum(procs for until, procs in releases if until <= end)
        if then >= need:
            return end, then - need
    raise ValueError(f"{need} processors are never free.")


@dataclass
class Plan:
    """Processors free from now on, by the running jobs and by reservations (start, end, processors, row)."""

    now: int
    free: int
    releases: list[tuple[int, int]]
    booked: list[tuple[int, int, int, int]] = field(default_factory=list)

    def free_at(self, time: int) -> int:
        """Return the processors free at a second."""
        freed = sum(procs for end, procs in self.releases if end <= time)
        return self.free + freed - sum(procs for begin, end, procs, _ in self.booked if begin <= time < end)

    def collision(self, start: int, length: int, procs: int) -> int | None:
        """Return the first second from `start` on, within `length`, that has too few processors free."""
        changes = [begin for begin, _, _, _ in self.booked if start < begin < start + length]
        return next((time for time in sorted({start, *changes}) if self.free_at(time) < procs), None)

    def earliest(self, procs: int, length: int) -> int:
        """Return the first second from which on so many processors are free for so long."""
        times = {self.now, *(end for end, _ in self.releases), *(end for _, end, _, _ in self.booked)}
        return next(t for t in sorted(times) if t >= self.now and self.collision(t, length, procs) is None)

    def book(self, job: Queued, start: int, length: int) -> None:
        """Reserve."""
        self.booked.append((start, start + length, job.procs, job.row))
