"""The priority of a site's slurm.conf: its weights and flags, and of each job what stays the same while it waits.

Also what partitions say of their jobs: factors, tiers, resources, and whom they refuse.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import numpy as np

from predictors.core.arrays import Bools, Floats, Ints
from predictors.core.errors import JobcastError, counted, printable, unknown_name
from predictors.data.joblog import NODES_OF_USER, OWN_NODES, JobLog
from predictors.data.report import Finding
from predictors.data.slurm.conf import ENDLESS, Setting, SlurmConf, seconds_of, whole_of
from schedsim.kernels.records import Records
from schedsim.machine.node_groups import MOST_MEMORY, first_known
from schedsim.sites.slurm.accounts import Owners, amounts_of, weights_of
from schedsim.sites.slurm.multifactor import Multifactor, parts_of
from schedsim.sites.slurm.records import Parts
from schedsim.workload.workload import Workload

USED_FLAGS: Final = frozenset(
    ("small_relative_to_time", "incr_only", "accrue_always", "no_normal_part", "no_normal_tres", "no_normal_all")
)
USED_FLAGS_WITH_ACCOUNTS: Final = frozenset(
    ("fair_tree", "no_fair_tree", "depth_oblivious", "no_normal_qos", "no_normal_assoc", "max_tres", "max_tres_gres")
)
WITHOUT_EFFECT: Final = frozenset(("calculate_running",))
"""Flags that change nothing here: running jobs have no priority."""
_NORMAL: Final = frozenset(("no_normal_assoc", "no_normal_part", "no_normal_qos", "no_normal_tres"))
MOST_OF_PARTITION: Final = 0xFFFF  # a partition's tier or factor
SHARING: Final = ("oversubscribe", "shared")
"""The key of partitions that says whether jobs share nodes, and its older name."""
_EITHER: Final = ("percpu", "pernode")
_YES: Final = frozenset(("yes", "up", "true", "1"))
_NO: Final = frozenset(("no", "down", "false", "0"))
_ENFORCED: Final[Mapping[str, str]] = MappingProxyType(
    dict.fromkeys(_NO, "let wait without end") | dict.fromkeys((*_YES, "any", "all"), "refuse at submission")
)
"""What Slurm does with jobs that their partition does not take, by EnforcePartLimits."""


def flags_of(conf: SlurmConf) -> frozenset[str]:
    """Return the PriorityFlags in small letters; NO_NORMAL_ALL is all of its kind.

    >>> lines = [("slurm.conf:1", "PriorityFlags=NO_NORMAL_ALL,INCR_ONLY")]
    >>> sorted(flags_of(SlurmConf.of_lines("slurm.conf", lines)))[:3]
    ['incr_only', 'no_normal_all', 'no_normal_assoc']
    """
    flags = frozenset(conf.options("PriorityFlags"))
    known = USED_FLAGS | USED_FLAGS_WITH_ACCOUNTS | WITHOUT_EFFECT
    for flag in sorted(flags - known):
        place = conf.settings["priorityflags"].place
        raise JobcastError(f"{place}: {unknown_name('PriorityFlags', flag.upper(), sorted(map(str.upper, known)))}")
    return flags | _NORMAL if "no_normal_all" in flags else flags


def rule_of(conf: SlurmConf, has_accounts: bool) -> Multifactor:
    """Return the weights and rules; those of accounts and QOS only where these are known."""
    flags = flags_of(conf)

    def of_accounts(name: str) -> int:
        return conf.whole(name, 0) if has_accounts else 0

    return Multifactor(
        age=conf.whole("PriorityWeightAge", 0),
        size=conf.whole("PriorityWeightJobSize", 0),
        partition=conf.whole("PriorityWeightPartition", 0),
        qos=of_accounts("PriorityWeightQOS"),
        fair_share=of_accounts("PriorityWeightFairshare"),
        association=of_accounts("PriorityWeightAssoc"),
        max_age=conf.seconds("PriorityMaxAge", 604_800),
        calc_period=conf.seconds("PriorityCalcPeriod", 300),
        favour_small=_is_yes(conf.settings.get("priorityfavorsmall")),
        relative_to_time="small_relative_to_time" in flags,
        only_grows="incr_only" in flags,
        ages_in_pause="accrue_always" in flags,
    )


def fixed_parts(
    conf: SlurmConf,
    log: JobLog,
    workload: Workload,
    nodes: Ints,
    of_nodes: int,
    rule: Multifactor,
    owners: Owners | None,
    findings: list[Finding],
) -> Records[Parts]:
    """Return the parts of each job's priority that stay the same; `nodes` of each job, out of `of_nodes`."""
    flags = flags_of(conf)
    factor, tier = partitions_of(conf, log, "no_normal_part" not in flags)
    parts = parts_of(len(log), partition=rule.partition * factor, tier=tier)
    parts["size"] = rule.size * rule.sizes(workload.procs, nodes, workload.requested, workload.machine_procs, of_nodes)
    if told := conf.settings.get("priorityweighttres"):
        parts["tres"] = _resources(conf, log, told, amounts_of(log, workload, nodes), flags, findings)
    if owners is not None and rule.qos:
        parts["qos"] = rule.qos * owners.priorities("no_normal_qos" not in flags)
    if owners is not None and rule.association:
        parts["association"] = rule.association * owners.associated("no_normal_assoc" not in flags)
    for part, column in (("site", "site_factor"), ("nice", "nice")):
        if (known := log.known(column)).any():
            parts[part] = np.where(known, log.filled(column), 0)
    return parts


def told_partitions(log: JobLog) -> Bools:
    """Return which jobs' partitions a log names; without names there are none, as numbers are not Slurm's."""
    column = log.partition_column
    return log.known(column) if log.names(column) else np.zeros(len(log), dtype=np.bool_)


def _jobs_by_partition(conf: SlurmConf, log: JobLog) -> Iterator[tuple[Bools, list[str]]]:
    """Give jobs with their partitions: several where they name several, as Slurm tries one after the other."""
    column = log.partition_column
    codes, names, told = log.filled(column), log.names(column), told_partitions(log)
    for code in np.unique(codes[told]).tolist() if conf.partitions else ():
        name, jobs = names[code] if 0 <= code < len(names) else str(code), told & (codes == code)
        several = [one.strip() for one in name.split(",")]
        if unknown := [one for one in several if one not in conf.partitions]:
            job, n = int(log.values["job_id"][int(np.argmax(jobs))]), int(jobs.sum())
            more = f" ({counted(n - 1, 'more job')} likewise)" if n > 1 else ""
            raise JobcastError(
                f"{log.name}: job {job}{more}: {unknown_name('partition', unknown[0], conf.partitions)} Add a "
                f"PartitionName line for it to {conf.source}."
            )
        yield jobs, several


def refused(conf: SlurmConf, log: JobLog, workload: Workload, nodes: Ints, owners: Owners | None) -> Iterator[Finding]:
    """Count the jobs that their partitions do not take."""
    taken = taken_by(conf, log, workload, nodes, owners)
    if not taken.all():
        told = conf.settings.get("enforcepartlimits")
        text = "their partition does not take them, by its MaxTime, nodes, memory, accounts or QOS: Slurm would "
        rule = _ENFORCED["no" if told is None else told.value.lower()]
        yield Finding("slurm-refused", "noted", f"{text}{rule}; here they run", int((~taken).sum()))
    widened = np.zeros(len(log), dtype=np.bool_)
    for jobs, several in _jobs_by_partition(conf, log):
        most = [_memory(conf, conf.partitions[one], "maxmem", _EITHER).get("percpu") for one in several]
        widened[jobs] = np.all([~_has_memory(log, workload.procs, one)[jobs] for one in most], axis=0)
    if widened.any():
        text = "ask for more memory a processor than MaxMemPerCPU: Slurm gives them more processors, here they keep "
        yield Finding("slurm-more-processors", "noted", f"{text}theirs", int(widened.sum()))


def taken_by(conf: SlurmConf, log: JobLog, workload: Workload, nodes: Ints, owners: Owners | None) -> Bools:
    """Return which jobs one of their partitions takes; with EnforcePartLimits=ALL, which each of them takes."""
    taken = np.ones(len(log), dtype=np.bool_)
    told = conf.settings.get("enforcepartlimits")
    rule = "no" if told is None else told.value.lower()
    if told is not None and rule not in _ENFORCED:
        raise JobcastError(f"{told.place}: {told.name} is NO, ANY or ALL; found {printable(told.value)[:40]!r}.")
    for jobs, several in _jobs_by_partition(conf, log):
        takes = [_takes(conf, conf.partitions[one], log, workload, nodes, owners)[jobs] for one in several]
        taken[jobs] = np.all(takes, axis=0) if rule == "all" else np.any(takes, axis=0)
    return taken


def _memory(conf: SlurmConf, row: Mapping[str, Setting], name: str, kinds: tuple[str, ...]) -> dict[str, int]:
    """Return memory [MB] by what it is for; a partition's own stands before the site's. 0 is none."""
    for settings in (row, conf.settings):
        found = {kind: whole_of(settings[name + kind]) for kind in kinds if name + kind in settings}
        if any(found.values()):
            return {kind: most for kind, most in found.items() if most}
    return {}


def _has_memory(log: JobLog, of: Ints, most: int | None) -> Bools:
    """Return which jobs keep to so much memory for each of their nodes or processors, as far as the log tells."""
    known = log.known("requested_job_memory")
    if most is None or not known.any():
        return np.ones(len(log), dtype=np.bool_)
    return ~known | (log.filled("requested_job_memory") <= most * 1024 * np.maximum(1, of))


def nodes_of(conf: SlurmConf, log: JobLog, procs: Ints) -> Ints:
    """Return how many nodes each job takes: what it asks for, else what it was given, else the fewest that hold it."""
    told = first_known(log, "requested_nodes", "nodes")
    return np.where(told > 0, told, -(-procs // max(1, conf.procs // max(1, conf.nodes))))


def default_memory(conf: SlurmConf, log: JobLog, procs: Ints, nodes: Ints) -> JobLog:
    """Return a log in which jobs that ask for no memory have what Slurm gives them, by DefMemPerCPU and its like.

    Memory for each GPU stands before that for each processor or node. Jobs stay as they are where the files name none.
    """
    told, gpus = log.known("requested_job_memory"), first_known(log, "requested_gpus", "allocated_gpus")
    known = told | (log.known("requested_memory") & (log.filled("requested_memory") > 0))
    found = np.where(told, log.filled("requested_job_memory"), 0)
    groups = [(jobs, conf.partitions[several[0]]) for jobs, several in _jobs_by_partition(conf, log)]
    of_site = ~np.any([jobs for jobs, _ in groups], axis=0) if groups else np.ones(len(log), dtype=np.bool_)
    for jobs, row in (*groups, (of_site, {})):
        by_gpu = _memory(conf, row, "defmem", ("pergpu",)).get("pergpu", 0)
        rest = _memory(conf, row, "defmem", _EITHER)
        usual, of = (rest["percpu"], procs) if "percpu" in rest else (rest.get("pernode", 0), nodes)
        has = (gpus > 0) & (by_gpu > 0)
        each, of = np.where(has, by_gpu, usual), np.where(has, gpus, of)
        gets = jobs & ~known & (each > 0)
        found[gets] = (np.minimum(each * 1024, MOST_MEMORY // of) * of)[gets]  # within an int64
        told = told | gets
    if (told == log.known("requested_job_memory")).all():
        return log
    unknown = {**log.unknown, "requested_job_memory": ~told}
    return replace(log, values={**log.values, "requested_job_memory": found}, unknown=unknown)


def kept_by_partitions(conf: SlurmConf, log: JobLog) -> JobLog:
    """Return a log in which jobs keep others off their nodes where their partition says so, the first of several."""
    found, known = log.filled("exclusive").copy(), log.known("exclusive").copy()
    for jobs, several in _jobs_by_partition(conf, log):
        row = conf.partitions[several[0]]
        sharing = next((row[name].value.lower() for name in SHARING if name in row), "no")
        if sharing == "exclusive":
            found[jobs] = OWN_NODES
        elif _is_yes(row.get("exclusiveuser")):
            found[jobs & (found != OWN_NODES)] = NODES_OF_USER
        else:
            continue
        known |= jobs
    values, unknown = {**log.values, "exclusive": found}, {**log.unknown, "exclusive": ~known}
    return replace(log, values=values, unknown=unknown) if known.any() else log


def _is_yes(found: Setting | None) -> bool:
    if found is not None and found.value.lower() not in _YES | _NO:
        raise JobcastError(f"{found.place}: {found.name} is YES or NO; found {printable(found.value)[:40]!r}.")
    return found is not None and found.value.lower() in _YES


def _takes(
    conf: SlurmConf, row: Mapping[str, Setting], log: JobLog, workload: Workload, nodes: Ints, owners: Owners | None
) -> Bools:
    taken = _has_memory(log, nodes, _memory(conf, row, "maxmem", _EITHER).get("pernode"))
    if "maxtime" in row:
        taken &= workload.requested <= -(-seconds_of(row["maxtime"]) // 60) * 60
    if "maxnodes" in row and row["maxnodes"].value.upper() not in ENDLESS:
        taken &= nodes <= whole_of(row["maxnodes"])
    if "minnodes" in row:
        taken &= ~log.known("requested_nodes") | (nodes >= whole_of(row["minnodes"]))
    if owners is None:
        return taken

    def listed(name: str) -> list[str]:
        words = [one.strip().lower() for one in row[name].value.split(",")] if name in row else ["all"]
        return [] if "all" in words else words

    qos = np.array([one.lower() for one in owners.qos])
    if allowed := listed("allowqos"):
        taken &= np.isin(qos, [*allowed, ""])
    else:
        taken &= ~np.isin(qos, listed("denyqos"))
    if allowed := listed("allowaccounts"):
        taken &= owners.within(allowed) | (owners.user_of < 0)
    else:
        taken &= ~owners.within(listed("denyaccounts"))
    return taken


def partitions_of(conf: SlurmConf, log: JobLog, normal: bool) -> tuple[Floats, Ints]:
    """Return the factor and the tier of each job's partition; 0 and 1 where the log does not name it."""
    factor, tier = np.zeros(len(log)), np.ones(len(log), dtype=np.int64)

    factors = {name: number_of_partition(row, "priorityjobfactor") for name, row in conf.partitions.items()}
    tiers = {name: number_of_partition(row, "prioritytier") for name, row in conf.partitions.items()}
    most = max([1, *factors.values()]) if normal else 1
    for jobs, several in _jobs_by_partition(conf, log):
        factor[jobs] = max(factors[one] for one in several) / most
        tier[jobs] = max(tiers[one] for one in several)
    return factor, tier


def number_of_partition(row: Mapping[str, Setting], name: str) -> int:
    """Return a partition's factor or tier; the older key `Priority` stands before both."""
    one = row.get("priority", row.get(name))
    if one is not None and (re.fullmatch(r"\d{1,5}", one.value) is None or int(one.value) > MOST_OF_PARTITION):
        raise JobcastError(
            f"{one.place}: {one.name} is a whole number from 0 to {MOST_OF_PARTITION:,}; found "
            f"{printable(one.value)[:40]!r}."
        )
    return 1 if one is None else int(one.value)


def _resources(
    conf: SlurmConf,
    log: JobLog,
    told: Setting,
    amounts: Mapping[str, Ints],
    flags: frozenset[str],
    findings: list[Finding],
) -> Floats:
    """Return each job's resources over those of its partition, times PriorityWeightTRES; summed."""
    weights = dict(weights_of(told))
    if untold := sorted(weights.keys() - amounts.keys()):
        text = f"{told.name}: the log does not tell what jobs have of {', '.join(untold)}, which do not count"
        findings.append(Finding("slurm-priority-untold", "noted", text, len(untold)))

    def summed(has: Mapping[str, float] | None) -> Floats:
        found = np.zeros(len(log))
        for tres in ("cpu", "mem", "node", "gres/gpu"):  # in Slurm's order
            whole = 1.0 if has is None else has.get(tres, 0.0)
            if tres in weights and tres in amounts and whole > 0:
                found += amounts[tres] / whole * weights[tres]
        return found

    if "no_normal_tres" in flags:
        return summed(None)
    parts = np.zeros(len(log))
    for jobs, several in _jobs_by_partition(conf, log):
        parts[jobs] = np.max([summed(conf.resources(one))[jobs] for one in several], axis=0)
    return parts
