"""When a job of some shape would start, in each partition that it may use, and if it asked for less time.

Partitions are checked by the site's files: nodes with what the job asks of each, MaxTime, MaxNodes, MinNodes. Then the
live queue is rolled forward as `jobcast start` does it, by processors: on each node a job counts with the largest share
that it takes of processors, GPUs and memory.
"""

import re
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Final

from experiments.site.live.queue import LiveQueue
from experiments.site.live.starts import Past, Present, Start
from predictors.core.errors import JobcastError, printable
from predictors.data.formats.columns import span
from predictors.data.slurm.conf import ENDLESS, SlurmConf, seconds_of, whole_of
from predictors.schedulers.soft_limit import MINUTE, PENDING, QueuedJob
from schedsim.machine.node_groups import Machine

LESS: Final = (0.75, 0.5, 0.25)  # shares of the time that are tried, too
EARLIER: Final = 300  # a start that comes no more [s] earlier is no gain
_TIMES: Final = {"s": 1, "min": MINUTE, "h": 3600, "d": 86_400, "day": 86_400}
_AMOUNTS: Final = {
    "node": "nodes", "gpu": "gpus", "gb": "memory_gb", "processor": "procs", "cpu": "procs", "core": "procs"
}  # fmt: skip
_PART: Final = re.compile(r"(\d{1,7}(?:\.\d{1,9})?)\s*([a-z]+?)s?(\s+(?:each|per node))?", re.IGNORECASE)


@dataclass(frozen=True)
class Shape:
    """What a job asks for; all but the nodes and the time is of each node."""

    limit: int  # requested time [s]
    nodes: int = 1
    procs: int = 1
    gpus: int = 0
    memory_gb: int = 0
    user: str = ""

    @classmethod
    def of(cls, text: str, user: str = "") -> "Shape":
        """Read a shape.

        >>> Shape.of("2 nodes, 4 GPUs each, 3 h")
        Shape(limit=10800, nodes=2, procs=1, gpus=4, memory_gb=0, user='')
        >>> Shape.of("2 nodes, 64 processors, 1-12:00:00").procs
        32
        """
        told, of_each = dict[str, float](), set[str]()
        for part in map(str.strip, text.split(",")):
            found = _PART.fullmatch(part)
            unit = "" if found is None else found[2].lower()
            name = _AMOUNTS.get(unit, "limit")
            number = float(span(part) or 0) if ":" in part else 0.0
            if found is not None:
                number = float(found[1]) * _TIMES.get(unit, unit in _AMOUNTS)
                of_each |= {name} if found[3] else set()
            if name in told or (name == "limit" and not number) or (name != "limit" and number % 1):
                raise JobcastError(
                    f"--if {printable(text)[:60]!r}: {printable(part)[:30]!r} is no part of a shape such as "
                    "'2 nodes, 4 GPUs each, 3 h' (nodes, GPUs, processors, GB, time), or named twice."
                )
            told[name] = number
        nodes, limit = int(told.pop("nodes", 1)), round(told.pop("limit", 0))
        if not limit or not nodes:
            raise JobcastError(f"--if {printable(text)[:60]!r}: names no time, or no node; write '1 node, 3 h'.")
        each = {name: ceil(number if name in of_each else number / nodes) for name, number in told.items()}
        return cls(limit, nodes, user=user, **{"procs": 1, **each})

    @classmethod
    def of_job(cls, job: QueuedJob) -> "Shape":
        """Return what the queue knows of a job: GPUs and memory it does not."""
        nodes = max(job.nodes, 1)
        return cls(job.limit or 0, nodes, ceil(job.procs / nodes), user=job.user)


@dataclass(frozen=True, eq=False)
class Places:
    """Where jobs of any shape may start now."""

    conf: SlurmConf
    machine: Machine | None
    queue: LiveQueue
    past: Past

    def procs_of(self, shape: Shape, partition: str) -> int | str:
        """Return how many processors a job counts for in a partition, or why it cannot run there."""
        row = self.conf.partitions[partition]
        if partition not in self.queue.procs:
            return "the queue does not have it"
        if "state" in row and row["state"].value.upper() != "UP":
            return f"its State is {row['state'].value}"
        if "maxtime" in row and shape.limit > seconds_of(row["maxtime"]):
            return f"its MaxTime is {row['maxtime'].value}"
        most = row.get("maxnodes")
        if most is not None and most.value.upper() not in ENDLESS and shape.nodes > whole_of(most):
            return f"its MaxNodes is {most.value}"
        if "minnodes" in row and shape.nodes < whole_of(row["minnodes"]):
            return f"its MinNodes is {row['minnodes'].value}"
        groups = [] if self.machine is None else self.machine.nodes
        fitting = [
            one for one in groups
            if partition in one.partitions and one.processors >= shape.procs and one.gpus >= shape.gpus
            and (one.memory_gb is None or one.memory_gb >= shape.memory_gb)
        ]  # fmt: skip
        if sum(one.count for one in fitting) < shape.nodes:
            return f"fewer than {shape.nodes} of its nodes have what it asks of each"
        first = min(fitting, key=lambda one: (one.weight, one.processors))
        shares = [shape.procs / first.processors, shape.gpus / max(first.gpus, 1)]
        shares += [] if first.memory_gb is None else [shape.memory_gb / first.memory_gb]
        return shape.nodes * ceil(round(max(shares) * first.processors, 6))

    def starts(self, shape: Shape, job: QueuedJob | None = None) -> tuple[dict[str, Start], dict[str, str]]:
        """Return the start of a job in each partition that it may use, the first one first; and why not in others.

        A job of the queue moves to the partition as it is, another one is submitted now.
        """
        found: dict[str, Start] = {}
        refused: dict[str, str] = {}
        number = 1 + max((one.job_id for one in self.queue.jobs), default=0)
        now = self.queue.now
        for partition in self.conf.partitions:
            procs = self.procs_of(shape, partition)
            if isinstance(procs, str):
                refused[partition] = procs
                continue
            new = QueuedJob(number, PENDING, partition=partition, submit=now, eligible=now, user=shape.user)
            moved = replace(job or new, partition=partition, limit=shape.limit, procs=procs)
            others = tuple(one for one in self.queue.jobs if one != job)
            try:
                present = Present(replace(self.queue, jobs=(*others, moved)), partition, self.past)
                found[partition] = present.start(moved, present.simulation())
            except JobcastError as error:
                refused[partition] = str(error)
        return dict(sorted(found.items(), key=lambda item: item[1].p50)), refused


@dataclass(frozen=True, eq=False)
class Answer:
    """When a job starts in each partition, and with less time."""

    job: str
    limit: int  # requested time [s]
    starts: dict[str, Start]  # by partition, the first one first
    refused: dict[str, str]  # why not in others
    less: list[tuple[int, str, Start]]  # requested time [s], partition and start, where it comes earlier

    def to_dict(self) -> dict[str, Any]:
        return {
            "job": self.job, "limit_s": self.limit,
            "partitions": [{"partition": name, **one.to_dict()} for name, one in self.starts.items()],
            "not_in": self.refused,
            "with_less_time": [{"limit_s": time, "partition": name, **one.to_dict()} for time, name, one in self.less],
        }  # fmt: skip


def answer(places: Places, name: str, shape: Shape, job: QueuedJob | None = None) -> Answer:
    """Return when a job of a shape starts, and what asking for less time gives: each step at least 5 min earlier.

    Tried are shares of the time, and what fits before the next reservation.
    """
    starts, refused = places.starts(shape, job)
    tried = {round(share * shape.limit / MINUTE) * MINUTE for share in LESS}
    tried |= {(one.start - places.queue.now) // MINUTE * MINUTE for one in places.queue.reservations}
    best = min((one.p50 for one in starts.values()), default=None)
    less: list[tuple[int, str, Start]] = []
    for limit in sorted((one for one in tried if MINUTE <= one < shape.limit), reverse=True):
        for where, one in list(places.starts(replace(shape, limit=limit), job)[0].items())[:1]:
            if best is None or one.p50 < best - EARLIER:
                less.append((limit, where, one))
                best = one.p50
    return Answer(name, shape.limit, starts, refused, less)
