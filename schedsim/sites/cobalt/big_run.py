"""Big Run Monday: after maintenance the machine is empty at no cost, so the largest capability jobs go first.

At each end of maintenance of the whole machine, the waiting capability jobs move before all others, the largest first,
and stay there until they have started (Allcock, Rich, Fan & Lan, JSSPP 2017, section 4.2,
doi:10.1007/978-3-319-77398-8_1). Under a policy that orders by scores this is a command of the operators, without jobs
of spent accounts; under any other it is another order.
"""

from dataclasses import replace

import numpy as np

from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError
from schedsim.machine.outages import Outages
from schedsim.policies.orders import FORMULAS, Order, Waiting
from schedsim.policies.policy import Policy
from schedsim.sites.cobalt.commands import Command
from schedsim.sites.cobalt.queues import least_capability


def maintenance_ends(outages: Outages, nodes: int) -> Ints:
    """Return the ends of maintenance of the whole machine [s], ascending.

    >>> from schedsim.machine.outages import Reservation
    >>> maintenance_ends(Outages([Reservation(0, 50), Reservation(60, 70, 2)]), 8).tolist()
    [50]
    """
    whole = [r.end for r in outages.reservations if (r.procs is None and r.nodes is None) or (r.procs or 0) >= nodes]
    return np.unique(np.array(whole, dtype=np.int64))


def big_run_commands(outages: Outages, nodes: int) -> tuple[Command, ...]:
    """Return a big run at each end of maintenance, for `schedsim.sites.cobalt.rules.Rules(commands=…)`."""
    return tuple(Command(end, "big-run") for end in maintenance_ends(outages, nodes).tolist() if end >= 0)


def with_big_runs(policy: Policy, outages: Outages, nodes: int) -> Policy:
    """Return a policy that puts the big runs first; maintenance of the whole machine must be planned.

    >>> from schedsim.engine.simulation import simulate
    >>> from schedsim.machine.outages import Reservation
    >>> from schedsim.policies.policy import make_policy
    >>> from schedsim.workload.workload import Workload
    >>> w = Workload.from_columns([1, 2, 3], submit=[0, 1, 2], procs=[1, 6, 12], requested=[60] * 3,
    ...                           run_time=[60] * 3, machine_procs=12)
    >>> monday = Outages([Reservation(0, 100)])
    >>> simulate(w, with_big_runs(make_policy("fcfs"), monday, 12), outages=monday).start.tolist()
    [160, 160, 100]
    """
    ends = maintenance_ends(outages, nodes)
    if not ends.size:
        raise JobcastError("Big runs come after maintenance of the whole machine; none is planned.")
    for order in (policy.order, policy.backfill_order):
        if order.name not in FORMULAS or order.function is not None:
            raise JobcastError(
                f"Big runs cannot go before the order {order.name!r}; take one of {', '.join(FORMULAS)}."
            )
    backfill = policy.backfill
    if backfill.order is not None:
        backfill = replace(backfill, order=_behind(backfill.order, ends, nodes))
    return replace(policy, order=_behind(policy.order, ends, nodes), backfill=backfill)


def _behind(order: Order, ends: Ints, nodes: int) -> Order:
    """Return an order that ranks other jobs behind the big runs."""
    base = FORMULAS[order.name]

    def keys(w: Waiting) -> Floats:
        place = int(np.searchsorted(ends, w.now, side="right"))
        since = w.now - ends[place - 1] if place else -1
        big = (w.wait >= since) & (w.procs >= least_capability(nodes)) & (place > 0)
        rank = np.lexsort((w.row, np.where(big, -w.procs, base(w)), ~big))
        found = np.empty(len(w.row))
        found[rank] = np.arange(len(rank))
        return found

    return Order.by(keys, f"{order.name} behind big runs")
