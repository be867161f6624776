"""When is the earliest hole? Free processors from each second on, as planned."""

from bisect import bisect_left


class Plan:
    """A step function: from second `since[i]` on, until `since[i + 1]`, `free[i]` processors are free.

    >>> plan = Plan(now=0, free=2)
    >>> plan.add(begin=10, procs=3)
    >>> plan.earliest(procs=4, length=5)
    10
    >>> plan.take(begin=10, end=15, procs=4)
    >>> plan.since, plan.free
    ([0, 10, 15], [2, 1, 5])
    """

    def __init__(self, now: int, free: int):
        self.since, self.free = [now], [free]

    def _step_at(self, second: int) -> int:
        """Index of the step that begins at a second not before now; made where there is none."""
        i = bisect_left(self.since, second)
        if i == len(self.since) or self.since[i] != second:
            self.since.insert(i, second)
            self.free.insert(i, self.free[i - 1])
        return i

    def add(self, begin: int, procs: int, end: int | None = None) -> None:
        """Free `procs` more from `begin` on (until `end`)."""
        i = self._step_at(begin)
        j = len(self.since) if end is None else self._step_at(end)
        for k in range(i, j):
            self.free[k] += procs

    def take(self, begin: int, end: int, procs: int) -> None:
        """Reserve `procs` during [begin, end)."""
        self.add(begin, -procs, end)

    def earliest(self, procs: int, length: int, after: int | None = None) -> int:
        """First second, now or later, from which `procs` are free for `length` seconds on end."""
        begin = self.since[0] if after is None else after
        for i, second in enumerate(self.since):
            until = self.since[i + 1] if i + 1 < len(self.since) else None
            if until is not None and until <= begin:
                continue
            if second >= begin + length:
                break
            if self.free[i] < procs:
                if until is None:
                    raise ValueError(f"{procs} processors are never free")
                begin = until
        return begin

    def fits(self, begin: int, procs: int, length: int) -> bool:
        """Return whether `procs` are free during [begin, begin + length)."""
        return self.earliest(procs, length, after=begin) == begin
