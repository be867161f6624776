"""Command line, papers and reports.

The names below are the public interface. They are imported when they are first used, so that importing a part of the
package does not import all of it. What a page imports from a module is public too, and stands on the page of
references; everything else is private to its folder.
"""

TYPE_CHECKING = False  # not that of `typing`: the command is to be loaded before anything else
if TYPE_CHECKING:
    from typing import Any

    from experiments.runs.clusters import Pool
    from experiments.sweeps.results import read_results
    from experiments.sweeps.run import evaluate_many, run_sweep, simulate_many
    from experiments.sweeps.sweep import Case, Sweep

_HOMES = {
    "Case": "experiments.sweeps.sweep",
    "Pool": "experiments.runs.clusters",
    "Sweep": "experiments.sweeps.sweep",
    "evaluate_many": "experiments.sweeps.run",
    "read_results": "experiments.sweeps.results",
    "run_sweep": "experiments.sweeps.run",
    "simulate_many": "experiments.sweeps.run",
}
__all__ = ["Case", "Pool", "Sweep", "evaluate_many", "read_results", "run_sweep", "simulate_many"]


def __getattr__(name: str) -> "Any":
    if name not in _HOMES:
        raise AttributeError(f"module 'experiments' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
