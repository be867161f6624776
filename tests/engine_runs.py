"""How tests run the engine on the oracle's jobs, and look at its schedule as the oracle's outcome."""

import numpy as np

from predictors.data.events import SUBMITTED
from schedsim.engine import simulate
from schedsim.estimates import clairvoyant
from schedsim.policy import POLICIES, Policy, make_policy
from schedsim.schedule import STARTED_BY
from schedsim.workload import Workload
from tests.oracle import Outcome, rule_named
from tests.strategies import PROCS, seeded_workload
from tests.tsafrir_by_hand import Tsafrir

EVERY_POLICY = [
    *POLICIES,
    *(f"hybrid-{depth}" for depth in (1, 2, 3, 5)),
    *(f"{name}+promise" for name in POLICIES if name.startswith("easy") or name.endswith("-easy")),
    *(f"hybrid-{depth}+promise" for depth in (1, 2, 4)),
    "cobalt-2",
    "default",
]
"""Every name that `make_policy` knows, with some depths."""


def workload_of(jobs, procs=PROCS):
    """Return the oracle's jobs as a workload."""
    columns = {
        name: [getattr(job, name) for job in jobs] for name in ("submit", "procs", "requested", "run_time", "user")
    }
    return Workload.from_columns([job.job_id for job in jobs], machine_procs=procs, **columns)


def estimates_of(workload, estimates):
    """Return estimates by the oracle's names, or given by row, as the engine takes them."""
    if estimates == "tsafrir":
        nobody = -2 - np.arange(len(workload))  # an unknown user has no history: each such job is alone
        return Tsafrir(np.where(workload.user < 0, nobody, workload.user), workload.requested)
    if estimates == "clairvoyant":
        return clairvoyant(workload)
    return workload.requested if estimates == "requested" else np.array(estimates)


def engine(jobs, policy, estimates="requested", correction="requested", kill=True, procs=PROCS):
    """Run the engine; a policy is a name or a value."""
    workload = workload_of(jobs, procs)
    if not isinstance(policy, Policy):
        policy = make_policy(policy)
    schedule = simulate(workload, policy, estimates_of(workload, estimates), correction, kill)
    return Outcome(
        start=schedule.start.tolist(),
        estimate=schedule.estimate.tolist(),
        last_estimate=schedule.last_estimate.tolist(),
        started_by=[STARTED_BY[code] for code in schedule.started_by],
    )


def rule_of(name, jobs):
    """Return the oracle's rule; for `random` the engine tells its draw by serving the jobs on one processor."""
    if name != "random":
        return rule_named(name)
    alone = [job.__class__(job.job_id, 0, 1, 1, 1) for job in sorted(jobs, key=lambda job: job.job_id)]
    turn = dict(zip((job.job_id for job in alone), engine(alone, "random", procs=1).start, strict=True))
    return rule_named("random", draw=lambda entries, now: min(entries, key=lambda entry: turn[entry.job_id]))


def nodes_of(schedule):
    """Return each job's nodes."""
    return [schedule.nodes[row].tolist() for row in range(len(schedule.nodes))]


def random_workload(seed, **about):
    return workload_of(seeded_workload(seed, **about))


def busy_workload(n_jobs=400, seed=0):
    """A long queue on a small machine."""
    random = np.random.default_rng(seed)
    requested = random.integers(1, 60, n_jobs)
    return Workload.from_columns(
        np.arange(n_jobs),
        submit=np.sort(random.integers(0, 6 * n_jobs, n_jobs)),
        procs=random.integers(1, PROCS + 1, n_jobs),
        requested=requested,
        run_time=random.integers(1, requested + 1),
        user=random.integers(0, 5, n_jobs),
        machine_procs=PROCS,
    )


def three_jobs():
    return Workload.from_columns(
        range(3), submit=[0, 0, 0], procs=[4, 4, 8], requested=[10, 10, 10], run_time=[10, 10, 10], machine_procs=8
    )


class Recorder:
    """A forecast that notes what it is given, and says the requested time."""

    def __init__(self, requested):
        self.requested, self.slices = requested, []

    def advance(self, events, seconds):
        """Note the slice."""
        self.slices.append(events.copy())
        jobs = events[events[:, 1] == SUBMITTED, 2]
        seconds[jobs] = self.requested[jobs]
