"""A site as it is simulated, and the waits of its jobs under shakes of their submissions and of the backfill clock."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.runs.checkpoints import code_identity, digest_of_values, log_identity, run_all, run_directory
from experiments.runs.policies import NamedPolicy, demands_by
from experiments.runs.setting import Setting
from experiments.runs.simulate import NamedSimulation, check_goes_on, check_names, usual_correction
from predictors.core.arrays import Bools, Floats
from predictors.core.errors import JobcastError
from predictors.core.hash_random import uniform
from predictors.data.joblog import JobLog
from predictors.data.slurm.site import Site
from schedsim.machine.node_groups import Machine
from schedsim.machine.slurm_nodes import machine_of, outages_of
from schedsim.sites.slurm.files import SlurmFiles
from schedsim.sites.slurm.loops import Loops
from schedsim.workload.shaking import resubmitted
from schedsim.workload.workload import Workload

if TYPE_CHECKING:
    import pandas as pd

_JITTER, _PHASE = 1, 2  # purposes of what is drawn


def from_eligible(log: JobLog) -> tuple[JobLog, Floats]:
    """Return a log with jobs submitted when they were eligible, and their waits from then; NaN where unknown [s].

    >>> log = JobLog.from_columns({"job_id": [1, 2], "submit": [0, 5], "wait": [50, 3], "eligible_wait": [20, 3]}, {})
    >>> moved, waits = from_eligible(log)
    >>> moved["job_id"].tolist(), moved["submit"].tolist(), waits.tolist()
    ([2, 1], [0, 25], [3.0, 20.0])
    """
    wait, known = log.filled("wait"), log.known("wait")
    if not known.any():
        raise JobcastError(
            f"{log.name}: records no waits, so a twin cannot be held against it; export sacct with Submit, Eligible "
            "and Start."
        )
    eligible = np.where(log.known("eligible_wait") & known, log.filled("eligible_wait"), wait)
    moved = resubmitted(log, log.values["submit"] + np.where(known, np.maximum(wait - eligible, 0), 0))
    told = dict(zip(log.values["job_id"].tolist(), np.where(known, eligible, np.nan).tolist(), strict=True))
    return moved, np.array([told[job] for job in moved.values["job_id"].tolist()])


def shaken_slightly(log: JobLog, seed: int, interval: int) -> JobLog:
    """Return a log with submissions moved by up to a second, and another phase of the clock of Slurm's backfill loop.

    That clock begins with the first submission, which comes up to `interval` seconds earlier; seed 0 changes nothing.
    """
    if seed == 0:
        return log
    job_id = log.values["job_id"]
    moves, phase = np.empty(len(log)), np.empty(1)
    uniform(seed, job_id, _JITTER, moves)
    uniform(seed, job_id[:1], _PHASE, phase)
    submit = log.values["submit"] + np.rint(3 * moves - 1.5).astype(np.int64)
    submit[0] = submit.min() - int(phase[0] * interval)
    return resubmitted(log, submit)


@dataclass(frozen=True, eq=False)
class Side:
    """A site as it is simulated: as it is, under another policy, or changed."""

    site: Site
    source: str  # its file
    files: SlurmFiles | None  # its Slurm; None without a slurm.conf
    nodes: Machine | None
    named: NamedPolicy
    estimates: str = "requested"
    soft_limits: str | None = None

    @classmethod
    def of(cls, site: Site, source: str) -> "Side":
        """Return a site under its own policy; one without a slurm.conf under EASY."""
        files = None if site.conf is None else SlurmFiles.of_site(site, source)
        made = machine_of(site, source)
        nodes = None if made is None else replace(made.machine, asks=files)
        named = NamedPolicy.of("easy") if files is None else NamedPolicy(f"slurm:{source}", files)
        return cls(site, source, files, nodes, named)

    def under(self, policy: str | None, estimates: str | None = None, soft: str | None = None) -> "Side":
        """Return it under another policy, with the estimates that are planned by; None: its own."""
        named = self.named if policy is None else replace(NamedPolicy.of(policy), site=self.files)
        given = named.estimates if estimates is None else estimates
        check_names(named, given, usual_correction(soft), None, soft)
        check_goes_on(self.nodes, named.name, named.passes)
        return replace(self, named=named, estimates=given, soft_limits=soft)

    def interval(self, log: JobLog) -> int:
        """Return the seconds between the backfill loops of its policy; 1 where it has none."""
        backfill = self.named.of_log(self.jobs(log))[0].backfill
        return backfill.interval if isinstance(backfill, Loops) else 1

    def jobs(self, log: JobLog) -> JobLog:
        """Return a log on this machine, without jobs that are wider."""
        if self.nodes is None:
            return log
        return replace(log.select(log.procs <= self.nodes.procs), max_procs=self.nodes.procs)

    def placed(self, log: JobLog) -> Bools:
        """Return which jobs of a log have a place here."""
        if self.nodes is None:
            return np.ones(len(log), dtype=np.bool_)
        fitting = self.jobs(log)
        kept = demands_by(self.files, fitting, self.nodes, drop=True)[0] if len(fitting) else fitting
        return np.isin(log.values["job_id"], kept.values["job_id"])

    def waits(self, log: JobLog) -> dict[int, int]:
        """Return the wait of each job of a log [s], by its id."""
        jobs = self.jobs(log)
        demands = None if self.nodes is None else demands_by(self.files, jobs, self.nodes)[1]
        workload = Workload.from_log(jobs, demands)
        has_some = self.nodes is not None and self.site.reservations
        outages = outages_of(self.site, self.source, jobs.epoch) if has_some else None
        schedule, _ = NamedSimulation(
            jobs, self.named, self.estimates, usual_correction(self.soft_limits), soft_limits=self.soft_limits,
            workload=workload, outages=outages,
        ).run()  # fmt: skip
        return dict(zip(jobs.values["job_id"].tolist(), schedule.wait.tolist(), strict=True))

    @property
    def plain(self) -> dict[str, Any]:
        """What results depend on, as plain values."""
        reserved = [(one.start, one.end, one.nodes) for one in self.site.reservations]
        files = None if self.files is None else self.files.digest
        machine = None if self.nodes is None else self.nodes.plain
        return {"files": files, "machine": machine, "reservations": reserved,
                "policy": (self.named.name, self.named.digest), "estimates": self.estimates,
                "soft_limits": self.soft_limits}  # fmt: skip

    def run(
        self, setting: Setting, name: str, seeds: Sequence[int], interval: int, kept: Bools | None = None
    ) -> list[Floats]:
        """Return the waits of a log's jobs by shake [s]; NaN for those that are not kept.

        What is done stays in the setting's folder, and started again it goes on there.
        """
        log = setting.log
        kept = np.ones(len(log), dtype=np.bool_) if kept is None else kept
        about = {"log": log_identity(log), **self.plain, "interval": interval, **code_identity()}
        about["kept"] = sha256(kept.tobytes()).hexdigest()
        identity = digest_of_values(about)
        folder = setting.folder / f"runs-{identity[:12]}"
        with run_directory(folder, "waits", identity, about):
            shared = log, self, kept, interval
            found = run_all(replace(setting, checkpoints=folder), name, _waits, shared, seeds)
        return [table["wait_s"].to_numpy(dtype=np.float64) for table in found]


def _waits(shared: tuple[Any, ...], seed: int) -> "pd.DataFrame":
    """Return the waits of a log's jobs in a shake, in the log's order."""
    import pandas as pd

    log, side, kept, interval = shared
    moved = shaken_slightly(log, seed, interval)
    ids = log.values["job_id"]
    found = side.waits(moved.select(np.isin(moved.values["job_id"], ids[kept])))
    return pd.DataFrame({"wait_s": [float(found.get(job, np.nan)) for job in ids.tolist()]})
