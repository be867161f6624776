"""Records of Slurm's two loops: their pace, the limits, the priorities, and the usage of users and accounts.

These arrays are in addition to those of `schedsim.kernels.records`; simulations of other policies do not have them.
"""

from typing import Final, NamedTuple

from predictors.core.arrays import Bools, Ints
from schedsim.kernels.records import Records, record_type


class Pace:
    """When the two loops run and how far they look; times in seconds."""

    backfills: bool
    interval: int  # between two runs of the backfill loop; its clock begins with the first submission
    resolution: int  # reservations begin and end on multiples of it
    window: int  # a job that would start later than this far ahead holds no reservation
    tested: int  # jobs that a run of the backfill loop tests
    calc_period: int  # priorities change at multiples of it; 0: they do not
    is_changed: bool  # something has happened since the last run of the backfill loop
    timer: int  # the next one that is set
    test_time: int  # what a test of the backfill loop takes [us]; 0: its clock is a grid
    next_at: int  # the first second at which the next run may begin, if it is none
    queue_depth: int  # jobs that a run of the main loop tests; 0: all
    sched_interval: int  # at its multiples it tests all
    min_interval: int  # between two runs of the main loop
    main_at: int  # its last run
    main_timer: int  # the next one that is set
    all_at: int  # from when on a run tests all, after one that its depth has cut
    is_cut: bool  # the last run has not tested all jobs


class Limit:
    """How much the jobs that count against it may have of one thing: in use at a time, or by the minute."""

    kind: int  # one of the four below
    most: int  # in minutes, where it counts by the minute
    used: int  # by the running jobs; by the minute what these may still use [s]
    spent: float  # up to the last tick, with jobs that have ended since; decays [s]
    left: float  # of that after a second


class Claim:
    """What a job counts against a limit."""

    limit: int  # its number
    amount: int  # by the minute: for as long as the job may run
    rate: float  # what it spends a second
    holds: bool  # the limit may hold the job; else the job only counts


AT_A_TIME: Final = 0
PLANNED: Final = 1
"""What the running jobs may still use, up to their limits, and the job itself may."""
SPENT: Final = 2
"""What has been used; a job may start as long as something is left."""
SAFE: Final = 3
"""What has been used and is planned."""


class Ranking:
    """The rule of the priorities, and the moment by which the queue is ranked; times in seconds."""

    ranks: bool  # the queue is ranked by priorities; else it stays in the order of submission
    follows: bool  # usage is followed, for fair-share or limits on what is spent
    only_grows: bool  # no priority ever falls
    ages_in_pause: bool  # the age of a preempted job begins at once, not when it may start again
    calc_period: int  # between two ticks
    age: float  # weight of the age
    max_age: int
    fair_share: float  # weight of fair-share
    ranked_at: int  # the tick by which the queue is ranked, or -1
    n_read: int  # events of the log that usage knows


class Parts:
    """The parts of a job's priority that stay the same while it waits, weights included, in the order of their sum."""

    association: float
    size: float
    partition: float
    qos: float
    tres: float
    site: float
    nice: float  # taken off
    tier: int  # PriorityTier of its partition
    submitted: int  # when it counts as submitted among equal jobs: when it was preempted, if it was [s]
    aged_from: int  # when its age begins [s]
    key: int  # of the last pass, where jobs preempt others


class Tally:
    """How usage counts, and where it stands; times in seconds."""

    algorithm: int  # place among `ALGORITHMS` of `fair_share`
    damp: float
    period: int  # between two ticks
    left: float  # of usage after a second
    ticked: int  # the last tick
    n_resets: int  # resets up to then
    first: int  # row of the running job that started first, or -1
    last: int
    n_users: int
    is_due: bool  # the factors are still those of an earlier tick
    spends: bool  # some limit is on what is spent


class Entry:
    """An account or a user in the tree of shares; entry 0 is the root, parents stand before their children."""

    parent: int
    above: int  # whose child it counts as: no account with the shares of its parent
    shares: int  # or OF_PARENT
    level_shares: int  # sum of the shares of its children
    is_user: bool
    normal: float  # its share of the whole machine
    used: float  # of a user, until the last tick, with jobs that have ended since
    summed: float  # by all users below it
    fairness: float  # shares over usage among its siblings; effective usage in the classic algorithms
    of_children: float  # sum of the usage of its children
    factor: float
    is_tied: bool
    cursor: int  # the next child to be ranked


class UsingJob:
    """What a job costs, and since when that is not counted yet while it runs."""

    entry: int  # of its user, or -1
    billed: float  # a second
    since: int
    before: int  # row of the running job that started before it, or -1
    next: int  # and after it


class Run:
    """Neighbouring nodes of equal weight with room for a job."""

    first: int
    last: int
    nodes: int  # 0: they were tried
    procs: int  # that the job might use there
    weight: int


class Held:
    """What a running job has of a node."""

    node: int
    shape: int
    pieces: int


class Switch:
    """A switch of the tree, and what of it counts for the job that is placed."""

    parent: int  # the one above, or -1
    depth: int  # switches above it
    level: int  # switches below it, on the longest way; 0: a leaf
    first_node: int  # its nodes are `on_leaf[first_node:end_node]`; none unless it is a leaf
    end_node: int
    nodes: int  # that the job may still take
    procs: int  # that the job might use there, on nodes of every weight
    distance: int  # from all switches that have a part of the job: hops
    has_part: bool  # nodes lighter than others are on it, all of which the job takes


class Cycle:
    """Where the plan of a cycle on nodes stands."""

    n_slots: int  # spans of time, each until the next one begins; the last until the end of the window
    window_end: int  # reservations that begin then or later are not kept
    listed_at: int  # jobs and parts that had taken or released nodes when the running jobs were listed, or -1
    n_running: int  # running jobs that were listed then
    n_listed: int  # running jobs in `ends`, by their planned ends; 0: the nodes must be copied
    n_released: int  # of these, those of which the nodes are free in `later`
    last_joined: int  # the last slot of those joined in `joined`, or -1
    last_beyond: int  # the last slot of those joined in `beyond`
    room: int  # for pieces of the job on the nodes in `counted`, in `later`


class Preempting:
    """How running jobs are stopped for others, and what the loops found of it."""

    delay: int  # a job that is stopped may start again after so long [s]
    reorders: int  # how often candidates come in another order before the last choice
    strict: bool  # then only the last one needed comes first; else the others by what the job takes of theirs, too
    youngest: bool  # candidates come by their starts, the latest first
    n_candidates: int  # of the job tried last
    exempt_until: int  # the first second after now at which a job of this pass may have another candidate, or NEVER
    exempt_before: int  # the same of the jobs before that one
    timer: int  # the second of the timer that is set for that, or NEVER; and its number
    timer_number: int
    n_stops: int  # rows used in `stops`


class PreemptionArrays(NamedTuple):
    """Arrays of preemption; None where no job is stopped for another one."""

    one: Records[Preempting]  # one
    class_of: Ints  # number of each job's class, by row; read-only
    preempts: Bools  # whether jobs of one class may stop those of another, shape (classes, classes); read-only
    rank: Ints  # of each job, by row: candidates of the lowest come first; read-only
    nodes: Ints  # of each job, by row, where only processors are counted; read-only
    exempt: Ints  # how long each job runs at least, by row [s]; read-only
    is_cancelled: Bools  # whether a stopped job is gone, by row; else it starts again later; read-only
    # candidates of the job tried last: their slots, sorted by key and tie; written before they are read
    slots: Ints
    keys: Ints
    ties: Ints
    precedes: Bools  # whether waiting jobs of one class come before those of another, shape as of `preempts`; read-only
    halves: Ints  # while the queue is sorted: parts of it, from, to, and how many halves are sorted, shape (n, 3)
    half: Ints  # the first of two parts that are merged; written before it is read
    stops: Ints  # runs that were stopped: job row, start, end [s], row of the job that took their place, shape (n, 4)


class NodeCycle(NamedTuple):
    """Arrays of the two loops where jobs take GPUs and memory of nodes; sets of nodes are bits of whole numbers."""

    begins: Ints  # of each slot, in ascending order
    rows: Ints  # of each slot, in `open`
    open: Ints  # nodes that no job planned before in this cycle takes in a slot, shape (slots, words)
    joined: Ints  # nodes that are open from a slot on up to another one, shape (slots, words)
    beyond: Ints  # nodes that are open from there on as long as the job runs, shape (words,)
    sets: Ints  # nodes of each node set, shape (node sets, words); read-only
    usable: Ints  # nodes that the job tested last might use, shape (words,)
    unclosed: Ints  # nodes that no blocked job has closed in this run of the main loop, shape (words,)
    weights: Ints  # of each node: the lowest are taken first; read-only
    rooms: Ints  # pieces of the job for which each node has room; written before it is read
    counted: Ints  # nodes of which `room` is the sum, shape (words,)
    taken: Ints  # pieces that the place found last has on each node of the job's node set
    runs: Records[Run]
    ends: Ints  # planned ends of the running jobs that have nodes, in ascending order
    first_held: Ints  # what the i-th of them has is `held[first_held[i]:first_held[i + 1]]`
    held: Records[Held]
    leaf_of: Ints  # the switch of each node; read-only; empty as the next two, if no switch counts
    on_leaf: Ints  # nodes by their switches; read-only
    switches: Records[Switch]
    most_on_node: Ints  # pieces of each shape that an empty node holds at most; read-only
    one: Records[Cycle]  # one


class UsageArrays(NamedTuple):
    """Arrays of the usage of users and accounts, and of limits."""

    one: Records[Tally]  # one
    entries: Records[Entry]
    upward: Ints  # the entries but the root, the deepest first, read-only
    first_child: Ints  # those of entry i are `children[first_child[i]:first_child[i + 1]]`; read-only
    children: Ints
    stack: Ints  # entries from the root down to the one that is ranked; written before it is read
    resets: Ints  # when all usage is forgotten [s]; read-only
    jobs: Records[UsingJob]  # by row
    limits: Records[Limit]
    claims: Records[Claim]  # those of the job in row i are `claims[first_claim[i]:first_claim[i + 1]]`; read-only
    first_claim: Ints  # read-only


class SlurmArrays(NamedTuple):
    """All arrays of the two loops, as the kernels pass them on."""

    pace: Records[Pace]  # one
    unreserved: Bools  # whether a job gets no reservation, by row; read-only
    held_by: Ints  # number of the limit that held a job last, by row, or -1
    quotas: Ints  # how many jobs of each group a run of its loop tests; read-only
    group_of: Ints  # of each job, or -1, shape (quotas, jobs); read-only
    of_main: Bools  # whether a quota is one of the main loop; read-only, shape (quotas,)
    tested_of: Ints  # jobs of each group tested in this run, shape (quotas, groups)
    ranking: Records[Ranking]  # one
    parts: Records[Parts]  # by row; empty where the queue is not ranked; written only where jobs preempt others
    usage: UsageArrays


PACE: Final = record_type(Pace)
LIMIT: Final = record_type(Limit)
CLAIM: Final = record_type(Claim)
RANKING: Final = record_type(Ranking)
PARTS: Final = record_type(Parts)
TALLY: Final = record_type(Tally)
ENTRY: Final = record_type(Entry)
USING_JOB: Final = record_type(UsingJob)
RUN: Final = record_type(Run)
HELD: Final = record_type(Held)
SWITCH: Final = record_type(Switch)
CYCLE: Final = record_type(Cycle)
PREEMPTING: Final = record_type(Preempting)
