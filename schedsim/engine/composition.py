"""What follows from how a simulation is composed: which parts do not go together, how the kernels list the jobs."""

import numpy as np

from predictors.core.errors import JobcastError
from predictors.core.validation import check_part
from schedsim.kernels.keys import FCFS as FIRST_COME
from schedsim.kernels.keys import RANDOM, UNICEP, WFP3, WIDEST
from schedsim.machine.allocators import Allocator
from schedsim.machine.outages import Outages
from schedsim.machine.run_times import RunTimes
from schedsim.policies import traits
from schedsim.policies.networks import Dras
from schedsim.policies.policy import FCFS, Policy
from schedsim.sites.cobalt.rules import Rules
from schedsim.workload.estimates import Source
from schedsim.workload.workload import Workload


def traits_of(
    workload: Workload,
    allocator: Allocator | None,
    run_times: RunTimes | None,
    rules: Rules | None,
    outages: Outages | None,
) -> frozenset[str]:
    """Return what of the parts of a simulation decides with which others they go."""
    demands, disturbed = workload.demands, outages is not None and bool(outages.parts)
    given = {
        traits.NODES: demands is not None,
        traits.ALLOCATOR: allocator is not None,
        traits.PLACES: allocator is not None and (allocator.by_identity or disturbed),
        traits.RUN_TIMES: run_times is not None,
        traits.OUTAGES: disturbed,
    }
    parts = frozenset(trait for trait, holds in given.items() if holds)
    return parts if rules is None else parts | rules.traits


def needs_estimates(policy: Policy) -> bool:
    """Return whether the places of waiting jobs, or who is backfilled, follow from their estimates."""
    plain = policy.agent is None and policy.backfill_order == policy.order
    by_width = policy.order.code in (FIRST_COME, WIDEST, RANDOM, WFP3, UNICEP)
    return not (plain and by_width and (policy.kind == "greedy" or policy.depth == 0))


def check_parts(
    workload: Workload,
    policy: Policy,
    kill: bool,
    allocator: Allocator | None,
    run_times: RunTimes | None,
    outages: Outages | None,
) -> None:
    if not isinstance(workload, Workload):
        raise JobcastError(f"{workload!r} is not a workload; make one with Workload.from_log or from_columns.")
    if not isinstance(policy, Policy):
        raise JobcastError(f"{policy!r} is not a policy; make one with schedsim.policies.policy.make_policy(NAME).")
    if not isinstance(kill, bool | np.bool_):
        raise JobcastError(f"kill is True or False; got {kill!r}.")
    allocators = "make one with schedsim.machine.partitions.allocator_named(NAME, NODES)"
    check_part(allocator, ("topology", "by_identity", "place"), "an allocator", allocators)
    check_part(run_times, ("topology", "seed", "begun"), "a model of run times", "see schedsim.machine.run_times")
    if isinstance(policy.agent, Dras):
        policy.agent.check_machine(workload.machine_procs, policy.window)
    if outages is not None and not isinstance(outages, Outages):
        raise JobcastError(
            f"{outages!r} are no outages; make them with schedsim.machine.outages.Outages or read_outages(FILE)."
        )


def jobs_may_change(policy: Policy, source: Source, rules: Rules | None) -> bool:
    """Return whether jobs may change while they wait, or the kernel is one that is compiled for this case alone.

    The pass of EASY is also compiled without what changes them, for its first run to begin soon.
    """
    plain = policy.kind in ("counts", "greedy") and policy.agent is None
    by_time = max(policy.order.code, policy.backfill_order.code) >= WFP3
    return not plain or by_time or policy.postpone is not None or rules is not None or source.revised is not None


def lists_groups(policy: Policy, on_nodes: bool, outages: Outages | None) -> bool:
    """Return whether candidates for backfills are searched by group: then a revision costs nothing for each job.

    So it is under EASY, or none, where both orders leave jobs that are alike in the order of submission, and with
    several reservations first come, first served. Jobs that failures stop have estimates of their own.
    """
    first_come, second = policy.order == FCFS, policy.backfill_order
    if policy.agent is not None or on_nodes or (outages is not None and outages.changes):
        return False
    if policy.kind == "profile":
        return first_come and second == FCFS and outages is None and policy.promise is None
    plain = policy.depth == 0 and first_come and policy.postpone is None  # then no estimate of a waiting job counts
    if policy.kind != "counts" or second.code >= WFP3 or second.code == RANDOM or plain:
        return False
    return first_come or (policy.order == second and policy.postpone is None)
