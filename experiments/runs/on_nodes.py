"""A log made ready for a machine of nodes: jobs with a place, what it lacks, and which cases can plan there."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.runs.simulate import policy_named
from predictors.core.errors import JobcastError
from predictors.data.joblog import JobLog
from predictors.data.report import ReadingReport
from predictors.data.summary import Lack, Prepared, lacks_for_schedules, prepare
from schedsim.machine.node_groups import Machine, NodeGroup, demands_of
from schedsim.policies.policy import Policy
from schedsim.policies.traits import NODES, clash, refuse


def processors(procs: int | None, nodes: Machine | None) -> int | None:
    """Return the processors of the machine: as its nodes have, else as asked for.

    Examples
    --------
    >>> from schedsim.machine.node_groups import NodeGroup
    >>> processors(None, Machine((NodeGroup("thin", 2, 8),))), processors(7, None)
    (16, 7)
    """
    if nodes is None or procs == nodes.procs:
        return procs
    if procs is not None:
        raise JobcastError(
            f"--procs {procs}, but the nodes of {nodes.source} have {nodes.procs:,} processors; leave --procs out."
        )
    return nodes.procs


def without_no_queue(lacks: Iterable[Lack], nodes: Machine | None) -> tuple[Lack, ...]:
    """Return what a log lacks; on nodes jobs may wait for GPUs or memory though all processors together suffice."""
    return tuple(lack for lack in lacks if nodes is None or lack.name != "no-queue")


@dataclass(frozen=True, eq=False)
class Ready:
    """A log's jobs that can be simulated on a machine."""

    prepared: Prepared  # the log as it is for processors alone
    used: JobLog  # the jobs that have a place
    account: ReadingReport  # what was left out or made, without what reading left out
    left_out: ReadingReport  # the part of it that the nodes make
    nodes: Machine | None  # the machine; None: its processors count alone

    def lacks(self, kill: bool = True) -> tuple[Lack, ...]:
        """Return what the log lacks for simulations on the machine."""
        if self.nodes is None:
            return self.prepared.lacks(kill)
        found = lacks_for_schedules(self.prepared.log, self.used, self.prepared.cleaning + self.left_out, kill)
        return without_no_queue((*self.prepared.unread, *found), self.nodes)


def ready_for(
    nodes: Machine | None,
    log: JobLog,
    procs: int | None = None,
    drop_wide: bool = False,
    partition: str | int | None = None,
    requests_from: str | None = None,
    reading: ReadingReport | None = None,
) -> Ready:
    """Return a log's jobs that can be simulated on nodes, or on as many processors; parameters as of `prepare`."""
    prepared = prepare(log, processors(procs, nodes), drop_wide, partition, requests_from, reading)
    if nodes is None:
        return Ready(prepared, prepared.used, prepared.account, ReadingReport(log.name), None)
    used, _, left = demands_of(prepared.used, nodes, drop_wide)
    return Ready(prepared, used, (prepared.account + left).using(len(used)), left, nodes)


def nodes_told(logs: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the fact of a page on which nodes the logs of a sweep have, from what is kept of them; {} if none has.

    Examples
    --------
    >>> thin = {"name": "thin", "count": 2, "processors": 8, "partitions": []}
    >>> nodes_told([{"name": "site", "machine": {"nodes": [thin]}}, {"name": "other"}])
    {'nodes': 'site: thin: count 2, processors 8'}
    """
    found = []
    for log in logs:
        groups = log.get("machine", {}).get("nodes", ())
        words = (NodeGroup(**{**group, "partitions": tuple(group["partitions"])}).words for group in groups)
        found += [f"{log['name']}: {'; '.join(words)}"] if groups else []
    return {"nodes": ", ".join(found)} if found else {}


def goes_on(nodes: Machine | None, policy: str, rule: Policy | None = None) -> bool:
    """Return whether a policy can plan on this machine: on nodes some count processors alone.

    Examples
    --------
    >>> from schedsim.machine.node_groups import NodeGroup
    >>> machine = Machine((NodeGroup("thin", 2, 8),))
    >>> [goes_on(machine, name) for name in ("easy", "knapsack")], goes_on(None, "knapsack")
    ([True, False], True)
    """
    return nodes is None or clash({*(policy_named(policy) if rule is None else rule).traits, NODES}) is None


def check_goes_on(nodes: Machine | None, case: str, policy: str, rule: Policy | None = None) -> None:
    """Refuse a case with a policy that cannot plan on this machine."""
    if nodes is not None:
        refuse({*(policy_named(policy) if rule is None else rule).traits, NODES}, f"Case {case!r}: ")
