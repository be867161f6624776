"""What scripts and notebooks use.

The names below are the public interface. Each is imported when it is first used. What a page imports from a module of
`predictors`, `schedsim` or `experiments` is public too, and stands on that package's page of references; everything
else is private.
"""

# Nothing is imported here, so that Ctrl-C can end the command at once while it is still being loaded.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HOMES = {
    "Case": "experiments.sweeps.sweep",
    "Easy": "schedsim.policies.backfilling",
    "JobHistory": "predictors.history.history",
    "JobLog": "predictors.data.joblog",
    "JobcastError": "predictors.core.errors",
    "Order": "schedsim.policies.orders",
    "Policy": "schedsim.policies.policy",
    "Pool": "experiments.runs.clusters",
    "Predictor": "predictors.models.base",
    "Simulation": "schedsim.engine.simulation",
    "Sweep": "experiments.sweeps.sweep",
    "Waiting": "schedsim.policies.orders",
    "Workload": "schedsim.workload.workload",
    "advise": "experiments.site.advise.advice",
    "audit_leakage": "predictors.evaluation.leakage",
    "clean": "predictors.data.cleaning",
    "evaluate": "predictors.evaluation.evaluate",
    "evaluate_many": "experiments.sweeps.run",
    "figures": "schedsim.results.metrics",
    "forecast": "predictors.models.stream",
    "from_river": "predictors.models.adapters",
    "from_sklearn": "predictors.models.adapters",
    "generate_log": "predictors.data.synthetic.generate",
    "load": "predictors.serialise",
    "make_policy": "schedsim.policies.policy",
    "make_predictor": "predictors.registry",
    "make_revised_estimates": "predictors.models.similar_jobs",
    "read_log": "predictors.data.formats.detect",
    "read_results": "experiments.sweeps.results",
    "replay": "predictors.history.replay",
    "run_sweep": "experiments.sweeps.run",
    "save": "predictors.serialise",
    "simulate": "schedsim.engine.simulation",
    "simulate_many": "experiments.sweeps.run",
    "when_will_it_start": "schedsim.engine.start_times",
    "write_log": "predictors.data.formats.detect",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> "Any":
    if name not in _HOMES:
        raise AttributeError(f"module 'jobcast' has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if hiding := hidden():
            raise ImportError(f"{error}: {hiding}") from None
        raise


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def hidden() -> str:
    """Return in one sentence which file on the path hides one of our packages; an empty text if none does."""
    from importlib.util import find_spec
    from pathlib import Path

    own = Path(__file__).resolve().parents[1]
    for name in ("experiments", "schedsim", "predictors"):
        found = find_spec(name)
        file = own / name if found is None or not found.origin else Path(found.origin).resolve()
        if file not in (own / name, own / name / "__init__.py"):
            return f"{str(file)!r} hides the package {name} of {str(own)!r}; take it off PYTHONPATH, or rename it."
    return ""
