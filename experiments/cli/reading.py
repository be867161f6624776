"""Job logs as commands read them, and what the file of a site gives where a command names nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from experiments.console import working
from experiments.site.grade.kept import caution_of
from predictors.core.errors import JobcastError, printable
from predictors.data.cleaning import RequestsFrom
from predictors.data.formats.detect import read_log
from predictors.data.joblog import JobLog
from predictors.data.report import ReadingReport
from predictors.data.slurm.site import Site, is_site, log_of, read_site
from schedsim.machine.slurm_nodes import machine_of
from schedsim.sites.slurm.files import PREFIX

_LOGS: Final = ("log", "files", "past")  # parameters that name a job log, or several
_POLICIES: Final = ("policy", "current", "policies")
_OTHER_MACHINES: Final = ("procs", "allocator", "partitions", "per_leaf")  # with these the site's nodes do not count


def read(
    log: Path, requests_from: str | None = None, *, strict: bool = False, time_zone: str | None = None
) -> tuple[JobLog, ReadingReport]:
    """Return a log and the account of its reading; a rule for requested times that is none is refused first."""
    if requests_from is not None:
        RequestsFrom(requests_from)
    with working(f"Reading {log}"):
        return read_log(log, strict, time_zone)


def with_site(given: dict[str, Any], is_named: Callable[[str], bool]) -> dict[str, Any]:
    """Return a command's parameters, with what the file of a site gives for those that are not named.

    It gives the job log, Slurm's own order as the policy, the nodes with what jobs ask of them, and reservations; its
    processors where a command knows no nodes. `--site` may also name rules of Cobalt: then all is as given.

    Parameters
    ----------
    given : dict
        The parameters by name.
    is_named : callable
        Whether the user has named a parameter.
    """
    path = given.get("site")
    if path is not None and "commands" not in given:
        read_site(path)  # says why it is none
    if path is None or not is_site(path):
        if any(name in given and not given[name] for name in _LOGS[:2]):
            told = "" if path is None else f"; {printable(str(path))[:60]} is none"
            raise JobcastError(f"Name a LOG, or a --site by jobcast site import FOLDER{told}.")
        return given
    site = read_site(path)
    found = {name: value for name, value in _of_site(site, Path(path), given, is_named).items() if not is_named(name)}
    return given | found | ({"site": None} if "commands" in given else {})


def caution_for(site: Path | None, ungraded: bool) -> str:
    """Return what must be said of figures from a site's twin, and refuse them below grade B; nothing without a site."""
    return "" if site is None or not is_site(site) else caution_of(site, ungraded)


def _of_site(site: Site, path: Path, given: dict[str, Any], is_named: Callable[[str], bool]) -> dict[str, Any]:
    """Return what a site gives of a command's parameters."""
    if any(one.suffix == ".toml" for one in given.get("files") or ()):
        raise JobcastError(f"{given['files'][0]}: declares the whole sweep; leave --site out, or name logs.")
    found: dict[str, Any] = {}
    for name in _LOGS:
        if name in given and not is_named(name) and (name != "past" or site.log is not None):
            log = log_of(path, site)
            found[name] = [log] if name == "files" else log
    if given.get("kind") in ("evaluate", "train"):
        return found
    if site.conf is not None:
        found |= {name: f"{PREFIX}{path}" for name in _POLICIES if name in given}
    made = machine_of(site, str(path))
    others = [name for name in _OTHER_MACHINES if name in given and is_named(name)]
    if made is None or "partitions" in others:
        return found
    if "machine" not in given or others:
        return found | ({"procs": made.machine.procs} if "procs" in given else {})
    found["machine"] = path
    if "outages" in given and not is_named("machine") and any(one.nodes for one in site.reservations):
        found["outages"] = path
    return found
