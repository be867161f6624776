"""The folder of a site under Slurm as a `Site`: each file is recognised by what it holds."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from predictors.core.compressed import read_bytes, read_text
from predictors.core.errors import JobcastError, printable
from predictors.data.formats._delimited import header_names
from predictors.data.formats.detect import FORMATS
from predictors.data.formats.sacct_json import is_sacct_json, jobs_of
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
    NODES,
    RESERVATIONS,
    TOPOLOGY,
    Site,
    SiteLog,
    Source,
    is_site,
    sha256,
)

LOG, UNKNOWN = "job log", "nothing that a simulation uses"
_ONE_OF_A_KIND: Final = (CONF, GRES, TOPOLOGY, NODES, RESERVATIONS)
_OF_CONF: Final = re.compile(
    r"(?im)^\s*(?:ClusterName|SlurmctldHost|ControlMachine|SelectType|SchedulerType|PriorityType)\s*="
)
_PART: Final = re.compile(r"(?i)\s*(?:NodeName|PartitionName|NodeSet|SchedulerParameters|Priority\w+)\s*=")
_SECRET: Final = re.compile(r'(?i)(\b\w*Pass(?:word)?\s*=\s*)(?:"[^"\n]*"|\S+)')
_FIRST: Final = (  # how the first line of a file begins that is no comment, and its kind
    (TOPOLOGY, r"(?i)SwitchName\s*="),
    (RESERVATIONS, rf"ReservationName=\S+ StartTime=|{NO_RESERVATIONS}"),
    (NODES, r"NodeName=\S+ +(?:Arch|CoresPerSocket|CPUAlloc)="),
    (GRES, r"(?i)(?:AutoDetect|Name)\s*=|NodeName\s*=\s*\S+\s+(?:.*\s)?(?:Name|AutoDetect)\s*="),
    (ACCOUNTS, r"(?:Cluster|Parent|Account|QOS) - '?"),
    (UNKNOWN, r"\*+$|sdiag output|Configuration data as of|PartitionName=\S+\s*$|JobId="),
)


def kind_of(data: bytes, name: str) -> str:
    r"""Return what a file of a site holds: the kind of a `Source`, a job log, or nothing that is known.

    >>> kind_of(b"# nodes\nNodeName=n[1-4] Type=a Name=gpu", "x"), kind_of(b"Name|Priority|MaxWall\n", "y")
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
    if any(form.recognises(data) for form in FORMATS.values()):
        return LOG
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
            kinds[path] = kind_of(read_bytes(path), path.name) if path.stat().st_size else UNKNOWN
    confs = [path for path, kind in kinds.items() if kind == CONF]
    included = {path.resolve(): path for conf in confs for path in files_of(conf)[1:]}
    kinds |= {path: INCLUDED for path in kinds if path.resolve() in included}
    kinds = dict.fromkeys(included.values(), INCLUDED) | kinds
    sources, left, logs = list[Source](), dict[str, str](), list[Path]()
    for path, kind in kinds.items():
        name = str(path.relative_to(folder) if path.is_relative_to(folder) else path)
        if kind == LOG:
            logs.append(path)
        elif kind == INCLUDED and path.resolve() not in included:
            left[name] = "no slurm.conf includes it"
        elif kind == UNKNOWN:
            left[name] = kind
        else:
            own = _source(path, name, kind)
            others = [one for one in sources if one.kind == kind != INCLUDED]
            copied = next((one.name for one in others if one.text == own.text), None)
            if copied is not None:
                left[name] = f"a copy of {copied}"
            elif others and kind in _ONE_OF_A_KIND:
                raise JobcastError(
                    f"{folder}: {others[0].name} and {name} are both {kind}, and differ; take the older one out."
                )
            else:
                sources.append(own)
    if len(logs) > 1:
        names = " ".join(str(path) for path in logs[:4]) + (" …" if len(logs) > 4 else "")
        raise JobcastError(
            f"{folder}: has {len(logs)} job logs, and a site has one; join them, and take the parts out: jobcast log "
            f"join all.parquet {names}"
        )
    if not sources and not logs:
        raise JobcastError(f"{folder}: has no file of a Slurm that is known, and no job log; put the slurm.conf there.")
    site = Site(folder.resolve().name or "site", tuple(sources))
    _check_clusters(site, *logs)
    if not logs:
        return Imported(site, None, None, None, left)
    log, account = read_log(logs[0])
    place, near = logs[0].resolve(), out.resolve().parent
    way = str(place.relative_to(near) if place.is_relative_to(near) else place)
    return Imported(replace(site, log=SiteLog(way, sha256(place.read_bytes()))), log, account, logs[0], left)


def _source(path: Path, name: str, kind: str) -> Source:
    text = read_text(path, kind).replace("\r\n", "\n")
    text = _SECRET.sub(r"\1", text)  # passwords do not belong into a file that is passed on
    return Source(name, kind, text)


def _check_clusters(site: Site, *logs: Path) -> None:
    """Refuse accounts and a log of sacct of another cluster than the slurm.conf, which may not tell it."""
    told = None if site.conf is None else site.conf.settings.get("clustername")
    found = [] if site.accounts is None else [(*pair, "sacctmgr dump") for pair in site.accounts.clusters.items()]
    found += [(name, str(log), "sacct -M") for log in logs for name in sorted(clusters_of(read_bytes(log)))]
    for name, place, command in found:
        told = Setting("Cluster", name, place) if told is None else told
        if name.lower() != told.value.lower():
            raise JobcastError(
                f"{place}: is of the cluster {printable(name)[:40]!r}, and {told.place} of "
                f"{printable(told.value)[:40]!r}; write it again: {command} {printable(told.value)[:40]} …"
            )


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
    if not is_sacct_json(data):
        return set()
    jobs = jobs_of(data, "sacct --json")
    return {str(job.get("cluster") or "").lower() for job in jobs if isinstance(job, dict)} - {""}
