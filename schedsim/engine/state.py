"""The state of a simulation: the arrays that a fork copies, those that it shares, and the log of events."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

import schedsim.kernels.records as at
from predictors.core.arrays import Ints, Singles, short_repr
from schedsim.kernels.agents.scoring import sum_columns
from schedsim.kernels.records import (
    Account,
    Arrays,
    Capacity,
    Changes,
    Date,
    Job,
    JobNow,
    Level,
    ListRow,
    NodeSet,
    Picker,
    Records,
    SiteJob,
)
from schedsim.policies.agents import AgentArrays


@dataclass(eq=False)
class EventLog:
    """Append-only log; the kernels write into the last chunk, earlier ones are frozen and may be shared."""

    events: Ints  # shape (room, 3); the last chunk: time, kind, job row
    notes: Ints  # shape (room,); for a start 4 * estimate + how it started; for an end the estimate valid then
    past: list[tuple[Ints, Ints]] = field(default_factory=list)  # frozen chunks

    __repr__ = short_repr

    @classmethod
    def with_room(cls, room: int) -> Self:
        """Return an empty log with room for so many events."""
        return cls(np.empty((room, 3), dtype=np.int64), np.empty(room, dtype=np.int64))

    def continued(self, used: int, handed: int, room: int) -> Self:
        """Return a log that goes on behind `used` events of the last chunk without ever writing into it.

        The events from `handed` on are copied to the front of the new chunk, so that they lie in one piece with those
        to come.
        """
        tail = used - handed
        new = self.with_room(tail + room)
        new.events[:tail] = self.events[handed:used]
        new.notes[:tail] = self.notes[handed:used]
        new.past = [*self.past, (self.events[:handed], self.notes[:handed])]
        return new

    def read(self, used: int) -> tuple[Ints, Ints]:
        """Return all events and notes, shapes (n, 3) and (n,), the last chunk up to `used`."""
        chunks = [*self.past, (self.events[:used], self.notes[:used])]
        return np.concatenate([e for e, _ in chunks]), np.concatenate([n for _, n in chunks])


LEAST_SLOTS = 256
_NO_LOG = EventLog.with_room(0)
_NO_SITE_JOBS: Any = np.empty(0, at.SITE_JOB)
_NO_GROUPS = np.empty(0, dtype=np.int64)
_NO_SITE_JOBS.flags.writeable = False  # as the others are: else the kernels are compiled once more


@dataclass(eq=False)
class State:
    """The arrays of records of a simulation, see `schedsim.kernels.records`; `one` is the array of its one `State`.

    `held_at` has the second of the last hold by a gate that counted, by row of the waiting job; no kernel looks at it.
    """

    jobs: Records[Job]
    jobs_now: Records[JobNow]
    lists: Records[ListRow]
    one: Records[at.State]
    profile: Records[Level]
    dates: Records[Date]
    capacities: Records[Capacity]
    scratch: Ints
    changes: Changes | None
    agent: Picker | None
    holders: Ints
    held_at: dict[int, int] = field(default_factory=dict)

    __repr__ = short_repr

    def __post_init__(self) -> None:
        self.record = self.one[0]

    @property
    def changing(self) -> Changes:
        """The arrays of what changes jobs while they wait; there must be some."""
        assert self.changes is not None
        return self.changes

    @property
    def picker(self) -> Picker:
        """The arrays of the agent that picks; there must be one."""
        assert self.agent is not None
        return self.agent

    @property
    def picking(self) -> at.AgentState:
        """The record of the agent that picks."""
        return self.picker.one[0]

    @classmethod
    def empty(
        cls,
        jobs: Ints,  # shape (n_jobs, 7); the columns of `Job`, C-contiguous
        capacities: int = 0,  # how many numbers of processors a knapsack has
        changes: Changes | None = None,  # where jobs change while they wait
        agent: AgentArrays | None = None,  # where one picks
    ) -> Self:
        """Return a state without a job or a policy."""
        jobs_now, lists = _room(LEAST_SLOTS)
        one: Any = np.zeros(1, at.STATE)
        one["clock"]["spare_slot"] = one["clock"]["picked"] = one["queue"]["spare_row"] = -1
        one["queue"]["first_leaf"] = at.NO_LEAF
        return cls(
            jobs.view(at.JOB)[:, 0],  # type: ignore[arg-type]
            jobs_now,
            lists,
            one,
            *_profile(LEAST_SLOTS),
            np.empty(capacities, at.CAPACITY_RECORD),  # type: ignore[arg-type]
            np.empty(LEAST_SLOTS, dtype=np.int64),
            changes,
            None if agent is None else _picker(agent),
            np.full(0 if agent is None else agent.nodes, -1),
        )

    def arrays(self, log: EventLog = _NO_LOG) -> Arrays:
        """Return the arrays as the kernels take them."""
        return Arrays(
            self.jobs,
            self.jobs_now,
            self.lists,
            self.one,
            self.profile,
            self.dates,
            self.capacities,
            self.scratch,
            log.events,
            log.notes,
            self.holders,
            self.changes,  # type: ignore[arg-type]  # or None
        )

    def copy(self) -> Self:
        """Return a copy, in time proportional to the jobs that wait or run."""
        return self._moved(len(self.jobs_now))

    def grown(self) -> Self:
        """Return a copy with twice the room."""
        return self._moved(2 * len(self.jobs_now))

    def with_steps(self, steps: int) -> Self:
        """Return a copy with room for so many estimate steps of a job at least."""
        if steps > 0:
            self.let_change()
        return self._moved(len(self.jobs_now), steps)

    def let_change(self) -> None:
        """Make room for what changes jobs while they wait, if there is none."""
        if self.changes is None:
            self.changes = changes_of(slots=len(self.jobs_now))

    def let_pick(self, agent: AgentArrays) -> None:
        """Let an agent that has not picked yet pick from now on."""
        self.agent, self.holders, self.record.clock.picked = _picker(agent), np.full(agent.nodes, -1), -1

    def with_net(self, net: Singles) -> None:
        """Go on with other weights of the same network: an array that is not writeable."""
        layers, size = self.picking.layers[:4].tolist(), len(self.picker.neurons)
        self.agent = self.picker._replace(net=net, neurons=_neurons(net, layers, size))

    def with_choices(self, room: int) -> None:
        """Make room for so many picks that the learner gets; those that are there stay."""
        old, n = self.picker, min(int(self.picking.n_choices), room)
        seen, choices = _choices(room, old.seen.shape[1])
        seen[:n], choices[:n] = old.seen[:n], old.choices[:n]
        self.agent = old._replace(seen=seen, choices=choices)

    def close_failures(self) -> None:
        """Let no further job fail by itself."""
        site_jobs = self.changing.site_jobs.copy()
        site_jobs["fails"] = False
        site_jobs.flags.writeable = False
        self.changes = self.changing._replace(site_jobs=site_jobs)

    def entries(self, which: int, field: str) -> Ints:
        """Return a field of all entries of one of the ordered lists, such as "key", in its order."""
        count, node, leaves, values = (self.lists[name] for name in ("count", "node", "leaves", field))
        parts = [
            values[leaf, : count[leaf]]
            for i in node[: self.record.queue.n_nodes[which], which].tolist()
            for leaf in leaves[i, : count[i]].tolist()
        ]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def slots(self, which: int) -> Ints:
        """Return the places of the records of the jobs in one of the ordered lists, in its order."""
        return self.entries(which, "slot")

    def rows(self, which: int) -> Ints:
        """Return the rows in the workload of the jobs in one of the ordered lists, in its order."""
        return np.asarray(self.jobs_now["row"][self.slots(which)])

    def _moved(self, slots: int, steps: int = 0) -> Self:
        jobs_now, lists = _room(slots)
        _copy(self.jobs_now, jobs_now, self.record.clock.n_slots)
        _copy(self.lists, lists, self.record.queue.n_rows)
        one = _copied(self.one)
        if self.record.queue.profile_size > 0:  # profiles are not copied but made again
            one["queue"]["profile_size"] = 0
            one["queue"]["stale"] = True
        profile, dates = _profile(slots)
        _copy(self.dates, dates, self.record.queue.n_dates)
        return type(self)(
            self.jobs,
            jobs_now,
            lists,
            one,
            profile,
            dates,
            np.empty(len(self.capacities), at.CAPACITY_RECORD),  # type: ignore[arg-type]
            self._scratch(slots),
            None if self.changes is None else _copy_of_changes(self.changes, slots, steps),
            None if self.agent is None else _copy_of_picker(self.agent),
            self.holders.copy(),
            dict(self.held_at),
        )

    def _scratch(self, slots: int) -> Ints:
        """Return scratch for so many slots; a window that a client was shown stays as it is."""
        scratch = np.empty(slots, dtype=np.int64)
        shown = 0 if self.agent is None or not len(self.agent.observation) else self.record.clock.picked_of
        scratch[:shown] = self.scratch[:shown]
        return scratch


def _bytes(records: Any) -> Any:
    """Return the memory of an array of records: copied as bytes, since NumPy copies records field by field."""
    return np.ndarray(records.nbytes, np.uint8, records)


def _copy(source: Any, target: Any, n: int) -> None:
    size = n * source.itemsize
    _bytes(target)[:size] = _bytes(source)[:size]


def _copied(source: Any) -> Any:
    """Return a copy of an array of records."""
    return np.ndarray(source.shape, source.dtype, _bytes(source).copy())


def changes_of(
    steps: int = 0,  # most estimate steps of a job
    # shape (n_jobs,); the number of each job's group, and of each group's lead, where estimates are revised by group
    groups: tuple[Ints, Ints] | None = None,
    # site_jobs, sets, accounts: where the site has rules
    site_jobs: Records[SiteJob] | None = None,
    sets: Records[NodeSet] | None = None,
    accounts: Records[Account] | None = None,
    slots: int = LEAST_SLOTS,  # jobs for which there is room
) -> Changes:
    group_of, lead_of = (_NO_GROUPS, None) if groups is None else groups
    no_sets: Any = np.empty(0, at.NODE_SET)
    no_accounts: Any = np.empty(0, at.ACCOUNT)
    no_steps: Any = np.empty((slots, steps), at.STEP_RECORD)
    return Changes(
        _NO_SITE_JOBS if site_jobs is None else site_jobs,
        no_sets if sets is None else sets.copy(),
        no_accounts if accounts is None else accounts.copy(),
        no_steps,
        group_of,
        *_groups(lead_of, steps),
    )


def _copy_of_changes(own: Changes, slots: int, steps: int) -> Changes:
    """Return a copy with room for so many jobs, and so many estimate steps of each at least."""
    columns = max(steps, own.steps.shape[1])
    return own._replace(
        sets=_copied(own.sets),
        accounts=_copied(own.accounts),
        steps=_with_room(own.steps, slots, columns),
        groups=_copied(own.groups),
        group_steps=_with_room(own.group_steps, len(own.groups), columns),
    )


def _with_room(steps: Any, rows: int, columns: int) -> Any:
    """Return a copy of a table of estimate steps with more rows and columns: there are no steps in these.

    Groups have as many columns as jobs: a fork by other estimates may bring more steps while groups still wait.
    """
    if steps.shape == (rows, columns):
        return _copied(steps)
    wider = np.empty((rows, columns), at.STEP_RECORD)
    n, own = steps.shape
    wider[:n, :own] = steps
    wider[:n, own:] = (at.NEVER, 0)
    return wider


def _profile(slots: int) -> tuple[Any, Any]:
    """Return room for a profile and its dates.

    A running job takes at most one level, a reservation three (one that moves leaves its old end), a timer one.
    """
    return np.empty(4 * slots + 4, at.LEVEL), np.empty(slots + 1, at.DATE)


def _picker(agent: AgentArrays) -> Picker:
    """Return the arrays of an agent that has not picked yet."""
    one: Any = np.zeros(1, at.AGENT_STATE)
    one["layers"][0, : len(agent.layers)] = agent.layers
    return Picker(
        one,
        agent.weights,
        np.zeros(agent.observation, dtype=np.float32),
        agent.net,
        np.empty(agent.hidden),
        _neurons(agent.net, agent.layers, agent.neurons),
        *_choices(1, agent.rows),
    )


def _copy_of_picker(own: Picker) -> Picker:
    """Return a copy that shares what is not written, or is written before it is read."""
    observation = own.observation.copy() if len(own.observation) else own.observation
    return own._replace(one=_copied(own.one), observation=observation)


def _choices(room: int, rows: int) -> tuple[Any, Any]:
    return np.empty((room, rows, 2), np.float32), np.empty((room, 5))


def _neurons(net: Singles, layers: Sequence[int], size: int) -> Singles:
    """Return room for the layers of a network of DRAS, with what it needs to know of its weights."""
    neurons = np.empty(size, np.float32)
    if size:
        sum_columns(net, layers[0], layers[1], neurons)
    return neurons


def _groups(lead_of: Ints | None, steps: int) -> tuple[Any, Any]:
    """Return groups without a waiting job, and their estimate steps; of those alike the first leads."""
    numbers = np.empty(0, dtype=np.int64) if lead_of is None else lead_of
    n = len(numbers)
    groups = np.zeros(n, at.GROUP)
    groups["lead"] = numbers
    groups["listed"] = groups["next_alike"] = groups["next_moved"] = -1
    order = np.argsort(numbers, kind="stable")
    alike = np.flatnonzero(np.diff(numbers[order]) == 0)
    groups["next_alike"][order[alike]] = order[alike + 1]
    return groups, np.empty((n, steps), at.STEP_RECORD)


def _room(slots: int) -> tuple[Any, Any]:
    """Return arrays that hold `slots` jobs whatever happens.

    Of two neighbouring leaves, and of two neighbouring nodes, one is more than a quarter full, so a list of m entries
    takes fewer than 0.4 m + 3 rows. A waiting job is in at most four lists, a running one in five; timers, at most
    one a job, in another.
    """
    n_rows = 6 * (2 * slots // 5) + 3 * at.LISTS
    return np.empty(slots, at.JOB_NOW), np.empty(n_rows, at.LIST_ROW)
