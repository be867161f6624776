"""Dependencies between jobs, as fields 17 and 18 of SWF give them."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

import numpy as np

from predictors.core.arrays import Ints, short_repr
from predictors.core.errors import JobcastError
from predictors.data.joblog import JobLog
from predictors.data.report import Finding, ReadingReport
from schedsim.workload.workload import Workload

FAILED_STATUS: Final = (0, 5)  # what the Standard Workload Format calls failed and cancelled

OnFailure = Literal["hold", "run"]


@dataclass(frozen=True, eq=False)
class Dependencies:
    """Children and the parents that they wait for, by job ids."""

    # child, parent: shape (n,); a child may start once its parent has ended; each child is named once
    child: Ints
    parent: Ints
    think: Ints  # shape (n,); seconds from the parent's end until then; submissions do not move
    # jobs that do not end well, by id; a job stopped at its requested time does not either
    failed: frozenset[int] = field(default=frozenset())
    # {"hold", "run"}: what happens to the children of a failed job: held until they are altered (Cobalt's dep_fail), or
    # as if it had ended well
    on_failure: OnFailure = "hold"

    __repr__ = short_repr

    def __post_init__(self) -> None:
        for name in ("child", "parent", "think"):
            column = np.array(getattr(self, name), dtype=np.int64)
            if column.shape != (len(self.child),):
                raise JobcastError(f"Dependencies: {name} has shape {column.shape}; one value a child is needed.")
            object.__setattr__(self, name, column)
        if self.on_failure not in get_args(OnFailure):
            raise JobcastError(f"After a failure children 'hold' or 'run'; got {self.on_failure!r}.")
        ids, counts = np.unique(self.child, return_counts=True)
        if (counts > 1).any():
            raise JobcastError(f"Job {ids[np.argmax(counts)]} waits for several jobs; one parent each.")
        if (self.think < 0).any():
            row = int(np.argmax(self.think < 0))
            raise JobcastError(f"Job {self.child[row]} has a think time of {self.think[row]} s; it must be 0 or more.")
        self._refuse_circles()

    def _refuse_circles(self) -> None:
        parent = dict(zip(self.child.tolist(), self.parent.tolist(), strict=True))
        done: set[int] = set()
        for job in parent:
            path: dict[int, None] = {}
            while job in parent and job not in done:
                if job in path:
                    circle = [*list(path)[list(path).index(job) :], job]
                    raise JobcastError(f"Jobs wait for one another in a circle: {' for '.join(map(str, circle[:9]))}.")
                path[job] = None
                job = parent[job]
            done.update(path)

    @classmethod
    def of(cls, log: JobLog, on_failure: OnFailure = "hold") -> tuple["Dependencies | None", ReadingReport]:
        """Return a log's dependencies, and an account of those left out because their parent is missing.

        They are None where no job waits for another.
        """
        ids, parent = log.values["job_id"], log.filled("preceding_job")
        known = log.known("preceding_job") & (parent > 0)
        there = known & np.isin(parent, ids)
        findings = []
        lost = np.flatnonzero(known & ~there)
        if lost.size:
            text = "its preceding job is not among the jobs simulated: it waits for none"
            findings.append(
                Finding(
                    "dangling dependency", "changed", text, len(lost), tuple(ids[lost[:5]].tolist()), "job",
                    "preceding_job", str(parent[lost[0]]),
                )
            )  # fmt: skip
        account = ReadingReport(log.name, tuple(findings))
        if not there.any():
            return None, account
        think = np.where(log.known("think_time"), log.filled("think_time"), 0)[there]
        failed = frozenset(ids[log.known("status") & np.isin(log.filled("status"), FAILED_STATUS)].tolist())
        return cls(ids[there], parent[there], np.maximum(think, 0), failed, on_failure), account

    def rows(self, workload: Workload) -> tuple[Ints, Ints]:
        """Return each job's parent by row, or -1, and its think time [s]."""
        place = {job: row for row, job in enumerate(workload.job_id.tolist())}
        parents, think = np.full(len(workload), -1, dtype=np.int64), np.zeros(len(workload), dtype=np.int64)
        for child, parent, pause in zip(self.child.tolist(), self.parent.tolist(), self.think.tolist(), strict=True):
            for job in (child, parent):
                if job not in place:
                    raise JobcastError(
                        f"{workload.name}: job {child} waits for job {parent}, but job {job} is not in the workload."
                    )
            parents[place[child]], think[place[child]] = place[parent], pause
        return parents, think

    def stuck(self, workload: Workload, released: Collection[int] = (), kill: bool = True) -> Ints:
        """Return the rows of the jobs that never start because a job before them fails and no command releases them.

        `released` are the ids of held jobs that a command releases. With `kill` a job that is stopped
        at its requested time has failed.
        """
        if self.on_failure == "run":
            return np.empty(0, dtype=np.int64)
        parents, _ = self.rows(workload)
        bad = np.isin(workload.job_id, list(self.failed)) | (kill & (workload.run_time > workload.requested))
        held: dict[int, bool] = {}
        for row in range(len(workload)):
            path = []
            while row not in held and parents[row] >= 0:
                path.append(row)
                row = int(parents[row])
            for child in reversed(path):
                parent = int(parents[child])
                freed = int(workload.job_id[child]) in released
                held[child] = (bool(bad[parent]) and not freed) or held.get(parent, False)
        return np.array(sorted(row for row, stays in held.items() if stays), dtype=np.int64)
