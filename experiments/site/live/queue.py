"""The queue of a cluster at one moment: read from Slurm, or from a file that was written then."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

from predictors.core.declarations import declared
from predictors.core.errors import JobcastError, printable
from predictors.core.files import whole_file
from predictors.probes.commands import run
from predictors.schedulers.slurm import FILTERS, Slurm
from predictors.schedulers.soft_limit import PENDING, QueuedJob, Reservation

FORMAT: Final = "jobcast queue"
CLEANED: Final = "COMPLETING"  # the state of a job that has ended while its nodes are cleaned
HOLDING: Final = frozenset(("RUNNING", "CONFIGURING", CLEANED, "STAGE_OUT", "SIGNALING", "STOPPED"))
"""States of jobs that have processors."""
MOST_TASKS: Final = 10_000  # waiting tasks of one array that are kept separate
MOST_BYTES: Final = 1 << 28
_MOST: Final = 1 << 40


@dataclass(frozen=True)
class LiveQueue:
    """What waits and runs at one moment; times are Unix time."""

    now: int  # the scheduler's clock
    jobs: tuple[QueuedJob, ...]  # a task of an array each
    procs: Mapping[str, int]  # usable processors of each partition
    nodes: Mapping[str, frozenset[str]]
    reservations: tuple[Reservation, ...] = ()  # what is kept free
    default: str = ""  # the partition of jobs that name none; empty: not known

    def job(self, name: str) -> QueuedJob:
        for one in self.jobs:
            if name in (one.key, str(one.job_id)):
                return one
        raise JobcastError(
            f"The queue has no job {printable(name)[:40]!r} at {self.now}: it has {len(self.jobs)} jobs. A task of an "
            "array is named 123_4."
        )

    @classmethod
    def from_slurm(cls) -> Self:
        """Read the cluster that Slurm's commands on the PATH speak to."""
        slurm = Slurm()
        now, rows = slurm.config().now, slurm.queue()
        if rows.bad:
            raise JobcastError(f"squeue: rows cannot be read ({rows.problems}): no start can be forecast from a part.")
        done = run(["sinfo", "-h", "-a", "-o", "%P %C"], environment={"LC_ALL": "C.UTF-8"}, without=FILTERS)
        if done.code != 0:
            raise JobcastError(f"sinfo: failed with status {done.code}: {printable(done.problem.strip())[:200]}.")
        marked = usable(done.out)
        procs = {name.removesuffix("*"): count for name, count in marked.items()}
        default = next((name[:-1] for name in marked if name.endswith("*")), "")
        return cls(now, tuple(_each(rows.jobs)), procs, slurm.partitions(), slurm.reservations(), default)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file that `write` made."""
        try:
            with path.open("rb") as file:  # a device may have no end
                text = file.read(MOST_BYTES + 1)
            found = json.loads(text) if len(text) <= MOST_BYTES else None
        except (OSError, ValueError, RecursionError) as error:
            raise JobcastError(f"{path}: is no whole queue ({error}); save it again.") from error
        if not isinstance(found, dict) or found.pop("format", None) != FORMAT:
            raise JobcastError(f"{path}: is no queue that `jobcast start --save` wrote.")
        made = declared(cls, found, f"{path}: the queue")
        for at, job in enumerate(made.jobs):
            times = (made.now, job.submit, job.eligible, job.start, job.end, job.limit, job.soft)
            if not (0 < job.procs < _MOST and all(0 <= time < _MOST for time in times if time is not None)):
                raise JobcastError(
                    f"{path}: the queue: jobs[{at}] ({printable(job.key)[:40]}) has a time below 0, processors below "
                    "1, or a number without measure; save it again."
                )
        return made

    def write(self, path: Path) -> None:
        """Write it as one JSON document, whole or not at all."""
        document = {
            "format": FORMAT, "now": self.now, "jobs": [asdict(job) for job in self.jobs], "procs": dict(self.procs),
            "nodes": {name: sorted(nodes) for name, nodes in self.nodes.items()},
            "reservations": [_plain(one) for one in self.reservations], "default": self.default,
        }  # fmt: skip
        with whole_file(path) as part:
            part.write_text(json.dumps(document) + "\n", encoding="utf-8")


def usable(text: str) -> dict[str, int]:
    r"""Return each partition's processors neither down nor drained, by `sinfo -o '%P %C'`; `*` marks a default.

    >>> usable("batch* 16/8/8/32\ngpu 0/4/0/4\n")
    {'batch*': 24, 'gpu': 4}
    """
    found: dict[str, int] = {}
    for line in text.splitlines():
        name, _, counts = line.strip().rpartition(" ")
        parts = counts.split("/")
        if not name or len(parts) != 4 or not all(part.isdecimal() for part in parts):
            raise JobcastError(f"sinfo: printed {printable(line)[:60]!r}, not a partition and four numbers.")
        found[name] = found.get(name, 0) + int(parts[0]) + int(parts[1])
    return found


def _each(jobs: tuple[QueuedJob, ...]) -> Iterator[QueuedJob]:
    for job in jobs:
        tasks = tasks_of(job.task) if job.state == PENDING else []
        if len(tasks) < 2:
            yield job
            continue
        for task in tasks:
            yield replace(job, task=str(task))


def tasks_of(text: str) -> list[int]:
    """Return the numbers of an array's tasks; none of a text that is no list of them.

    >>> tasks_of("1-3,7%2"), tasks_of("0-8:4"), tasks_of("5"), tasks_of("")
    ([1, 2, 3, 7], [0, 4, 8], [5], [])
    """
    found: list[int] = []
    for part in text.partition("%")[0].split(","):
        span, _, step = part.partition(":")
        first, _, last = span.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal() and (step or "1").isdecimal()):
            return []
        found.extend(range(int(first), int(last or first) + 1, max(1, int(step or 1)))[:MOST_TASKS])
    return found[:MOST_TASKS]


def _plain(one: Reservation) -> dict[str, Any]:
    nodes = None if one.nodes is None else sorted(one.nodes)
    return {"name": one.name, "start": one.start, "end": one.end, "nodes": nodes, "flags": sorted(one.flags)}
