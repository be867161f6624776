"""Records of the compiled engine: what its arrays hold by name, and the codes of lists, phases, requests and policies.

The whole state of a simulation is a few arrays of records; a fork copies them and shares the rest.

* `jobs_now` (slots,) of `JobNow`: one record for each waiting or running job.
* `lists` (rows,) of `ListRow`: the ordered lists (see `ordered_lists`).
* `state` of `State`: the time, cursors, counters, the queue's head, and the policy as codes.
* `profile` of `Level` and `dates` of `Date`: the availability profile (see `profile`).
* `changes`: node sets and accounts, where the site has rules; the steps of revised estimates, and `groups` of waiting
  jobs whose estimates are revised as one (see `queue`).

Read-only or append-only, hence shared: `jobs` (n_jobs,) of `Job`, the estimates, `log` (n, 3)
the events (time, kind, job row), `start_notes` (n,) a number for each event. `scratch` is written again before it is
read. What only some simulations have stands in a tuple of its own, or is None: `Changes` of waiting jobs, a `Picker`.

A class of this module names the fields of a record and their types; `record_type` makes the NumPy type of it. Kernels
and Python read a record alike: `jobs_now[slot].procs`.
"""

from operator import itemgetter
from typing import Annotated, Any, Final, NamedTuple, Protocol, TypeVar, get_type_hints, overload

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, Ints, Singles

R = TypeVar("R")
Observed = npt.NDArray[np.float32]


# sizes of the ordered lists
BLOCK: Final = 16  # entries of a leaf at most
PLACES: Final = 2 * BLOCK  # of a leaf: BLOCK of them, from any entry on, can move by one (see `ordered_lists`)
FAN: Final = 32  # leaves of a node at most
CLASSES: Final = 29  # of numbers of processors, by powers of two
LISTS: Final = 13  # ordered lists, see below
LAYERS: Final = 7  # of an agent's network, inputs and outputs included


class Records(Protocol[R]):
    """An array of records, shape (n,), as the type checker sees it."""

    @overload
    def __getitem__(self, place: str) -> npt.NDArray[Any]: ...
    @overload
    def __getitem__(self, place: int) -> R: ...
    @overload
    def __getitem__(self, place: slice | Ints | npt.NDArray[np.bool_]) -> "Records[R]": ...
    def __setitem__(self, place: slice | str, value: Any) -> None: ...
    def __len__(self) -> int: ...
    @property
    def flags(self) -> Any:
        """Return what NumPy says of the memory."""
        ...

    def copy(self) -> "Records[R]":
        """Return a copy."""
        ...


class Numbers(Protocol):
    """A row of whole numbers within a record, as the type checker sees it."""

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> Ints: ...
    def __setitem__(self, place: int, value: int) -> None: ...


Seen = npt.NDArray[np.float32]  # shape (n, rows, 2)
Choices = npt.NDArray[np.float64]  # shape (n, 4)


class Table(Protocol[R]):
    """An array of records, shape (n, m), as the type checker sees it."""

    shape: tuple[int, int]

    @overload
    def __getitem__(self, place: tuple[int, int]) -> R: ...
    @overload
    def __getitem__(self, place: slice) -> "Table[R]": ...
    def __setitem__(self, place: Any, value: Any) -> None: ...


def _field(name: str) -> property:
    """Return a field of a record as an attribute; `numpy.record` has these too, but ten times slower."""

    def set_field(record: Any, value: Any) -> None:
        record[name] = value

    return property(itemgetter(name), set_field)


_PLAIN: Final = {int: np.int64, float: np.float64, bool: np.bool_}


def record_type(face: type) -> np.dtype[Any]:
    """Return the NumPy type of the records that a class describes; a field may be such a record itself.

    >>> record_type(Step).names
    ('elapsed', 'estimate')
    """
    fields: list[Any] = []
    for name, hint in get_type_hints(face, include_extras=True).items():
        length = getattr(hint, "__metadata__", ())
        fields.append((name, np.int64 if length else _PLAIN.get(hint) or record_type(hint), length))
    scalar = type(face.__name__, (np.void,), {"__slots__": (), **{name: _field(name) for name, *_ in fields}})
    return np.dtype((scalar, np.dtype(fields, align=True)))


class Job:
    """A job as submitted; one record a job, sorted by (submit, job id)."""

    submit: int
    procs: int
    requested_time: int
    run_time: int
    job_id: int
    rank: int  # place of the job id among all: ends of one second that started together are in the order of their ids
    deadline: int  # second by which a job that may be postponed should have ended, or -1


class SiteJob:
    """What the rules of a site add to a job as submitted (see `schedsim.sites.cobalt.rules`)."""

    parent: int  # row of the job that must end before, or -1
    think_time: int  # pause after the parent's end [s]
    first_child: int  # row, or -1
    next_child: int  # of the same parent: row, or -1
    n_later_children: int  # how many of its children have later rows
    fails: bool
    on_hold: bool  # submitted on hold by its user
    node_set: int  # number of its node set, or -1
    tier: int  # tiers are served one after the other, whatever the scores
    start_score: float
    score_gain: float  # score gained for each squared second of a tick
    account: int  # number of its account, or -1
    queue_number: int
    may_overburn: bool  # a spent account may run it in its third quarter


class JobNow:
    """A waiting or running job; also a held one, and an ended one that a child still to be submitted needs."""

    row: int
    procs: int
    requested_time: int
    run_time: int  # how long it runs unless it is stopped
    start: int  # or -1
    end: int  # or -1
    current_estimate: int  # valid now, for planning with a running job
    first_estimate: int  # the same when the job was submitted
    candidate_estimate: int  # for asking whether a waiting job may start
    order_estimate: int  # for the order's key
    keys: Annotated[Numbers, 2]  # in the list QUEUE, and in the list BACKFILL
    has_reservation: bool  # once it held one
    guaranteed_start: int  # latest start that it was promised, or NEVER
    due: int  # second after which it comes before all that are not overdue, or NEVER
    planned_start: int  # start of its reservation, or NEVER
    tried_in_pass: int  # number of the pass in which a gate held it
    times_held: int  # how often a gate held it, as counted
    release_time: int  # while it is postponed: when it joins the queue at the latest; else NEVER
    next_step: int  # elapsed time from which on another estimate holds [s], or NEVER
    steps_done: int
    score: float  # up to the ticks before `scored_from`; once it runs: when it started
    score_gain: float  # score gained for each squared second of a tick
    eligible_since: int  # submission and the time held since [s]: the eligible time counts from here
    scored_from: int  # the first second whose tick is not in `score`
    hold_reasons: int  # bits below; 0: it is in the queue
    held_since: int
    node_set: int  # number of its node set, or -1
    tier: int
    n_children: int  # children still to be submitted
    exit_state: int  # NOT_ENDED, WELL or BADLY
    queue_number: int  # in which it waits
    group: int  # of jobs whose estimates are revised as one, or -1: of a job that a failure stopped
    revision: int  # of its group that its estimates are of
    next_spare: int  # of a record given back: the next such record, or -1


class Step:
    """An estimate step: once a job has run for `elapsed` seconds, its estimate is another."""

    elapsed: int  # NEVER: there are no more steps
    estimate: int


class Group:
    """Waiting jobs of one requested time and as many processors whose estimates are always the same."""

    lead: int  # number of the group that holds the estimates, for all groups that have the same ones
    next_alike: int  # another of these groups, behind the lead, or -1
    n_waiting: int  # in the queue
    listed: int  # slot of the job that stands for the group in the list GROUPS: the first not tried in vain; or -1
    key: int  # of that job in that list
    row: int
    next_moved: int  # another group of which this pass has tried a job in vain, or -1; see `queue.move_group_on`
    revision: int  # number of the last one
    current_estimate: int
    candidate_estimate: int
    order_estimate: int


class ListRow:
    """A row of the ordered lists: a leaf with entries, or a node with leaves; both begin with what they hold in sum."""

    count: int  # entries, or leaves
    procs_sum: int
    least_procs: int  # this and `least_length` are lower bounds of what the row holds, if the list has several leaves
    first: int  # row of the job that comes first, under an order that changes with time (see `keys.stays_ahead`)
    first_until: int  # it must be searched again from this second on
    least_length: Annotated[Numbers, CLASSES]  # element c: of jobs with fewer than 2**(c + 1) processors, the shortest
    key: Annotated[Numbers, PLACES]  # of a leaf's entries, and so on
    tie: Annotated[Numbers, PLACES]
    slot: Annotated[Numbers, PLACES]
    procs: Annotated[Numbers, PLACES]
    length: Annotated[Numbers, PLACES]
    leaves: Annotated[Numbers, FAN]  # of a node
    is_loose: bool  # a job has gone that one of these bounds was of
    node: Annotated[Numbers, LISTS]  # not of this row: in the i-th row, the i-th node of each list
    next_spare: int  # of a row given back: the next such row, or -1


class Clock:
    """Where a simulation stands in time: the phase of the instant, cursors and counters; what a pause asks."""

    now: int
    phase: int
    origin: int  # what the log's own clock shows at second 0
    next_submission: int  # first row not yet submitted
    next_queued: int  # first row not yet in the queue
    end_of_submissions: int  # no row from here on is submitted
    n_running: int
    n_logged: int  # rows used in `log`
    n_events: int  # events so far, those in earlier chunks of the log included
    spare_slot: int  # the record given back last, or -1
    n_slots: int  # slots from here on were never used
    causes: int  # what made this instant, bits below
    until: int  # stop before the first instant later than this
    n_passes: int
    asked_about: int  # slot (or row) that a pause asks about
    answer: int
    picked: int  # slot of the job that an agent picked last, or -1
    picked_place: int  # of that job in the agent's window, from 1 on
    picked_of: int  # jobs in that window
    picked_score: float  # its score; NaN where a client picked
    n_kills: int
    last_queued: int  # slot
    n_newcomers: int  # jobs queued at this instant
    tries_newcomers: bool  # a job that is submitted alone is tried before it joins the queue, see `reservation`
    is_apart: bool  # the job queued last has not joined the queue yet
    n_timers: int  # set so far
    ends_known_at: int  # how many events it knew when it last did; -1: it must be asked again
    next_poll: int  # second of the next poll of waiting jobs' estimates; 0: nothing has happened since the last one


class Queue:
    """The queue and what a pass knows: its head and shadow time, where the search is, the ordered lists."""

    free: int  # processors
    n_queued: int
    first_moved: int  # number of a group of which this pass has tried a job in vain, or -1
    spare_row: int  # the row of `lists` given back last, or -1
    n_rows: int  # rows from here on were never used
    n_nodes: Annotated[Numbers, LISTS]  # nodes of each list
    first_leaf: Annotated[Numbers, LISTS]  # row of each list's first leaf, which an empty list keeps; or NO_LEAF
    n_classes: int  # of numbers of processors, by powers of two, on this machine
    head: int  # slot of the blocked head, or -1
    shadow_time: int
    extra_procs: int
    stale: bool  # the shadow time must be computed again
    guaranteed_start: int  # of the head, by its promise
    extra_at_promise: int  # processors that the head leaves free at that second
    after_key: int  # the pass has tried all entries up to here
    after_tie: int
    searched: int  # which list the pass searches for backfills
    profile_size: int  # levels of the availability profile; 0: there is none
    n_reservations: int  # in the profile
    n_dates: int  # dates ahead at which the reserved part grows
    finds_first: bool  # the list QUEUE stays by rows: the first in the order is found by itself, see `reservation`
    ranked_at: int  # second of the last pass that looked for it
    candidates: int  # which list is searched for backfills
    revises: bool  # a forecast revises estimates
    grouped: bool  # it revises those of a group as one
    n_groups: int  # of jobs in the queue; from this number on they are of postponed jobs
    by_row: bool  # it revises each by itself: they are found by the list GROUPED, as one group
    lists_estimates: bool  # places in the lists of waiting jobs, or what is searched there, follow from their estimates
    outdated: bool  # jobs in the queue, listed by their own estimates, are still to take over those of their group
    postponed_outdated: bool  # so are the postponed ones
    n_revisions: int  # how many it gave last
    n_revised: int  # how many of them are taken in
    poll_every: int  # it revises at the multiples of so many seconds alone; 0: at submissions and ends
    n_postponed: int


class Rules:
    """The policy as codes, and what the machine asks for; written before the first second."""

    machine_procs: int
    order: int
    backfill_order: int
    seed: int
    backfill_seed: int
    candidate_kind: int  # which of a job's keys sorts the candidates: that of the list QUEUE or BACKFILL
    depth: int
    correction: int
    kill: bool  # jobs are stopped at their requested time
    promises: bool
    promise_slack: int  # how much later than the shadow time by requested times a promise lies [s]
    promise_growth: float  # what that grows by for each second that the head had waited by then [s]
    least_slack: int  # down to this [s]
    most_slack: int  # up to this [s]
    keeps_head: bool  # the head keeps its reservation until it starts, whoever comes first by then
    head_start: float  # of the priority: added to the time waited [s]
    estimate_weight: float
    procs_weight: float
    grace: float  # least time between submission and due date [s]; infinite: there are no due dates
    share: float  # of the time that the work ahead takes, added to the grace
    gated: bool
    window: int
    reward: int
    in_loop: bool  # a forecast is asked at submissions
    several_estimates: bool  # candidates, running jobs and the order may have different estimates
    asks_ends: bool  # the client says when running jobs end
    placed: bool  # which processors are free decides who fits, and the client knows
    exempt_only: int  # processors that only exempt jobs may use
    exempt_from: int  # from this many processors on
    passes_over: bool  # a job that only the ceiling stops is passed over, and holds no reservation
    release_lead: (
        int  # so long before they must start by their requests they join the queue [s]; NEVER: none are postponed
    )
    idle_below: int  # all join it while fewer processors are in use
    release_looks: int  # when few in use counts: sum of BEFORE and AFTER a pass
    backfills_postponed: bool
    dated: bool  # processors may be reserved or fail, and only their numbers count
    keeps_limits: bool  # the list LIMITS is kept
    restarts: bool  # running jobs may be stopped and start again


class AgentState:
    """An agent that picks jobs, and its network."""

    kind: int  # which agent picks, see below
    seed: int
    reserve: int  # which job holds the reservation where an agent picks, see below
    n_picks: int  # of the agent, so far
    layers: Annotated[Numbers, LAYERS]  # numbers in each layer, inputs first; 0: there are no more
    activation: int  # of a network that scores one job after the other
    by_value: bool  # the network tells the value of one job after the other, else it scores the whole window at once
    is_drawn: bool  # a job is drawn by the scores, else the greatest is picked
    explore: float  # chance that any job of the window is picked, whatever the scores
    is_raw: bool  # its inputs have no scale
    is_permuted: bool  # it sees each job's numbers at the place of another job of the window
    instants: int  # passes between two updates of a learner, for which picks are kept; 0: there is none
    next_update: int  # number of the pass after which the learner is asked
    n_choices: int  # picks kept since the last update
    pick_reward: int  # what a pick earns, see below
    wait_share: float  # weights of that sum: wait of the job picked, its processors, processors in use
    procs_share: float
    used_share: float
    least_wait: int  # floor of the longest wait that the wait is measured by [s]


class SiteState:
    """What a site's rules ask for, see `schedsim.sites.cobalt.rules`."""

    tick: int  # seconds between two ticks of the score
    ticking: int  # at which ticks a pass is due, see below; 0: at none
    n_held: int  # waiting jobs that are held
    inherited_share: float  # share of its parent's score that a child starts with
    holds_orphans: bool  # the children of a failed job stay held
    spent_queue: int  # number of the queue for jobs of spent accounts, or -1
    node_set_waits: bool  # in the last pass a job waited for its node set alone


class State:
    """Where a simulation stands, in parts."""

    clock: Clock
    queue: Queue
    rules: Rules
    site: SiteState


class NodeSet:
    """A node set: processors that the jobs of some queues share."""

    limit: int  # processors that its jobs may use at once
    used: int
    waiting_in_pass: int  # the last pass in which a job waited for it alone
    shadow_time: int  # when that job has its share
    extra_procs: int  # processors of the set that it leaves free then


class Account:
    """An account of a project."""

    spent: int  # processor-seconds since its year began
    granted: int  # processor-seconds of a year
    blocks: bool  # once spent, its jobs are held
    overburning: bool  # its capability jobs may spend as much again


class Level:
    """A step of the availability profile: processors free from a second on, until the next."""

    time: int
    free: int


class Date:
    """A second at which the reserved part of the machine grows, and the processors left for jobs that run then."""

    time: int
    room: int


class Capacity:
    """The most valuable set of jobs that fits into so many processors."""

    worth: float
    chosen: int  # a bit a job; above them, how many they are


class Revision:
    """What a forecast that revises estimates says of a job, times in seconds."""

    row: float
    running: float
    candidate: float
    order: float


class RevisedStep:
    """An estimate step as such a forecast gives it."""

    elapsed: float  # infinity or NaN: there are no more steps
    estimate: float


class Estimates(NamedTuple):
    """Estimates of all jobs [s] for each role; where a forecast revises them, its last answers instead."""

    running: Floats  # for planning with a running job
    candidate: Floats  # for asking whether a waiting job may start
    order: Floats  # for the order's key
    revisions: Records[Revision]
    steps: Table[RevisedStep]


class Changes(NamedTuple):
    """All arrays of what changes jobs while they wait: rules of a site, revised estimates; each may be empty.

    They also stand for orders by keys that change with time, and for postponed jobs, which need no arrays of their own.
    Without them a job stays in the queue what it was at its submission.
    """

    site_jobs: Records[SiteJob]  # read-only
    sets: Records[NodeSet]
    accounts: Records[Account]
    steps: Table[Step]  # by slot
    group_of: Ints  # number of each job's group, by row; read-only
    groups: Records[Group]
    group_steps: Table[Step]


class Picker(NamedTuple):
    """All arrays of an agent, as the kernels pass them on."""

    one: Records[AgentState]
    weights: Floats  # of features, or of a shared network; read-only
    observation: Observed  # what an agent sees that is asked from outside, see `observation`
    net: Singles  # weights of a network of DRAS; read-only
    hidden: Floats  # features of a job, and the layers of the network that scores it
    neurons: Singles  # layers of a network of DRAS
    seen: Seen  # what it saw at each pick that a learner has not read
    choices: Choices  # such picks: place, jobs in the window, reward, greatest value, instant


class Arrays(NamedTuple):
    """All arrays of a simulation, as the kernels pass them on.

    A part that a simulation does not have is None. A step that takes such a part as an argument and asks whether it is
    None is compiled without what it does with one: numba decides so by an argument alone, by no field of another.
    """

    jobs: Records[Job]
    jobs_now: Records[JobNow]
    lists: Records[ListRow]
    state: Records[State]  # one
    profile: Records[Level]
    dates: Records[Date]
    capacities: Records[Capacity]
    scratch: Numbers  # slots, written out to be gone through or sorted
    log: Ints
    start_notes: Ints
    holders: Ints  # slot of the job on each node, nodes in the order of first fit, or -1; empty where no agent asks
    changes: Changes  # or None: steps that are reached then take it as an argument and ask


JOB: Final = record_type(Job)
SITE_JOB: Final = record_type(SiteJob)
JOB_NOW: Final = record_type(JobNow)
STEP_RECORD: Final = record_type(Step)
GROUP: Final = record_type(Group)
LIST_ROW: Final = record_type(ListRow)
STATE: Final = record_type(State)
AGENT_STATE: Final = record_type(AgentState)
NODE_SET: Final = record_type(NodeSet)
ACCOUNT: Final = record_type(Account)
LEVEL: Final = record_type(Level)
DATE: Final = record_type(Date)
CAPACITY_RECORD: Final = record_type(Capacity)
REVISION: Final = record_type(Revision)
REVISED_STEP: Final = record_type(RevisedStep)

NEVER: Final = 1 << 62
FAR: Final = 1 << 50  # seconds; no simulation takes so long
FIRST_KEY: Final = -(1 << 63)  # no key is smaller
LAST_KEY: Final = (1 << 63) - 1  # no key is greater
FIRST_TIE: Final = -1  # of those that are looked for
# names, since a literal in a call makes numba compile another function
NOTHING: Final = 0
NO_LEAF: Final = -1
NO: Final = 0
YES: Final = 1
DISPLACED: Final = -1


# the ordered lists
QUEUE: Final = 0  # waiting jobs by the order
BACKFILL: Final = 1  # waiting jobs by the backfill order, where it is another
RUNNING: Final = 2  # running jobs by estimated end
ENDS: Final = 3  # running jobs by real end
LIMITS: Final = 4  # running jobs by start + requested time, where promises are kept or processors are reserved
TIMERS: Final = 5  # timers: (time, sequence number, kind, argument, wakes)
REVISIONS: Final = 6  # running jobs by the second of their next estimate step
POSTPONED: Final = 7  # postponed jobs, by the order in which candidates for backfills are searched
DEPENDANTS: Final = 8  # held jobs, and those with children still to be submitted, by row
GROUPED: Final = 9  # waiting jobs by (number of the group, row), where candidates are searched by group
GROUPS: Final = 10  # the first job of each group, by (key, row), with the group's number in the place of its slot
POSTPONED_GROUPS: Final = 11  # likewise of the groups of postponed jobs, which GROUPED holds as well
OVERDUE: Final = 12  # running jobs that outlived their estimate, by row, where it is corrected each time it is asked

# why a job is held
BY_USER: Final = 1
BY_PARENT: Final = 2  # it has not ended, or not long enough ago
BY_FAILURE: Final = 4  # of its parent
BY_ACCOUNT: Final = 8
BY_PREEMPTION: Final = 16  # it was stopped for another one, not long enough ago

# how a job ended
NOT_ENDED: Final = 0
WELL: Final = 1
BADLY: Final = 2

# at which ticks a pass is due, while a job is in the queue
AT_NEW_HEADS: Final = 1
AT_NEW_ORDERS: Final = 2
AT_EVERY_TICK: Final = 3

# causes of an instant
BY_END: Final = 1
BY_SUBMISSION: Final = 2
BY_TIMER: Final = 4
BY_MACHINE: Final = 32  # a reservation of the machine ended, or nodes failed or were repaired
BY_POLL: Final = 64  # a poll revised the estimates of waiting jobs
ENDED_AT_ONCE: Final = 16  # not a cause: a job of length zero started and ended in the pass
CORRECTED: Final = 8  # not a cause: an estimate was corrected at this instant

# phases of an instant
AT_ADVANCE: Final = 0
AT_ENDS: Final = 1
AT_TIMERS: Final = 2
AT_SUBMISSIONS: Final = 3
AT_QUEUEING: Final = 4
AT_ORDER: Final = 5
AT_REORDER: Final = 6  # the client has given keys
AT_PASS: Final = 7
AT_BACKFILL: Final = 8

# why the kernels stopped; 0 and more: estimates are asked, and this many rows of the log are written
PASS_IS_DUE: Final = -1
FINISHED: Final = -2
REACHED: Final = -3
GROW_JOBS: Final = -4
GROW_LOG: Final = -5
BAD_ESTIMATE: Final = -6
ASK_ORDER: Final = -7
ASK_GATE: Final = -8
ASK_PICK: Final = -9
ASK_TIMER: Final = -10
GROW_REVISIONS: Final = -11
ASK_ENDS: Final = -12
ASK_SHADOW: Final = -13
ASK_LEARNER: Final = -15
GROW_CHOICES: Final = -16
GROW_PLAN: Final = -17
GROW_SPOTS: Final = -18
GROW_STOPS: Final = -19

NOT_ANSWERED: Final = -(1 << 40)

# what a gate may answer
NOT_ASKED: Final = -1  # not an answer: the gate must be asked first
HELD: Final = 0
MAY_START: Final = 1
NO_PLACE: Final = 2  # enough processors are free, but not where the job could have them
HEADS_PLACE: Final = 3  # it would take the place that the head is to have at its shadow time

# when a pass looks at utilisation to release the postponed jobs
BEFORE: Final = 1
AFTER: Final = 2

# kinds of timers; a client's own kinds are larger
RECHECK: Final = 0
STEP: Final = -1  # the model of run times moves on; no pass follows
RELEASE: Final = -2  # a postponed job, by its slot, joins the queue
COMMAND: Final = -3  # users or operators do something to waiting jobs
RELEASE_CHILD: Final = -4  # the job of that row waits no more for its parent, or after it was preempted
CALENDAR: Final = -5  # so many processors more are reserved from now on
CHANGE: Final = -6  # nodes fail or are repaired: the client knows which

FIRST_COME: Final = 0  # the code of the order FCFS

# rewards of the knapsack
CAPABILITY: Final = 0
CAPACITY: Final = 1
CAPABILITY_MEAN: Final = 2
CAPACITY_MEAN: Final = 3
COUNT_BITS: Final = 56  # a set of jobs is so many bits, its size stands above them

# depths
GREEDY: Final = -1  # no reservation: no job waits for the head
NO_BACKFILL: Final = 0
ALL: Final = NEVER

# agents: a client is asked, the greatest weighted sum, a draw, a client is asked and shown what it sees,
# a network for one job, a network of DRAS
ASKED: Final = 1
LINEAR: Final = 2
RANDOM_PICK: Final = 3
ENCODED: Final = 4
SHARED: Final = 5
DRAS: Final = 6

# activations of a network
RELU: Final = 0
TANH: Final = 1

# what a pick earns: nothing, equation 1 of DRAS (capability computing), equation 2 (capacity computing)
NO_REWARD: Final = 0
EQUATION_1: Final = 1
EQUATION_2: Final = 2
SHORT_JOBS: Final = 3

# which job holds the reservation where an agent picks: the one picked, again at each instant or until it starts; or the
# first in the queue until it starts
PICKED_AGAIN: Final = 0
PICKED: Final = 1
OLDEST: Final = 2

# how a job started
READY: Final = 0
BY_RESERVATION: Final = 1
BACKFILLED: Final = 2
