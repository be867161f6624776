"""Jobs that take processors, GPUs and memory of nodes: the oracle's as the engine takes them, and random ones."""

from dataclasses import replace
from random import Random

import numpy as np

import schedsim.kernels.places.records as of
from jobcast import JobLog, Workload
from schedsim.kernels.records import NEVER
from schedsim.machine.node_groups import Machine, NodeGroup, demands_of
from schedsim.machine.topology import Switch, tree_of
from schedsim.workload.demands import Demands, count_users
from tests.oracle.constraints import usable
from tests.oracle.easy import Job
from tests.oracle.machine import Ask, Box, Nodes


def demands(boxes, asks, users):
    """The engine's demands of what the oracle's jobs ask for."""
    nodes, shapes = np.zeros(len(boxes), of.NODE), np.zeros(len(asks), of.DEMAND)
    for node, box in zip(nodes, boxes, strict=True):
        node.procs, node.gpus, node.memory = box.has
        node.one_job = box.one_job
        node.reserved_from = NEVER
    sets = sorted({one for ask in asks for one in (ask.nodes, partition_of(ask))})
    serves = np.array([[node in one for node in range(len(boxes))] for one in sets])
    ends = np.cumsum([len(one) for one in sets])
    keepers = sorted({user for ask, user in zip(asks, users, strict=True) if ask.exclusive == "user"})
    told = [
        (a.pieces, a.piece, a.spread, bool(a.exclusive), a.nodes, partition_of(a),
         keepers.index(user) + 1 if user in keepers and a.exclusive is not True else 0)
        for a, user in zip(asks, users, strict=True)
    ]  # fmt: skip
    alike = sorted(set(told))
    for shape, (pieces, piece, spread, exclusive, one, partition, _) in zip(shapes, alike, strict=False):
        shape.pieces, (shape.procs, shape.gpus, shape.memory) = pieces, piece
        shape.spread, shape.exclusive, shape.node_set = spread, exclusive, sets.index(one)
        shape.partition, shape.end_member = sets.index(partition), ends[sets.index(one)]
        shape.first_member = shape.end_member - len(one)
    shape_of = np.array([alike.index(one) for one in told])
    shapes = shapes[: len(alike)]
    counts = count_users(shapes, np.array([one[-1] for one in alike]), max(box.has[0] for box in boxes))
    members = np.concatenate([np.array(one) for one in sets])
    weights = np.array([box.weight for box in boxes])
    for array in (nodes, serves, shapes, shape_of, members, weights):
        array.flags.writeable = False
    weight_of = None if (weights == 1).all() else weights
    return Demands(nodes, members, serves, shapes, shape_of, counts, weight_of=weight_of, **tree(boxes))


def partition_of(ask):
    """The nodes of a job's partition."""
    return ask.told[0] if ask.told else ask.nodes


def tree(boxes):
    """The switches of nodes by a machine file, as the engine takes them."""
    if boxes[0].way is None:
        return {}

    def name(way):
        return "-".join(["s", *map(str, way)])

    ways = sorted({box.way[:n] for box in boxes for n in range(len(box.way) + 1)})
    switches = [Switch(name(way), name(way[:-1]) if way else None) for way in ways]
    groups = [(f"n{k}", 1, name(box.way)) for k, box in enumerate(boxes)]
    return tree_of(groups, switches, "machine.toml")._asdict()


def workload_on(boxes, jobs):
    """The oracle's jobs and nodes as a workload."""
    columns = {
        name: [getattr(job, name) for job in jobs] for name in ("submit", "procs", "requested", "run_time", "user")
    }
    return Workload.from_columns(
        [job.job_id for job in jobs],
        machine_procs=sum(box.has[0] for box in boxes),
        demands=demands(boxes, by_the_file(boxes, [job.ask for job in jobs]), [job.user for job in jobs]),
        **columns,
    )


def by_the_file(boxes, asks):
    """The same asks, on the nodes that jobcast finds by a machine file and a log with what the jobs tell."""
    if not any(ask.told for ask in asks):
        return asks
    parts = sorted({ask.told[0] for ask in asks} - {tuple(range(len(boxes)))})
    groups = [
        NodeGroup(
            f"n{n}", 1, box.has[0], gpus=box.has[1], features=box.features, gpu_type=box.gpu_type or None,
            partitions=(*(f"p{k}" for k, part in enumerate(parts) if n in part), "another"),
        )
        for n, box in enumerate(boxes)
    ]  # fmt: skip
    texts = {
        "partition": [f"p{parts.index(ask.told[0])}" if ask.told[0] in parts else "" for ask in asks],
        "constraint": [ask.told[1] for ask in asks],
        "gpu_type": [ask.told[2] for ask in asks],
    }
    names = {column: sorted({text for text in found if text}) for column, found in texts.items()}
    pieces = [ask.pieces for ask in asks]
    columns = {"job_id": range(len(asks)), "submit": range(len(asks)), "requested_procs": pieces}
    columns |= {"requested_nodes": pieces, **{c: [names[c].index(t) if t else 0 for t in texts[c]] for c in texts}}
    unknown = {c: [not text for text in found] for c, found in texts.items()}
    unknown["requested_nodes"] = [not ask.spread for ask in asks]
    log = JobLog.from_columns(columns, unknown, categories={column: tuple(found) for column, found in names.items()})
    _, found, _ = demands_of(log, Machine(tuple(groups)))
    sets = found.serves[found.shapes["node_set"][found.shape_of]]
    return [replace(ask, nodes=tuple(np.flatnonzero(own).tolist())) for ask, own in zip(asks, sets, strict=True)]


def with_switches(random, boxes):
    """The same nodes on the leaf switches of a tree, of which some may lie higher than others."""

    def below(way, levels):
        if not levels or (way and random.random() < 0.1):
            return [way]
        return [leaf for k in range(random.randint(1, 3)) for leaf in below((*way, k), levels - 1)]

    leaves = below((), random.choice([0, 1, 2, 2, 3]))
    return [replace(box, way=random.choice(leaves)) for box in boxes]


def with_features(random, boxes):
    """The same nodes, of which some have features and GPUs of a type."""

    def drawn(box):
        features = tuple(sorted(random.sample("abc", random.choice([0, 1, 1, 2]))))
        return replace(box, features=features, gpu_type=random.choice(["", "x", "x", "y"]) if box.has[1] else "")

    return [drawn(box) for box in boxes]


CONSTRAINTS = (
    "", "", "a", "b", "c", "a&b", "a,c", "a|b", "a|b&c", "c&a|b", "a&(b|c)", "(a|b)&(b|c)", "a|(b&c)", "b|", "[a|b]",
    "c&[a|b]", "[a|(b&c)]&c", "a*1", "[a*2]", "b*2", "[a*1&b*1]", "[(a|c)*2&b*1]", "[(a|b)*1]", "a&&b", "(a", "a(b",
    "d|a",
)  # fmt: skip


def with_constraint(random, boxes, ask):
    """The same, as the job tells it by a partition, a constraint and a type of GPU, on the nodes that are left."""
    text, kinds = random.choice(CONSTRAINTS), {box.gpu_type for box in boxes} - {""}
    types = random.choice(["", "", "x", "y", "x,y"]) if kinds else ""
    known, nodes = {name for box in boxes for name in box.features}, ask.pieces if ask.spread else 0
    left = tuple(
        n for n in ask.nodes
        if usable(text, boxes[n].features, known, nodes) and (not types or boxes[n].gpu_type in types.split(","))
    )  # fmt: skip
    return replace(ask, nodes=left, told=(ask.nodes, text, types))


def job_on(job_id, submit, requested, run_time, pieces, piece, spread=False, exclusive=False, nodes=()):
    """A job that asks for equal pieces, as (processors, GPUs, memory)."""
    ask = Ask(pieces, piece, spread, exclusive, nodes)
    return Job(job_id, submit, pieces * piece[0], requested, run_time, ask=ask)


def single_processors(procs):
    """Nodes of one processor."""
    return [Box((1, 0, 0))] * procs


def drawn_boxes(random, most=7):
    """A machine of up to three kinds of nodes, and up to three sets of them."""
    boxes = [
        Box(random.choice([(8, 0, 16), (8, 4, 32), (4, 2, 8), (2, 0, 4)]), random.random() < 0.15)
        for _ in range(random.randint(1, most))
    ]
    sets = [tuple(range(len(boxes)))]
    for _ in range(random.randint(0, 2)):
        sets.append(tuple(sorted(random.sample(sets[0], random.randint(1, len(boxes))))))
    return boxes, sets


def drawn_ask(random, sets):
    """What a job may ask for."""
    return Ask(
        random.choice([1, 1, 2, 3, 6]),
        (random.choice([1, 1, 2, 4, 8]), random.choice([0, 0, 1, 2]), random.choice([0, 1, 3, 8])),
        random.random() < 0.4,
        random.random() < 0.15,
        random.choice(sets),
    )


def drawn(seed):
    """A machine, jobs of all kinds that fit on it, and an estimate for each."""
    random = Random(seed)
    boxes, sets = drawn_boxes(random)
    step, jobs = random.choice([1, 5, 60]), []
    while len(jobs) < random.randint(8, 24):
        times = step * random.randint(0, 9), step * random.randint(1, 6), step * random.randint(0, 7)
        ask = drawn_ask(random, sets)
        job = Job(len(jobs), times[0], ask.pieces * ask.piece[0], *times[1:], ask=ask)
        if fits_alone(boxes, job):
            jobs.append(job)
    first = min(job.submit for job in jobs)
    ids = random.sample(range(1, 100), len(jobs))
    jobs = [replace(job, job_id=i, submit=job.submit - first) for i, job in zip(ids, jobs, strict=True)]
    jobs.sort(key=lambda job: (job.submit, job.job_id))
    guesses = [random.choice([max(1, job.run_time), random.randint(1, job.requested)]) for job in jobs]
    return boxes, jobs, [min(guess, job.requested) for guess, job in zip(guesses, jobs, strict=True)]


def fits_alone(boxes, job):
    """Whether a job has a place on an empty machine."""

    class Alone:
        ask = job.ask

    class Waiting:
        job = Alone

    return Nodes(boxes=boxes).could_hold(Waiting)
