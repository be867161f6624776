"""Changes of a site: they change what was read of its files, so that all that is made of it holds."""

import re
import shlex
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Final

from predictors.core.errors import JobcastError, counted, printable
from predictors.data.slurm.accounts import accounts_of, name_of
from predictors.data.slurm.conf import Setting, SlurmConf, names_of, processors_of
from predictors.data.slurm.hardware import ShownReservation, unix_of
from predictors.data.slurm.hosts import host_list, hostnames
from predictors.data.slurm.site import ACCOUNTS, Site
from schedsim.machine.slurm_nodes import machine_of
from schedsim.sites.slurm import files, preempting
from schedsim.sites.slurm.accounts import USED_OF_ASSOCIATIONS, USED_OF_QOS

SET, DRAIN = "--set", "--drain"
ASKED: Final = "?"  # stands for a number that is searched for
OPTIONS: Final = files.USED_OPTIONS | preempting.USED_OPTIONS
GLOBAL: Final = files.USED | preempting.USED | {"selecttype", "topologyplugin"}
OF_PARTITIONS: Final = files.USED_OF_PARTITIONS | preempting.USED_OF_PARTITIONS
OF_OWNERS: Final[Mapping[str, frozenset[str]]] = {
    "qos": USED_OF_QOS | preempting.USED_OF_QOS, "account": USED_OF_ASSOCIATIONS, "user": USED_OF_ASSOCIATIONS
}  # fmt: skip
"""What the twin reads of the entities of sacctmgr."""
_NODES: Final = re.compile(r"(.*)([+-])(\d{1,6})")
MOST_ADDED: Final = 100_000


def changed(site: Site, source: str, sets: Iterable[str], nodes: Iterable[str], drains: Iterable[str]) -> Site:
    """Return a site after changes, in the words of `jobcast site whatif`; `source` names the site in messages."""
    commands: list[str] = []
    for one in sets:
        site = with_setting(site, one, commands)
    if commands:
        accounts = accounts_of({**site.texts(ACCOUNTS), SET: "\n".join(commands)})
        site = _with_parts(site, accounts=accounts)
    for one in nodes:
        site = with_nodes(site, source, one)
    for one in drains:
        site = with_drain(site, source, one)
    return site


def _with_parts(site: Site, **parts: Any) -> Site:
    """Return a site with other parts, such as `conf`, than its texts say."""
    made = copy(site)
    vars(made).update(parts)
    return made


def conf_of(site: Site) -> SlurmConf:
    if site.conf is None:
        raise JobcastError(f"{printable(site.name)}: has no slurm.conf, so there is nothing to change; import it.")
    return site.conf


def with_setting(site: Site, given: str, commands: list[str]) -> Site:
    r"""Return a site with another setting; one of sacctmgr's becomes one of the commands.

    >>> from predictors.data.slurm.site import Source
    >>> text = "SchedulerParameters=bf_window=60,defer\nNodeName=n[1-4] CPUs=8\nPartitionName=a Nodes=n[1-2]"
    >>> site = Site("big", (Source("slurm.conf", "slurm.conf", text),))
    >>> conf = with_setting(with_setting(site, "bf_interval=60", []), "a.MaxTime=60", []).conf
    >>> conf.text("SchedulerParameters", ""), conf.partitions["a"]["maxtime"].value
    ('bf_window=60,defer,bf_interval=60', '60')
    """
    name, joined, value = given.partition("=")
    owner, _, key = name.strip().rpartition(".")
    kind, _, who = owner.partition(":")
    kind = kind.lower()
    if not joined or not re.fullmatch(r"\w+", key) or not value.isprintable():
        raise JobcastError(
            f"{SET} is NAME=VALUE, such as bf_interval=60, batch.MaxTime=2-0 or QOS:normal.MaxWall=60; got "
            f"{printable(given)[:60]!r}."
        )
    conf, setting = conf_of(site), Setting(key, value, SET)
    if kind in OF_OWNERS and who:
        _check_known(kind, who, _owners(site, kind))
        _check_known(f"parameter of {kind}", name_of(key), OF_OWNERS[kind])
        commands.append(f"modify {kind} where name={shlex.quote(who)} set {key}={shlex.quote(value)}")
        return site
    of_accounts, of_their_partitions = files.USED_WITH_ACCOUNTS, files.USED_OF_PARTITIONS_WITH_ACCOUNTS
    if site.accounts is None and key.lower() in (of_their_partitions if owner else of_accounts):
        raise JobcastError(f"{SET} {key}: counts with accounts alone, and the site has none; import `sacctmgr dump`.")
    if owner:
        _check_known("partition", owner, conf.partitions)
        _check_known("parameter of partitions", key.lower(), OF_PARTITIONS | of_their_partitions | {"nodes"})
        return _with_partition(site, owner, setting)
    _check_known("parameter", key.lower(), GLOBAL | OPTIONS | of_accounts)
    if key.lower() in OPTIONS:
        options = conf.options("SchedulerParameters") | {key.lower(): "" if value.lower() == "yes" else value}
        if value.lower() in ("no", ""):
            del options[key.lower()]
        value = ",".join(f"{one}={of}" if of else one for one, of in options.items())
        setting = Setting("SchedulerParameters", value, SET)
    return _with_parts(site, conf=replace(conf, settings={**conf.settings, setting.name.lower(): setting}))


def _owners(site: Site, kind: str) -> set[str]:
    if site.accounts is None:
        raise JobcastError(f"{SET} {kind}:…: the site has no accounts; import `sacctmgr dump`.")
    people = site.accounts.associations
    return set(site.accounts.qos) if kind == "qos" else {one.user if kind == "user" else one.account for one in people}


def _check_known(what: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        near = get_close_matches(name, known, n=3, cutoff=0.3) or sorted(known)[:9]
        raise JobcastError(f"{SET}: the twin knows no {what} {printable(name)[:60]!r}; near: {', '.join(near)}.")


def _with_partition(site: Site, partition: str, setting: Setting) -> Site:
    conf = conf_of(site)
    row = {**conf.partitions[partition], setting.name.lower(): setting}
    return _with_parts(site, conf=replace(conf, partitions={**conf.partitions, partition: row}))


def kind_named(site: Site, source: str, given: str) -> list[str]:
    """Return the nodes of the kind that a text names: a node, a list of them, or how their names begin."""
    made = machine_of(site, source)
    if made is None or not conf_of(site).node_lines:
        raise JobcastError(f"{source}: its slurm.conf names no nodes, so --nodes changes none; import one that does.")
    kinds, wanted = list(made.kinds.values()), set(hostnames(given))
    fitting = [names for names in kinds if wanted <= set(names)]
    fitting = fitting or [names for names in kinds if all(_begin(name) == given for name in names)]
    if len(fitting) != 1:
        words = "; ".join(host_list(names)[:60] for names in kinds[:12])
        raise JobcastError(
            f"--nodes: {printable(given)[:40]!r} is no one kind of node; write KIND+8 with a node, a list of some, or "
            f"what the names begin with. Kinds: {words}."
        )
    return fitting[0]


def _begin(name: str) -> str:
    return re.split(r"\d{0,9}\Z", name, maxsplit=1)[0]


def with_nodes(site: Site, source: str, given: str) -> Site:
    """Return a site with more nodes of a kind, or with fewer, the last ones of it."""
    found = _NODES.fullmatch(given.strip())
    if found is None or int(found[3]) > MOST_ADDED:
        raise JobcastError(f"--nodes is +8, KIND+8 or KIND-4, at most {MOST_ADDED:,}; got {printable(given)[:40]!r}.")
    number, names = int(found[3]), kind_named(site, source, found[1])
    if number == 0:
        return site
    if found[2] == "+":
        return _with_more(site, names[-1], number)
    made = machine_of(site, source)
    if number > len(names) or (made is not None and number == len(made.names)):
        raise JobcastError(
            f"--nodes {given}: takes more than {counted(len(names), 'such node')}, or the machine's last; take fewer."
        )
    return _without(site, set(names[-number:]))


def _with_more(site: Site, like: str, number: int) -> Site:
    """Add nodes that are like another one, in its partitions and on its switch."""
    conf = conf_of(site)
    known = {name for line, _ in conf.node_lines for name in names_of(line)} | site.nodes.keys()
    begin, width = _begin(like), len(like) - len(_begin(like))
    last = max(int(name[len(begin) :] or 0) for name in known if _begin(name) == begin)
    added = [f"{begin}{at:0{width}d}" for at in range(last + 1, last + number + 1)]
    new = host_list(added)
    row = next((row for line, row in conf.node_lines if like in names_of(line)), {})
    row = {**site.nodes[like].row, **row} if like in site.nodes else row
    lines = (*conf.node_lines, (Setting("NodeName", new, "--nodes"), row))
    more = replace(
        conf, node_lines=lines, nodes=conf.nodes + number, procs=conf.procs + number * processors_of(row)
    )  # fmt: skip
    gpus = site.gpus | (dict.fromkeys(added, site.gpus[like]) if like in site.gpus else {})
    switches = dict(site.switches)
    for name, its in switches.items():
        if "nodes" in its and like in hostnames(its["nodes"].value):
            switches[name] = {**its, "nodes": replace(its["nodes"], value=f"{its['nodes'].value},{new}")}
    site = _with_parts(site, conf=more, gpus=gpus, switches=switches)
    for name, its in conf.partitions.items():
        if like in (conf.hosts(name) or ()):
            site = _with_partition(site, name, replace(its["nodes"], value=f"{its['nodes'].value},{new}"))
    return site


def _without(site: Site, gone: set[str]) -> Site:
    conf, lines, procs = conf_of(site), [], 0
    for line, row in conf.node_lines:
        if stay := [name for name in names_of(line) if name not in gone]:
            lines.append((replace(line, value=host_list(stay)), row))
            procs += len(stay) * processors_of(row)
    nodes = {name: one for name, one in site.nodes.items() if name not in gone}
    less = replace(conf, node_lines=tuple(lines), nodes=conf.nodes - len(gone), procs=procs)
    site = _with_parts(site, conf=less, nodes=nodes)
    for name, its in conf.partitions.items():
        if gone & (conf.hosts(name) or set()):
            stay = [host for one in conf.lists_of(its["nodes"]) for host in hostnames(one) if host not in gone]
            site = _with_partition(site, name, replace(its["nodes"], value=host_list(stay)))
    return site


def with_drain(site: Site, source: str, given: str) -> Site:
    r"""Return a site with nodes reserved for maintenance, for which the machine drains before.

    >>> from predictors.data.slurm.site import Source
    >>> site = Site("big", (Source("slurm.conf", "slurm.conf", "NodeName=n[1-4]\nPartitionName=a Nodes=ALL"),))
    >>> drain = with_drain(site, "big.site", "n[1-2] 2027-01-10..12").reservations[0]
    >>> drain.nodes, (drain.end - drain.start) / 3600
    ('n[1-2]', 72.0)
    """
    hosts, _, times = given.strip().partition(" ")
    first, joined, last = times.strip().partition("..")
    last = first[: len(first) - len(last)] + last  # it may leave out how the first begins
    whole_days = 86_400 if re.fullmatch(r"\d{4}-\d\d-\d\d", last) else 0
    begin, end = (unix_of(one, "a time", DRAIN) for one in (first, last)) if joined else (0, 0)
    if end + whole_days <= begin:
        raise JobcastError(
            f'{DRAIN} is "HOSTS FROM..UNTIL", such as "n[01-04] 2027-01-10..12" (whole days) or "n01 '
            f'2027-01-10T08:00..12:00"; got {printable(given)[:60]!r}.'
        )
    made = machine_of(site, source)
    unknown = set(names_of(Setting("HOSTS", hosts, DRAIN))) - set(() if made is None else made.names)
    if unknown:
        raise JobcastError(f"{DRAIN} {printable(given)[:60]}: the site has no node {printable(min(unknown))[:40]!r}.")
    drain = ShownReservation("drain", begin, end + whole_days, hosts, ("MAINT",), DRAIN)
    return _with_parts(site, reservations=[*site.reservations, drain])
