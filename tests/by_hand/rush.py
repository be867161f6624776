"""RUSH written down once more from Algorithms 1 and 2, slowly, to check the gate against. Shares no code with it."""

from dataclasses import dataclass, field


@dataclass
class Entry:
    """A job in the queue or running."""

    job: object
    row: int
    skips: int = 0
    start: int | None = None


@dataclass
class Rush:
    """FCFS + EASY by requested times, exact kills, with the Start() of Algorithm 2."""

    jobs: list
    procs: int
    varies: object  # (row, now) -> bool
    threshold: int = 10
    recheck: int = 60
    everywhere: bool = False  # ask at every pass
    calls: list = field(default_factory=list)

    def run(self):
        """Return the starts by row."""
        entries = [Entry(job, row) for row, job in enumerate(self.jobs)]
        coming, queue, running, ticks = list(entries), [], [], set()
        while coming or queue or running:
            times = [e.start + e.job.run_time for e in running] + [e.job.submit for e in coming] + sorted(ticks)
            now = min(times)
            ended = [e for e in running if e.start + e.job.run_time <= now]
            running = [e for e in running if e not in ended]
            queue += [e for e in coming if e.job.submit <= now]
            coming = [e for e in coming if e.job.submit > now]
            news = bool(ended) or now in ticks
            ticks = {t for t in ticks if t > now}
            tried = set()
            while True:  # Algorithm 1: the front of the queue, then around the reservation of the first that is blocked
                fitting = [e for e in queue if e.row not in tried]
                if not fitting or fitting[0].job.procs > self._free(running):
                    break
                tried.add(fitting[0].row)
                self._start(fitting[0], queue, running, now, news, ticks)
            if fitting:
                head = fitting[0]
                ends = sorted((max(e.start + e.job.requested, now + 1), e.job.procs) for e in running)
                free = self._free(running)
                shadow = now
                for end, procs in ends:
                    free += procs
                    shadow = end
                    if free >= head.job.procs:
                        break
                extra = self._free(running) + sum(p for end, p in ends if end <= shadow) - head.job.procs
                for e in list(queue):
                    ends_in_time = now + e.job.requested <= shadow
                    if e is head or e.row in tried or e.job.procs > self._free(running):
                        continue
                    if not ends_in_time and e.job.procs > extra:
                        continue
                    if self._start(e, queue, running, now, news, ticks) and not ends_in_time:
                        extra -= e.job.procs
        return [e.start for e in entries]

    def _free(self, running):
        return self.procs - sum(e.job.procs for e in running)

    def _start(self, entry, queue, running, now, news, ticks):
        """Algorithm 2; a job that was skipped before is looked at again on news only."""
        if entry.skips < self.threshold:
            if entry.skips and not news and not self.everywhere:
                return False
            self.calls.append((now, entry.row))
            if self.varies(entry.row, now):
                entry.skips += 1
                ticks.add((now // self.recheck + 1) * self.recheck)
                return False
        queue.remove(entry)
        running.append(entry)
        entry.start = now
        return True
