"""Slurm's two loops at one moment of a simulation: their clock, the use of each limit, and the priorities."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np

import schedsim.kernels.records as at
from predictors.core.arrays import Ints
from predictors.core.errors import JobcastError
from schedsim.kernels.records import Records
from schedsim.policies.policy import Policy
from schedsim.sites.slurm.fair_share import NO_SHARES
from schedsim.sites.slurm.limits import Limits
from schedsim.sites.slurm.loops import Loops
from schedsim.sites.slurm.multifactor import Priorities, parts_of
from schedsim.sites.slurm.records import (
    CYCLE,
    HELD,
    PACE,
    RANKING,
    RUN,
    SWITCH,
    NodeCycle,
    Parts,
    PreemptionArrays,
    Ranking,
    SlurmArrays,
    Switch,
    UsageArrays,
)
from schedsim.workload.demands import FIELDS, Demands
from schedsim.workload.workload import Workload

_OWN: Final = ("pace", "held_by", "tested_of", "ranking")
_USED: Final = ("one", "entries", "children", "stack", "jobs", "limits")
_OF_PACE: Final = (
    "backfills", "interval", "resolution", "window", "tested", "calc_period", "test_time", "queue_depth",
    "sched_interval", "min_interval",
)  # fmt: skip
_READ: Final = ("sets", "weights", "leaf_of", "on_leaf", "most_on_node")
_LISTED: Final = ("ends", "first_held", "held")  # written again by the next cycle
_WRITTEN: Final = tuple(name for name in NodeCycle._fields if name not in _READ + _LISTED)


@dataclass(frozen=True, eq=False)
class LoopsNow:
    """The loops of a simulation."""

    arrays: SlurmArrays
    limits: Limits
    cycle: NodeCycle | None  # where jobs take GPUs and memory of nodes
    preemption: PreemptionArrays | None = None

    @classmethod
    def of(cls, policy: Policy, workload: Workload) -> "LoopsNow | None":
        """Return the loops before the first second; None where the policy has none."""
        loops, n_jobs = policy.backfill, len(workload)
        if not isinstance(loops, Loops):
            return None
        limits = Limits.none(n_jobs) if loops.limits is None else loops.limits
        limits.check_jobs(n_jobs)
        pace: Any = np.zeros(1, PACE)
        for name in _OF_PACE:
            pace[name] = getattr(loops, name)
        pace["main_at"], pace["all_at"] = -loops.min_interval, at.NEVER
        unreserved = np.zeros(n_jobs, dtype=np.bool_) if limits.unreserved is None else limits.unreserved
        held_by = np.full(n_jobs, -1, dtype=np.int64)
        groups = [numbered(quota.group_of) for quota in loops.quotas]
        group_of = np.array(groups, dtype=np.int64).reshape(len(groups), n_jobs)
        ranking, parts, usage = _priorities(policy, workload)
        tally: Any = usage.one
        table: Any = limits.table(tally["left"][0])
        usage = usage._replace(limits=table, claims=limits.records, first_claim=limits.first_claim)
        tally["spends"] = limits.spends
        arrays = SlurmArrays(
            pace,
            unreserved,
            held_by,
            np.array([quota.most for quota in loops.quotas], dtype=np.int64),
            group_of,
            np.array([quota.of_main for quota in loops.quotas], dtype=np.bool_),
            np.zeros((len(groups), int(group_of.max(initial=-1)) + 1), dtype=np.int64),
            ranking,
            parts,
            usage,
        )
        demands, preemption = workload.demands, None
        if loops.preemption is not None:
            preemption = loops.preemption.arrays(n_jobs, workload.machine_procs)
        cycle = None if demands is None else _cycle(demands, min(loops.tested, n_jobs))
        return cls(arrays, limits, cycle, preemption)

    def fork(self) -> Self:
        """Return an independent copy; nothing of a cycle is kept from one to the next."""
        own: dict[str, Any] = {name: getattr(self.arrays, name).copy() for name in _OWN}
        used: dict[str, Any] = {name: getattr(self.arrays.usage, name).copy() for name in _USED}
        own["usage"], cycle = self.arrays.usage._replace(**used), self.cycle
        if self.preemption is not None:
            own["parts"] = self.arrays.parts.copy()
        if cycle is not None:
            cycle = cycle._replace(**{name: np.empty_like(getattr(cycle, name)) for name in _LISTED})
            cycle = cycle._replace(**{name: getattr(cycle, name).copy() for name in _WRITTEN})
        preemption = self.preemption
        if preemption is not None:
            preemption = preemption._replace(one=preemption.one.copy(), stops=preemption.stops.copy())
        return type(self)(self.arrays._replace(**own), self.limits, cycle, preemption)

    @property
    def stops(self) -> Ints:
        """The runs stopped so far: job row, start, end [s], row of the job that took their place, shape (n, 4)."""
        if self.preemption is None:
            return np.empty((0, 4), dtype=np.int64)
        return self.preemption.stops[: int(self.preemption.one[0].n_stops)]

    @property
    def cancelled(self) -> Ints:
        """Rows of the jobs that were stopped and are gone."""
        if self.preemption is None:
            return np.empty(0, dtype=np.int64)
        rows = self.stops[:, 0]
        return rows[self.preemption.is_cancelled[rows]]

    def with_room_for_stops(self) -> Self:
        """Return the same with room to write down more stopped runs."""
        assert self.preemption is not None
        stops = np.empty((2 * len(self.preemption.stops), 4), dtype=np.int64)
        stops[: len(self.stops)] = self.stops
        return replace(self, preemption=self.preemption._replace(stops=stops))

    def limit_on(self, row: int) -> str | None:
        """Return the limit that held a job at the last check, or None."""
        number = int(self.arrays.held_by[row])
        return None if number < 0 else self.limits.names[number]

    def why_held(self, rows: Sequence[int]) -> str:
        """Return a sentence on the first limit that holds one of these jobs, or an empty text."""
        limit = next((one for row in rows if (one := self.limit_on(row)) is not None), None)
        return "" if limit is None else f" The limit {limit} holds them, and nothing to come frees it: raise it."

    def read_up_to(self, logged: int) -> int:
        """Return how many of so many events in the log are read."""
        ranking = self.arrays.ranking[0]
        return ranking.n_read if ranking.follows else logged

    def read(self, n: int) -> None:
        """Go on as if so many events in the log were read."""
        self.arrays.ranking[0].n_read = n


def _priorities(policy: Policy, workload: Workload) -> tuple[Records[Ranking], Records[Parts], UsageArrays]:
    """Return the arrays of the priorities; empty ones where jobs come by submission."""
    found = policy.order.ranking
    if not isinstance(found, Priorities):
        ranking: Any = np.zeros(1, RANKING)
        return ranking, parts_of(0), NO_SHARES.begun()
    n, share = len(workload), found.fair_share
    if len(found.parts) != n or (share is not None and not len(share.user_of) == len(share.billed) == n):
        raise JobcastError(f"Priorities are of each job of the workload, {n:,}; got other numbers of parts or users.")
    ranking, parts = found.ranking, found.parts_now
    return ranking, parts, (NO_SHARES if share is None else share).begun()


def numbered(groups: Ints) -> Ints:
    """Return groups numbered from 0 on, in the order of their own numbers; those below 0 are none, -1.

    >>> numbered(np.array([4_000_000_000, -1, 7])).tolist()
    [1, -1, 0]
    """
    found = np.full(len(groups), -1)
    known = groups >= 0
    found[known] = np.unique(groups[known], return_inverse=True)[1]
    return found


def _cycle(demands: Demands, tested: int) -> NodeCycle:
    """Return room for a cycle on nodes in which so many jobs reserve some; each lets two slots begin."""
    n_nodes, n_slots = len(demands.nodes), 2 * tested + 1
    bits = np.packbits(np.pad(demands.serves, ((0, 0), (0, -n_nodes % 64))), axis=1, bitorder="little")
    sets = np.ascontiguousarray(bits).view("<i8")
    words = sets.shape[1]
    runs: Any = np.zeros(n_nodes, RUN)
    one: Any = np.zeros(1, CYCLE)
    most = int(demands.nodes["procs"].sum())  # parts of running jobs, each of a processor at least
    held: Any = np.empty(most, HELD)
    leaf_of = np.empty(0, dtype=np.int64) if demands.leaf_of is None else demands.leaf_of
    return NodeCycle(
        begins=np.zeros(n_slots, dtype=np.int64),
        rows=np.zeros(n_slots, dtype=np.int64),
        open=np.empty((n_slots, words), dtype=np.int64),
        joined=np.empty((n_slots, words), dtype=np.int64),
        beyond=np.empty(words, dtype=np.int64),
        sets=sets,
        usable=np.empty(words, dtype=np.int64),
        unclosed=np.empty(words, dtype=np.int64),
        weights=demands.weights,
        rooms=np.zeros(n_nodes, dtype=np.int64),
        taken=np.zeros(n_nodes, dtype=np.int64),
        counted=np.zeros(words, dtype=np.int64),
        runs=runs,
        ends=np.empty(most, dtype=np.int64),
        first_held=np.empty(most + 1, dtype=np.int64),
        held=held,
        leaf_of=leaf_of,
        on_leaf=np.argsort(leaf_of, kind="stable"),
        switches=_switches(leaf_of, demands.parent_of),
        most_on_node=_most_on_node(demands),
        one=one,
    )


def _switches(leaf_of: Ints, parent_of: Ints | None) -> Records[Switch]:
    """Return a record of each switch; their nodes are those of `leaf_of` by number."""
    table: Any = np.zeros(0 if parent_of is None else len(parent_of), SWITCH)
    if parent_of is not None:
        table["parent"], above = parent_of, parent_of
        while (above >= 0).any():
            table["depth"] += above >= 0
            above = np.where(above >= 0, parent_of[above], -1)
        for i in np.argsort(-table["depth"], kind="stable").tolist():
            if (parent := table["parent"][i]) >= 0:
                table["level"][parent] = max(table["level"][parent], table["level"][i] + 1)
        table["end_node"] = np.cumsum(np.bincount(leaf_of, minlength=len(table)))
        table["first_node"][1:] = table["end_node"][:-1]
    return table  # type: ignore[no-any-return]


def _most_on_node(demands: Demands) -> Ints:
    """Return how many pieces of each shape the node holds that has most room when it is empty; at least 1."""
    nodes, shapes = demands.nodes, demands.shapes
    most = np.full(len(shapes), np.iinfo(np.int64).max // 2)
    for field in FIELDS:
        has, asked = int(nodes[field].max(initial=0)), np.asarray(shapes[field])
        most = np.minimum(most, np.where(asked > 0, has // np.maximum(1, asked), most))
    return np.maximum(1, np.where(shapes["spread"], 1, np.minimum(most, shapes["pieces"])))
