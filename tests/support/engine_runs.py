"""How tests run the engine on the oracle's jobs, and look at its schedule as the oracle's outcome."""

from collections import Counter

import numpy as np

from jobcast import Policy, Workload, make_policy, simulate
from predictors.core.events import STARTED, SUBMITTED
from schedsim.explain.snapshot import Stepper
from schedsim.policies.policy import POLICIES
from schedsim.results.schedule import STARTED_BY
from schedsim.validate.checks import check_no_start_looks_ahead
from schedsim.workload.estimates import clairvoyant
from tests.by_hand.tsafrir import Tsafrir
from tests.oracle.easy import Outcome
from tests.support.strategies import PROCS, seeded_workload

EVERY_POLICY = [
    *POLICIES,
    *(f"hybrid-{depth}" for depth in (1, 2, 3, 5)),
    *(f"{name}+promise" for name in POLICIES if name.startswith("easy") or name.endswith("-easy")),
    *(f"hybrid-{depth}+promise" for depth in (1, 2, 4)),
    "cobalt-2",
    "careful",
    "balanced",
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


def knows_the_future(jobs, policy, estimates):
    """Return whether a start hangs on how long a job runs that has not ended by then."""
    try:
        check_no_start_looks_ahead(policy, jobs, estimates)
    except AssertionError:
        return True
    return False


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


def nodes_of(schedule):
    """Return each job's nodes."""
    return [schedule.nodes[row].tolist() for row in range(len(schedule.nodes))]


def outcome_of(schedule):
    """Return all that a schedule says of its jobs, to be compared."""
    names = ("start", "end", "estimate", "last_estimate", "started_by", "killed")
    columns = {name: getattr(schedule, name).tolist() for name in names}
    return {**columns, "nodes": None if schedule.nodes is None else nodes_of(schedule)}


def goes_on_alike(simulation, whole):
    """Hold a fork, the original, and the original gone back to a snapshot against the whole schedule.

    The simulation stands afterwards where it stood before.
    """
    snapshot, fork = simulation.snapshot(), simulation.fork()
    for branch in (fork, simulation):
        branch.run()
        assert outcome_of(branch.schedule()) == outcome_of(whole)
    simulation.restore(snapshot)
    assert simulation.run() and outcome_of(simulation.schedule()) == outcome_of(whole)
    simulation.restore(snapshot)
    return fork


def random_workload(seed, **about):
    return workload_of(seeded_workload(seed, **about))


def jobs_of(*rows, machine):
    """Return a workload of rows (submit, processors, request, run time); its jobs are numbered from 1 on."""
    columns = dict(zip(("submit", "procs", "requested", "run_time"), np.array(rows).T, strict=True))
    return Workload.from_columns(range(1, len(rows) + 1), machine_procs=machine, **columns)


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


def instants(simulation, recorded=None):
    """Every scheduling instant of a simulation."""
    stepper = Stepper(simulation, recorded)
    while stepper.next_time() is not None:
        yield stepper.look()


def rules_noted(simulation, recorded=None):
    """Hold what the passes note against what happens; return how often each rule was noted.

    At every instant a reason is noted for each job that waits or starts, `starts` for those that start by the events,
    and the numbers in it say what the rule says.
    """
    rules = Counter()
    for instant in instants(simulation, recorded):
        events = simulation.events()
        events = events[np.searchsorted(events[:, 0], instant.now) :]
        reasons = instant.reasons
        assert instant.started == set(events[events[:, 1] == STARTED, 2].tolist()), instant.now
        waiting = {*simulation.queued.tolist(), *simulation.postponed.tolist(), *simulation.held.tolist()}
        assert reasons.keys() == waiting | instant.started, instant.now
        for row, reason in reasons.items():
            assert says_what_it_means(simulation, instant, row, reason), (instant.now, row, reason)
            rules[reason.rule] += 1
    return rules


def says_what_it_means(simulation, instant, row, reason):
    """Whether the numbers of a reason are such that its rule holds."""
    procs, ends = int(simulation.workload.procs[row]), instant.would_end(row)
    by_request = instant.now + int(simulation.workload.requested[row])
    late = reason.shadow is None or ends > reason.shadow
    wide = reason.extra is None or procs > reason.extra
    meaning = {
        "starts": procs <= reason.free,
        "head": reason.head == row,
        "processors": procs > reason.free,
        "place": procs <= reason.free,
        "turn": reason.head not in (None, row),
        "shadow": procs <= reason.free and late and wide and reason.head not in (None, row),
        "promise": procs <= reason.free and by_request > (reason.shadow or 0) and wide,
        "reservation": procs <= reason.free and reason.blockers and instant.now < (reason.collides or 0) < ends,
        "ceiling": (reason.room or 0) < procs <= reason.free,
        "share": (reason.room or 0) < procs or (late and wide),
        "outage": procs <= reason.free and instant.now < (reason.collides or 0) < by_request,
        "put off": (reason.due or 0) > instant.now,
        "held": bool(reason.reason),
    }
    return meaning.get(reason.rule, procs <= reason.free)
