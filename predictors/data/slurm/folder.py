"""The folder of a site under Slurm as a `Site`: each file is recognised by what it holds."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from predictors.core.compressed import read_bytes, read_text
from predictors.core.errors import JobcastError, printable
from predictors.data.formats._delimited import header_names
from predictors.data.formats.detect import FORMATS
from predictors.data.formats.slurm import XDMOD, is_bare_sacct
from predictors.data.joblog import JobLog
from predictors.data.report import ReadingReport
from predictors.data.slurm.accounts import COMMAND
from predictors.data.slurm.conf import Setting, files_of
from predictors.data.slurm.hardware import NO_RESERVATIONS
from predictors.data.slurm.site import (
    ACCOUNTS,
    CONF,
    GRES,
    INCLUDED,
    KINDS,
    NODES,
    RESERVATIONS,
    TOPOLOGY,
    Site,
    SiteLog,
    Source,
    is_site,
    sha256,
)

LOG, USERS, OF_NO_USE, UNKNOWN, EMPTY = "job log", "users.sim", "of no use", "unknown", "empty"
_ONE_OF_A_KIND: Final = (CONF, GRES, TOPOLOGY, NODES, RESERVATIONS)
_OTHERS: Final = ("dbdhost", "storagetype", "dbdaddr", "cgroupplugin", "constraincores", "constrainramspace")
"""Keys of slurmdbd.conf and cgroup.conf."""
_OF_CONF: Final = re.compile(
    r"(?im)^\s*(?:ClusterName|SlurmctldHost|ControlMachine|SlurmUser|SelectType|SchedulerType|PriorityType)\s*="
)
_PART: Final = re.compile(r"(?i)\s*(?:NodeName|PartitionName|NodeSet|SchedulerParameters|Priority\w+)\s*=")
_SECRET: Final = re.compile(r"(?im)^(\s*\w*Pass(?:word)?\s*=).*$")
_USER: Final = re.compile(r"[\w.@-]+:\d+:[\w.@-]+:\d+")
_CLUSTER: Final = re.compile(rb'"cluster"\s*:\s*"([^"]*)"')
_FIRST: Final = (  # how the first line of a file begins that is no comment, and its kind
    (TOPOLOGY, r"(?i)SwitchName\s*="),
    (RESERVATIONS, rf"ReservationName=\S+ StartTime=|{NO_RESERVATIONS}"),
    (NODES, r"NodeName=\S+ +(?:Arch|CoresPerSocket|CPUAlloc)="),
    (GRES, r"(?i)(?:AutoDetect|Name)\s*=|NodeName\s*=\s*\S+\s+(?:Name|AutoDetect)\s*="),
    (ACCOUNTS, r"(?:Cluster|Parent|Account|QOS) - '?"),
    (OF_NO_USE, r"\*+$|sdiag output|Configuration data as of|PartitionName=\S+\s*$|JobId="),
)


def kind_of(data: bytes, name: str) -> str:
    r"""Return what a file of a site holds: a kind of `KINDS`, a job log, or nothing that is known.

    >>> kind_of(b"# nodes\nNodeName=n[1-4] Name=gpu Count=2", "x"), kind_of(b"Name|Priority|MaxWall\n", "y")
    ('gres.conf', 'sacctmgr')
    """
    head = data[:200_000].decode("utf-8", "replace").removeprefix("\ufeff")
    lines = [line.strip() for line in head.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    first = lines[0] if lines else ""
    if kind := next((kind for kind, begin in _FIRST if re.match(begin, first)), None):
        return kind
    header = {one.strip().lower() for one in first.split("|")}
    is_table = {"account", "user"} <= header or {"name", "priority"} <= header
    if COMMAND.fullmatch(first) or (is_table and not header & {"jobid", "jobidraw"}):
        return ACCOUNTS
    if lines and all(map(_USER.fullmatch, lines[:20])):
        return USERS
    if any(form.recognises(data) for form in FORMATS.values()):
        return LOG
    keys = {line.split("=")[0].strip().lower() for line in lines}
    if keys & set(_OTHERS):
        return OF_NO_USE
    if name == "slurm.conf" or _OF_CONF.search("\n".join(lines)):
        return CONF
    return INCLUDED if any(map(_PART.match, lines)) else UNKNOWN


@dataclass(frozen=True, eq=False)
class Imported:
    """A site, and what else its folder holds."""

    site: Site
    log: JobLog | None
    account: ReadingReport | None  # of the log's reading
    log_path: Path | None
    left: dict[str, str]  # files that are not used, and why


def read_folder(folder: Path, out: Path, read_log: Callable[[Path], tuple[JobLog, ReadingReport]]) -> Imported:
    """Read a site's folder; `out` is where the site's file will lie, and `read_log` reads its job log."""
    if not folder.is_dir():
        raise JobcastError(
            f"{folder}: is no folder; name the one with the site's slurm.conf, sacctmgr's and sacct's files."
        )
    kinds: dict[Path, str] = {}
    for path in sorted(folder.iterdir()):
        if path.is_file() and not path.name.startswith(".") and not is_site(path):
            kinds[path] = kind_of(read_bytes(path), path.name) if path.stat().st_size else EMPTY
    confs = [path for path, kind in kinds.items() if kind == CONF]
    included = _included(confs, folder)
    confs = [path for path in confs if path.resolve() not in included]
    kinds |= {path: INCLUDED for path in kinds if path.resolve() in included}
    for path in included.values():
        kinds.setdefault(path, INCLUDED)
    sources, left, logs = list[Source](), dict[str, str](), list[Path]()
    for path, kind in kinds.items():
        name = _name(path, folder)
        if kind == LOG:
            logs.append(path)
        elif kind == USERS:
            left[name] = "users of slurm_sim_tools: the simulator needs their accounts alone"
        elif kind in (OF_NO_USE, UNKNOWN, EMPTY) or (kind == INCLUDED and path.resolve() not in included):
            why = {UNKNOWN: "not recognised", EMPTY: "it is empty", INCLUDED: "no slurm.conf includes it"}
            left[name] = why.get(kind, "says nothing that a simulation uses")
        else:
            sources.append(_source(path, name, kind))
    site = Site(folder.resolve().name or "site", tuple(_without_copies(sources, folder)))
    log, account, own = None, None, _one_log(logs, folder)
    if own is not None:
        _check_cluster(own, site)
        log, account = read_log(own)
        place, near = own.resolve(), out.resolve().parent
        way = str(place.relative_to(near) if place.is_relative_to(near) else place)
        site = Site(site.name, site.source, SiteLog(way, sha256(own.read_bytes())))
    if not site.source and log is None:
        raise JobcastError(f"{folder}: has no file of a Slurm that is known, and no job log; put the slurm.conf there.")
    _check_clusters(site)
    return Imported(site, log, account, own, left)


def _included(confs: Iterable[Path], folder: Path) -> dict[Path, Path]:
    """Return the files that are included, by what is behind their links."""
    found: dict[Path, Path] = {}
    for conf in confs:
        for path in files_of(conf)[1:]:
            found[path.resolve()] = path
    return found


def _name(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)


def _source(path: Path, name: str, kind: str) -> Source:
    text = read_text(path, KINDS[kind]).replace("\r\n", "\n")
    text = _SECRET.sub(r"\1", text)  # passwords do not belong into a file that is passed on
    return Source(name, kind, sha256(text.encode()), text)


def _without_copies(sources: list[Source], folder: Path) -> Iterable[Source]:
    """Leave out copies; refuse two texts that answer the same and differ."""
    first: dict[str, Source] = {}
    for one in sources:
        other = first.setdefault(one.kind, one) if one.kind in _ONE_OF_A_KIND else one
        if other is not one and other.text != one.text:
            raise JobcastError(
                f"{folder}: {other.name} and {one.name} are both {KINDS[one.kind]}, and differ; take the older one out."
            )
        if other is one:
            yield one


def _one_log(logs: list[Path], folder: Path) -> Path | None:
    if len(logs) > 1:
        names = " ".join(str(path) for path in logs[:4]) + (" …" if len(logs) > 4 else "")
        raise JobcastError(
            f"{folder}: has {len(logs)} job logs, and a site has one; join them, and take the parts out: jobcast log "
            f"join all.parquet {names}"
        )
    return logs[0] if logs else None


def _check_cluster(path: Path, site: Site) -> None:
    """Refuse a log of sacct that names another cluster than the slurm.conf."""
    told, found = _named_cluster(site), clusters_of(read_bytes(path))
    if told is None and len(found) > 1:
        raise JobcastError(
            f"{path}: has jobs of {len(found)} clusters, {', '.join(sorted(found))[:80]}; write it again: sacct -M "
            "NAME."
        )
    others = [] if told is None else sorted(found - {told.value.lower()})
    if told is not None and others:
        raise JobcastError(
            f"{path}: has jobs of the cluster {printable(others[0])[:40]!r}, and {told.place} is of {told.value!r}; "
            f"write it again: sacct -M {told.value}."
        )


def _named_cluster(site: Site) -> Setting | None:
    return None if site.conf is None else site.conf.settings.get("clustername")


def clusters_of(data: bytes) -> set[str]:
    r"""Return the clusters that sacct's text or JSON names, in small letters.

    >>> clusters_of(b"JobID|Cluster|State\n1|Big|COMPLETED\n")
    {'big'}
    """
    names = list(XDMOD) if is_bare_sacct(data) else [one.lower() for one in header_names(data, "|")]
    if "cluster" in names:
        at, rows = names.index("cluster"), data.decode("utf-8", "replace").splitlines()
        cells = [row.split("|") for row in (rows if names == list(XDMOD) else rows[1:])]
        return {row[at].lower() for row in cells if len(row) == len(names)} - {""}
    is_json = data[:100].lstrip().startswith(b"{")
    return {one.decode("utf-8", "replace").lower() for one in _CLUSTER.findall(data)} - {""} if is_json else set()


def _check_clusters(site: Site) -> None:
    told = _named_cluster(site)
    for name, place in ({} if site.accounts is None else site.accounts.clusters).items():
        if told is not None and name.lower() != told.value.lower():
            raise JobcastError(
                f"{place}: is of the cluster {printable(name)[:40]!r}, and {told.place} of {told.value!r}; write it "
                f"again: sacctmgr dump {told.value} file=site.dump."
            )
