"""Kernels of the contention model: loads of the shared parts, and the slow-down of each job.

The queueing penalty of a part with utilisation r is g(r) = r / (1 - r), as of a shared processor (M/M/1), with r cut at
`MOST`. A job suffers the penalty above that of its own load: alone, nothing. The slowest leaf of a job sets its pace,
since its processes wait for each other.
"""

from typing import Final

import numpy as np

from predictors.core.arrays import Floats, Ints
from predictors.core.jit import compiled, lean

# columns of `about`, one row a running job: its application, see `App.vector`
NETWORK: Final = 0
IO: Final = 1
METADATA: Final = 2
SENDS: Final = 3
SPREAD: Final = 4
MOVES: Final = 5
CALLS: Final = 6
ABOUT: Final = 7

# cells of `machine`
UPLINK: Final = 0  # bytes/s of each leaf's uplink
FILES: Final = 1  # bytes/s of the file system
CALLS_SERVED: Final = 2  # operations/s of the metadata server
MOST: Final = 3  # largest utilisation that counts
CLIP_NETWORK: Final = 4  # largest slow-down by the network
CLIP_IO: Final = 5  # largest slow-down by the file system
INJECTION: Final = 6  # bytes/s of each node's link
MACHINE: Final = 7

# cells of a slow-down
TOTAL: Final = 0
BY_NETWORK: Final = 1
BY_IO: Final = 2
AT_LEAF: Final = 3  # the highest utilisation of an uplink that it uses
PARTS: Final = 4


@lean
def penalty(utilisation: float, most: float) -> float:
    """Return the queueing penalty of a part: the extra time of a request, relative to an idle part."""
    r = min(utilisation, most)
    return float(r / (1.0 - r))


@lean
def leaving(n: int, width: int, sends: float, spread: float, moves: float) -> float:
    """Return what `n` of a job's `width` nodes, those on one leaf, push through its uplink [bytes/s]."""
    return float(n * (sends * spread * (1.0 - n / width) + moves))


@compiled
def weigh(
    spread: Ints, width: Ints, about: Floats, noise: Floats, outside: Floats, machine: Floats, load: Floats
) -> None:
    """Write the utilisation of each uplink, of the file system and of the metadata server into `load`."""
    n_leaves = spread.shape[1]
    for leaf in range(n_leaves):
        pushed = noise[leaf]
        for j in range(len(width)):
            if width[j] > 0 and spread[j, leaf] > 0:
                pushed += leaving(spread[j, leaf], width[j], about[j, SENDS], about[j, SPREAD], about[j, MOVES])
        load[leaf] = pushed / machine[UPLINK] + outside[leaf]
    moved, called = 0.0, 0.0
    for j in range(len(width)):
        if width[j] > 0:
            moved += width[j] * about[j, MOVES]
            called += width[j] * about[j, CALLS]
    load[n_leaves] = moved / machine[FILES] + outside[n_leaves]
    load[n_leaves + 1] = called / machine[CALLS_SERVED] + outside[n_leaves + 1]


@compiled
def slowdown(spread: Ints, width: int, about: Floats, machine: Floats, load: Floats, out: Floats) -> float:
    """Write the slow-down of a job by its causes; its own load is part of `load`. Return the total."""
    n_leaves, most = len(spread), machine[MOST]
    worst, crossing, highest = 0.0, 0.0, 0.0
    for leaf in range(n_leaves):
        if spread[leaf] == 0:
            continue
        own = leaving(spread[leaf], width, about[SENDS], about[SPREAD], about[MOVES]) / machine[UPLINK]
        worst = max(worst, penalty(load[leaf], most) - penalty(own, most))
        crossing = max(crossing, 1.0 - spread[leaf] / width)
        highest = max(highest, load[leaf])
    files = penalty(load[n_leaves], most) - penalty(width * about[MOVES] / machine[FILES], most)
    calls = penalty(load[n_leaves + 1], most) - penalty(width * about[CALLS] / machine[CALLS_SERVED], most)
    network = min(about[NETWORK] * worst * crossing, machine[CLIP_NETWORK] - 1.0)
    # data pass the uplink and the file system one after the other: the slower one sets the pace
    io = min(about[IO] * max(files, worst) + about[METADATA] * calls, machine[CLIP_IO] - 1.0)
    out[TOTAL], out[BY_NETWORK], out[BY_IO], out[AT_LEAF] = 1.0 + network + io, network, io, highest
    return float(out[TOTAL])


@compiled
def set_speeds(spread: Ints, width: Ints, about: Floats, machine: Floats, load: Floats, speed: Floats) -> None:
    """Write the speed of each running job: 1 is that of a machine without contention."""
    out = np.empty(PARTS)
    for j in range(len(width)):
        if width[j] > 0:
            speed[j] = 1.0 / slowdown(spread[j], width[j], about[j], machine, load, out)


@compiled
def work_on(width: Ints, speed: Floats, left: Floats, seconds: float) -> None:
    """Let the running jobs work for this long."""
    for j in range(len(width)):
        if width[j] > 0:
            left[j] -= speed[j] * seconds


@compiled
def ends_of(width: Ints, row: Ints, speed: Floats, left: Floats, now: int, rows: Ints, ends: Ints) -> int:
    """Write rows and ends of the running jobs in the present state; return how many there are."""
    n = 0
    for j in range(len(width)):
        if width[j] > 0:
            rows[n] = row[j]
            ends[n] = now + max(1, int(np.ceil(left[j] / speed[j] - 1e-9)))
            n += 1
    return n
