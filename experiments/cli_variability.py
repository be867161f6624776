"""`jobcast variability …`: datasets, selection and training of classifiers, and the question before a start."""

from pathlib import Path
from typing import Annotated

import typer

from experiments import cli_variability_models, cli_variability_predict
from experiments.cli_variability_predict import Mapping, Telemetry

app = typer.Typer(name="variability", no_args_is_help=True, help="Will a job be slowed down if it starts now?")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@app.command()
def dataset(
    runs: Annotated[Path, typer.Argument(help="Table of runs, CSV or Parquet.", metavar="RUNS")],
    telemetry: Telemetry,
    out: Annotated[Path, typer.Option(help="Parquet file to write.")],
    scope: Annotated[str, typer.Option(help="Pool counters of all nodes, or of the job's: all, job.")] = "job",
    window: Annotated[float, typer.Option(min=1.0, help="How long before a start its window opens [s].")] = 300.0,
    mapping: Mapping = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse the first row that is not as it should be.")] = False,
    as_json: Json = False,
) -> None:
    """Join runs with the state of the machine before each of them: 282 inputs a run, as Parquet."""
    import numpy as np

    from experiments.output import after_reading, print_account, print_json, working
    from predictors.data.run_files import read_runs
    from predictors.data.telemetry_files import Scan
    from predictors.saved.files import sha256
    from predictors.variability.assemble import assemble
    from predictors.variability.dataset_files import write_dataset
    from predictors.variability.features import check_scope

    check_scope(scope)
    with working(f"Reading {runs}"):
        table, lost = read_runs(runs, strict)
    wanted = np.column_stack([table.start - window, table.start])
    parts = Scan(telemetry, mapping, strict=strict, between=wanted)
    about = {"runs": runs.name, "runs_sha256": sha256(runs), "telemetry": telemetry.name, "made_by": _version()}
    with after_reading(lost), working(f"Reading {telemetry}"):
        made, left_out = assemble(table, parts, scope, window=window, about=about)
    with working(f"Writing {out}"):
        write_dataset(made, out)
    labels = made.labels()
    accounts = {"runs": lost, "telemetry": parts.account(), "dataset": left_out}
    document = {
        "out": str(out),
        "scope": scope,
        "window_s": window,
        "n_runs": len(table),
        "n_rows": len(made),
        "n_inputs": made.rows.shape[1],
        "missing": float((made.rows != made.rows).mean()),
        "applications": {str(name): int((made.runs.application == name).sum()) for name in set(made.runs.application)},
        "n_variation": int((labels.classes == 1).sum()),
        "unlabelled": labels.abstained(),
        "dropped": dict(made.about["dropped"]),
        "sha256": made.digest(),
        "accounts": {name: account.to_dict() for name, account in accounts.items()},
    }
    if as_json:
        print_json(document)
        return
    typer.echo(
        f"{out}: {len(made):,} rows of {document['n_inputs']} inputs (counters of {scope} nodes, {window:.0f} s), "
        f"{document['missing']:.1%} of them missing; {document['n_variation']:,} runs with variation."
    )
    for account in accounts.values():
        print_account(account)


def _version() -> str:
    from importlib.metadata import version

    return f"jobcast {version('jobcast')}"


for command in (cli_variability_models.select, cli_variability_models.train, cli_variability_predict.predict):
    app.command()(command)
