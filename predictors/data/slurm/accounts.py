"""Accounts, users and QOS of a Slurm, as `sacctmgr` writes them: shares and limits.

Read are `sacctmgr dump` files, and the tables of `sacctmgr -P show assoc tree` and `sacctmgr -P show qos`; which of
them a file is its content tells. Limits keep their names and values as written, under one name each.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from predictors.core.compressed import read_text
from predictors.core.errors import JobcastError, printable
from predictors.data.formats.columns import span
from predictors.data.slurm.conf import Setting

ROOT: Final = "root"  # the account above all others
_SAME: Final[Mapping[str, str]] = MappingProxyType(
    {
        "share": "fairshare", "rawshares": "fairshare", "defqos": "defaultqos", "def qos": "defaultqos",
        "grpsubmit": "grpsubmitjobs", "maxsubmit": "maxsubmitjobs", "maxjobspu": "maxjobsperuser",
        "maxjobspa": "maxjobsperaccount", "maxsubmitpu": "maxsubmitjobsperuser",
        "maxsubmitjobspu": "maxsubmitjobsperuser", "maxsubmitpa": "maxsubmitjobsperaccount",
        "maxsubmitjobspa": "maxsubmitjobsperaccount", "maxtrespu": "maxtresperuser", "maxtrespa": "maxtresperaccount",
        "maxtres": "maxtresperjob", "maxtrespj": "maxtresperjob", "maxwalldurationperjob": "maxwall",
        "maxwallpj": "maxwall", "maxwalldurationpj": "maxwall", "par name": "parentname", "parent": "parentname",
        "acct": "account", "maxtresmins": "maxtresminsperjob", "maxtresminspj": "maxtresminsperjob",
        "mintresperjob": "mintres", "mintrespj": "mintres",
        "maxtresrunminspu": "maxtresrunminsperuser", "maxtresrunminspa": "maxtresrunminsperaccount",
    }
)  # fmt: skip
"""Names that mean the same, in small letters, by the one that is kept."""
_LINE: Final = re.compile(r"(Cluster|Parent|Account|User|QOS) - ('[^']*'|[^:']*)((?::.*)?)")
_OPTION: Final = re.compile(r":([\w ]+)=('[^']*'|(?:gres/[\w-]+:[\w.-]+|[^:'])*)")  # gres/gpu:a100=4 is one value
MOST_OF_A_RESOURCE: Final = 1 << 60  # how much of a resource a limit may name
_HEADERS: Final = {"associations": {"account", "user"}, "qos": {"name", "priority"}}


@dataclass(frozen=True, eq=False)
class Association:
    """An account, or a user of an account."""

    # account, user, partition: its account, user and partition; no user for an account's own, no partition where it is
    # for all
    account: str
    user: str
    partition: str
    parent: str  # the account above; empty for the root
    settings: Mapping[str, Setting]  # shares and limits by their names in small letters, those that are set
    place: str  # file and line

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"user {self.user} of {self.account}" if self.user else f"account {self.account}"


@dataclass(eq=False)
class Accounts:
    """What files of `sacctmgr` say."""

    associations: list[Association] = field(default_factory=list)  # in the order of the files
    # settings of each QOS by their names in small letters
    qos: dict[str, Mapping[str, Setting]] = field(default_factory=dict)
    default_account: dict[str, str] = field(default_factory=dict)  # of users
    _first: dict[tuple[str, str, str], Association] = field(default_factory=dict, repr=False)
    _qos_at: dict[str, tuple[str, bool]] = field(default_factory=dict, repr=False)

    def read(self, path: str | Path) -> None:
        """Add what a file says."""
        lines = [
            (f"{path}:{number}", line.rstrip("\r"))
            for number, line in enumerate(read_text(path, "a file of sacctmgr").split("\n"), 1)
            if line.strip() and not line.startswith("#")
        ]
        if lines and _LINE.fullmatch(lines[0][1]) is not None:
            self._read_dump(lines)
        elif lines and "|" in lines[0][1]:
            self._read_table(str(path), lines)
        else:
            raise JobcastError(
                f"{path}: is neither a file of `sacctmgr dump` nor a table of `sacctmgr -P show assoc tree` or "
                "`sacctmgr -P show qos`; write one of them."
            )

    def _read_dump(self, lines: list[tuple[str, str]]) -> None:
        parent = ROOT
        for place, line in lines:
            found = _LINE.fullmatch(line)
            rest = "" if found is None else _OPTION.sub("", found[3])
            if found is None or rest:
                raise JobcastError(
                    f"{place}: {printable(line)[:60]!r} is no line of `sacctmgr dump`, such as "
                    "Account - 'physics':Fairshare=10."
                )
            kind, name = found[1], found[2].strip("'")
            settings = _settings((key, value.strip("'"), place) for key, value in _OPTION.findall(found[3]))
            if kind == "Parent":
                parent = name
            elif kind == "QOS":
                self._add_qos(name, settings, place, of_table=False)
            elif kind == "Cluster":
                self._add(Association(ROOT, "", "", "", settings, place))
            elif kind == "Account":
                self._add(Association(name, "", "", parent, settings, place))
            else:
                partition = settings.get("partition")
                self._add_user(name, parent, "" if partition is None else partition.value, settings, place)

    def _add_user(self, user: str, account: str, partition: str, settings: Mapping[str, Setting], place: str) -> None:
        if "defaultaccount" in settings:
            self.default_account[user] = settings["defaultaccount"].value
        self._add(Association(account, user, partition, account, settings, place))

    def _add_qos(self, name: str, settings: Mapping[str, Setting], place: str, of_table: bool) -> None:
        """Add a QOS; of a table and a dump that both have it the table counts, which has all its settings."""
        first, by_table = self._qos_at.get(name, (place, of_table))
        if first != place and by_table == of_table:
            raise JobcastError(f"{place}: QOS {printable(name)[:40]} stands at {first} already; name each once.")
        if of_table or not by_table:
            self.qos[name], self._qos_at[name] = settings, (place, of_table)

    def _add(self, one: Association) -> None:
        if not one.account:
            raise JobcastError(f"{one.place}: an account has no name; write the file again.")
        first = self._first.setdefault((one.account, one.user, one.partition), one)
        if first is not one:
            raise JobcastError(
                f"{one.place}: {one.name} stands at {first.place} already; name the associations of one cluster, once."
            )
        self.associations.append(one)

    def _read_table(self, path: str, lines: list[tuple[str, str]]) -> None:
        written = lines[0][1].split("|")
        header = [_name(one) for one in written]
        kind = next((kind for kind, needed in _HEADERS.items() if needed <= set(header)), None)
        if kind is None:
            raise JobcastError(
                f"{lines[0][0]}: a table of associations has the columns Account and User, one of QOS Name and "
                f"Priority; found {printable(lines[0][1])[:80]!r}."
            )
        depths: list[str] = []  # accounts above, where the table is a tree: names stand one space deeper
        for place, line in lines[1:]:
            cells = line.split("|")
            if len(cells) != len(header):
                raise JobcastError(
                    f"{place}: has {len(cells)} columns, the header {len(header)}; write the table again."
                )
            row = dict(zip(header, cells, strict=True))
            settings = _settings((key, value, place) for key, value in zip(written, cells, strict=True) if key)
            if kind == "qos":
                self._add_qos(row["name"], settings, place, of_table=True)
                continue
            account, user = row["account"].strip(), row["user"].strip()
            if user:
                self._add_user(user, account, row.get("partition", ""), settings, place)
                continue
            depth = len(row["account"]) - len(row["account"].lstrip(" "))
            depths[depth:] = [account]
            above = row.get("parentname") or (depths[depth - 1] if 0 < depth <= len(depths) else "")
            if account not in ("", ROOT) and not above:
                raise JobcastError(
                    f"{place}: account {printable(account)[:40]} stands under no account: write the table with "
                    "`sacctmgr -P show assoc tree`."
                )
            self._add(Association(account, "", "", "" if account == ROOT else above, settings, place))
        if kind == "associations" and len(lines) == 1:
            raise JobcastError(f"{path}: has no association.")


def _name(key: str) -> str:
    key = key.strip().lower()
    return _SAME.get(key, key)


def _settings(pairs: Iterator[tuple[str, str, str]]) -> Mapping[str, Setting]:
    return MappingProxyType(
        {_name(key): Setting(key.strip(), value, place) for key, value, place in pairs if value not in ("", "-1")}
    )


def number_of(found: Setting) -> float:
    """Return a number from 0 on."""
    if re.fullmatch(r"\d{1,12}(\.\d{1,12})?", found.value) is None:
        raise JobcastError(f"{found.place}: {found.name} is a number from 0 on; found {printable(found.value)[:40]!r}.")
    return float(found.value)


def wall_of(found: Setting) -> int:
    """Return a time in seconds, which is written in minutes or as `[days-]hours:minutes:seconds`."""
    seconds = 60 * int(found.value) if re.fullmatch(r"\d{1,9}", found.value) else span(found.value)
    if seconds is None:
        raise JobcastError(
            f"{found.place}: {found.name} is a time, in minutes or such as 1-00:00:00; found "
            f"{printable(found.value)[:40]!r}."
        )
    return int(seconds)


def tres_of(found: Setting) -> dict[str, float]:
    """Return trackable resources and how much of each, by name in small letters; memory and burst buffers in MB.

    >>> tres_of(Setting("GrpTRES", "cpu=64,gres/gpu=8,mem=2G", "assoc:3"))
    {'cpu': 64.0, 'gres/gpu': 8.0, 'mem': 2048.0}
    """
    powers = {"K": 10, "M": 20, "G": 30, "T": 40}
    table: dict[str, float] = {}
    for part in found.value.split(","):
        match = re.fullmatch(r"\s*([\w/:.-]+)=(-?\d{1,15}(?:\.\d{1,9})?)([KMGT]?)\s*", part, re.IGNORECASE)
        if match is None:
            raise JobcastError(
                f"{found.place}: {found.name} is a list such as cpu=64,gres/gpu=8; found "
                f"{printable(found.value)[:40]!r}."
            )
        name, amount, unit = match[1].lower(), float(match[2]), match[3].upper()
        if unit:  # a number without one is in MB already
            amount *= 2.0 ** (powers[unit] - 20 * (name == "mem" or name.startswith("bb/")))
        if amount > MOST_OF_A_RESOURCE:
            raise JobcastError(
                f"{found.place}: {found.name} lets at most {MOST_OF_A_RESOURCE:,} of a resource be in use; found "
                f"{printable(part)[:40]!r}."
            )
        if amount >= 0:
            table[name] = amount
    return table


def read_accounts(paths: tuple[str, ...]) -> Accounts:
    """Read files of `sacctmgr`, of whichever kind."""
    accounts = Accounts()
    for path in paths:
        accounts.read(path)
    return accounts
