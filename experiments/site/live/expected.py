"""When a job that is submitted now would start, by partition and width: for the line that cli_filter says after sbatch.

The live queue is rolled forward as `jobcast start` does it, with one more job at its end: as wide, and with as long a
request, as jobs of its partition and class of widths are in the middle. Jobs that are submitted later are not foreseen.
"""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from threading import Thread
from typing import Final

from experiments.site.live.queue import LiveQueue
from experiments.site.live.starts import Past, Present
from predictors.core.errors import JobcastError
from predictors.schedulers.feed import has_ended, has_run
from predictors.schedulers.journal import JobClass
from predictors.schedulers.soft_limit import MINUTE, PENDING, QueuedJob
from predictors.schedulers.submission import StartSource
from predictors.schedulers.table import ExpectedStart, width_class

EVERY: Final = 300  # starts are asked again after so long [s]; until then the table has those of before, with their age
DRAWS: Final = 50
MOST_ENDED: Final = 20_000  # jobs that ended last, of which run times are drawn
MOST_SECONDS: Final = 20.0
"""After so long no further class is asked about, and no one waits longer for a round. The classes with the fewest known
jobs are asked about last."""
Typical = dict[tuple[str, int], tuple[int, int]]


class ExpectedStarts:
    """Tells when a job that is submitted now would start.

    Run times are drawn from the ended jobs of `past`, and from those that end later; `clock` [s] times a round.
    """

    def __init__(
        self,
        past: Past,
        queue: Callable[[], LiveQueue] = LiveQueue.from_slurm,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        past.keep(MOST_ENDED)
        self._past, self._queue, self._clock = past, queue, clock
        self._since = int(past.end[-1]) if len(past.end) else 0
        self._learnt: dict[tuple[str, int], int] = {}
        self._asked: float | None = None
        self._found: list[ExpectedStart] = []

    def learn(self, jobs: Iterable[QueuedJob]) -> None:
        """Take in the jobs that have ended after the last one of the log, each once."""
        for job in jobs:
            key, end = (job.key, job.submit or 0), job.end or 0
            if not (has_ended(job) and has_run(job) and job.limit) or end <= self._since or key in self._learnt:
                continue
            self._learnt[key] = end
            self._past.add(job.user, end, (end - (job.start or 0)) / job.limit)
        self._past.keep(MOST_ENDED)
        if len(self._learnt) > 2 * MOST_ENDED:
            newest = sorted(self._learnt.items(), key=lambda item: item[1])[-MOST_ENDED:]
            self._learnt, self._since = dict(newest), newest[0][1] - 1

    def expected(self, classes: Sequence[JobClass]) -> list[ExpectedStart]:
        """Return when such jobs would start, at most five minutes old; classes that could not start are left out."""
        if self._asked is not None and self._clock() - self._asked < EVERY:
            return self._found
        begin = self._asked = self._clock()
        self._found = []
        queue = self._queue()
        for (partition, width), (procs, limit) in typical(classes, queue).items():
            if self._clock() - begin > MOST_SECONDS:
                break
            try:
                p50, p90 = self._start(queue, partition, procs, limit)
            except JobcastError:  # too wide for the nodes that are up, or what is reserved has no end
                continue
            one = ExpectedStart(partition, width, limit // MINUTE, p50, p90, queue.now)
            self._found += [one, replace(one, partition="")] if partition == queue.default else [one]
        return self._found

    def _start(self, queue: LiveQueue, partition: str, procs: int, limit: int) -> tuple[int, int]:
        """Return P50 and P90 of the start of a job that is submitted now, in Unix time."""
        number = 1 + max((job.job_id for job in queue.jobs), default=0)
        job = QueuedJob(number, PENDING, limit, partition=partition, procs=procs, submit=queue.now, eligible=queue.now)
        present = Present(replace(queue, jobs=(*queue.jobs, job)), partition, self._past)
        found = present.start(job, present.simulation(), DRAWS)
        return found.p50, found.p90


class Aside:
    """Asks who tells starts in a thread of its own, so that a look at the queue waits for it at most 20 s.

    The first round compiles the simulator, and one class in a long queue can take long. Nothing that goes wrong there
    ends the caller.
    """

    def __init__(
        self,
        source: StartSource,  # who tells; only one round runs at a time
        patience: float = MOST_SECONDS,  # how long a look waits for the round that it begins [s]
    ) -> None:
        self._source, self._patience = source, patience
        self._ended: deque[QueuedJob] = deque(maxlen=MOST_ENDED)
        self._round: Thread | None = None
        self._found: list[ExpectedStart] = []
        self._trouble = ""

    def learn(self, jobs: Iterable[QueuedJob]) -> None:
        """Keep the jobs that have ended for the next round."""
        self._ended.extend(job for job in jobs if has_ended(job))

    def expected(self, classes: Sequence[JobClass]) -> list[ExpectedStart]:
        """Return what the newest round has found; an earlier one's, where it takes longer."""
        if self._round is None or not self._round.is_alive():
            ended = list(self._ended)
            self._ended.clear()
            self._round = Thread(target=self._ask, args=(ended, classes), name="expected starts", daemon=True)
            self._round.start()
            self._round.join(self._patience)
        if self._trouble:
            raise JobcastError(self._trouble)
        return self._found

    def _ask(self, ended: Sequence[QueuedJob], classes: Sequence[JobClass]) -> None:
        try:
            self._source.learn(ended)
            self._found, self._trouble = self._source.expected(classes), ""
        except JobcastError as error:
            self._found, self._trouble = [], str(error)
        except Exception as error:  # whatever it is: soft limits go on without forecasts
            self._found, self._trouble = [], f"{type(error).__name__}: {error}"


def typical(classes: Sequence[JobClass], queue: LiveQueue) -> Typical:
    """Return the middle width and request [s] of ended and queued jobs, by partition and class, by number.

    >>> jobs = [JobClass("eve", "", "p", 3, 60, "fit", 9), JobClass("ann", "", "p", 2, 600, "x", 1)]
    >>> typical(jobs, LiveQueue(0, (), {"p": 8}, {}))
    {('p', 4): (3, 3600)}
    """
    widths: defaultdict[tuple[str, int], Counter[int]] = defaultdict(Counter)
    limits: defaultdict[tuple[str, int], Counter[int]] = defaultdict(Counter)
    known = [(one.partition, one.procs, one.limit * MINUTE, one.ended) for one in classes]
    known += [(one.partition, one.procs, one.limit or 0, 1) for one in queue.jobs]
    for partition, procs, limit, n in known:
        if partition in queue.procs and limit >= MINUTE and procs > 0 and n > 0:
            widths[partition, width_class(procs)][procs] += n
            limits[partition, width_class(procs)][limit] += n
    order = sorted(widths, key=lambda key: (-widths[key].total(), key))
    return {key: (_middle(widths[key]), _middle(limits[key])) for key in order}


def _middle(counts: Mapping[int, int]) -> int:
    """Return the lower median of values that were counted."""
    left = (sum(counts.values()) + 1) // 2
    for value in sorted(counts):
        left -= counts[value]
        if left <= 0:
            break
    return value
