"""Accounts, users and QOS of a Slurm, as `sacctmgr` writes them: shares and limits.

Read are `sacctmgr dump` files, the tables of `sacctmgr -P show assoc tree` and `sacctmgr -P show qos`, and scripts of
sacctmgr's commands (`add account Name=physics …`); which of them a file is its content tells. Limits keep their names
and values as written, under one name each.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from predictors.core.compressed import read_text
from predictors.core.errors import JobcastError, printable
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
        "names": "name", "accounts": "account", "clusters": "cluster", "mintresperjob": "mintres",
        "mintrespj": "mintres",
        "maxtresrunminspu": "maxtresrunminsperuser", "maxtresrunminspa": "maxtresrunminsperaccount",
    }
)  # fmt: skip
"""Names that mean the same, in small letters, by the one that is kept."""
_LINE: Final = re.compile(r"(Cluster|Parent|Account|User|QOS) - ('[^']*'|[^:']*)((?::.*)?)")
_OPTION: Final = re.compile(r":([\w ]+)=('[^']*'|(?:gres/[\w-]+:[\w.-]+|[^:'])*)")  # gres/gpu:a100=4 is one value
MOST_OF_A_RESOURCE: Final = 1 << 60  # how much of a resource a limit may name
_VERBS: Final = {"create": "add", "update": "modify", "remove": "delete", "list": "show"}
_ENTITIES: Final = {
    "acct": "account", "accounts": "account", "users": "user", "clusters": "cluster",
    "assoc": "association", "associations": "association",
}  # fmt: skip
COMMAND: Final = re.compile(
    r"\s*(?:sacctmgr\s+(?:-\S+\s+)*)?(add|create|modify|update|delete|remove|list|show)\s+([a-z]+)\b(.*)", re.IGNORECASE
)
"""A line of a script of sacctmgr's commands."""
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
        return f"user {self.user} of {self.account}" if self.user else f"account {self.account}"


@dataclass(eq=False)
class Accounts:
    """What files of `sacctmgr` say."""

    associations: list[Association] = field(default_factory=list)  # in the order of the files
    # settings of each QOS by their names in small letters
    qos: dict[str, Mapping[str, Setting]] = field(default_factory=dict)
    default_account: dict[str, str] = field(default_factory=dict)  # of users
    clusters: dict[str, str] = field(default_factory=dict)  # the clusters that they name, and where
    _first: dict[tuple[str, str, str], Association] = field(default_factory=dict, repr=False)
    _qos_at: dict[str, tuple[str, bool]] = field(default_factory=dict, repr=False)

    def add(self, source: str, text: str) -> None:
        """Add what a text says; `source` names it in messages."""
        lines = [
            (f"{source}:{number}", line.rstrip("\r"))
            for number, line in enumerate(text.split("\n"), 1)
            if line.strip() and not line.startswith("#")
        ]
        if lines and _LINE.fullmatch(lines[0][1]) is not None:
            self._read_dump(lines)
        elif lines and "|" in lines[0][1]:
            self._read_table(source, lines)
        elif lines and COMMAND.fullmatch(lines[0][1]) is not None:
            for place, line in lines:
                self._run(place, line)
        else:
            raise JobcastError(
                f"{source}: is neither a file of `sacctmgr dump` nor a table of `sacctmgr -P show assoc tree` or "
                "`sacctmgr -P show qos`, nor commands of sacctmgr; write one of them."
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
                self.clusters.setdefault(name, place)
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

    def _run(self, place: str, line: str) -> None:
        """Do a command of sacctmgr; those that say nothing of accounts, users, QOS and the cluster do nothing."""
        found = COMMAND.fullmatch(line)
        try:
            words = shlex.split(found[3], comments=True) if found is not None else []
        except ValueError:
            found = None
        if found is None:
            raise JobcastError(
                f"{place}: {printable(line)[:60]!r} is no command of sacctmgr, such as add account Name=physics."
            )
        verb, entity = found[1].lower(), found[2].lower()
        verb, entity = _VERBS.get(verb, verb), _ENTITIES.get(entity, entity)
        if verb == "show" or entity not in ("account", "user", "qos", "cluster"):
            return
        wanted, changed = _clauses(words, place, entity, "set" if verb == "add" else "where")
        if verb == "modify":
            self._modify(entity, wanted, changed)
            return
        if "name" not in wanted:
            raise JobcastError(f"{place}: names no {entity} to {verb}; write Name=….")
        if verb == "delete":
            self._delete(entity, wanted)
            return
        for name in wanted["name"]:
            rest = {key: one for key, one in changed.items() if one.value not in ("", "-1")}
            if entity == "qos":
                self._add_qos(name, rest, place, of_table=False)
            elif entity == "cluster":
                self.clusters.setdefault(name, place)
                self._add(Association(ROOT, "", "", "", rest, place))
            elif entity == "account":
                above = changed["parentname"].value if "parentname" in changed else ROOT
                self._add(Association(name, "", "", above, rest, place))
            else:
                self._add_users(name, rest, place)

    def _add_users(self, user: str, settings: dict[str, Setting], place: str) -> None:
        """Add a user to each account that a command names, else to the default one."""
        told = settings.get("account", settings.get("defaultaccount"))
        if told is None and user not in self.default_account:
            raise JobcastError(f"{place}: user {printable(user)[:40]} has no account; write Account=….")
        accounts = [self.default_account[user]] if told is None else _listed(told.value)
        if user not in self.default_account:
            settings = {"defaultaccount": Setting("DefaultAccount", accounts[0], place)} | settings
        partitions = _listed(settings["partition"].value) if "partition" in settings else [""]
        for account in accounts:
            for partition in partitions:
                self._add_user(user, account, partition, settings, place)

    def _modify(self, entity: str, wanted: Mapping[str, list[str]], changed: Mapping[str, Setting]) -> None:
        if entity == "qos":
            for name in wanted.get("name", self.qos):
                if name in self.qos:
                    self.qos[name] = _merged(self.qos[name], changed)
            return
        meant = self._meant(entity, wanted)
        if entity == "user" and "defaultaccount" in changed:
            self.default_account |= dict.fromkeys([one.user for one in meant], changed["defaultaccount"].value)
        for at, one in enumerate(self.associations):
            if one in meant:
                above = changed["parentname"].value if "parentname" in changed and not one.user else one.parent
                self.associations[at] = replace(one, parent=above, settings=_merged(one.settings, changed))

    def _meant(self, entity: str, wanted: Mapping[str, list[str]]) -> list[Association]:
        """Return the associations of an entity for which each condition holds."""
        if entity == "cluster":
            return [one for one in self.associations if one.account == ROOT and not one.user]

        def is_meant(one: Association) -> bool:
            own = {"name": one.user or one.account, "account": one.account, "partition": one.partition,
                   "parentname": one.parent}  # fmt: skip
            return bool(one.user) == (entity == "user") and all(own[key] in names for key, names in wanted.items())

        return [one for one in self.associations if is_meant(one)]

    def _delete(self, entity: str, wanted: Mapping[str, list[str]]) -> None:
        for name in wanted.get("name", ()) if entity == "qos" else ():
            self.qos.pop(name, None)
            self._qos_at.pop(name, None)
        gone = self._meant(entity, wanted) if entity in ("user", "account") else []
        accounts = {one.account for one in gone if not one.user}
        for one in [one for one in self.associations if one in gone or one.account in accounts]:
            self.associations.remove(one)
            del self._first[one.account, one.user, one.partition]
        left = {one.user for one in self.associations}
        self.default_account = {user: one for user, one in self.default_account.items() if user in left}

    def _read_table(self, path: str, lines: list[tuple[str, str]]) -> None:
        written = lines[0][1].split("|")
        header = [name_of(one) for one in written]
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


def name_of(key: str) -> str:
    """Return the name under which a setting is kept.

    >>> name_of("MaxJobsPU")
    'maxjobsperuser'
    """
    key = key.strip().lower()
    return _SAME.get(key, key)


def _settings(pairs: Iterator[tuple[str, str, str]]) -> Mapping[str, Setting]:
    return MappingProxyType(
        {name_of(key): Setting(key.strip(), value, place) for key, value, place in pairs if value not in ("", "-1")}
    )


def _listed(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]


def _clauses(words: list[str], place: str, entity: str, clause: str) -> tuple[dict[str, list[str]], dict[str, Setting]]:
    """Return the names that a command is about with its conditions, and what it sets; first comes the clause `clause`.

    `key+=value` and `key-=value` keep their sign in the name of the setting.

    >>> wanted, changed = _clauses(["name=ann,bob", "account=a", "set", "qos+=gold"], "s:1", "user", "where")
    >>> wanted, {key: one.value for key, one in changed.items()}
    ({'name': ['ann', 'bob'], 'account': ['a']}, {'qos+': 'gold'})
    """
    wanted, changed = dict[str, list[str]](), dict[str, Setting]()
    for word in words:
        if word.lower() in ("where", "set"):
            clause = word.lower()
            continue
        key, joined, value = word.partition("=")
        sign = key[-1:] if joined and key[-1:] in "+-" else ""
        name = name_of(key.removesuffix(sign))
        if not joined or name in ("name", entity):
            wanted["name"] = wanted.get("name", []) + _listed(value if joined else word)
        elif clause == "set":
            changed[name + sign] = Setting(key, value, place)
        elif name in ("account", "partition", "parentname"):
            wanted[name] = _listed(value)
        elif name != "cluster":
            raise JobcastError(
                f"{place}: {printable(key)[:40]} is no condition that is read; name accounts, users or partitions."
            )
    return wanted, changed


def _merged(settings: Mapping[str, Setting], changed: Mapping[str, Setting]) -> Mapping[str, Setting]:
    """Return settings after a change; -1 takes one away, and lists may gain names (`qos+`) or lose them (`qos-`)."""
    made = dict(settings)
    for key, one in changed.items():
        name, sign = key.rstrip("+-"), key[-1] if key[-1] in "+-" else ""
        value = one.value
        if sign:
            own, others = _listed(made[name].value) if name in made else [], _listed(value)
            left = [word for word in own if word not in others]
            value = ",".join([*left, *others] if sign == "+" else left)
        made[name] = Setting(one.name, value, one.place)
    return MappingProxyType({key: one for key, one in made.items() if one.value not in ("", "-1")})


def number_of(found: Setting) -> float:
    """Return a number from 0 on."""
    if re.fullmatch(r"\d{1,12}(\.\d{1,12})?", found.value) is None:
        raise JobcastError(f"{found.place}: {found.name} is a number from 0 on; found {printable(found.value)[:40]!r}.")
    return float(found.value)


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
    return accounts_of({path: read_text(path, "a file of sacctmgr") for path in paths})


def accounts_of(texts: Mapping[str, str]) -> Accounts:
    """Return what texts of `sacctmgr` say, by their sources."""
    accounts = Accounts()
    for source, text in texts.items():
        accounts.add(source, text)
    return accounts
