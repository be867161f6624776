"""The policy of a site's own slurm.conf: `slurm:FILE`."""

import re
from typing import Final

import numpy as np

from predictors.core.arrays import Bools, Floats, Ints
from predictors.core.errors import JobcastError, printable, unknown_name
from predictors.data.joblog import JobLog
from predictors.data.report import Finding, ReadingReport
from predictors.schedulers.slurm_conf import Setting, SlurmConf, read_slurm_conf
from schedsim.policies.multifactor import Multifactor, slurm_policy
from schedsim.policies.policy import Policy
from schedsim.workload.workload import Workload

PREFIX: Final = "slurm:"
"""Begins the name of such a policy."""
USED: Final = frozenset(
    (
        "prioritytype", "priorityweightage", "priorityweightjobsize", "priorityweightpartition", "prioritymaxage",
        "prioritycalcperiod", "priorityfavorsmall", "priorityflags", "schedulertype", "schedulerparameters",
    )
)  # fmt: skip
"""Parameters that make the policy."""
USED_OF_PARTITIONS: Final = frozenset(("priorityjobfactor", "prioritytier"))
USED_OPTIONS: Final = frozenset(("bf_max_job_test",))
USED_FLAGS: Final = frozenset(("small_relative_to_time",))
MOST_TESTED: Final = 500
"""What bf_max_job_test is if it is not given."""


def is_slurm(policy: str) -> bool:
    """Return whether a policy's name names a slurm.conf."""
    return policy.startswith(PREFIX)


def slurm_policy_of(policy: str, log: JobLog) -> tuple[Policy, ReadingReport]:
    """Return the policy of a slurm.conf for the jobs of a cleaned log, and what of the file it does not use.

    Raises
    ------
    JobcastError
        If the file is no slurm.conf, or a job's partition is not in it.
    """
    conf = read_slurm_conf(policy.removeprefix(PREFIX))
    findings = list(_unused(conf))
    options = conf.options("SchedulerParameters")
    reservations = _tested(conf, options) if _is(conf, "SchedulerType", "sched/", "backfill", "builtin") else None
    if not _is(conf, "PriorityType", "priority/", "multifactor", "basic"):
        return slurm_policy(None, reservations), ReadingReport(log.name, tuple(findings))
    rule = Multifactor(
        age=conf.whole("PriorityWeightAge", 0),
        size=conf.whole("PriorityWeightJobSize", 0),
        partition=conf.whole("PriorityWeightPartition", 0),
        max_age=conf.seconds("PriorityMaxAge", 604_800),
        calc_period=conf.seconds("PriorityCalcPeriod", 300),
        favour_small=not _is(conf, "PriorityFavorSmall", "", "no", "yes"),
        relative_to_time="small_relative_to_time" in conf.options("PriorityFlags"),
    )
    if rule.age == rule.size == rule.partition == 0:
        text = "no weight of age, size or partition is above 0: jobs start in the order of submission"
        findings.append(Finding("slurm-no-weights", "noted", text))
    if rule.age > 0 and not conf.text("AccountingStorageType", "none").lower().endswith("slurmdbd"):
        text = f"{conf.source} names no slurmdbd: a Slurm 26.05 without it took the weight of age for 0"
        findings.append(Finding("slurm-no-slurmdbd", "noted", f"{text}, here it counts as written"))
    workload = Workload.from_log(log)
    factor, tier = _partitions(conf, log)
    if conf.partitions and (unnamed := int((~_told(log)).sum())):
        text = "the log does not name their partition; its factor is 0 and its tier 1"
        findings.append(Finding("slurm-unnamed-partition", "noted", text, unnamed))
    machine, per_node = workload.machine_procs, max(1, conf.procs // max(1, conf.nodes))
    if conf.procs and conf.procs != machine:
        text = f"{conf.source} has {conf.procs:,} processors, the simulated machine {machine:,}: factors are of these"
        findings.append(Finding("slurm-other-size", "noted", text))
    asked = log.filled("requested_nodes") if log.known("requested_nodes").any() else np.zeros(len(log), dtype=np.int64)
    nodes = np.where(asked > 0, asked, -(-workload.procs // per_node))
    order = rule.order(workload, nodes, max(1, -(-machine // per_node)), factor, tier)
    return slurm_policy(order, reservations), ReadingReport(log.name, tuple(findings))


def _is(conf: SlurmConf, name: str, prefix: str, first: str, second: str) -> bool:
    """Return whether a parameter is the first of two kinds, which is also the usual one.

    Raises
    ------
    JobcastError
        If it is neither.
    """
    found = conf.settings.get(name.lower())
    kind = first if found is None else found.value.lower().removeprefix(prefix)
    if kind not in (first, second):
        raise JobcastError(
            f"{'' if found is None else found.place}: {name} is {prefix}{first} or {prefix}{second} here; found "
            f"{printable(kind)[:40]!r}."
        )
    return kind == first


def _tested(conf: SlurmConf, options: dict[str, str]) -> int:
    value = options.get("bf_max_job_test", str(MOST_TESTED))
    if re.fullmatch(r"[1-9]\d{0,5}", value) is None:
        place = conf.settings["schedulerparameters"].place
        raise JobcastError(f"{place}: bf_max_job_test is 1 to 999,999 jobs; found {printable(value)[:40]!r}.")
    return int(value)


def _partitions(conf: SlurmConf, log: JobLog) -> tuple[Floats, Ints]:
    """Return the factor and the tier of each job's partition; 0 and 1 where the log does not name it."""
    factor, tier = np.zeros(len(log)), np.ones(len(log), dtype=np.int64)

    def number(row: dict[str, Setting], name: str) -> int:
        one = row.get(name)
        if one is not None and re.fullmatch(r"\d{1,5}", one.value) is None:
            raise JobcastError(
                f"{one.place}: {one.name} is a whole number from 0 to 99,999; found {printable(one.value)[:40]!r}."
            )
        return 1 if one is None else int(one.value)

    rows = {name: dict(row) for name, row in conf.partitions.items()}
    factors = {name: number(row, "priorityjobfactor") for name, row in rows.items()}
    tiers = {name: number(row, "prioritytier") for name, row in rows.items()}
    most = max([1, *factors.values()])
    column = log.partition_column
    codes, names, told = log.filled(column), log.names(column), _told(log)
    for code in np.unique(codes[told]).tolist() if rows else ():
        name, jobs = names[code] if 0 <= code < len(names) else str(code), told & (codes == code)
        if name not in rows:
            job = int(log.values["job_id"][int(np.argmax(jobs))])
            raise JobcastError(f"Job {job}: {unknown_name(f'partition in {conf.source}', name, rows)}")
        factor[jobs], tier[jobs] = factors[name] / most, tiers[name]
    return factor, tier


def _told(log: JobLog) -> Bools:
    """Return which jobs' partitions a log names; without names there are none, as numbers are not Slurm's."""
    column = log.partition_column
    return log.known(column) if log.names(column) else np.zeros(len(log), dtype=np.bool_)


def _unused(conf: SlurmConf) -> list[Finding]:
    """Return what of a slurm.conf the policy does not use."""
    groups = {
        "slurm-unused-parameter": [one.name for key, one in conf.settings.items() if key not in USED],
        "slurm-unused-option": [
            name for name in conf.options("SchedulerParameters") if name not in USED_OPTIONS
        ] + [name.upper() for name in conf.options("PriorityFlags") if name not in USED_FLAGS],
        "slurm-unused-of-partitions": sorted(
            {one.name for row in conf.partitions.values() for key, one in row.items() if key not in USED_OF_PARTITIONS}
        ),
    }  # fmt: skip
    return [
        Finding(rule, "noted", f"{conf.source}: read, and not used by the policy: {', '.join(names)}", len(names))
        for rule, names in groups.items()
        if names
    ]
