"""Map the jobs of a log to a site's Slurm users, accounts and QOS, with what jobs are billed and the limits."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np

from predictors.core.arrays import Bools, Floats, Ints
from predictors.core.errors import JobcastError, printable
from predictors.data.joblog import JobLog
from predictors.data.report import Finding
from predictors.data.slurm.accounts import (
    ROOT,
    Accounts,
    Association,
    number_of,
    tres_of,
)
from predictors.data.slurm.conf import Setting, SlurmConf, seconds_of, whole_of
from schedsim.sites.slurm.fair_share import Shares
from schedsim.sites.slurm.limits import Kind, Limits, LimitsBeingMade
from schedsim.sites.slurm.usage import OF_PARENT
from schedsim.workload.workload import Workload

_OF_GROUPS: Final = ("grpjobs", "grpsubmitjobs", "grptres", "grptresmins", "grptresrunmins")
"""Limits on all jobs of a QOS, or of an association and those below it."""
_OF_JOBS: Final = ("maxtresperjob", "maxtresminsperjob", "maxwall")
_OF_USERS: Final = ("maxjobsperuser", "maxsubmitjobsperuser", "maxtresperuser", "maxtresrunminsperuser")
_OF_ACCOUNTS: Final = ("maxjobsperaccount", "maxsubmitjobsperaccount", "maxtresperaccount", "maxtresrunminsperaccount")
_INHERITED: Final = ("maxjobs", "maxsubmitjobs", *_OF_JOBS)
"""Limits on each user of an account that has none of its own."""
_LIMITS_OF_QOS: Final = frozenset((*_OF_GROUPS, *_OF_JOBS, *_OF_USERS, *_OF_ACCOUNTS))
USED_OF_ASSOCIATIONS: Final = frozenset(
    (*_OF_GROUPS, *_INHERITED, "fairshare", "defaultqos", "defaultaccount", "priority")
)
USED_OF_QOS: Final = _LIMITS_OF_QOS | {"priority", "usagefactor", "flags"}
_NAMES: Final = frozenset(
    (
        "cluster", "account", "user", "partition", "parentname", "name", "id", "description", "organization", "comment",
        "adminlevel", "coordinator", "defaultwckey", "qos", "lineage",
    )
)  # fmt: skip
"""Columns that name the owner of a row, and ask nothing of a scheduler."""
_SAFE: Final = frozenset(("safe", "all"))
_ENFORCING: Final = _SAFE | {"limits", "2"}
_ENFORCED: Final = _ENFORCING | {"associations", "1", "qos", "wckeys", "nojobs", "nosteps", "none"}
_FLAGS: Final = frozenset(("overpartqos", "noreserve", "nodecay", "usagefactorsafe"))
NO_ACCOUNT: Final = -1


def words_of(log: JobLog, *columns: str) -> list[str]:
    """Return the words of the first column that has some, one a job; empty where it is not known."""
    for column in columns:
        known = log.known(column)
        if known.any():
            codes, names = log.filled(column), log.names(column)
            words = {int(c): names[c] if 0 <= c < len(names) else str(c) for c in np.unique(codes[known])}
            return [words[c] if k else "" for c, k in zip(codes.tolist(), known.tolist(), strict=True)]
    return [""] * len(log)


@dataclass(frozen=True, eq=False)
class Owners:
    """Users, accounts and QOS of a log's jobs."""

    conf: SlurmConf
    accounts: Accounts
    log: JobLog
    workload: Workload
    nodes: Ints  # nodes of each, shape (n_jobs,)
    findings: list[Finding] = field(default_factory=list)

    def _words(self, *columns: str) -> list[str]:
        return words_of(self.log, *columns)

    @cached_property
    def users(self) -> list[str]:
        return self._words("user")

    @cached_property
    def partitions(self) -> list[str]:
        return self._words(self.log.partition_column)

    @cached_property
    def _places(self) -> tuple[list[Association], Ints]:
        """Associations with those that are added for users without one, the root first; and the one of each job."""
        given = self.accounts.associations
        root = next((one for one in given if one.account == ROOT and not one.user), None)
        root = Association(ROOT, "", "", "", {}, "") if root is None else root
        above: dict[str, Association] = {ROOT: root}
        for one in given:
            if not one.user and one.account != ROOT:
                above[one.account] = one
        below: dict[str, list[Association]] = {}
        for name in sorted(above.keys() - {ROOT}):
            below.setdefault(above[name].parent, []).append(above[name])
        entries: list[Association] = []
        stack = [root]
        while stack:  # by name, each before those below it: so Slurm goes through accounts that are equal
            entries.append(stack.pop())
            stack += reversed(below.pop(entries[-1].account, []))
        for parent, (one, *_) in below.items():
            raise JobcastError(
                f"{one.place}: {one.name} is under {printable(parent)[:40]!r}, which is no account of these files, or "
                "under itself; write the file again."
            )
        number = {(one.account, "", ""): i for i, one in enumerate(entries)}
        for one in given:
            if not one.user:
                continue
            if (one.account, "", "") not in number:
                raise JobcastError(f"{one.place}: {one.name}: there is no such account; write the file again.")
            number[one.account, one.user, one.partition] = len(entries)
            entries.append(one)
        return self._with_others(entries, number)

    def _with_others(
        self, entries: list[Association], number: dict[tuple[str, str, str], int]
    ) -> tuple[list[Association], Ints]:
        """Add an association for each user and account of the log that has none; return the one of each job, too."""
        first_of: dict[str, str] = {}
        for account, user, _ in number:
            first_of.setdefault(user, account)
        accounts, added, unknown = self._words("project", "group"), 0, 0
        found = np.full(len(self.log), NO_ACCOUNT)
        other_account = np.zeros(len(self.log), dtype=np.bool_)
        for row, (user, account, partition) in enumerate(zip(self.users, accounts, self.partitions, strict=True)):
            if not user:
                unknown += 1
                continue
            if (account, "", "") not in number:
                usual = self.accounts.default_account.get(user, first_of.get(user, ""))
                other_account[row] = bool(account)
                account = usual if (usual, "", "") in number else ROOT
            own = next((key for key in ((account, user, partition), (account, user, "")) if key in number), None)
            if own is None:
                own = account, user, ""
                number[own] = len(entries)
                one = Setting("Fairshare", "1", "")
                entries.append(Association(account, user, "", account, {"fairshare": one}, ""))
                added += 1
            found[row] = number[own]
        if added:
            text = f"users without an association got one: under their account, else under {ROOT}, with Fairshare=1"
            self.findings.append(Finding("slurm-users-added", "noted", text, added))
        if other_account.any():
            text = "their account is not in the files: they count under their user's account there"
            self.findings.append(Finding("slurm-unknown-account", "noted", text, int(other_account.sum())))
        if unknown:
            text = "the log does not tell their user: no fair-share, no limit of a user or an account"
            self.findings.append(Finding("slurm-unknown-user", "noted", text, unknown))
        return entries, found

    @property
    def user_of(self) -> Ints:
        """Entry of each job's user in the tree, or `NO_ACCOUNT`."""
        return self._places[1]

    def within(self, accounts: Sequence[str]) -> Bools:
        """Return which jobs are of some accounts, named in small letters, or of accounts below them."""
        entries, place = self._places
        inside: dict[str, bool] = {}
        for one in entries:  # accounts stand behind those above them
            if not one.user:
                inside[one.account] = one.account.lower() in accounts or inside.get(one.parent, False)
        return np.array([*(inside[one.account] for one in entries), False])[place]  # NO_ACCOUNT is the last

    def shares(self) -> Shares:
        entries, _ = self._places
        number = {one.account: i for i, one in enumerate(entries) if not one.user}

        def held(one: Association) -> int:
            told = one.settings.get("fairshare")
            if told is None:
                return 1
            value = told.value.lower()
            return OF_PARENT if value in ("parent", "2147483647") else whole_of(told)

        return Shares(
            np.array([-1] + [number[one.parent] for one in entries[1:]]),
            np.array([held(one) for one in entries]),
            np.array([bool(one.user) for one in entries]),
        )

    @cached_property
    def qos(self) -> list[str]:
        """The QOS of each job: the log's, else the default one of its user or account, else `normal`; "" for none."""
        entries, place = self._places
        above = {one.account: one for one in entries if not one.user}
        told, found = self._words("qos"), []
        usual: dict[int, str] = {}
        for i, one in enumerate(entries):
            at: Association | None = one
            while at is not None and "defaultqos" not in at.settings:
                at = above.get(at.parent if not at.user else at.account)
            name = "normal" if at is None else at.settings["defaultqos"].value
            usual[i] = name if name in self.accounts.qos else ""
        usual[NO_ACCOUNT] = usual[0]  # a job without a known user has that of the root
        unnamed = strange = 0
        for word, i in zip(told, place.tolist(), strict=True):
            unnamed += not word
            strange += bool(word) and word not in self.accounts.qos
            found.append(word if word in self.accounts.qos else usual[i])
        if unnamed and self.accounts.qos:
            text = "the log does not tell their QOS: the default one counts"
            self.findings.append(Finding("slurm-unnamed-qos", "noted", text, unnamed))
        if strange and self.accounts.qos:
            text = "their QOS is not in the files: the default one counts"
            self.findings.append(Finding("slurm-unknown-qos", "noted", text, strange))
        return found

    def flags(self, qos: str) -> set[str]:
        """Return the flags of a QOS, in small letters."""
        told = self.accounts.qos[qos].get("flags") if qos in self.accounts.qos else None
        return set() if told is None else {one.strip().lower() for one in told.value.split(",")}

    def priorities(self, normal: bool) -> Floats:
        """Return the factor of each job's QOS: its priority over the highest one, or the priority itself."""
        priority = {name: whole_of(row["priority"]) for name, row in self.accounts.qos.items() if "priority" in row}
        most = max([1, *priority.values()]) if normal else 1
        return np.array([priority.get(name, 0) / most for name in self.qos])

    def associated(self, normal: bool) -> Floats:
        """Return the factor of each job's association, as `priorities` does; without one it has that of the account."""
        entries, place = self._places
        number, found = {one.account: i for i, one in enumerate(entries) if not one.user}, [0]
        for i, one in enumerate(entries):
            told, above = one.settings.get("priority"), number.get(one.parent)
            found.insert(i, whole_of(told) if told is not None else 0 if above is None else found[above])
        most = max(1, *found) if normal else 1
        return np.array(found)[place] / most

    @cached_property
    def amounts(self) -> dict[str, Ints]:
        """What each job has of each trackable resource, see `amounts_of`."""
        return amounts_of(self.log, self.workload, self.nodes)

    def billed(self, flags: frozenset[str]) -> Floats:
        """Return what each job costs a second: its processors, or by its partition's TRESBillingWeights.

        By the flags the weighted resources are summed, or the largest counts; or that of those that are no GRES, and
        the sum of these.
        """
        found = self.workload.procs.astype(np.float64)
        partition = np.array(self.partitions, dtype=object)
        for name, row in self.conf.partitions.items():
            if "tresbillingweights" not in row:
                continue
            jobs, missing = partition == name, []
            parts: list[Any] = []
            summed: list[Any] = []
            for tres, weight in weights_of(row["tresbillingweights"]):
                if tres in self.amounts:
                    by_itself = "max_tres_gres" not in flags or not tres.startswith("gres/")
                    (parts if by_itself else summed).append(weight * self.amounts[tres])
                else:
                    missing.append(tres)
            if missing and jobs.any():
                text = f"partition {name}: the log does not tell {', '.join(missing)}, which are not billed"
                text += "" if parts or summed else ": processors are instead"
                self.findings.append(Finding("slurm-not-billed", "noted", text, int(jobs.sum())))
            if parts and flags & {"max_tres", "max_tres_gres"}:
                summed.append(np.max(parts, axis=0))
            else:
                summed += parts
            if summed:
                found[jobs] = np.sum(summed, axis=0)[jobs]
        usage: Floats = found * self.usage_factors
        return usage

    @cached_property
    def usage_factors(self) -> Floats:
        """The UsageFactor of each job's QOS."""
        factor = {q: number_of(row["usagefactor"]) for q, row in self.accounts.qos.items() if "usagefactor" in row}
        return np.array([factor.get(name, 1.0) for name in self.qos])

    def limits(self) -> Limits | None:
        """Return what holds jobs; None if Slurm enforces no limits, or there are none."""
        enforced = self._enforced()
        of_partitions = {row["qos"].value for row in self.conf.partitions.values() if "qos" in row}
        if unknown := sorted(of_partitions - self.accounts.qos.keys()):
            text = f"QOS of partitions that the files do not have, so that they limit nothing: {', '.join(unknown)}"
            self.findings.append(Finding("slurm-unknown-partition-qos", "noted", text, len(unknown)))
        named = any(key in _LIMITS_OF_QOS | {"flags"} for row in self.accounts.qos.values() for key in row)
        named |= any({*_OF_GROUPS, *_INHERITED} & one.settings.keys() for one in self.accounts.associations)
        if not enforced & _ENFORCING:
            if named:
                text = f"{self.conf.source}: AccountingStorageEnforce does not name limits: they hold no job"
                self.findings.append(Finding("slurm-limits-off", "noted", text))
            return None
        return _Limits(self, is_safe=bool(enforced & _SAFE)).made()

    def _enforced(self) -> set[str]:
        """Return what Slurm enforces, in its own words."""
        found = self.conf.settings.get("accountingstorageenforce")
        words = set() if found is None else {one.strip().lower() for one in found.value.split(",")}
        if found is not None and (odd := sorted(words - _ENFORCED)):
            raise JobcastError(
                f"{found.place}: AccountingStorageEnforce={printable(found.value)[:40]}: Slurm knows no "
                f"{printable(odd[0])[:40]!r} and does not start; name some of {', '.join(sorted(_ENFORCED))}."
            )
        return words

    def unused(self, also_used: frozenset[str] = frozenset()) -> Iterator[Finding]:
        """Give what of the files is read and not used; of QOS some more settings may be."""
        own = {key: one.name for row in self.accounts.associations for key, one in row.settings.items()}
        of_qos = {key: one.name for row in self.accounts.qos.values() for key, one in row.items() if one.value != "0"}
        for what, keys, used in (
            ("associations", own, USED_OF_ASSOCIATIONS), ("qos", of_qos, USED_OF_QOS | also_used),
        ):  # fmt: skip
            names = sorted(name for key, name in keys.items() if key not in used | _NAMES)
            if names:
                text = f"{what}: read, and not used by the policy: {', '.join(names)}"
                yield Finding(f"slurm-unused-of-{what}", "noted", text, len(names))
        flags = sorted({flag for name in self.accounts.qos for flag in self.flags(name)} - _FLAGS)
        if flags:
            text = f"flags of QOS: read, and not used by the policy: {', '.join(flags)}"
            yield Finding("slurm-unused-flags", "noted", text, len(flags))


def amounts_of(log: JobLog, workload: Workload, nodes: Ints) -> dict[str, Ints]:
    """Return what each job has of each trackable resource, by its name in Slurm, as far as the log tells."""
    table = {"cpu": workload.procs, "node": nodes}
    for tres, column, unit in (("gres/gpu", "requested_gpus", 1), ("mem", "requested_job_memory", 1024)):
        if log.known(column).any():
            table[tres] = np.maximum(0, log.filled(column)) // unit
    return table


def weights_of(told: Setting) -> Iterator[tuple[str, float]]:
    """Give trackable resources and the weight of one of each: memory a MB."""
    for part in told.value.split(","):
        match = re.fullmatch(r"\s*([\w/:.-]+)=(\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})([KMGT]?)\s*", part, re.IGNORECASE)
        if match is None:
            raise JobcastError(
                f"{told.place}: {told.name} is a list such as CPU=1.0,Mem=0.25G; found {printable(told.value)[:40]!r}."
            )
        unit = {"": 1.0, "K": 2.0**10, "M": 1.0, "G": 2.0**-10, "T": 2.0**-20}[match[3].upper()]
        yield match[1].lower(), float(match[2]) * unit


def _parts(codes: Ints) -> list[Ints]:
    """Return the places of equal codes, ascending, one array a code."""
    if not len(codes):
        return []
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


class _Limits:
    def __init__(self, owners: Owners, is_safe: bool) -> None:
        self.owners, self.is_safe = owners, is_safe
        part_qos = {name: row["qos"].value for name, row in owners.conf.partitions.items() if "qos" in row}
        of_partition = np.array([part_qos.get(name, "") for name in owners.partitions], dtype=object)
        of_jobs = np.array(owners.qos, dtype=object)
        names, codes = np.unique(np.concatenate([of_jobs, of_partition]), return_inverse=True)
        self.qos_names: list[str] = names.tolist()
        self.qos_of, self.part_qos_of = np.split(codes, 2)
        over = np.array(["overpartqos" in owners.flags(name) for name in self.qos_names], dtype=np.bool_)[self.qos_of]
        self.first = np.where(over, self.qos_of, self.part_qos_of)
        self.second = np.where(over, self.part_qos_of, self.qos_of)
        entries, place = owners._places
        self.entries, self.place = entries, place
        self.user_names, self.user_of = np.unique(np.array(owners.users, dtype=object), return_inverse=True)
        accounts = np.array([*(one.account for one in entries), ""], dtype=object)  # NO_ACCOUNT is the last
        self.account_names, self.account_of = np.unique(accounts, return_inverse=True)
        self.account_of = self.account_of[place]
        factor = owners.usage_factors
        safe = np.array(["usagefactorsafe" in owners.flags(name) for name in self.qos_names], dtype=np.bool_)
        self.minutes = np.maximum(1, -(-owners.workload.requested // 60))
        self.minutes = np.where(safe[self.qos_of], np.floor(self.minutes * factor).astype(np.int64), self.minutes)
        self.all = LimitsBeingMade()
        self.too_large = 0
        self.closed: list[str] = []  # limits of 0
        self.contrary: list[str] = []
        self.untold: set[str] = set()
        self.set_by: dict[tuple[str, str | None], Bools] = {}

    def made(self) -> Limits:
        n = len(self.place)
        for qos, row in self.owners.accounts.qos.items():
            self._of_qos(qos, row)
        self._of_associations()
        unreserved = np.array(["noreserve" in self.owners.flags(name) for name in self.qos_names], dtype=np.bool_)
        findings = self.owners.findings
        if self.contrary:
            text = f"no job keeps to both limits: {'; '.join(self.contrary)}"
            findings.append(Finding("slurm-contrary-limits", "noted", text, len(self.contrary)))
        if self.closed:
            text = f"let no job start; the simulation ignores them: {'; '.join(self.closed)}"
            findings.append(Finding("slurm-limits-of-0", "noted", text, len(self.closed)))
        if self.too_large:
            text = "exceed a limit on their own; Slurm would never start them; the simulation ignores the limit"
            findings.append(Finding("slurm-beyond-limit", "noted", text, self.too_large))
        if self.untold:
            text = f"limits on {', '.join(sorted(self.untold))}: the log does not tell what jobs have of them"
            findings.append(Finding("slurm-limits-untold", "noted", text, len(self.untold)))
        return self.all.done(n, unreserved[self.qos_of])

    def _setting(self, key: str, tres: str | None) -> Bools:
        """Return which QOS set a limit, by number."""
        if (key, tres) not in self.set_by:
            rows = (self.owners.accounts.qos.get(name, {}) for name in self.qos_names)
            self.set_by[key, tres] = np.array(
                [key in row and (tres is None or tres in tres_of(row[key])) for row in rows], dtype=np.bool_
            )
        return self.set_by[key, tres]

    def _free(self, key: str, tres: str | None, rows: Ints) -> Bools:
        """Return which jobs' QOS set no such limit: then that of the association holds them."""
        sets = self._setting(key, tres)
        return ~(sets[self.qos_of[rows]] | sets[self.part_qos_of[rows]])

    @staticmethod
    def _wanted(told: Setting, by_resource: bool) -> dict[str | None, float]:
        """Return the most of each resource; of jobs, under None."""
        if by_resource:
            return dict(tres_of(told).items())
        return {None: float(whole_of(told))}

    def _amounts(self, tres: str | None) -> Ints | None:
        found = np.ones(len(self.place), dtype=np.int64) if tres is None else self.owners.amounts.get(tres)
        if found is None:
            self.untold.add(str(tres))
        return found

    def _add(self, key: str, name: str, most: float, rows: Ints, amounts: Ints, holds: Bools, decays: bool) -> None:
        """Add a limit for the jobs in some rows; `holds` has one entry a row."""
        if not rows.size:
            return
        kind: Kind = "at a time"
        rates: Floats | None = None
        amounts = amounts[rows]
        if "submit" in key:
            kind = "submitted"
        elif "mins" in key:
            kind = "planned" if "run" in key else "safe" if self.is_safe else "spent"
            amounts, rates = amounts * self.minutes[rows], amounts * self.owners.usage_factors[rows]
        if int(most) == 0 and kind != "submitted" and (holds & (amounts > 0)).any():
            self.closed.append(name)
        self.too_large += self.all.add(name, int(most), rows, amounts, holds, kind, rates, decays)

    def _of_qos(self, qos: str, row: Mapping[str, Setting]) -> None:
        number = self.qos_names.index(qos) if qos in self.qos_names else -1  # one without jobs is read, too
        rows = np.flatnonzero((self.qos_of == number) | (self.part_qos_of == number))
        scopes: dict[str, tuple[Any, Ints] | None] = dict.fromkeys(_OF_GROUPS)
        scopes |= dict.fromkeys(_OF_USERS, (self.user_names, self.user_of))
        scopes |= dict.fromkeys(_OF_ACCOUNTS, (self.account_names, self.account_of))
        decays = "nodecay" not in self.owners.flags(qos)
        for key, scope in scopes.items():
            if key not in row:
                continue
            told = row[key]
            for tres, most in self._wanted(told, "tres" in key).items():
                amounts = self._amounts(tres)
                if amounts is None:
                    continue
                first, second = self.first[rows], self.second[rows]
                holds = np.where(self._setting(key, tres)[first], first, second) == number
                text = f"QOS {qos}: {told.name}={told.value}"
                if scope is None:
                    self._add(key, text, most, rows, amounts, holds, decays)
                    continue
                names, codes = scope
                for part in _parts(codes[rows]):
                    if one := names[codes[rows[part[0]]]]:
                        self._add(key, f"{text} ({one})", most, rows[part], amounts, holds[part], decays)
        if "mintres" in row and "maxtresperjob" in row:
            least, most_of = tres_of(row["mintres"]), tres_of(row["maxtresperjob"])
            self.contrary += [
                f"QOS {qos}: {tres} is at least {least[tres]:,.0f} and at most {most_of[tres]:,.0f}"
                for tres in sorted(least.keys() & most_of.keys())
                if least[tres] > most_of[tres]
            ]
        for key in _OF_JOBS:
            if key in row:
                self.too_large += int(self._beyond(row[key], key)[rows].sum())

    def _beyond(self, told: Setting, key: str) -> Bools:
        """Return which jobs alone are beyond a limit on one job."""
        if key == "maxwall":
            return self.owners.workload.requested > seconds_of(told, may_be_0=True)
        found = np.zeros(len(self.place), dtype=np.bool_)
        for tres, most in tres_of(told).items():
            amounts = self._amounts(tres)
            if amounts is not None:
                found |= amounts * (self.minutes if "mins" in key else 1) > most
        return found

    def _of_associations(self) -> None:
        number = {one.account: i for i, one in enumerate(self.entries) if not one.user}
        inside: dict[int, list[Ints]] = {}
        owned = np.flatnonzero(self.place >= 0)
        for part in _parts(self.place[owned]):
            at = int(self.place[owned[part[0]]])
            while at >= 0:
                inside.setdefault(at, []).append(owned[part])
                one = self.entries[at]
                at = number[one.parent] if one.parent and at else -1
        for i, one in enumerate(self.entries):
            if i in inside:
                self._of_association(one, np.sort(np.concatenate(inside[i])), number)

    def _of_association(self, one: Association, rows: Ints, number: dict[str, int]) -> None:
        for key in _OF_GROUPS:
            if key in one.settings:
                self._claims(one, key, one.settings[key], rows, key)
        if not one.user:
            return
        inherited: dict[str, Setting] = {}
        at: Association | None = one
        while at is not None:
            inherited = {k: v for k, v in at.settings.items() if k in _INHERITED} | inherited
            at = self.entries[number[at.parent]] if at.parent else None
        if "maxjobs" in inherited:
            self._claims(one, "maxjobs", inherited["maxjobs"], rows, "maxjobsperuser", "maxjobsperaccount")
        if "maxsubmitjobs" in inherited:
            of_qos = "maxsubmitjobsperuser", "maxsubmitjobsperaccount"
            self._claims(one, "maxsubmitjobs", inherited["maxsubmitjobs"], rows, *of_qos)
        for key in _OF_JOBS:
            if key in inherited:
                self.too_large += int((self._beyond(inherited[key], key)[rows] & self._free(key, None, rows)).sum())

    def _claims(self, one: Association, key: str, told: Setting, rows: Ints, *of_qos: str) -> None:
        """Add a limit of an association; it holds the jobs with a QOS that sets none of these kinds."""
        for tres, most in self._wanted(told, "tres" in key).items():
            amounts = self._amounts(tres)
            if amounts is None:
                continue
            holds = np.logical_and.reduce([self._free(kind, tres, rows) for kind in of_qos])
            self._add(key, f"{one.name}: {told.name}={told.value}", most, rows, amounts, holds, decays=True)
