"""Nodes of a simulation whose jobs take processors, GPUs and memory of them; which policies can plan so."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from predictors.core.errors import JobcastError
from schedsim.kernels.nodes.records import NodeArrays
from schedsim.policies.policy import Policy
from schedsim.workload.workload import Workload

_MUTABLE = ("nodes", "later", "at_promise", "tried", "parts", "first_part", "chosen", "chosen_pieces", "one")
"""The arrays that a fork copies; it shares the others."""


@dataclass(frozen=True, eq=False)
class Placing:
    """The nodes and which job has what of them, at one moment of a simulation.

    Parameters
    ----------
    arrays : NodeArrays
        As the kernels take them.
    """

    arrays: NodeArrays

    @classmethod
    def of(cls, workload: Workload, policy: Policy, **parts: object) -> "Placing | None":
        """Return the nodes of a simulation before its first second; None where jobs ask for processors alone.

        Parameters
        ----------
        workload, policy
            Of the simulation.
        parts
            What else it was given, by its name in messages; None is nothing.

        Raises
        ------
        JobcastError
            If policy or parts plan by numbers of processors alone.
        """
        if workload.demands is None:
            return None
        for name, part in parts.items():
            if part is not None:
                raise JobcastError(
                    f"{workload.name}: its jobs take GPUs and memory of nodes, and {name.replace('_', ' ')} count "
                    "processors or nodes that are alike; leave them out, or the machine file."
                )
        refuse_counting(policy)
        if policy.promise is not None and workload.demands.windows is not None and len(workload.demands.windows):
            raise JobcastError(
                "Promises on nodes know of no reservations of the machine: take a policy without promises (easy, "
                "easy-sjbf, …), or leave --outages out."
            )
        return cls(workload.demands.arrays())

    def fork(self) -> Self:
        """Return an independent copy."""
        copies: dict[str, Any] = {name: getattr(self.arrays, name).copy() for name in _MUTABLE if name != "parts"}
        parts: Any = np.empty_like(self.arrays.parts)
        used = int(self.arrays.one[0].n_parts)
        parts[:used] = self.arrays.parts[:used]
        return type(self)(self.arrays._replace(parts=parts, **copies))


def counts_alone(policy: Policy) -> str | None:
    """Return what of a policy counts processors alone, so that it cannot plan on nodes; None if nothing does.

    Examples
    --------
    >>> from schedsim.policies.policy import make_policy
    >>> counts_alone(make_policy("easy-sjbf")), counts_alone(make_policy("hybrid-2"))
    (None, 'several reservations')
    """
    reasons = {
        "knapsacks of jobs": policy.kind == "knapsack",
        "Slurm's loops": policy.kind == "loops",
        "several reservations": policy.kind not in ("counts", "greedy"),
        "gates": policy.gate is not None,
        "agents": policy.agent is not None,
        "ceilings on utilisation and postponed jobs": policy.is_ceil,
        "a look-ahead": policy.order.look_ahead is not None,
    }
    return next((what for what, given in reasons.items() if given), None)


def refuse_counting(policy: Policy) -> None:
    """Refuse a policy that plans by numbers of processors alone.

    Raises
    ------
    JobcastError
        Naming what does not go with nodes, and the policies that do.
    """
    what = counts_alone(policy)
    if what is not None:
        raise JobcastError(
            f"This policy has {what}, which count processors alone, and the jobs take GPUs and memory of nodes. "
            "Take an order (fcfs, sjf, wfp3, …), EASY on one (easy, easy-sjbf, wfp3-easy, …), "
            "careful, balanced, binpacking or random; or leave out the machine file."
        )
