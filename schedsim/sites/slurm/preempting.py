"""What a site's files say of preemption, by QOS or by partition, for the jobs of a log."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Final

import numpy as np

from predictors.core.arrays import Bools, Ints
from predictors.core.errors import JobcastError, printable
from predictors.data.report import Finding
from predictors.data.slurm.conf import Setting, SlurmConf, seconds_of, whole_of
from schedsim.sites.slurm.accounts import Owners
from schedsim.sites.slurm.factors import number_of_partition
from schedsim.sites.slurm.preemption.rule import CRED_EXPIRE, Preemption

USED: Final = frozenset(
    ("preempttype", "preemptmode", "preemptexempttime", "preemptparameters", "jobrequeue", "authinfo")
)
USED_OPTIONS: Final = frozenset(
    ("requeue_delay", "preempt_reorder_count", "preempt_strict_order", "preempt_youngest_first")
)
USED_OF_PARTITIONS: Final = frozenset(("nodes", "preemptmode", "gracetime"))
USED_OF_QOS: Final = frozenset(("preempt", "preemptmode", "preemptexempttime", "gracetime"))
MOST_PRIORITY: Final = 0xFFFF  # of a QOS that counts in the order of candidates
MOST_HOSTS: Final = 1 << 20
MOST_DELAY: Final = 366 * 86_400  # [s]
_TYPES: Final = ("preempt/none", "preempt/qos", "preempt/partition_prio")
_MODES: Final = ("off", "cancel", "requeue")


@dataclass(frozen=True, eq=False)
class Preempting:
    """What a site's files say of preemption for the jobs of a log."""

    conf: SlurmConf
    by_qos: bool
    mode: str  # of the cluster, one of `_MODES`
    partition_of: list[str]  # the partitions of each job as the log names them, "" for none
    qos_of: list[str]  # the QOS of each job, "" for none
    qos: Mapping[str, Mapping[str, Setting]]  # settings of each QOS
    over_partition: frozenset[str]  # QOS that come before that of the partition

    @classmethod
    def of(cls, conf: SlurmConf, partition_of: list[str], owners: Owners | None) -> "Preempting | None":
        """Return it; None where no job is stopped for another one."""
        kind = conf.settings.get("preempttype")
        if kind is not None and kind.value.lower() not in _TYPES:
            raise JobcastError(
                f"{kind.place}: PreemptType is one of {', '.join(_TYPES)} here; found {printable(kind.value)[:40]!r}."
            )
        mode = _mode(conf.settings.get("preemptmode"), "off")
        if (mode == "off") != (kind is None or kind.value.lower() == _TYPES[0]):
            place = (kind or conf.settings["preemptmode"]).place
            raise JobcastError(
                f"{place}: PreemptType={_TYPES[0] if kind is None else kind.value} and PreemptMode="
                f"{conf.text('PreemptMode', 'OFF').upper()} do not go together: Slurm does not start; name both, or "
                "neither."
            )
        if kind is None or kind.value.lower() == _TYPES[0] or mode == "off":
            return None
        n, by_qos = len(partition_of), kind.value.lower() == _TYPES[1]
        if owners is None:
            return cls(conf, by_qos, mode, partition_of, [""] * n, {}, frozenset())
        qos = owners.accounts.qos
        over = frozenset(name for name in qos if "overpartqos" in owners.flags(name))
        return cls(conf, by_qos, mode, partition_of, owners.qos, qos, over)

    def findings(self) -> Iterator[Finding]:
        """Give what of the files changes nothing."""
        if self.by_qos and not self.qos:
            text = f"{self.conf.source}: preemption by QOS needs the QOS: name the file of `sacctmgr -P show qos`"
            yield Finding("slurm-preempts-nothing", "noted", text)
        unknown = sorted({other for row in self.qos.values() for other in _names(row)} - self.qos.keys())
        if self.by_qos and unknown:
            text = f"QOS that others preempt and the files do not have: {', '.join(unknown)}"
            yield Finding("slurm-unknown-qos-to-preempt", "noted", text, len(unknown))

    def _refuse_circles(self) -> None:
        graph = {name: [one for one in _names(row) if one in self.qos] for name, row in self.qos.items()}
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circle = error.args[1][:0:-1]  # each preempts the next
            first = circle.index(min(circle))
            circle = [*circle[first:], *circle[: first + 1]]
            raise JobcastError(
                f"{self.qos[circle[0]]['preempt'].place}: QOS preempt one another in a circle: "
                f"{' > '.join(map(printable, circle))}; take one of them out of a Preempt list."
            ) from error

    def preemption(self, tier: Ints, nodes: Ints) -> Preemption:
        """Return which jobs may stop which others, by the tier and the number of nodes of each."""
        pairs = list(zip(self.qos_of, self.partition_of, strict=True))
        classes = {pair: i for i, pair in enumerate(sorted(set(pairs)))}
        class_of = np.array([classes[pair] for pair in pairs], dtype=np.int64)
        first = np.unique(class_of, return_index=True)[1]
        tiers: dict[tuple[str, str], int] = dict(zip(classes, tier[first].tolist(), strict=True))
        hosts = {partition: self._hosts(partition) for _, partition in classes}
        modes = {pair: self._mode_of(pair, tiers[pair]) for pair in classes}
        if self.by_qos:
            self._refuse_circles()

        def precedes(one: tuple[str, str], other: tuple[str, str]) -> bool:
            if self.by_qos:
                return one[0] != other[0] and other[0] in _names(self.qos.get(one[0], {}))
            return tiers[one] > tiers[other]

        def may(one: tuple[str, str], other: tuple[str, str]) -> bool:
            here, there = hosts[one[1]], hosts[other[1]]
            shares_nodes = here is None or there is None or not here.isdisjoint(there)
            return modes[other] != "off" and shares_nodes and precedes(one, other)

        def table(rule: Callable[[tuple[str, str], tuple[str, str]], bool]) -> Bools:
            return np.array([[rule(one, other) for other in classes] for one in classes], dtype=np.bool_)

        ranks = {pair: self._rank_of(pair[0]) if self.by_qos else tiers[pair] for pair in classes}
        exempt = {pair: self._exempt_of(pair) for pair in classes}
        requeues = self.conf.whole("JobRequeue", 1) > 0
        gone = {pair: not requeues or modes[pair] == "cancel" for pair in classes}
        options = self.conf.options("PreemptParameters")
        own = self.conf.options("SchedulerParameters")
        return Preemption(
            class_of,
            table(may),
            np.array([ranks[pair] for pair in pairs], dtype=np.int64),
            nodes,
            np.array([exempt[pair] for pair in pairs], dtype=np.int64),
            np.array([gone[pair] for pair in pairs], dtype=np.bool_),
            delay=1 + self._number(own, "SchedulerParameters", "requeue_delay", self._expires(), MOST_DELAY),
            reorders=self._number(options, "PreemptParameters", "reorder_count", self._reorders(own), 1_000_000),
            strict="strict_order" in options or "preempt_strict_order" in own,
            youngest="youngest_first" in options or "preempt_youngest_first" in own,
            precedes=table(precedes),
        )

    def _expires(self) -> int:
        return self._number(self.conf.options("AuthInfo"), "AuthInfo", "cred_expire", CRED_EXPIRE, MOST_DELAY)

    def _reorders(self, own: Mapping[str, str]) -> int:
        return self._number(own, "SchedulerParameters", "preempt_reorder_count", 1, 1_000_000)

    def _number(self, options: Mapping[str, str], parameter: str, name: str, usual: int, most: int) -> int:
        value = options.get(name, str(usual))
        if not value.isascii() or not value.isdigit() or len(value) > 10 or int(value) > most:
            place = self.conf.settings[parameter.lower()].place
            raise JobcastError(f"{place}: {name} is 0 to {most:,}; found {printable(value)[:40]!r}.")
        return int(value)

    def _rows(self, partition: str) -> list[tuple[str, Mapping[str, Setting]]]:
        """Return the partitions that a job names, as far as the slurm.conf has them."""
        several = [one.strip() for one in partition.split(",")]
        return [(one, self.conf.partitions[one]) for one in several if one in self.conf.partitions]

    def _hosts(self, partition: str) -> frozenset[str] | None:
        """Return the names of the nodes of a job's partitions; None for all."""
        found: set[str] = set()
        rows = self._rows(partition)
        for name, row in rows:
            nodes = row.get("nodes")
            if nodes is None or not nodes.value:
                place = self.conf.source if nodes is None else nodes.place
                raise JobcastError(
                    f"{place}: PartitionName={printable(name)[:40]} has no nodes, and jobs preempt those on the same "
                    "nodes: give it Nodes=, such as Nodes=ALL."
                )
            own = self.conf.hosts(name)
            if own is None:
                return None
            if len(own) > MOST_HOSTS:
                raise JobcastError(
                    f"{nodes.place}: Nodes names at most {MOST_HOSTS:,} nodes where jobs preempt others; found "
                    f"{len(own):,}. Write Nodes=ALL if it has all."
                )
            found |= own
        return frozenset(found) if rows else None

    def _mode_of(self, pair: tuple[str, str], tier: int) -> str:
        """Return what happens to a job that is stopped, by its QOS or by its partition of that tier."""
        if self.by_qos:
            row = self.qos.get(pair[0], {})
            self._refuse_grace(row)
            own = _mode(row.get("preemptmode"), "off")
            return self.mode if own == "off" else own  # Slurm takes OFF of a QOS for the cluster's mode, too
        mode = self.mode
        for _, row in self._rows(pair[1]):
            self._refuse_grace(row)
            if number_of_partition(row, "prioritytier") == tier:
                mode = _mode(row.get("preemptmode"), self.mode)
        return mode

    @staticmethod
    def _refuse_grace(row: Mapping[str, Setting]) -> None:
        found = row.get("gracetime")
        if found is not None and seconds_of(found, may_be_0=True) > 0:
            raise JobcastError(
                f"{found.place}: GraceTime={printable(found.value)[:40]}: jobs are stopped at once; set GraceTime=0."
            )

    def _rank_of(self, qos: str) -> int:
        found = self.qos.get(qos, {}).get("priority")
        return 0 if found is None else min(MOST_PRIORITY, whole_of(found))

    def _exempt_of(self, pair: tuple[str, str]) -> int:
        """Return how long a job runs at least: by the QOS of its partition, else its own, else by the cluster."""
        own, others = pair[0], [row["qos"].value for _, row in self._rows(pair[1]) if "qos" in row]
        for name in (own, *others) if own in self.over_partition else (*others, own):
            found = self.qos.get(name, {}).get("preemptexempttime")
            if found is not None:
                return seconds_of(found, may_be_0=True)
        found = self.conf.settings.get("preemptexempttime")
        return 0 if found is None or found.value == "-1" else self.conf.seconds("PreemptExemptTime", 0, may_be_0=True)


def _names(row: Mapping[str, Setting]) -> list[str]:
    """Return the QOS that a QOS preempts."""
    found = row.get("preempt")
    return [] if found is None else [one.strip() for one in found.value.split(",") if one.strip()]


def _mode(found: Setting | None, usual: str) -> str:
    if found is None:
        return usual
    mode = found.value.strip().lower()
    mode = "off" if mode == "cluster" else mode
    if mode not in _MODES:
        raise JobcastError(
            f"{found.place}: PreemptMode={printable(found.value)[:40]}: jobs are stopped by REQUEUE or CANCEL here, "
            "not suspended (SUSPEND, GANG), and not by priorities (WITHIN, PRIORITY); take one of these, or OFF. Older "
            "Slurms have KILL for CANCEL, and CHECKPOINT, for which there is none any more."
        )
    return mode
