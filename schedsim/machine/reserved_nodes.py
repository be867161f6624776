"""Reservations and failures on machines of nodes that differ: what of the nodes is reserved when."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np

from predictors.core.arrays import Bools, Ints
from predictors.core.errors import JobcastError
from predictors.core.validation import LATEST
from schedsim.machine.failures import FailureProcess
from schedsim.machine.outages import Outages, Pieces, Reservation, where
from schedsim.workload.demands import Demands

MOST_RESERVED: Final = 1 << 27  # most reservations times kinds of nodes that they distinguish


def reserving(demands: Demands, outages: Outages) -> Demands:
    """Return demands on nodes with reservations for maintenance or for others.

    >>> from predictors.data.joblog import JobLog
    >>> from schedsim.machine.node_groups import Machine, NodeGroup, demands_of
    >>> log = JobLog.from_columns({"job_id": [1], "submit": [0], "requested_procs": [2]}, {})
    >>> _, demands, _ = demands_of(log, Machine((NodeGroup("thin", 2, 4),)))
    >>> reserving(demands, Outages([Reservation(5, 9, nodes=((1, 2),))])).closed.tolist()
    [[False, True]]
    """
    n_nodes = len(demands.nodes)
    for one in outages.reservations:
        if one.procs is not None:
            raise JobcastError(
                f"{where(one)}nodes of a machine file differ: name the reserved ones, such as 0-{n_nodes - 1}, "
                f"in place of their number {one.procs}."
            )
    outages.check_machine(n_nodes)
    windows = np.array([(one.start, one.end) for one in outages.reservations], dtype=np.int64).reshape(-1, 2)
    whole = ((0, n_nodes),)
    return demands.reserving(
        windows, *_kinds([whole if one.nodes is None else one.nodes for one in outages.reservations], n_nodes)
    )


def _kinds(reserved: Sequence[Pieces], n_nodes: int) -> tuple[Bools, Ints]:
    """Return which kinds of nodes are reserved each time, shape (n, n_kinds), and the kind of each node.

    >>> closed, kind_of = _kinds([((0, 2), (3, 4)), ((2, 3),)], 5)
    >>> closed.tolist(), kind_of.tolist()
    ([[False, False, True], [False, True, False]], [2, 2, 1, 2, 0])
    """
    edges = np.unique([0, n_nodes, *(edge for pieces in reserved for piece in pieces for edge in piece)])
    if len(reserved) * len(edges) > MOST_RESERVED:
        raise JobcastError(
            f"{len(reserved):,} reservations of {len(edges) - 1:,} different groups of nodes are too many; "
            "leave the small ones out."
        )
    taken = np.zeros((len(reserved), len(edges) - 1), dtype=np.bool_)
    for row, pieces in zip(taken, reserved, strict=True):
        for first, end in np.searchsorted(edges, np.array(pieces).reshape(-1, 2)).tolist():
            row[first:end] = True
    if not len(taken):
        return np.empty((0, 1), dtype=np.bool_), np.zeros(n_nodes, dtype=np.int64)
    closed, kind = np.unique(taken, axis=1, return_inverse=True)
    return closed, np.repeat(kind.reshape(-1), np.diff(edges))


def in_processors(demands: Demands, outages: Outages) -> Outages:
    """Return reserved and failed nodes as numbers of reserved processors, in spans that do not overlap.

    >>> from predictors.data.joblog import JobLog
    >>> from schedsim.machine.node_groups import Machine, NodeGroup, demands_of
    >>> log = JobLog.from_columns({"job_id": [1], "submit": [0], "requested_procs": [2]}, {})
    >>> _, demands, _ = demands_of(log, Machine((NodeGroup("thin", 2, 4),)))
    >>> both = Outages([Reservation(5, 9, nodes=((1, 2),)), Reservation(7, 20)])
    >>> [(one.start, one.end, one.procs) for one in in_processors(demands, both).reservations]
    [(5, 7, 4), (7, 9, 8), (9, 20, 8)]
    """
    procs, n_nodes = demands.nodes["procs"], len(demands.nodes)
    closing, opening = defaultdict[int, list[Pieces]](list), defaultdict[int, list[Pieces]](list)
    for one in outages.reservations:
        pieces = ((0, n_nodes),) if one.nodes is None else one.nodes
        closing[one.start].append(pieces)
        opening[one.end].append(pieces)
    failing, times = FailureProcess.of_nodes(outages, n_nodes), np.zeros(n_nodes, dtype=np.int64)  # each is reserved
    spans: list[tuple[int, int, int]] = []
    since, level = -LATEST, 0
    for second in sorted({*closing, *opening, *outages.seconds.tolist(), LATEST}):
        if level:
            spans.append((since, second, level))
        for sign, changes in ((1, closing), (-1, opening)):
            for first, end in (piece for pieces in changes.pop(second, ()) for piece in pieces):
                times[first:end] += sign
        failing.advance(second)
        since, level = second, int(procs[(times > 0) | failing.is_down].sum())
    return Outages(tuple(Reservation(*span) for span in spans))
