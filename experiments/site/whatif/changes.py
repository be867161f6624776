"""Changes of a site: its texts become others, and are read as they always are, so that all rules hold.

What is set stands in files `--set-1`, … that the slurm.conf includes, or in commands of sacctmgr of that name; a
partition, a node or a switch changes in its line, which keeps its number.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Final

from predictors.core.errors import JobcastError, counted, printable
from predictors.data.slurm.accounts import name_of
from predictors.data.slurm.conf import Setting, SlurmConf, lines_of, names_of, pairs_of
from predictors.data.slurm.hosts import host_list, hostnames
from predictors.data.slurm.site import (
    ACCOUNTS,
    CONF,
    GRES,
    INCLUDED,
    NODES,
    RESERVATIONS,
    TOPOLOGY,
    Site,
    Source,
    sha256,
)
from schedsim.machine.slurm_nodes import SlurmMachine, machine_of
from schedsim.sites.slurm import files, preempting
from schedsim.sites.slurm.accounts import USED_OF_ASSOCIATIONS, USED_OF_QOS

SET, DRAIN = "--set", "--drain"
ASKED: Final = "?"  # stands for a number that is searched for
OPTIONS: Final = files.USED_OPTIONS | preempting.USED_OPTIONS
OF_MACHINE: Final = frozenset(("selecttype", "topologyplugin"))
GLOBAL: Final = files.USED | preempting.USED | OF_MACHINE
OF_PARTITIONS: Final = files.USED_OF_PARTITIONS | preempting.USED_OF_PARTITIONS
OF_OWNERS: Final[Mapping[str, frozenset[str]]] = {
    "qos": USED_OF_QOS | preempting.USED_OF_QOS, "account": USED_OF_ASSOCIATIONS, "user": USED_OF_ASSOCIATIONS
}  # fmt: skip
"""What the twin reads of the entities of sacctmgr."""
_NODES: Final = re.compile(r"(.*)([+-])(\d{1,6})")
_LISTS: Final = re.compile(r'(?i)(?<![\w.-])(NodeName|Nodes)\s*=\s*("[^"]*"|\S*)')
_DRAIN: Final = re.compile(r"\s*(\S+)\s+([\dT:+-]+)\.\.([\dT:+-]+)\s*")
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_NUMBERED: Final = re.compile(r"(.*?)(\d{0,9})")
MOST_ADDED: Final = 100_000


def changed(site: Site, source: str, sets: Iterable[str], nodes: Iterable[str], drains: Iterable[str]) -> Site:
    """Return a site after changes, in the words of `jobcast site whatif`; `source` names the site in messages."""
    for one in sets:
        site = with_setting(site, one)
    for one in nodes:
        site = with_nodes(site, source, one)
    for one in drains:
        site = with_drain(site, source, one)
    return site


def with_setting(site: Site, given: str) -> Site:
    r"""Return a site with another setting.

    >>> text = "SchedulerParameters=bf_window=60,defer\nNodeName=n[1-4] CPUs=8\nPartitionName=a Nodes=n[1-2]"
    >>> site = Site("big", (Source("slurm.conf", "slurm.conf", "", text),))
    >>> conf = with_setting(with_setting(site, "bf_interval=60"), "a.MaxTime=60").conf
    >>> conf.text("SchedulerParameters", ""), conf.partitions["a"]["maxtime"].value
    ('bf_window=60,defer,bf_interval=60', '60')
    """
    name, joined, value = given.partition("=")
    owner, _, key = name.strip().rpartition(".")
    kind, _, who = owner.partition(":")
    if not joined or not re.fullmatch(r"\w+", key) or not re.fullmatch(r'[^"#\\]*', value) or not value.isprintable():
        raise JobcastError(
            f"{SET} is NAME=VALUE, such as bf_interval=60, batch.MaxTime=2-0 or QOS:normal.MaxWall=60; got "
            f"{printable(given)[:60]!r}."
        )
    conf = conf_of(site)
    if kind.lower() in OF_OWNERS and who:
        return _with_owner(site, kind.lower(), who, key, value)
    if owner:
        of_partitions = OF_PARTITIONS | (files.USED_OF_PARTITIONS_WITH_ACCOUNTS if site.accounts else set()) | {"nodes"}
        if owner not in conf.partitions:
            raise _unknown("partition", owner, conf.partitions)
        _check_read(site, key, of_partitions, files.USED_OF_PARTITIONS_WITH_ACCOUNTS, f"{owner}.")
        return _with_partition(site, owner, key, value)
    if key.lower() in OPTIONS:
        options = conf.options("SchedulerParameters") | {key.lower(): "" if value.lower() == "yes" else value}
        if value.lower() in ("no", ""):
            del options[key.lower()]
        key, value = "SchedulerParameters", ",".join(f"{one}={of}" if of else one for one, of in options.items())
    else:
        known = GLOBAL | (files.USED_WITH_ACCOUNTS if site.accounts else set())
        _check_read(site, key, known | OPTIONS, files.USED_WITH_ACCOUNTS, "")
    return _appended(site, f"{key}={_quoted(value)}")


def conf_of(site: Site) -> SlurmConf:
    """Return a site's slurm.conf."""
    if site.conf is None:
        raise JobcastError(f"{printable(site.name)}: has no slurm.conf, so there is nothing to change; import it.")
    return site.conf


def _unknown(what: str, name: str, known: Iterable[str]) -> JobcastError:
    near = get_close_matches(name, list(known), n=3, cutoff=0.3) or sorted(known)[:9]
    return JobcastError(
        f"{SET}: the site has no {what} {printable(name)[:60]!r}; {'near: ' + ', '.join(near) if near else 'none'}."
    )


def _check_read(site: Site, key: str, known: frozenset[str] | set[str], others: frozenset[str], owner: str) -> None:
    """Refuse a parameter that the twin does not read."""
    if key.lower() in known:
        return
    if key.lower() in others:
        raise JobcastError(
            f"{SET} {owner}{key}: counts with accounts alone, and the site has none; import its `sacctmgr dump`."
        )
    near = get_close_matches(key.lower(), sorted(known), n=3, cutoff=0.6) or sorted(known)[:9]
    raise JobcastError(
        f"{SET} {printable(owner + key)[:80]}: is nothing that the twin reads; near: {', '.join(near)}. "
        "docs/how-to/slurm-priorities.md lists all."
    )


def _quoted(value: str) -> str:
    return f'"{value}"' if re.search(r"\s", value) else value


def _appended(site: Site, line: str) -> Site:
    """Add a line at the end of the slurm.conf, which includes it: messages name its file."""
    site = _with_text(site, SET, INCLUDED, line)
    return _rewritten(site, (CONF,), lambda text: f"{text}\n\nInclude {site.source[-1].name}\n")


def _with_text(site: Site, option: str, kind: str, text: str) -> Site:
    """Add a text, named by the option and its number."""
    number = 1 + sum(one.name.startswith(f"{option}-") for one in site.source)
    return replace(site, source=(*site.source, Source(f"{option}-{number}", kind, sha256(text.encode()), text)))


def _rewritten(site: Site, kinds: tuple[str, ...], change: Callable[[str], str]) -> Site:
    """Change all texts of some kinds."""
    texts = (change(one.text) if one.kind in kinds else one.text for one in site.source)
    made = (replace(one, text=text, sha256=sha256(text.encode())) for one, text in zip(site.source, texts, strict=True))
    return replace(site, source=tuple(made))


def _edited(site: Site, kinds: tuple[str, ...], edit: Callable[[str], str]) -> Site:
    """Change each line of some kinds of texts; comments go, and lines that go on are joined."""

    def change(text: str) -> str:
        rows = [""] * len(text.splitlines())
        for place, line in lines_of("", text):
            rows[int(place[1:]) - 1] = edit(line)
        return "\n".join(rows) + "\n"

    return _rewritten(site, kinds, change)


def _with_partition(site: Site, partition: str, key: str, value: str) -> Site:
    def edit(line: str) -> str:
        first = next(iter(pairs_of("", line, "slurm.conf")), None) if "=" in line else None
        is_it = first is not None and first.name.lower() == "partitionname" and first.value == partition
        return f"{line} {key}={_quoted(value)}" if is_it else line

    return _edited(site, (CONF, INCLUDED), edit)


def _with_owner(site: Site, kind: str, who: str, key: str, value: str) -> Site:
    """Change a QOS, an account or a user as sacctmgr would."""
    accounts = site.accounts
    if accounts is None:
        raise JobcastError(f"{SET} {kind}:{printable(who)[:40]}: the site has no accounts; import `sacctmgr dump`.")
    others = {one.user if kind == "user" else one.account for one in accounts.associations}
    known = accounts.qos.keys() if kind == "qos" else others - {""}
    if who not in known:
        raise _unknown("QOS" if kind == "qos" else kind, who, known)
    _check_read(site, name_of(key), OF_OWNERS[kind], frozenset(), f"{kind}:{who}.")
    line = f"modify {kind} where name={shlex.quote(who)} set {key}={shlex.quote(value)}"
    return _with_text(site, SET, ACCOUNTS, line)


def kinds_of(made: SlurmMachine) -> list[list[str]]:
    """Return the names of a machine's nodes by kind: nodes that are equal but for their names and switches."""
    found: dict[object, list[str]] = {}
    first = 0
    for group in made.machine.nodes:
        kind = replace(group, name="node", count=1, switch=None)
        found.setdefault(kind, []).extend(made.names[first : first + group.count])
        first += group.count
    return list(found.values())


def kind_named(site: Site, source: str, given: str) -> list[str]:
    """Return the nodes of the kind that a text names: a node, a list of them, or how their names begin."""
    made = machine_of(site, source)
    if made is None or not conf_of(site).node_lines:
        raise JobcastError(f"{source}: its slurm.conf names no nodes, so --nodes changes none; import one that does.")
    kinds = kinds_of(made)
    wanted = set(hostnames(given)) if given else set()
    fitting = [names for names in kinds if not given or wanted <= set(names)]
    fitting = fitting or [names for names in kinds if all(_begin(name) == given for name in names)]
    if len(fitting) != 1:
        words = "; ".join(host_list(names)[:60] for names in kinds[:12])
        raise JobcastError(
            f"--nodes: {printable(given)[:40]!r} is no one kind of node; write KIND+8 with a node, a list of some, or "
            f"what the names begin with. Kinds: {words}."
        )
    return fitting[0]


def _begin(name: str) -> str:
    found = _NUMBERED.fullmatch(name)
    return name if found is None else found[1]


def with_nodes(site: Site, source: str, given: str) -> Site:
    """Return a site with more nodes of a kind, or with fewer, the last ones of it."""
    found = _NODES.fullmatch(given.strip())
    number = 0 if found is None else int(found[3])
    if found is None or not 0 <= number <= MOST_ADDED:
        raise JobcastError(f"--nodes is +8, KIND+8 or KIND-4, at most {MOST_ADDED:,}; got {printable(given)[:40]!r}.")
    names = kind_named(site, source, found[1])
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
    last = max((int(name[len(begin) :] or 0) for name in known if _begin(name) == begin), default=0)
    new = host_list([f"{begin}{at:0{width}d}" for at in range(last + 1, last + number + 1)])
    row = next((row for line, row in conf.node_lines if like in names_of(line)), {})
    shown = site.nodes.get(like)
    row = row if shown is None else {**shown.row, **row}
    parts = " ".join(f"{key}={_quoted(one.value)}" for key, one in row.items())
    in_it = {name for name, its in conf.partitions.items() if "nodes" in its and _has(conf, its["nodes"], like)}
    gpus = site.gpus.get(like)
    if gpus is not None and len(gpus.types) < 2:
        of_type = "".join(f" Type={one}" for one in gpus.types)
        line = f"NodeName={new} Name=gpu{of_type} Count={gpus.count}\n"
        site = _rewritten(site, (GRES,), lambda text: f"{text}\n{line}")
    site = _appended(site, f"NodeName={new} {parts}")
    for name in in_it:
        site = _with_partition(site, name, "Nodes", f"{conf.partitions[name]['nodes'].value},{new}")
    at = {one.name for one in site.switches if like in hostnames(one.nodes)}

    def edit(line: str) -> str:
        named = {one.name.lower(): one.value for one in pairs_of("", line, "topology.conf")}
        return f"{line} Nodes={named['nodes']},{new}" if named.get("switchname") in at else line

    return _edited(site, (TOPOLOGY,), edit)


def _has(conf: SlurmConf, nodes: Setting, name: str) -> bool:
    return any(name in hostnames(one) for one in conf.lists_of(nodes))


def _without(site: Site, gone: set[str]) -> Site:
    """Take nodes away, wherever the texts name them."""

    def left(found: re.Match[str]) -> str:
        stay = [name for name in hostnames(found[2].strip('"')) if name not in gone]
        return f"{found[1]}={host_list(stay)}" if stay or found[1].lower() == "nodename" else ""

    def edit(line: str) -> str:
        line = _LISTS.sub(left, line)
        return "" if re.match(r"(?i)\s*NodeName=(?:\s|$)", line) else line

    site = _edited(site, (CONF, INCLUDED, GRES, TOPOLOGY), edit)
    return _rewritten(site, (NODES,), lambda text: "\n".join(_other_records(text, gone)) + "\n")


def _other_records(text: str, gone: set[str]) -> Iterator[str]:
    """Give the lines of `scontrol show node` that are about other nodes."""
    is_kept = True
    for line in text.splitlines():
        if line.startswith("NodeName="):
            is_kept = line.split("=", 1)[1].split()[0] not in gone
        if is_kept:
            yield line


def with_drain(site: Site, source: str, given: str) -> Site:
    r"""Return a site with nodes reserved for maintenance, for which the machine drains before.

    >>> site = Site("big", (Source("slurm.conf", "slurm.conf", "", "NodeName=n[1-4]\nPartitionName=a Nodes=ALL"),))
    >>> drain = with_drain(site, "big.site", "n[1-2] 2027-01-10..12").reservations[0]
    >>> drain.nodes, (drain.end - drain.start) / 3600
    ('n[1-2]', 72.0)
    """
    found = _DRAIN.fullmatch(given)
    begin, end = (None, None) if found is None else _times(found[2], found[3])
    if found is None or begin is None or end is None or end <= begin:
        raise JobcastError(
            f'{DRAIN} is "HOSTS FROM..UNTIL", such as "n[01-04] 2027-01-10..12" (whole days) or "n01 '
            f'2027-01-10T08:00..12:00"; got {printable(given)[:60]!r}.'
        )
    made = machine_of(site, source)
    unknown = set(hostnames(found[1])) - set(() if made is None else made.names)
    if unknown:
        raise JobcastError(f"{DRAIN} {printable(given)[:60]}: the site has no node {printable(min(unknown))[:40]!r}.")
    text = (
        f"ReservationName=drain StartTime={int(begin.timestamp())} EndTime={int(end.timestamp())}\n"
        f"   Nodes={found[1]} Flags=MAINT\n"
    )
    return _with_text(site, DRAIN, RESERVATIONS, text)


def _times(begin: str, end: str) -> tuple[datetime | None, datetime | None]:
    """Return the ends of a span; the second may leave out how the first begins, and days count whole."""
    end = begin[: len(begin) - len(end)] + end
    try:
        first, last = datetime.fromisoformat(begin), datetime.fromisoformat(end)
    except ValueError:
        return None, None
    last += timedelta(days=1) if _DAY.fullmatch(end) else timedelta()
    return tuple(one if one.tzinfo is not None else one.replace(tzinfo=UTC) for one in (first, last))  # type: ignore[return-value]
