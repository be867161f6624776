"""The policy of a site's own slurm.conf, with its accounts and QOS: `slurm:FILE,FILE…`, or `slurm:SITE`."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self

import numpy as np

from predictors.core.arrays import Bools
from predictors.core.errors import JobcastError, printable
from predictors.data.joblog import JobLog
from predictors.data.report import Finding, ReadingReport
from predictors.data.slurm.accounts import Accounts, read_accounts
from predictors.data.slurm.conf import Setting, SlurmConf, files_of, read_slurm_conf, whole_of
from predictors.data.slurm.site import Site, is_site, read_site
from schedsim.policies.policy import Policy
from schedsim.sites.slurm import preempting as about_preemption
from schedsim.sites.slurm.accounts import Owners, words_of
from schedsim.sites.slurm.factors import (
    SHARING,
    USED_FLAGS,
    USED_FLAGS_WITH_ACCOUNTS,
    WITHOUT_EFFECT,
    default_memory,
    fixed_parts,
    flags_of,
    kept_by_partitions,
    nodes_of,
    partitions_of,
    refused,
    rule_of,
    taken_by,
    told_partitions,
)
from schedsim.sites.slurm.fair_share import Algorithm, FairShare
from schedsim.sites.slurm.limits import Limits, Quota
from schedsim.sites.slurm.loops import Loops
from schedsim.sites.slurm.multifactor import Multifactor, parts_of, slurm_policy
from schedsim.sites.slurm.preempting import Preempting
from schedsim.workload.workload import Workload

PREFIX: Final = "slurm:"  # begins the name of such a policy
ANY_LOG: Final = slurm_policy(None, Loops())  # what passes such a policy has, whatever the files and the log
_MEMORY: Final = ("defmempercpu", "defmempernode", "defmempergpu", "maxmempercpu", "maxmempernode")
_WITHOUT_MEMORY: Final = frozenset(("cr_core", "cr_cpu", "cr_socket"))
_WITH_MEMORY: Final = frozenset(("cr_memory", *(f"{name}_memory" for name in _WITHOUT_MEMORY)))
USED: Final = frozenset(
    (
        "prioritytype", "priorityweightage", "priorityweightjobsize", "priorityweightpartition", "prioritymaxage",
        "prioritycalcperiod", "priorityfavorsmall", "priorityflags", "priorityweighttres", "schedulertype",
        "schedulerparameters", "enforcepartlimits", "selecttypeparameters", *_MEMORY,
    )
)  # fmt: skip
"""Parameters that make the policy."""
USED_WITH_ACCOUNTS: Final = frozenset(
    (
        "priorityweightfairshare", "priorityweightqos", "priorityweightassoc", "prioritydecayhalflife",
        "priorityusageresetperiod", "fairsharedampeningfactor", "accountingstorageenforce", "accountingstoragetype",
    )
)  # fmt: skip
"""Parameters that make it, too, with files of sacctmgr."""
_ON_NODES: Final = frozenset((*SHARING, "exclusiveuser"))
USED_OF_PARTITIONS: Final = frozenset(
    (
        "priority",
        "priorityjobfactor",
        "prioritytier",
        "maxtime",
        "maxnodes",
        "minnodes",
        *_ON_NODES,
        *_MEMORY,
    )
)
USED_OF_PARTITIONS_WITH_ACCOUNTS: Final = frozenset(
    ("qos", "tresbillingweights", "allowqos", "denyqos", "allowaccounts", "denyaccounts")
)
_UNITS: Final = MappingProxyType(
    {
        "bf_max_job_test": "jobs", "bf_interval": "seconds", "bf_resolution": "seconds", "bf_window": "minutes",
        "bf_max_job_user": "jobs", "bf_max_job_part": "jobs", "default_queue_depth": "jobs",
        "partition_job_depth": "jobs", "sched_interval": "seconds", "sched_min_interval": "microseconds",
    }
)  # fmt: skip
USED_OPTIONS: Final = frozenset((*_UNITS, "bf_continue"))
_OF_PREEMPTION: Final = frozenset(("reorder_count", "strict_order", "youngest_first"))
_NEARLY: Final = 0.92  # likeness of a misspelt name; bf_max_job_start and bf_max_job_part, both Slurm's, have .903
_RESETS: Final[Mapping[str, Callable[[datetime], bool]]] = MappingProxyType(
    {
        "daily": lambda day: True,
        "weekly": lambda day: day.isoweekday() == 7,
        "monthly": lambda day: day.day == 1,
        "quarterly": lambda day: day.day == 1 and day.month % 3 == 1,
        "yearly": lambda day: day.day == day.month == 1,
    }
)
"""On which days usage is forgotten, at midnight."""
MOST_WAIT: Final = 366 * 86_400  # how long behind the last submission usage is forgotten, too [s]
LAST_DAY: Final = 32_503_680_000  # the end of the year 2999 [s since 1970]: no job is later


def is_slurm(policy: str) -> bool:
    return policy.startswith(PREFIX)


def files_of_policy(policy: str) -> tuple[str, ...]:
    """Return the files that a policy's name names: a slurm.conf, and those of sacctmgr behind it.

    >>> files_of_policy("slurm:slurm.conf,site.dump,qos.txt")
    ('slurm.conf', 'site.dump', 'qos.txt')
    """
    files = tuple(policy.removeprefix(PREFIX).split(","))
    if not all(files):
        raise JobcastError(
            f"Policy {policy!r}: name a slurm.conf, and files of sacctmgr behind commas: slurm:slurm.conf,site.dump."
        )
    return files


def names_of_policies(text: str) -> tuple[str, ...]:
    """Return the policies in a list separated by commas; behind `slurm:` all are its files, up to the next `slurm:`.

    >>> names_of_policies("easy, fcfs, slurm:a.conf,a.dump,slurm:b.conf")
    ('easy', 'fcfs', 'slurm:a.conf,a.dump', 'slurm:b.conf')
    """
    first, *others = re.split(rf"(?:^|,)\s*(?={PREFIX})", text)
    return *(name.strip() for name in first.split(",") if name.strip()), *others


def read_from(policy: str) -> tuple[Path, ...]:
    """Return all files that a policy is read from, included ones too."""
    first, *others = files_of_policy(policy)
    return *((Path(first),) if is_site(first) else files_of(first)), *map(Path, others)


def slurm_policy_of(policy: str, log: JobLog) -> tuple[Policy, ReadingReport]:
    """Return the policy of a slurm.conf for the jobs of a cleaned log, and what of the files it does not use."""
    return SlurmFiles.read(policy).policy(log)


@dataclass(frozen=True, eq=False)
class SlurmFiles:
    """The files that a policy names, as read once: by these every worker plans."""

    conf: SlurmConf
    accounts: Accounts | None

    @classmethod
    def read(cls, policy: str) -> Self:
        """Read the files of a policy's name."""
        first, *others = files_of_policy(policy)
        if is_site(first):
            if others:
                raise JobcastError(f"Policy {policy!r}: {first} has the site's accounts and QOS; name it alone.")
            return cls.of_site(read_site(first), first)
        conf = read_slurm_conf(first)
        _check_spelling(conf)
        return cls(conf, read_accounts(tuple(others)) if others else None)

    @classmethod
    def of_site(cls, site: Site, source: str | Path) -> Self:
        """Return those that a site's file holds; `source` names it in messages."""
        if site.conf is None:
            raise JobcastError(f"{source}: holds no slurm.conf, so the site's own policy is unknown; name a --policy.")
        _check_spelling(site.conf)
        return cls(site.conf, site.accounts)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of what they say, wherever they lie."""
        conf, found = self.conf, self.accounts
        said: list[Any] = [_said(conf.settings), _tables(conf.partitions), conf.nodes, conf.procs]
        said += [[names.value, _said(row)] for names, row in conf.node_lines] + [dict(conf.node_sets)]
        if found is not None:
            said += [_tables(found.qos), found.default_account]
            said += [[one.account, one.user, one.partition, one.parent, _said(one.settings)]
                     for one in found.associations]  # fmt: skip
        return sha256(json.dumps(said).encode()).hexdigest()

    @property
    def places_memory(self) -> bool:
        """Whether jobs take memory of nodes, by SelectTypeParameters; without it they do."""
        words = self.conf.options("SelectTypeParameters").keys()
        return not words & _WITHOUT_MEMORY or bool(words & _WITH_MEMORY)

    def asking(self, log: JobLog) -> JobLog:
        """Return a cleaned log in which jobs have the memory that Slurm gives them, and keep nodes as partitions do."""
        told = default_memory(self.conf, log, log.procs, nodes_of(self.conf, log, log.procs))
        return kept_by_partitions(self.conf, told)

    def takes(self, log: JobLog) -> Bools:
        """Return which jobs of a cleaned log their partitions take; others Slurm would refuse, or let wait."""
        workload = Workload.from_log(log)
        nodes = nodes_of(self.conf, log, workload.procs)
        told = default_memory(self.conf, log, workload.procs, nodes)
        owners = None if self.accounts is None else Owners(self.conf, self.accounts, told, workload, nodes)
        return taken_by(self.conf, told, workload, nodes, owners)

    def policy(self, log: JobLog) -> tuple[Policy, ReadingReport]:
        """Return the policy for the jobs of a cleaned log, and what of the files it does not use."""
        return _policy(self.conf, self.accounts, log)


def _said(row: Mapping[str, Setting]) -> dict[str, str]:
    return {key: one.value for key, one in row.items()}


def _tables(rows: Mapping[str, Mapping[str, Setting]]) -> dict[str, dict[str, str]]:
    return {name: _said(row) for name, row in rows.items()}


def _policy(conf: SlurmConf, accounts: Accounts | None, log: JobLog) -> tuple[Policy, ReadingReport]:
    workload = Workload.from_log(log)
    machine, per_node = workload.machine_procs, max(1, conf.procs // max(1, conf.nodes))
    nodes = nodes_of(conf, log, workload.procs)
    told, log = log, default_memory(conf, log, workload.procs, nodes)
    conf.check_nodes()
    owners = None if accounts is None else Owners(conf, accounts, log, workload, nodes)
    loops = _loops(conf, log, None if owners is None else owners.limits())
    preempting = Preempting.of(conf, words_of(log, log.partition_column), owners)
    findings = list(_unused(conf, accounts is not None, preempting is not None))
    if log is not told:
        text = "ask for no memory: DefMemPerCPU and its like give them some, for limits, bills, priorities and places"
        more = log.known("requested_job_memory") & ~told.known("requested_job_memory")
        findings.append(Finding("slurm-default-memory", "noted", text, int(more.sum())))
    order = None
    if preempting is not None:
        tier = partitions_of(conf, log, normal=True)[1]
        loops = replace(loops, preemption=preempting.preemption(tier, nodes))
        findings += preempting.findings()
        order = Multifactor().order(workload, parts_of(len(log), tier=tier))
    spends = loops.limits is not None and loops.limits.spends
    if not _is(conf, "PriorityType", "priority/", "multifactor", "basic"):
        loops = replace(loops, calc_period=0)
        findings += refused(conf, log, workload, nodes, owners)
        if spends:
            text = "limits on minutes used hold no job: priority/basic follows no usage"
            findings.append(Finding("slurm-minutes-not-used", "noted", text))
    else:
        rule = rule_of(conf, owners is not None)
        findings += [*_notes(conf, rule, owners is not None), *refused(conf, log, workload, nodes, owners)]
        if conf.partitions and (unnamed := int((~told_partitions(log)).sum())):
            text = "the log does not name their partition; its factor is 0 and its tier 1"
            findings.append(Finding("slurm-unnamed-partition", "noted", text, unnamed))
        if conf.procs and conf.procs != machine:
            text = (
                f"{conf.source} has {conf.procs:,} processors, the simulated machine {machine:,}: factors are of these"
            )
            findings.append(Finding("slurm-other-size", "noted", text))
        of_nodes = max(1, -(-machine // per_node))
        parts = fixed_parts(conf, log, workload, nodes, of_nodes, rule, owners, findings)
        share = _fair_share(conf, owners) if owners is not None and (rule.fair_share or spends) else None
        order = rule.order(workload, parts, share)
    if owners is not None:
        of_qos = frozenset() if preempting is None else about_preemption.USED_OF_QOS
        findings += [*owners.findings, *owners.unused(of_qos)]
    return slurm_policy(order, loops), ReadingReport(log.name, tuple(findings))


def _notes(conf: SlurmConf, rule: Multifactor, has_accounts: bool) -> Iterator[Finding]:
    weights = rule.age, rule.size, rule.partition, rule.qos, rule.fair_share, rule.association
    if not any(weights) and "priorityweighttres" not in conf.settings:
        text = "no weight is above 0: jobs start in the order of submission"
        yield Finding("slurm-no-weights", "noted", text)
    of_accounts = ("PriorityWeightQOS", "PriorityWeightFairshare", "PriorityWeightAssoc")
    if not has_accounts and any(conf.whole(name, 0) for name in of_accounts):
        text = "fair-share, QOS and associations do not count: name the files of `sacctmgr dump` and `sacctmgr -P show "
        yield Finding("slurm-no-accounts", "noted", f"{text}qos` behind commas, slurm:{conf.source},FILE,FILE")
    if rule.age > 0 and not conf.text("AccountingStorageType", "none").lower().endswith("slurmdbd"):
        text = f"{conf.source} names no slurmdbd: a Slurm 26.05 without it took the weight of age for 0"
        yield Finding("slurm-no-slurmdbd", "noted", f"{text}, here it counts as written")


def _fair_share(conf: SlurmConf, owners: Owners) -> FairShare:
    flags = flags_of(conf)
    algorithm: Algorithm = "fair-tree"
    if "depth_oblivious" in flags:
        algorithm = "depth-oblivious"
    elif "no_fair_tree" in flags:
        algorithm = "classic"
    return FairShare(
        owners.shares(),
        owners.user_of,
        owners.billed(flags),
        half_life=conf.seconds("PriorityDecayHalfLife", 604_800, may_be_0=True),
        calc_period=conf.seconds("PriorityCalcPeriod", 300),
        resets=_resets(conf, owners.log),
        algorithm=algorithm,
        damp=max(1, conf.whole("FairShareDampeningFactor", 1)),
    )


def _resets(conf: SlurmConf, log: JobLog) -> tuple[int, ...]:
    """Return the seconds of a log at which usage is forgotten; days are those of UTC."""
    period = conf.text("PriorityUsageResetPeriod", "NONE").lower()
    if period in ("none", "now"):
        return ()
    if period not in _RESETS:
        place = conf.settings["priorityusageresetperiod"].place
        known = ", ".join(one.upper() for one in ("none", "now", *_RESETS))
        raise JobcastError(f"{place}: PriorityUsageResetPeriod is one of {known}; found {printable(period)[:40]!r}.")
    begin = log.epoch or 0
    end = begin + int(log.values["submit"].max(initial=0)) + MOST_WAIT
    if begin < 0 or end > LAST_DAY:
        place = conf.settings["priorityusageresetperiod"].place
        raise JobcastError(
            f"{place}: PriorityUsageResetPeriod={period.upper()} needs the dates of the jobs; those of {log.name} lie "
            f"outside 1970 to 2999. Leave the parameter out, or give the log its real begin."
        )
    day = datetime.fromtimestamp(begin, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    found = []
    while day.timestamp() <= end:
        day += timedelta(days=1)
        if _RESETS[period](day):
            found.append(int(day.timestamp()) - begin)
    return tuple(found)


def _is(conf: SlurmConf, name: str, prefix: str, first: str, second: str) -> bool:
    """Return whether a parameter is the first of two kinds, which is also the usual one."""
    found = conf.settings.get(name.lower())
    kind = first if found is None else found.value.lower().removeprefix(prefix)
    if kind not in (first, second):
        raise JobcastError(
            f"{'' if found is None else found.place}: {name} is {prefix}{first} or {prefix}{second} here; found "
            f"{printable(kind)[:40]!r}."
        )
    return kind == first


def _loops(conf: SlurmConf, log: JobLog, limits: Limits | None) -> Loops:
    given = conf.options("SchedulerParameters")

    def number(name: str, usual: int, most: int, least: int = 1) -> int:
        value = given.get(name, str(usual))
        if re.fullmatch(r"\d{1,10}", value) is None or not least <= int(value) <= most:
            place = conf.settings["schedulerparameters"].place
            raise JobcastError(
                f"{place}: {name} is {least} to {most:,} {_UNITS[name]}; found {printable(value)[:40]!r}."
            )
        return int(value)

    def quota(name: str, column: str, of_main: bool = False) -> tuple[Quota, ...]:
        most = number(name, 0, 999_999, least=0)
        if most == 0:
            return ()
        return (Quota(most, np.where(log.known(column), log.filled(column), -1), of_main),)

    depth = number("default_queue_depth", 0, 999_999, least=0)

    return Loops(
        tested=number("bf_max_job_test", 500, 999_999),
        interval=number("bf_interval", 30, 10_800),
        resolution=number("bf_resolution", 60, 3_600),
        window=60 * number("bf_window", 1_440, 43_200),
        calc_period=conf.seconds("PriorityCalcPeriod", 300),
        backfills=_is(conf, "SchedulerType", "sched/", "backfill", "builtin"),
        limits=limits,
        quotas=quota("bf_max_job_user", "user")
        + quota("bf_max_job_part", log.partition_column)
        + quota("partition_job_depth", log.partition_column, of_main=True),
        queue_depth=depth + 1 if "default_queue_depth" in given else 0,  # Slurm tests one more
        sched_interval=number("sched_interval", 60, 3_600),
        min_interval=round(number("sched_min_interval", 0, 999_999_999, least=0) / 1e6),
    )


def _check_spelling(conf: SlurmConf) -> None:
    """Refuse a parameter or an option with nearly the name of one that the policy uses: Slurm would ignore it."""
    of_conf = USED | USED_WITH_ACCOUNTS | about_preemption.USED
    names = [(one.name, one.place, of_conf) for one in conf.settings.values()]
    for name in conf.options("PreemptParameters"):
        names.append((name, conf.settings["preemptparameters"].place, _OF_PREEMPTION))
    of_partitions = USED_OF_PARTITIONS | USED_OF_PARTITIONS_WITH_ACCOUNTS | about_preemption.USED_OF_PARTITIONS
    names += [(one.name, one.place, of_partitions) for row in conf.partitions.values() for one in row.values()]
    for name in conf.options("SchedulerParameters"):
        names.append((name, conf.settings["schedulerparameters"].place, USED_OPTIONS | about_preemption.USED_OPTIONS))
    for name, place, known in names:
        near = [] if name.lower() in known else get_close_matches(name.lower(), known, n=1, cutoff=_NEARLY)
        if near:
            raise JobcastError(
                f"{place}: {printable(name)[:60]!r} is nothing that Slurm knows, which ignores it; did you mean "
                f"{near[0]!r}? Correct it, or take it out."
            )


def _unused(conf: SlurmConf, has_accounts: bool, preempts: bool) -> list[Finding]:
    used, options, flags, of_partitions = USED, USED_OPTIONS, USED_FLAGS | WITHOUT_EFFECT, USED_OF_PARTITIONS
    if "priorityweighttres" in conf.settings:
        of_partitions |= {"nodes"}
    if has_accounts:
        used, flags = used | USED_WITH_ACCOUNTS, flags | USED_FLAGS_WITH_ACCOUNTS
        of_partitions |= USED_OF_PARTITIONS_WITH_ACCOUNTS
    if preempts:
        used, options = used | about_preemption.USED, options | about_preemption.USED_OPTIONS
        of_partitions |= about_preemption.USED_OF_PARTITIONS
    of_preemption = conf.options("PreemptParameters") if preempts else {}
    groups = {
        "slurm-unused-parameter": [one.name for key, one in conf.settings.items() if key not in used],
        "slurm-unused-option": [
            name for name in conf.options("SchedulerParameters") if name not in options
        ] + [name.upper() for name in conf.options("PriorityFlags") if name not in flags]
        + [name for name in of_preemption if name not in _OF_PREEMPTION]
        + [name.upper() for name in conf.options("SelectTypeParameters")
           if name not in _WITHOUT_MEMORY | _WITH_MEMORY],
        "slurm-unused-of-partitions": sorted(
            {one.name for row in conf.partitions.values() for key, one in row.items()
             if key not in of_partitions or (key in SHARING and one.value.lower() not in ("exclusive", "no"))}
        ),
    }  # fmt: skip
    found = [
        Finding(
            rule,
            "noted",
            f"{conf.source}: read, and not used by the policy: {', '.join(names)}",
            len(names),
        )
        for rule, names in groups.items()
        if names
    ]
    of_nodes = {one.name for row in conf.partitions.values() for key, one in row.items() if key in _ON_NODES}
    if "selecttypeparameters" in conf.settings:
        of_nodes.add(conf.settings["selecttypeparameters"].name)
    if of_nodes:
        text = f"{conf.source}: counts on the nodes of --machine alone: {', '.join(sorted(of_nodes))}"
        found.append(Finding("slurm-of-nodes", "noted", text, len(of_nodes)))
    requeue = conf.settings.get("jobrequeue")
    if requeue is not None and whole_of(requeue) > 1:
        text = f"{requeue.place}: Slurm takes JobRequeue={requeue.value} for 1"
        found.append(Finding("slurm-odd-value", "noted", text))
    return found
