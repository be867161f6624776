"""The file of a site that `jobcast site import` writes: the texts of its Slurm, and which job log is its own.

It is TOML, and holds the texts as they were, so that their folder may go.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final

from predictors.core.compressed import read_text
from predictors.core.declarations import STRICT, declared, parse_toml
from predictors.core.errors import JobcastError, printable
from predictors.core.files import whole_file
from predictors.data.slurm.accounts import Accounts, accounts_of
from predictors.data.slurm.conf import Setting, SlurmConf, read_slurm_conf
from predictors.data.slurm.hardware import (
    Gpus,
    ShownNode,
    ShownReservation,
    parse_gres,
    parse_nodes,
    parse_reservations,
    parse_topology,
)

FORMAT: Final = "jobcast site"
VERSION: Final = 1
_BEGIN: Final = re.compile(rf'(?:\xef\xbb\xbf)?\s*format\s*=\s*"{FORMAT}"'.encode("latin-1"))
_NOT_LITERAL: Final = re.compile(r"'''|[\x00-\x08\x0b-\x1f\x7f]")
CONF, INCLUDED, ACCOUNTS = "slurm.conf", "a part of slurm.conf", "sacctmgr"
GRES, TOPOLOGY, NODES, RESERVATIONS = "gres.conf", "topology.conf", "scontrol show node", "scontrol show res"
KINDS: Final = (CONF, INCLUDED, ACCOUNTS, GRES, TOPOLOGY, NODES, RESERVATIONS)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class Source:
    """A text of a site's Slurm."""

    __pydantic_config__: ClassVar[Any] = STRICT

    name: str  # its path in the folder
    kind: str  # of `KINDS`
    text: str


@dataclass(frozen=True)
class SiteLog:
    """The job log of a site, which stays where it is."""

    __pydantic_config__: ClassVar[Any] = STRICT

    path: str  # from the folder of the site's file, if it lies below, else the whole path
    sha256: str


@dataclass(frozen=True)
class Site:
    """What a site's file holds."""

    __pydantic_config__: ClassVar[Any] = STRICT

    name: str
    source: tuple[Source, ...] = ()
    log: SiteLog | None = None

    def texts(self, *kinds: str) -> dict[str, str]:
        return {one.name: one.text for one in self.source if one.kind in kinds}

    @cached_property
    def conf(self) -> SlurmConf | None:
        """The slurm.conf with what it includes; None where there is none."""
        names = self.texts(CONF)
        return read_slurm_conf(next(iter(names)), self.texts(CONF, INCLUDED)) if names else None

    @cached_property
    def accounts(self) -> Accounts | None:
        texts = self.texts(ACCOUNTS)
        return accounts_of(texts) if texts else None

    @cached_property
    def gpus(self) -> dict[str, Gpus]:
        return {key: one for text in self.texts(GRES).items() for key, one in parse_gres(*text).items()}

    @cached_property
    def switches(self) -> dict[str, Mapping[str, Setting]]:
        return {key: one for text in self.texts(TOPOLOGY).items() for key, one in parse_topology(*text).items()}

    @cached_property
    def nodes(self) -> dict[str, ShownNode]:
        return {key: one for text in self.texts(NODES).items() for key, one in parse_nodes(*text).items()}

    @cached_property
    def reservations(self) -> list[ShownReservation]:
        return [one for text in self.texts(RESERVATIONS).items() for one in parse_reservations(*text)]

    def write(self, path: Path) -> None:
        """Write it as a file, whole or not at all."""
        parts = [f'format = "{FORMAT}"\nversion = {VERSION}\nname = {_quoted(self.name)}\n']
        for one in self.source:
            told = f"name = {_quoted(one.name)}\nkind = {_quoted(one.kind)}\ntext = {_text(one.text)}\n"
            parts.append(f"\n[[source]]\n{told}")
        if self.log is not None:
            parts.append(f"\n[log]\npath = {_quoted(self.log.path)}\nsha256 = {_quoted(self.log.sha256)}\n")
        with whole_file(path) as part:
            part.write_bytes("".join(parts).encode())


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _text(text: str) -> str:
    """Return a text in TOML: as it stands where that can be, so that people can read it."""
    return _quoted(text) if _NOT_LITERAL.search(text) else f"'''\n{text}'''"


def is_site(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is one that `jobcast site import` wrote, by its first line."""
    try:
        if not os.path.isfile(path):  # noqa: PTH113  # a text may be too long for Path.is_file
            return False
        with Path(path).open("rb") as file:
            return _BEGIN.match(file.read(200)) is not None
    except (OSError, ValueError):
        return False


def read_site(path: str | os.PathLike[str]) -> Site:
    """Read a site's file; refuse one of another version."""
    again = "write it again: jobcast site import FOLDER"
    if Path(path).exists() and not is_site(path):
        raise JobcastError(f"{path}: is no site's file; {again}.")
    table = parse_toml(read_text(path, "a site's file"), str(path))
    del table["format"]
    version = table.pop("version", None)
    if version != VERSION:
        raise JobcastError(f"{path}: is of version {version!r}, and this jobcast reads {VERSION}; {again}.")
    site = declared(Site, table, str(path))
    for one in site.source:
        if one.kind not in KINDS:
            raise JobcastError(f"{path}: source {printable(one.name)[:40]!r} is of no known kind; {again}.")
    return site


def log_of(path: str | Path, site: Site) -> Path:
    """Return where a site's job log lies; refuse one that has moved or is another one now."""
    if site.log is None:
        raise JobcastError(f"{path}: names no job log; put one into its folder, and import that again.")
    log = Path(path).parent / site.log.path
    if not log.is_file():
        raise JobcastError(f"{path}: its job log {log} is not there any more; put it back, or import the folder again.")
    if sha256(log.read_bytes()) != site.log.sha256:
        raise JobcastError(f"{path}: its job log {log} has changed since (SHA-256); import the folder again.")
    return log
