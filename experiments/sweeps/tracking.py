"""A finished sweep in MLflow: a parent run, and a child for each case on each log, written by this one process.

Workers never touch the store: what they did lies in the folder of results, from where it is written down in the end, so
that no two processes ever write at once. The seeds of a case are the steps of its child's metrics.
"""

from pathlib import Path
from typing import Any, Final

from experiments.sweeps.plan import Plan
from experiments.sweeps.results import MODELS, TIMES, Results
from experiments.sweeps.work import model_folder
from predictors.data.joblog import JobLog
from predictors.tracking.client import Child, log_run, sweep_run
from predictors.tracking.model_folder import open_model

_NAMES: Final = ("log", "log_sha256", "case", "policy", "estimates", "correction", "budget", "soft_limits", "predictor",
                 "protocol", "split", "model_sha256")  # fmt: skip


def track_sweep(found: Results, planned: Plan, folder: Path) -> str:
    """Write a sweep down once, models of trainings included, and return the id of its parent run."""
    about = found.about
    tags = {"jobcast.sweep": planned.identity(), "jobcast.kind": found.kind}
    params = {"kind": found.kind, "runs": len(found.runs), "seeds": ", ".join(map(str, about["seeds"]))}
    names = ", ".join(log["name"] for log in about["logs"])
    with sweep_run(f"sweep on {names}", tags, params, _files(folder), about["seconds"]) as parent:
        if not parent.new:
            return parent.run_id
        if found.kind == "train":
            for cell in planned.cells:
                model = folder / MODELS / model_folder(cell)
                row = found.runs[(found.runs["log"] == cell.log) & (found.runs["case"] == cell.case.name)
                                 & (found.runs["seed"] == cell.seed)].iloc[0]  # fmt: skip
                _log_model(
                    model, planned.logs[cell.log].jobs, {str(k): v for k, v in row.items()}, cell.seed, parent.run_id
                )
            return parent.run_id
        for (log, case), part in found.runs.groupby(["log", "case"], sort=False):
            first = part.iloc[0]
            params = {name: str(first[name]) for name in _NAMES if name in part and first[name] == first[name]}
            figures = part.drop(columns=[name for name in (*_NAMES, *TIMES) if name in part])
            seconds = float(part["seconds"].sum()) if "seconds" in part else 0.0
            parent.add(Child(f"{case} on {log}", params, tuple(_steps(figures)), seconds))
        return parent.run_id


def _files(folder: Path) -> list[Path]:
    kept = (".png", ".svg", ".csv", ".html", ".parquet")
    return [path for path in sorted(folder.iterdir()) if path.is_file() and path.suffix in kept]


def _steps(figures: Any) -> Any:
    for row in figures.to_dict(orient="records"):
        yield row.pop("seed"), row


def _log_model(folder: Path, log: JobLog, row: dict[str, Any], seed: int, parent: str) -> None:
    saved = open_model(folder, row["model_sha256"])
    figures = {name: value for name, value in row.items() if name not in (*_NAMES, "seed", "seconds")}
    split = f"{row['split']}, protocol {row['protocol']}; then the model learnt from all jobs that ran"
    until = saved.origin.trained_until
    log_run(saved.model, log, figures, split=split, seed=seed, trained_until=until, parent=parent)
