"""Are these the parts of a simulation? Names and other things in their place are refused."""

import numpy as np

from predictors.data.errors import JobcastError
from schedsim.allocators import Allocator
from schedsim.given import check_part
from schedsim.outages import Outages
from schedsim.policy import Policy
from schedsim.run_times import RunTimes
from schedsim.workload import Workload


def check_parts(
    workload: Workload,
    policy: Policy,
    kill: bool,
    allocator: Allocator | None,
    world: RunTimes | None,
    outages: Outages | None,
) -> None:
    """Refuse names and other things in the place of parts.

    Raises
    ------
    JobcastError
        Naming what was given, and the way out.
    """
    if not isinstance(workload, Workload):
        raise JobcastError(f"{workload!r} is not a workload; make one with Workload.from_log or from_columns.")
    if not isinstance(policy, Policy):
        raise JobcastError(f"{policy!r} is not a policy; make one with schedsim.policy.make_policy(NAME).")
    if not isinstance(kill, bool | np.bool_):
        raise JobcastError(f"kill is True or False; got {kill!r}.")
    allocators = "make one with schedsim.partitions.allocator_named(NAME, NODES)"
    check_part(allocator, ("topology", "by_identity", "place"), "an allocator", allocators)
    check_part(world, ("topology", "seed", "begun"), "a model of run times", "see schedsim.run_times")
    if outages is not None and not isinstance(outages, Outages):
        raise JobcastError(
            f"{outages!r} are no outages; make them with schedsim.outages.Outages or read_outages(FILE)."
        )
