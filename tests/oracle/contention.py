"""How fast is each job in each second? The contention model in plain Python, from its equations alone.

It is given what was decided elsewhere, when each job started and ended and on which nodes, and the load from outside
in each second; it shares no code with the model that it checks.
"""

from dataclasses import dataclass


@dataclass
class Job:
    """A job: when it ran, its nodes, and its application's shares and loads."""

    start: int
    end: int
    nodes: list[int]
    x: float  # share of time for the network
    y: float  # for data
    z: float  # for metadata
    d: float  # bytes/s that each node sends
    a: float  # how far they go
    b: float  # bytes/s of data of each node
    o: float  # metadata operations/s of each node


@dataclass
class Machine:
    """Capacities; the outside loads by second come as a function."""

    leaves: int
    per_leaf: int
    uplink: float
    files: float
    calls: float
    most: float = 0.95
    clip_network: float = 4.0
    clip_io: float = 6.0


def g(r, machine):
    r = min(r, machine.most)
    return r / (1 - r)


def on_leaf(job, leaf, machine):
    return sum(node // machine.per_leaf == leaf for node in job.nodes)


def pushed(job, leaf, machine):
    n, there = len(job.nodes), on_leaf(job, leaf, machine)
    return there * job.d * job.a * (1 - there / n) + there * job.b


def slowdown(job, running, outside, noise, machine):
    """Return how much slower than undisturbed a job runs next to those running, itself among them."""
    leaves = [leaf for leaf in range(machine.leaves) if on_leaf(job, leaf, machine)]
    rho = {
        leaf: (sum(pushed(other, leaf, machine) for other in running) + noise[leaf]) / machine.uplink + outside[leaf]
        for leaf in leaves
    }
    u = sum(len(other.nodes) * other.b for other in running) / machine.files + outside[machine.leaves]
    v = sum(len(other.nodes) * other.o for other in running) / machine.calls + outside[machine.leaves + 1]
    n = len(job.nodes)
    excess = max(g(rho[leaf], machine) - g(pushed(job, leaf, machine) / machine.uplink, machine) for leaf in leaves)
    network = excess * max(1 - on_leaf(job, leaf, machine) / n for leaf in leaves)
    data = max(g(u, machine) - g(n * job.b / machine.files, machine), excess)
    metadata = g(v, machine) - g(n * job.o / machine.calls, machine)
    by_network = min(job.x * network, machine.clip_network - 1)
    by_io = min(job.y * data + job.z * metadata, machine.clip_io - 1)
    return 1 + by_network + by_io


def speeds(jobs, seconds, outside_at, noise_at, machine):
    """Return for each job the list of its speeds, second by second, from its start to its end."""
    found = [[] for _ in jobs]
    for second in range(seconds):
        running = [job for job in jobs if job.start <= second < job.end]
        for i, job in enumerate(jobs):
            if job.start <= second < job.end:
                found[i].append(1 / slowdown(job, running, outside_at(second), noise_at(second), machine))
    return found
