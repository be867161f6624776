"""What of a site's Slurm changes schedules and is not simulated, each setting with its value and place."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from predictors.core.arrays import Bools
from predictors.core.errors import JobcastError, counted
from predictors.data.joblog import JobLog
from predictors.data.slurm.conf import Setting, SlurmConf
from predictors.data.slurm.hardware import is_down
from predictors.data.slurm.hosts import host_list
from predictors.data.slurm.site import Site
from predictors.data.summary import prepare
from schedsim.machine.slurm_nodes import NOT_THERE, SlurmMachine
from schedsim.sites.slurm import preempting
from schedsim.sites.slurm.accounts import words_of
from schedsim.sites.slurm.factors import SHARING, USED_FLAGS, USED_FLAGS_WITH_ACCOUNTS, WITHOUT_EFFECT
from schedsim.sites.slurm.files import USED_OPTIONS, SlurmFiles

LOST: Final = ("slurm-unused-of-associations", "slurm-unused-of-qos", "slurm-unused-flags")
"""Rules of a policy's account by which settings of sacctmgr are not used."""
HARMLESS: Final = frozenset(  # options of SchedulerParameters that change no schedule
    (
        "max_script_size", "nohold_on_prolog_fail", "permit_job_expansion", "disable_job_shrink", "salloc_wait_nodes",
        "sbatch_wait_nodes", "enable_job_state_cache", "default_gbytes", "no_env_cache", "disable_user_top",
        "step_retry_count", "step_retry_time", "max_array_tasks", "max_depend_depth", "kill_invalid_depend",
        "ignore_prefer_validation", "enable_hetero_steps", "allow_zero_lic", "bf_yield_interval", "bf_yield_sleep",
        "bf_yield_rpc_cnt", "ignore_constraint_validation", "requeue_setup_env_fail", "bf_node_space_size",
    )
)  # fmt: skip
PARAMETERS: Final = frozenset(  # those that change schedules
    (
        "suspendtime", "licenses", "burstbuffertype", "overtimelimit", "completewait", "resvoverrun", "requeueexit",
        "requeueexithold", "prioritysitefactorplugin", "topologyparam", "federationparameters", "jobdefaults",
        "mcsplugin",
    )
)  # fmt: skip
ENTRY: Final = frozenset(("state", "rootonly", "allowgroups", "reqresv", "alternate"))
"""What partitions say of who may come in, or may now."""
OF_PARTITIONS: Final = frozenset(  # and the rest that changes schedules
    (
        *ENTRY, *SHARING, "lln", "maxcpuspernode", "maxcpuspersocket", "overtimelimit", "suspendtime",
        "powerdownonidle", "jobdefaults",
    )
)  # fmt: skip
_NONE: Final = frozenset(
    ("0", "none", "no", "up", "all", "exclusive", "(null)", "", "-1", "infinite", "unlimited", "mcs/none")
)
_TREES: Final = frozenset(("topology/tree", "topology/default", "topology/none", "topology/flat", ""))
_WHOLE_CORES: Final = re.compile(r"(?i)\bCR_(?:Core|Socket)\b|\bCR_(?:Core|Socket)_Memory\b")
_MEANT: Final = frozenset(
    ("cr_cpu", "cr_cpu_memory", "cr_core", "cr_core_memory", "cr_memory", "cr_core_default_dist_block")
)
_REPEATED: Final = frozenset(("DAILY", "HOURLY", "WEEKLY", "WEEKDAY", "WEEKEND"))


@dataclass(frozen=True)
class Gap:
    """A setting that changes schedules and is not simulated."""

    setting: str
    place: str
    text: str  # what is done without it, where that is not plain


def gaps_of(site: Site, made: SlurmMachine | None, log: JobLog | None) -> list[Gap]:
    """Return what of a site the simulator does not do."""
    found = [] if site.conf is None else [*_of_conf(site.conf), *_of_nodes(site.conf)]
    for note in () if made is None else made.notes:
        found.append(Gap("nodes", "", note))
    down = [name for name, shown in site.nodes.items() if is_down(shown.state)]
    if down:
        text = f"{counted(len(down), 'node')} down or drained now count as up, in the whole log"
        found.append(Gap(f"State of {host_list(down)[:80]}", site.nodes[down[0]].place, text))
    names = set() if made is None else set(made.names)
    for one in site.reservations:
        if set(one.flags) & _REPEATED:
            found.append(Gap(f"Flags={','.join(one.flags)}", one.place, f"{one.name} counts once, not again and again"))
        if one.nodes and not one.hosts & names:
            found.append(Gap(f"ReservationName={one.name}", one.place, "the machine has none of its nodes"))
        elif one.nodes and "MAINT" not in one.flags:
            found.append(Gap(f"ReservationName={one.name}", one.place, "its nodes take no job, also none of its users"))
    return [*found, *_of_policy(site, made, log)]


def lacking_partitions(site: Site) -> tuple[str, ...]:
    """Return the partitions with rules on their jobs that the simulator lacks; who may come in its log tells."""
    partitions = {} if site.conf is None else site.conf.partitions
    return tuple(name for name, row in partitions.items() if _lacks(row, OF_PARTITIONS - ENTRY))


def has_partition(site: Site, log: JobLog) -> Bools:
    """Return which jobs ran in partitions that the slurm.conf still has, if it names any; those without one did."""
    known = {""} if site.conf is None else {"", *site.conf.partitions}
    words = words_of(log, log.partition_column)
    return np.array([known == {""} or known.issuperset(map(str.strip, one.split(","))) for one in words], np.bool_)


def _lacks(row: Mapping[str, Setting], known: frozenset[str]) -> list[Setting]:
    """Return those of some settings that are set; the value 0, NONE or NO of some is their absence."""
    return [one for key, one in row.items() if key in known and one.value.lower().partition(":")[0] not in _NONE]


def _told(one: Setting, text: str, owner: str = "") -> Gap:
    return Gap(f"{one.name}={one.value}{owner and f' of {owner[:60]}'}", one.place, text)


def _of_conf(conf: SlurmConf) -> Iterator[Gap]:
    for one in _lacks(conf.settings, PARAMETERS):
        yield _told(one, "")
    tree = conf.settings.get("topologyplugin")
    if tree is not None and tree.value.lower() not in _TREES:
        yield _told(tree, "nodes are placed without it")
    for name, known in (
        ("SchedulerParameters", USED_OPTIONS | preempting.USED_OPTIONS | HARMLESS),
        ("PriorityFlags", USED_FLAGS | USED_FLAGS_WITH_ACCOUNTS | WITHOUT_EFFECT),
        ("SelectTypeParameters", _MEANT),
    ):
        for option, value in conf.options(name).items():
            if option not in known:
                place = conf.settings[name.lower()].place
                yield Gap(f"{option}={value}" if value else option, place, f"an option of {name}")
    for partition, row in conf.partitions.items():
        yield from (_told(one, "", partition) for one in _lacks(row, OF_PARTITIONS))


def _of_nodes(conf: SlurmConf) -> Iterator[Gap]:
    whole = _WHOLE_CORES.search(conf.text("SelectTypeParameters", ""))
    for names, row in conf.node_lines:
        if "state" in row and is_down(row["state"].value) and row["state"].value.upper() not in NOT_THERE:
            yield _told(row["state"], "they count as up", names.value)
        if whole and "threadspercore" in row and row["threadspercore"].value not in ("0", "1"):
            yield _told(row["threadspercore"], "jobs get whole cores of Slurm", names.value)
        for key in ("cpuspeclist", "restrictedcorespergpu"):
            if key in row:
                yield _told(row[key], "these processors count as free for all", names.value)


def _of_policy(site: Site, made: SlurmMachine | None, log: JobLog | None) -> Iterator[Gap]:
    """Give what the policy says of these files: why there is none, and what of sacctmgr's it does not use."""
    if site.conf is None:
        return
    try:
        files = SlurmFiles.of_site(site, site.conf.source)
        if log is None or made is None:
            return
        account = files.policy(prepare(log, made.machine.procs, drop_wide=True).used)[1]
    except JobcastError as error:
        yield Gap("Slurm's own order", "", f"cannot be simulated: {error}")
        return
    for one in account.findings:
        if one.rule in LOST:
            yield Gap(one.text.rpartition(": ")[2][:200], "", f"of {one.rule.rpartition('-')[2]}: not simulated")
