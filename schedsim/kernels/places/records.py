"""Records of nodes with several resources: what is free on each, what jobs ask for, and which job has what.

These arrays come with those of `schedsim.kernels.records`; simulations that count processors alone do not have them.
"""

from typing import Final, NamedTuple

import numpy as np

from predictors.core.arrays import Bools, Ints
from schedsim.kernels.records import Records, record_type


class Node:
    """What is free on a node now; also what it has in all."""

    procs: int
    gpus: int
    memory: int  # [KB]
    n_jobs: int  # that run on it, each as its demand `joins` it; -1: it is under repair
    kept: bool  # a job on it keeps others off, or it is under repair
    one_job: bool  # the node serves one job at a time, whoever it is
    reserved_from: int  # no job may run on it beyond this second, by its requested time; NEVER: it is not reserved


class Demand:
    """What jobs of one shape ask for: equal pieces, each on one node."""

    pieces: int
    procs: int  # of a piece, at least 1
    gpus: int
    memory: int  # [KB]
    spread: bool  # each piece lies on a node of its own; else a node takes as many as fit
    exclusive: bool  # it keeps others off its nodes; if `alike` is not 0 those of other users alone
    node_set: int  # number of the set of nodes that it may use
    partition: int  # that of the nodes of its partition
    first_member: int  # the nodes of that set are `members[first_member:end_member]`, ascending
    end_member: int
    joins: int  # what a job adds to `n_jobs` of a node, see `schedsim.workload.demands.count_users`
    alike: int  # what a job of its user adds that keeps none off; 0: it shares no nodes that are kept
    guards: int  # the bits of `n_jobs` that count jobs that keep others off


class Tried:
    """When a place for jobs of one shape was last looked for in vain."""

    in_vain_at: int  # `n_released` then, or -1
    missing: int  # pieces, at least, for which there was no room then
    in_the_way_at: int  # moment at which it would have taken the head's place, or -1
    breaks_promise_at: int  # moment at which it would have taken the place promised to the head, or -1


class Part:
    """Pieces of a job on one node."""

    node: int
    pieces: int
    next: int  # another part of the job; or of a record given back the next such record; or -1


class NodeLevel:
    """What is free on a node from a second on, by the plan, until the next level of that node."""

    time: int  # not behind the fields of `Node`: numba would take the one record for the other
    next: int  # the next level of the node, or -1
    procs: int
    gpus: int
    memory: int  # [KB]
    n_jobs: int
    kept: bool
    one_job: bool
    reserved_from: int  # NEVER: the plan looks at reservations by itself


class Places:
    """Where the search for places stands."""

    n_released: int  # parts of jobs that have been released so far; a repair counts as more than are remembered
    n_occupied: int  # jobs that have taken nodes so far
    moment: int  # moves on where the answer about the head's place may change
    spare_part: int  # the record given back last, or -1
    n_parts: int  # records from here on were never used
    n_levels: int  # of the plan; the first level of each node has the node's number
    most_parts: int  # on so many nodes a job may lie
    n_spots: int  # rows used in `spots`
    head_room: int  # pieces of the head for which there is room at its shadow time
    promise_room: int  # and at the start that it was promised
    released_at_scan: int  # `n_released` and `n_occupied` when the last search for backfills began
    occupied_at_scan: int
    head_at_scan: int  # row of its head, or -1
    dated_until: int  # from this second on `reserved_from` of the nodes must be found again; NEVER: it stays
    n_chosen: int  # nodes of the place found last; 0: none was found
    n_missing: int  # pieces for which there was no room when none was found
    n_reserved: int  # times that the head's shadow time was looked for
    n_promised: int  # and what is free at its promise
    head_end: int  # when the head would end by its requested time if it started at its shadow time


class NodeArrays(NamedTuple):
    """All arrays of the nodes of a simulation, as the kernels pass them on."""

    nodes: Records[Node]  # now
    later: Records[Node]  # at the head's shadow time, by the estimates; see `placement.planned_node`
    later_as_of: Ints  # number of the reservation for which each of them was written
    at_promise: Records[Node]  # at the start promised to the head, by requested times
    promise_as_of: Ints  # number of the promise for which each of them was written
    empty: Records[Node]  # without a job; read-only
    demands: Records[Demand]  # by shape; read-only
    shape_of: Ints  # number of each job's shape, by row; read-only
    users: Ints | None  # the bits of a node's `n_jobs` that count jobs, shape (1,); None: no job joins its user's
    members: Ints  # nodes of each node set; read-only
    serves: Bools  # whether a node is in a node set, shape (node sets, nodes); read-only
    windows: Ints  # from when to when some nodes are reserved, by the end, shape (n, 2); read-only
    opens: Ints  # the first begin of a window from a number on, by kind of node, shape (n + 1, kinds); read-only
    kind_of: Ints  # the kind of each node: those of one kind are reserved together; read-only
    tried: Records[Tried]  # by shape
    released_on: Ints  # the node of each part released last: of part k at k % REMEMBERED
    parts: Records[Part]
    first_part: Ints  # of each job that runs, or keeps a place in the plan, by row, or -1
    levels: Records[NodeLevel]  # of the plan, see `plan`
    last_level: Ints  # of each node, while the plan is begun; written before it is read
    chosen: Ints  # nodes of the place found last, ascending
    chosen_pieces: Ints  # pieces on each of them
    spots: Ints  # parts of the jobs that have started, as they did: job row, node, pieces; shape (n, 3)
    one: Records[Places]  # one


NODE: Final = record_type(Node)
DEMAND: Final = record_type(Demand)
TRIED: Final = record_type(Tried)
PART: Final = record_type(Part)
NODE_LEVEL: Final = record_type(NodeLevel)
PLACES: Final = record_type(Places)

UNLIMITED: Final = np.int64(1 << 50)
"""Memory of a node whose memory does not count [KB]."""

REMEMBERED: Final = 256
"""Of so many parts released last the nodes are known."""

# resources that a job lacks, as bits
PROCESSORS: Final = 1
GPUS: Final = 2
MEMORY: Final = 4
EMPTY_NODES: Final = 8

TAKE: Final = 1
RELEASE: Final = -1
