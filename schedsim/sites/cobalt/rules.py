"""A site's rules as the kernels read them: queues, scores, dependencies, accounts and commands."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

import schedsim.kernels.records as at
from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError
from schedsim.kernels.keys import SCORE
from schedsim.kernels.records import Account, NodeSet, Records, SiteJob, State
from schedsim.machine.allocators import Allocator
from schedsim.machine.partitions import Within
from schedsim.policies import traits
from schedsim.policies.policy import Policy
from schedsim.sites.cobalt.accounts import PROGRAMS, Accounts
from schedsim.sites.cobalt.commands import Command
from schedsim.sites.cobalt.queues import Queue, Router
from schedsim.sites.cobalt.score import Score
from schedsim.workload.dependencies import Dependencies
from schedsim.workload.workload import Workload

ONE_QUEUE: Final = Router((Queue("jobs"),))


@dataclass(frozen=True, eq=False)
class Rules:
    """A site's rules. Each part works alone and with any policy; scores matter where a policy orders by them.

    >>> from schedsim.engine.simulation import simulate
    >>> from schedsim.policies.policy import make_policy
    >>> from schedsim.sites.cobalt.queues import Queue
    >>> from schedsim.workload.workload import Workload
    >>> w = Workload.from_columns([1, 2, 3], submit=[0, 1, 2], procs=[8, 2, 2], requested=[50, 900, 900],
    ...                           run_time=[50, 900, 900], machine_procs=8)
    >>> queues = Router((Queue("wide", least_procs=3), Queue("long", most_procs=2, share=2)))
    >>> simulate(w, make_policy("cobalt"), rules=Rules(queues)).start.tolist()  # one long job at a time
    [0, 50, 950]
    >>> after = Dependencies(child=np.array([2]), parent=np.array([3]), think=np.array([60]))
    >>> simulate(w, make_policy("easy"), rules=Rules(dependencies=after)).start.tolist()
    [0, 1010, 50]
    """

    router: Router = ONE_QUEUE
    score: Score = field(default_factory=Score)
    dependencies: Dependencies | None = None
    accounts: Accounts | None = None
    commands: tuple[Command, ...] = ()

    def routes(self, workload: Workload) -> Ints:
        """Return the number of each job's queue."""
        found = self.router.route(workload.procs, workload.requested)
        if (found < 0).any():
            row = int(np.argmax(found < 0))
            raise JobcastError(
                f"{workload.name}: no queue takes job {workload.job_id[row]} with {workload.procs[row]} processors for "
                f"{workload.requested[row]} s; add a queue that does, or leave such jobs out."
            )
        share = np.array([workload.machine_procs if q.share is None else q.share for q in self.router.queues])[found]
        if (workload.procs > share).any():
            row = int(np.argmax(workload.procs > share))
            raise JobcastError(
                f"{workload.name}: job {workload.job_id[row]} has {workload.procs[row]} processors, more than the "
                f"{share[row]} that its queue {self.router.queues[found[row]].name!r} may use; give the queue a width."
            )
        return found

    def serves(self, workload: Workload) -> Ints:
        """Return the number of the queue in which each job waits: as routed, or behind all if its account is spent."""
        queue = self.routes(workload)
        if self.accounts is None or self.router.behind < 0:
            return queue
        spent = np.array([*(project.spent >= project.granted for project in self.accounts.projects), False])
        return np.where(spent[self.accounts.rows(workload)], self.router.behind, queue)

    @property
    def node_set(self) -> Ints:
        """The number of each queue's node set; -1 where its jobs may use all nodes."""
        limited = np.array([queue.share is not None for queue in self.router.queues])
        return np.where(limited, np.cumsum(limited) - 1, -1)

    def node_sets(self) -> Records[NodeSet]:
        """Return the initial node sets for the kernels."""
        shares = [queue.share for queue in self.router.queues if queue.share is not None]
        return np.array([(share, 0, -1, 0, 0) for share in shares], at.NODE_SET)  # type: ignore[return-value]

    def ledger(self) -> Records[Account]:
        """Return the initial accounts for the kernels."""
        projects = () if self.accounts is None else self.accounts.projects
        begun = [
            (round(p.spent * 3600), round(p.granted * 3600), PROGRAMS[p.program].once_spent == "blocked", False)
            for p in projects
        ]
        return np.array(begun, at.ACCOUNT)  # type: ignore[return-value]

    def weights(self, workload: Workload) -> Floats:
        """Return the weight of each job's project."""
        if self.accounts is None:
            return np.ones(len(workload))
        weights = np.array([*(project.weight for project in self.accounts.projects), 1.0])
        return np.asarray(weights[self.accounts.rows(workload)])

    def table(self, workload: Workload) -> Records[SiteJob]:
        """Return the rules' columns of each job for the kernels."""
        table: Records[SiteJob] = np.zeros(len(workload), at.SITE_JOB)  # type: ignore[assignment]
        for column in ("parent", "first_child", "next_child", "account"):
            table[column] = -1
        routed = self.routes(workload)
        table["queue_number"] = routed
        table["node_set"] = self.node_set[routed]
        table["may_overburn"] = np.array([queue.capability for queue in self.router.queues])[routed]
        if self.accounts is not None:
            project = self.accounts.rows(workload)
            table["account"] = np.where(project < 0, -1, project)
            begins = np.array([*(each.begins_with for each in self.accounts.projects), 0.0])
            table["start_score"] = begins[project]
        asked = workload.procs if workload.asked_procs is None else workload.asked_procs
        table["score_gain"] = self.score.growth(
            asked, workload.requested, workload.machine_procs, self.weights(workload)
        )
        self._link(table, workload)
        self._hold_from_start(table, workload)
        table.flags.writeable = False
        return table

    def _link(self, table: Records[SiteJob], workload: Workload) -> None:
        """Write the dependencies: each job's parent, its first child, and the next child of the same parent."""
        if self.dependencies is None:
            return
        parents, think = self.dependencies.rows(workload)
        table["parent"] = parents
        table["think_time"] = think
        table["fails"] = np.isin(workload.job_id, list(self.dependencies.failed))
        for row in np.flatnonzero(parents >= 0)[::-1].tolist():
            parent = int(parents[row])
            table[row].next_child = table[parent].first_child
            table[parent].first_child = row
            table[parent].n_later_children += row > parent

    def _hold_from_start(self, table: Records[SiteJob], workload: Workload) -> None:
        place = {job: row for row, job in enumerate(workload.job_id.tolist())}
        for command in self.commands:
            if command.action == "big-run":
                continue
            if command.job not in place:
                raise JobcastError(
                    f"{workload.name} has no job {command.job}, on which {command.action!r} comes at {command.time} s."
                )
            row = place[command.job]
            if command.time > workload.submit[row]:
                continue
            if command.action != "hold" or command.time < workload.submit[row]:
                raise JobcastError(
                    f"Job {command.job} is submitted at {workload.submit[row]} s; {command.action!r} comes at "
                    f"{command.time} s, too early."
                )
            table[row].on_hold = True

    def ticking(self, policy: Policy) -> int:
        """Return the kernels' code of the ticks at which a pass might start a job under a policy; 0: none."""
        if SCORE not in (policy.order.code, policy.backfill_order.code):
            return 0
        if (
            policy.gate is not None
            or policy.agent is not None
            or policy.postpone is not None
            or policy.kind in ("compress", "knapsack", "loops")
        ):
            return at.AT_EVERY_TICK
        if policy.kind == "profile":
            return at.AT_EVERY_TICK if policy.promise else at.AT_NEW_ORDERS
        return at.AT_NEW_HEADS if policy.order.code == SCORE else at.AT_EVERY_TICK

    @property
    def traits(self) -> frozenset[str]:
        """What decides which other parts they combine with, see `schedsim.policies.traits`."""
        given = {
            traits.SHARES: bool((self.node_set >= 0).any()),
            traits.ACCOUNTS: self.accounts is not None or bool(self.commands),
            traits.ALTERED: any(command.action == "alter" for command in self.commands),
        }
        return frozenset({traits.RULES, *(trait for trait, holds in given.items() if holds)})

    def write(self, record: State, policy: Policy) -> None:
        """Write the rules into the state of a simulation."""
        record.site.ticking = self.ticking(policy)
        record.site.tick = self.score.tick
        record.site.inherited_share = self.score.heirs_share
        record.site.holds_orphans = self.dependencies is not None and self.dependencies.on_failure == "hold"
        record.site.spent_queue = self.router.behind


def within_shares(allocator: Allocator, rules: Rules, workload: Workload) -> Allocator:
    """Return an allocator that keeps the jobs of a queue with a share to that many nodes at the end of the machine.

    So shares hold by identity too. Without queues with a share, or without node numbers, the allocator does not change.
    """
    number = {i: queue.share for i, queue in enumerate(rules.router.queues) if queue.share is not None}
    if not number or not allocator.by_identity:
        return allocator
    nodes, queue = allocator.topology.nodes, rules.routes(workload).tolist()
    place = {i: rank for rank, i in enumerate(number)}
    jobs = zip(workload.job_id.tolist(), queue, strict=True)
    pieces = tuple(((nodes - share, nodes),) for share in number.values())
    return Within(allocator, pieces, {job: place[i] for job, i in jobs if i in place})


def rules_for(policy: Policy, rules: Rules | None) -> Rules | None:
    """Return the rules of a simulation: those given, else plain ones where the policy orders by scores."""
    return Rules() if rules is None and traits.RULES in policy.traits else rules
