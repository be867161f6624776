"""Plan of a sweep: its logs, read once, and its runs, dealt into batches."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from experiments.runs.checkpoints import code_identity, digest_of_values, log_identity
from experiments.runs.policies import NamedPolicy, at_site, machine_at
from experiments.runs.simulate import check_goes_on, ready_for
from experiments.sweeps.sweep import Case, Cell, Learner, LogFile, Sweep
from predictors.core.errors import JobcastError
from predictors.data.cleaning import machine_size, of_partition, with_requests
from predictors.data.formats.detect import read_log
from predictors.data.joblog import JobLog
from predictors.data.report import ReadingReport
from predictors.data.summary import Lack, lacks_for_predictions, lacks_of_reading
from predictors.evaluation.evaluate import jobs_that_count
from predictors.models.baselines import ColumnPredictor
from predictors.models.online.base import OnlinePredictor
from predictors.registry import PREDICTORS
from predictors.tracking.client import version_of
from predictors.tracking.describe import code_tags
from predictors.tracking.uri import ModelUri
from schedsim.agents.files import NamedAgent
from schedsim.machine.node_groups import Machine
from schedsim.policies.networks import Dras
from schedsim.sites.slurm.files import SlurmFiles


@dataclass(frozen=True, eq=False)
class PlannedLog:
    """A log as its runs use it."""

    jobs: JobLog  # cleaned for simulations, as read else
    account: ReadingReport  # what reading, cleaning and evaluating drop or change: read = used + dropped
    path: str  # where it was read; empty if it came from memory
    digests: tuple[str, str]  # SHA-256 as used, and as read: a kept model that learnt from either knows the future
    lacks: tuple[Lack, ...] = ()  # what the log lacks, so that its runs may mislead
    # the nodes with the processors, GPUs and memory that its jobs take; None: processors count alone
    machine: Machine | None = None
    of_policies: ReadingReport | None = None  # what its policies do not use of their files; None: they have none

    @property
    def sha256(self) -> str:
        """Digest of the log as it is used."""
        return self.digests[0]

    @property
    def place(self) -> object:
        """The machine: its nodes and switches, or how many processors it has."""
        return self.jobs.max_procs if self.machine is None else (self.machine.nodes, self.machine.switches)

    @property
    def runs_on(self) -> str:
        """The machine in a word or two: the file of its nodes, or how many processors it has."""
        return f"{self.jobs.max_procs} processors" if self.machine is None else Path(self.machine.source).stem

    @cached_property
    def key(self) -> str:
        """Differs for any two logs; two of the same jobs may differ in the machine, the clock, and in names."""
        return digest_of_values(log_identity(self.jobs))

    def to_json(self) -> dict[str, Any]:
        return {
            **log_identity(self.jobs),
            "path": self.path,
            "jobs": len(self.jobs),
            "account": (self.account if self.of_policies is None else self.account + self.of_policies).to_dict(),
            "lacks": [lack.to_dict() for lack in self.lacks],
            **({} if self.machine is None else {"machine": _plain(self.machine)}),
        }


def _plain(machine: Machine) -> dict[str, Any]:
    """Return a machine as plain values, with the digest of the site's rules where it has some."""
    told = asdict(replace(machine, asks=None))
    del told["asks"]
    return told if machine.asks is None else told | {"asks": machine.asks.digest}


@dataclass(frozen=True, eq=False)
class Plan:
    """A sweep with its logs read."""

    sweep: Sweep  # what was declared, addresses of models pinned to versions
    logs: Mapping[str, PlannedLog]  # by name, in the order of the sweep
    cells: tuple[Cell, ...]  # the runs, by log, seed and case

    def about(self) -> dict[str, Any]:
        """Return the provenance that is known before anything is run."""
        return {
            "kind": self.sweep.kind,
            "cases": [case.to_row() for case in self.sweep.all_cases],
            "seeds": list(self.sweep.seeds),
            "logs": [log.to_json() for log in self.logs.values()],
            **code_identity(),
            "sweep": self.sweep.to_json(),
            "git_commit": code_tags().get("mlflow.source.git.commit"),
            **{kind: digests for kind, digests in self._digests_of_files().items() if digests},
        }

    def _digests_of_files(self) -> dict[str, dict[str, str | None]]:
        """Return the digests of what was read from the files of policies, by the policy's name."""
        named = [case.named for case in self.sweep.all_cases if isinstance(case, Case)]
        kinds = {"agents": NamedAgent, "slurm": SlurmFiles}
        return {what: {one.name: one.digest for one in named if isinstance(one.read, kind)}
                for what, kind in kinds.items()}  # fmt: skip

    def identity(self) -> str:
        """Return a digest of all that results depend on: what is run on which jobs, by which code."""
        about = self.about()
        logs = [
            log_identity(log.jobs) | ({} if log.machine is None else {"machine": log.machine.plain})
            for log in self.logs.values()
        ]
        sweep = {key: value for key, value in about["sweep"].items() if key not in ("logs", "beside", "measure")}
        known = [sweep, about["cases"], logs, about["versions"], about["code"]]
        return digest_of_values([*known, *(about[what] for what in ("agents", "slurm") if what in about)])


def plan(sweep: Sweep, logs: Sequence[JobLog] = (), machine: Machine | None = None) -> Plan:
    """Read a sweep's logs, or take them from memory, and list its runs.

    `machine` has the nodes of the logs in memory; each log that is read names its own.
    """
    if bool(logs) == bool(sweep.logs):
        raise JobcastError("A sweep needs logs." if not logs else "Give a sweep's logs once: as files or in memory.")
    given = [_read(one) for one in sweep.logs] or [(log, ReadingReport(log.name), LogFile(log.name)) for log in logs]
    pinned = sweep
    if sweep.kind == "simulate":
        now = tuple(_pinned(case) for case in sweep.all_cases if isinstance(case, Case))
        pinned = replace(sweep, cases=now, policies=(), estimates=(), corrections=(), budget=None, soft_limits=None)
    cases = [case for case in pinned.all_cases if isinstance(case, Case)]
    policies = at_site({case.policy: case.named for case in cases})
    for case in cases:  # all cases of a policy have what was read once
        vars(case)["named"] = policies[case.policy]
    all_logs, sites = [], tuple(dict.fromkeys(named.files for named in policies.values())) or (None,)
    for jobs, account, source in given:
        nodes = machine if source.machine is None else machine_at(source.machine)
        all_logs.append(_planned(sweep, jobs, account, source, nodes, sites, from_file=bool(sweep.logs)))
    found = _by_name(sweep.kind, all_logs, [source.path for *_, source in given])
    cells = tuple(Cell(name, case, seed) for name in found for case, seed in pinned.runs_of_a_log)
    for log, planned in found.items():
        found[log] = replace(planned, of_policies=_of_files(policies.values(), planned.jobs))
    return Plan(pinned, found, cells)


def _of_files(policies: Iterable[NamedPolicy], jobs: JobLog) -> ReadingReport | None:
    """Return what policies do not use of their files; refuse those that cannot rank a log's jobs, or pick from them."""
    found = None
    for named in policies:
        try:
            if isinstance(named.passes.agent, Dras):
                named.passes.agent.check_machine(machine_size(jobs), named.passes.window)
            elif isinstance(named.read, SlurmFiles):
                found = (found or ReadingReport(jobs.name)) + named.of_log(jobs)[1]
        except JobcastError as error:
            does = "pick on" if isinstance(named.read, NamedAgent) else "rank the jobs of"
            raise JobcastError(f"{named.name} cannot {does} {jobs.name}: {error}") from error
    return found


def _read(source: LogFile) -> tuple[JobLog, ReadingReport, LogFile]:
    return *read_log(source.path), source


def _planned(
    sweep: Sweep,
    jobs: JobLog,
    account: ReadingReport,
    source: LogFile,
    nodes: Machine | None,
    sites: Sequence[SlurmFiles | None],
    *,
    from_file: bool,
) -> PlannedLog:
    path = source.path if from_file else ""
    if sweep.kind == "simulate":
        for case in sweep.all_cases:
            if isinstance(case, Case):
                check_goes_on(nodes, case.name, case.passes)
        ready = ready_for(
            nodes, jobs, source.procs, sweep.drop_wide, source.partition, source.requests_from, account, sites
        )
        digests = (ready.used.digest(), ready.prepared.log.digest())
        return PlannedLog(ready.used, account + ready.account, path, digests, ready.lacks(sweep.kill), nodes)
    part, others = of_partition(jobs, source.partition)
    part, made = with_requests(part, source.requests_from)
    others += made
    counted, left_out = jobs_that_count(part, sweep.protocol)
    lacks = lacks_for_predictions(counted, others + left_out) if len(counted) else ()
    lacks = (*lacks_of_reading(jobs, account), *lacks)
    total = (account + others + left_out).using(len(counted))
    return PlannedLog(part, total, path, (part.digest(),) * 2, lacks)


def _by_name(kind: str, logs: Sequence[PlannedLog], paths: Sequence[str]) -> dict[str, PlannedLog]:
    """Return logs by name; of one that is simulated on several machines the name tells which."""
    times = Counter((log.path, log.jobs.name) for log in logs if log.path and kind == "simulate")
    found: dict[str, PlannedLog] = {}
    for log, path in zip(logs, paths, strict=True):
        name = log.jobs.name
        for other in found.values():
            if other.sha256 == log.sha256 and (kind != "simulate" or other.place == log.place):
                raise JobcastError(f"{path}: holds the same jobs as {other.jobs.name}; give it once.")
        if times[log.path, name] > 1:
            name = f"{name} on {log.runs_on}"
        if name in found:
            raise JobcastError(f"{path}: another log of this sweep is called {name}; rename one.")
        found[name] = replace(log, jobs=replace(log.jobs, name=name))
    return found


def _pinned(case: Case) -> Case:
    """Return the case as of now: its files are read again, and a kept model's alias is the version that it means."""
    if not isinstance(case.estimates, str) or not case.estimates.startswith("models:/"):
        return replace(case)

    return replace(case, estimates=f"models:/{ModelUri.parse(case.estimates).name}/{version_of(case.estimates)}")


HEAVY: Final = 50.0
"""How many times longer than EASY takes what is slow: whole plans, predictors that are fitted again and again."""
MOST: Final = 1_200_000.0
"""Jobs, weighted so, in a batch at most: seconds of work, so that little is lost with a worker."""
LEAST: Final = 60_000.0  # and at least, so that little of the time goes into handing out work


def batches(plan: Plan, cells: Sequence[Cell], workers: int) -> list[tuple[Cell, ...]]:
    """Deal cells into batches of one log each, the largest first; runs of a seed stay together where they can.

    Results do not depend on it. The death of a worker loses one batch.
    """
    costs = {cell: _weight(cell.case) * len(plan.logs[cell.log].jobs) for cell in cells}
    room = min(MOST, max(LEAST, sum(costs.values()) / (8 * workers)))
    dealt = list(_dealt(cells, costs, room))
    return sorted(dealt, key=lambda batch: -sum(costs[cell] for cell in batch))


def _dealt(cells: Sequence[Cell], costs: Mapping[Cell, float], room: float) -> Iterator[tuple[Cell, ...]]:
    batch: list[Cell] = []
    for cell in cells:
        if batch and (cell.log != batch[0].log or sum(costs[one] for one in batch) + costs[cell] > room):
            yield tuple(batch)
            batch = []
        batch.append(cell)
    if batch:
        yield tuple(batch)


def _weight(case: Case | Learner) -> float:
    if isinstance(case, Learner):
        return HEAVY
    slow = case.passes is not None and case.passes.kind in ("profile", "compress", "knapsack", "loops")
    predictor = PREDICTORS.get(str(case.estimates))
    fitted = predictor is not None and not issubclass(predictor, ColumnPredictor | OnlinePredictor)
    return HEAVY if slow or fitted else 1.0 if case.policy == "easy" else 3.0
