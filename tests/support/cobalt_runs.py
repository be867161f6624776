"""How tests of Cobalt and of site rules run the engine: by the rules of the oracle, on two jobs, on a busy Mira."""

import random

import numpy as np

from jobcast import Simulation, Workload, make_policy
from schedsim.kernels import score_now
from schedsim.sites.cobalt.commands import Command
from schedsim.sites.cobalt.queues import Queue, Router, mira_router
from schedsim.sites.cobalt.rules import Rules
from schedsim.workload.dependencies import Dependencies
from tests.oracle.cobalt import House
from tests.support.strategies import PROCS


def score_of(simulation, job):
    """A waiting job's score now."""
    state = simulation._state
    row = simulation.workload.job_id.tolist().index(job)
    slots = np.flatnonzero(state.jobs_now["row"][: state.record.clock.n_slots] == row)
    return score_now(state.arrays(), int(slots[-1]), simulation.now)


def two_jobs(blocked_for=86_400, procs=49_152, requested=300, **kw):
    """Job 1 has the machine for long; job 2 waits."""
    return Workload.from_columns(
        [1, 2], submit=[0, 0], procs=[49_152, procs], requested=[blocked_for, requested], run_time=[blocked_for, 60],
        machine_procs=49_152, **kw,
    )  # fmt: skip


def waiting(commands, until, workload=None, router=None):
    workload = two_jobs() if workload is None else workload
    rules = Rules(mira_router() if router is None else router, commands=commands)
    simulation = Simulation(workload, make_policy("cobalt"), rules=rules)
    simulation.run(until=until)
    return simulation


QUEUES = [(5, 10**9, 0, 10**9, None), (1, 4, 0, 10**9, 5)]


def rules_of(house, jobs):
    """Return the engine's rules for the oracle's."""
    ids = [job.job_id for job in jobs]
    queues = tuple(
        Queue(f"q{i}", least, None if most == 10**9 else most, longer, None if up_to == 10**9 else up_to, share)
        for i, (least, most, longer, up_to, share) in enumerate(house.queues)
    )
    children = sorted(house.parents)
    dependencies = Dependencies(
        np.array([ids[row] for row in children], dtype=np.int64),
        np.array([ids[house.parents[row][0]] for row in children], dtype=np.int64),
        np.array([house.parents[row][1] for row in children], dtype=np.int64),
        frozenset(ids[row] for row in house.failed),
        "hold" if house.stuck else "run",
    )
    commands = tuple(Command(time, action, ids[row], *to) for time, action, row, *to in house.commands)
    return Rules(Router(queues), dependencies=dependencies, commands=commands)


def seeded_house(seed, jobs, sets=True):
    """Return rules by a seed: a few chains, failures, holds and alterations."""
    draw = random.Random(seed)
    n, step = len(jobs), min(job.requested for job in jobs)
    house = House(
        queues=QUEUES if sets and draw.random() < 0.6 else [(1, 4, 0, 10**9, None), (5, 10**9, 0, 10**9, None)]
    )
    for row in range(1, n):
        if draw.random() < 0.3:
            house.parents[row] = draw.randrange(row), draw.choice([0, 0, step, 7, 100])
    order = draw.sample(range(n), n)
    if draw.random() < 0.3:  # children submitted before their parents
        house.parents = {order[row]: (order[parent], think) for row, (parent, think) in house.parents.items()}
    house.failed = {row for row in range(n) if draw.random() < 0.15}
    house.stuck = draw.random() < 0.5
    last = max(job.submit for job in jobs) + 10 * step
    for row, job in enumerate(jobs):
        chance = draw.random()
        if chance < 0.15:
            held = draw.choice([job.submit, job.submit + draw.randint(1, 5 * step)])
            house.commands.append((held, "hold", row))
            house.commands.append((held + draw.randint(1, 6 * step), "release", row))
        elif chance < 0.3:
            to = draw.choice([None, draw.randint(1, PROCS)]), draw.choice([None, step * draw.randint(1, 6)])
            house.commands.append((job.submit + draw.randint(1, 4 * step), "alter", row, *to))
        if house.stuck and draw.random() < 0.9:
            house.commands.append((last + draw.randint(0, 40 * step), "release", row))
    house.commands.sort(key=lambda command: command[0])
    return house


def busy_mira(seed, n_jobs=300):
    """A crowded machine of Mira's size, half of the jobs small and long."""
    rng = np.random.default_rng(seed)
    sizes = np.array([512, 1024, 2048, 4096, 8192, 16_384, 32_768])
    procs = rng.choice(sizes, n_jobs, p=[0.2, 0.2, 0.2, 0.2, 0.1, 0.06, 0.04])
    requested = rng.choice([3600, 21_600, 43_200], n_jobs, p=[0.2, 0.2, 0.6])
    run_time = (requested * rng.uniform(0.2, 1, n_jobs)).astype(int)
    submit = np.sort(rng.integers(0, 200_000, n_jobs))
    columns = {"submit": submit, "procs": procs, "requested": requested, "run_time": run_time}
    return Workload.from_columns(np.arange(1, n_jobs + 1), machine_procs=49_152, **columns)


def most_used(schedule, rows):
    """Most processors that these jobs use at once."""
    times = np.concatenate([schedule.end[rows], schedule.start[rows]])
    change = np.concatenate([-schedule.workload.procs[rows], schedule.workload.procs[rows]])
    return int(np.cumsum(change[np.argsort(times, kind="stable")]).max())
