"""The scheduling simulator.

The names below are the public interface. They are imported at their first use, so that importing a part of the package
does not import all of it. What a page imports from a module is public too, and is on the reference page; everything
else is private to its folder.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from schedsim.engine.simulation import Simulation, simulate
    from schedsim.engine.start_times import when_will_it_start
    from schedsim.policies.backfilling import Easy
    from schedsim.policies.orders import Order
    from schedsim.policies.policy import Policy, make_policy
    from schedsim.results.metrics import figures
    from schedsim.workload.workload import Workload

_HOMES = {
    "Easy": "schedsim.policies.backfilling",
    "Order": "schedsim.policies.orders",
    "Policy": "schedsim.policies.policy",
    "Simulation": "schedsim.engine.simulation",
    "Workload": "schedsim.workload.workload",
    "figures": "schedsim.results.metrics",
    "make_policy": "schedsim.policies.policy",
    "simulate": "schedsim.engine.simulation",
    "when_will_it_start": "schedsim.engine.start_times",
}
__all__ = [
    "Easy",
    "Order",
    "Policy",
    "Simulation",
    "Workload",
    "figures",
    "make_policy",
    "simulate",
    "when_will_it_start",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'schedsim' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
