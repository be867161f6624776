"""`jobcast variability …`: datasets, selection, training, predictions."""

import math
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from experiments.cli.options import Alias, Json, ListAccount, Seed, about_model
from experiments.console import say

if TYPE_CHECKING:
    from predictors.tracking.describe import LoggedRun, Registered
    from predictors.variability.dataset import Dataset
    from predictors.variability.selection.compare import Plan


Datasets = Annotated[
    list[Path], typer.Argument(help="What `variability dataset` wrote, one a node scope.", metavar="DATASET…")
]
Data = Annotated[Path, typer.Argument(help="What `variability dataset` wrote.", metavar="DATASET")]
Probes = Annotated[str, typer.Option(help="Probes as live (the paper's way), last-known or absent.")]
Register = Annotated[str, typer.Option(help="Name under which the model is kept.")]
Quick = Annotated[bool, typer.Option("--quick", help="Fewer runs, trees and steps: in a minute or two.")]
Workers = Annotated[int, typer.Option(min=1, help="Processes; the results are the same.")]

SHOWN: Final = ("f1", "f1_low", "f1_high", "f1_paper", "pr_auc", "base_rate", "precision", "recall", "accuracy")


def select(
    datasets: Datasets,
    models: Annotated[
        str, typer.Option(help="Classifiers to compare, separated by commas; default: all but one.")
    ] = "",
    out: Annotated[
        Path, typer.Option(help="Folder for tables and figures; makes its own in it.", writable=True, file_okay=False)
    ] = Path("reports"),
    probes: Probes = "live",
    keep_all: Annotated[bool, typer.Option("--keep-all", help="Leave out the elimination of inputs.")] = False,
    register: Register = "variability",
    alias: Alias = None,
    seed: Seed = 0,
    quick: Quick = False,
    workers: Workers = 1,
    as_json: Json = False,
) -> None:
    """Compare classifiers, eliminate inputs, train the best on three classes, and keep it.

    F1 with one application left out, as in the paper; in addition: the earliest runs learnt from and the later ones
    judged, PR-AUC, the base rate, the rule that always says none, and a classifier that sees the true loads, if known.
    """
    from experiments.console import print_json, print_table, working
    from experiments.reports.figures import report_folder
    from experiments.runs.clusters import Pool
    from experiments.runs.pool import mapped
    from experiments.studies.variability_figures import draw_selection
    from predictors.tracking.uri import checked_alias, checked_name
    from predictors.variability.selection.select import select as choose

    begin, began = time.perf_counter(), time.time()
    plan, pool = _plan(models, quick, seed), Pool(workers)
    checked_name(register)
    if alias is not None:
        checked_alias(alias)
    with working("Reading"):
        tables = [_read(path, probes) for path in datasets]
    with working(f"Comparing {', '.join(plan.models)} on {len(tables[0]):,} runs"):
        found = choose(tables, plan, keep_all=keep_all, map_tasks=partial(mapped, pool))
    folder = report_folder(out, "variability")
    with working("Drawing"):
        files = draw_selection(folder, found)
    source = datasets[[table.scope for table in tables].index(found.winner.scope)]
    split = "one application left out; then the model learnt from all labelled runs, three classes"
    with working("Writing the run and the model"):
        run, kept = _keep(found, source.name, split, seed, register, alias, began, files)
    summary = found.comparison.summary()
    document = {
        "datasets": [str(path) for path in datasets],
        "probes": probes,
        "seed": seed,
        "quick": quick,
        "models": summary.to_dict(orient="records"),
        "winner": {"model": found.winner.model, "scope": found.winner.scope, **found.figures()},
        "inputs": list(found.classifier.features_),
        "elimination": None if found.elimination is None else found.elimination.table().to_dict(orient="records"),
        "three_classes": found.three.to_dict(orient="records"),
        "model": about_model(kept, run) | {"store": run.store},
        "files": [str(path) for path in files],
        "seconds": time.perf_counter() - begin,
    }
    if as_json:
        print_json(document)
        return
    for scope, split_name in dict.fromkeys(zip(summary["scope"], summary["split"], strict=True)):
        own = summary[(summary["scope"] == scope) & (summary["split"] == split_name)]
        print_table(
            f"Counters of {scope} nodes; {split_name}: {own['n_variation'].iloc[0]:,} of "
            f"{own['n_test'].iloc[0]:,} vary",
            ("", *(name.replace("_", " ") for name in SHOWN)),
            own[["model", *SHOWN]].itertuples(index=False),
        )
    _print_winner(document)


def train(
    data: Data,
    classifier: Annotated[
        str, typer.Option(help="adaboost, extra-trees, decision-forest, knn, boosted, calibrated.")
    ] = "adaboost",
    classes: Annotated[str, typer.Option(help="three (none, little, variation) or binary.")] = "three",
    probes: Probes = "live",
    register: Register = "variability",
    alias: Alias = None,
    seed: Seed = 0,
    quick: Quick = False,
    as_json: Json = False,
) -> None:
    """Learn from all labelled runs of a dataset and keep the model.

    Its figures are made first: with one application left out, and learnt from the earliest 70 % of the runs.
    """
    from experiments.console import print_json, print_table, working
    from experiments.reports.figures import write_table
    from predictors.tracking.client import log_classifier
    from predictors.tracking.client import register as keep
    from predictors.tracking.uri import checked_alias, checked_name
    from predictors.variability.labels import check_scheme
    from predictors.variability.selection.compare import compare
    from predictors.variability.selection.select import train as learn

    begin, began = time.perf_counter(), time.time()
    plan = _plan(classifier, quick, seed)
    check_scheme(classes)
    checked_name(register)
    if alias is not None:
        checked_alias(alias)
    with working(f"Reading {data}"):
        table = _read(data, probes)
    with working(f"Judging {classifier} on {len(table):,} runs"):
        summary = compare([table], plan).summary()
    with working(f"Training {classifier} on {len(table):,} runs"):
        model, labels = learn(table, classifier, plan, scheme="three" if classes == "three" else "binary")
    own = summary[summary["model"] == classifier].set_index("split")
    figures = {f"{name}_{split.replace(' ', '_').replace(',', '')}": own.loc[split, name]
               for split in own.index for name in ("f1", "pr_auc", "base_rate")}  # fmt: skip
    split = "one application left out, and chronological; then the model learnt from all labelled runs"
    with working("Writing the run and the model"):
        with tempfile.TemporaryDirectory(prefix="jobcast-") as scratch:
            files = [write_table(summary, Path(scratch, "scores.csv"))]
            run = log_classifier(
                model, table, labels, figures, split=split, name=data.name, seed=seed, begin=began, files=files
            )
        kept = keep(run, register, alias)
    document = {
        "dataset": str(data),
        "classifier": classifier,
        "classes": list(model.class_names),
        "probes": probes,
        "n_runs": int(labels.known.sum()),
        "unlabelled": labels.abstained(),
        "ignored": list(model.ignored_),
        "evaluation": summary.to_dict(orient="records"),
        "model": about_model(kept, run) | {"store": run.store},
        "seconds": time.perf_counter() - begin,
    }
    if as_json:
        print_json(document)
        return
    print_table(
        f"{classifier} on {data.name}, counters of {table.scope} nodes",
        ("split", "model", *(name.replace("_", " ") for name in SHOWN)),
        summary[["split", "model", *SHOWN]].itertuples(index=False),
    )
    if document["ignored"]:
        say(f"{len(model.ignored_)} inputs were known for no run and are left out, such as {model.ignored_[0]}.")
    say(f"Kept as {kept.uri}, version {kept.version}; run {run.run_id} in {run.store}")


def _plan(models: str, quick: bool, seed: int) -> "Plan":
    from experiments.cli.evaluate import names_of
    from predictors.variability.selection.compare import Plan

    names = names_of(models)
    plan = Plan(models=names, seed=seed) if names else Plan(seed=seed)
    return plan.quick() if quick else plan


def _read(path: Path, probes: str) -> "Dataset":
    from predictors.core.errors import unknown_name
    from predictors.probes.measurements import PROBE_USES
    from predictors.variability.dataset import read_dataset

    if probes not in PROBE_USES:
        raise unknown_name("use of probes", probes, PROBE_USES)
    return read_dataset(path).with_probes(probes)  # type: ignore[arg-type]  # just checked


def _keep(
    found: Any, name: str, split: str, seed: int, register: str, alias: str | None, began: float, files: list[Path]
) -> "tuple[LoggedRun, Registered]":
    from predictors.tracking.client import log_classifier
    from predictors.tracking.client import register as keep

    run = log_classifier(
        found.classifier, found.dataset, found.labels, found.figures(), split=split, name=name, seed=seed,
        begin=began, files=files,
    )  # fmt: skip
    return run, keep(run, register, alias)


def _print_winner(document: dict[str, Any]) -> None:
    winner = document["winner"]
    say(
        f"Best: {winner['model']} on counters of {winner['scope']} nodes, mean F1 "
        f"{winner['f1_leave_one_application_out']:.2f} ({winner['f1_low']:.2f} to {winner['f1_high']:.2f})."
    )
    if document["elimination"] is not None:
        say(
            f"{winner['n_inputs']} inputs kept: F1 {winner['f1_selected_inputs']:.2f} chosen within each fold, "
            f"{winner['f1_selected_inputs_optimistic']:.2f} in the paper's way, which is optimistic."
        )
    if document["elimination"] is None:
        say(f"Three classes, cross-validated: F1 of variation {winner['three_f1']:.2f}.")
    else:
        say(
            f"Three classes, cross-validated: F1 of variation {winner['three_f1_optimistic']:.2f}, which is "
            "optimistic: the inputs were ranked on all runs."
        )
    say(f"Kept as {document['model']['uri']}, version {document['model']['version']}; files: {document['files'][0]} …")


Telemetry = Annotated[
    Path, typer.Option(help="Folder that LDMS's CSV store writes to, or one file of it.", metavar="DIR")
]
Mapping = Annotated[
    Path | None, typer.Option(help="Mapping file for telemetry of another schema than LDMS's.", metavar="FILE")
]


def predict(
    model: Annotated[
        str, typer.Argument(help="models:/NAME@ALIAS, models:/NAME/VERSION, runs:/RUN_ID or a folder.", metavar="MODEL")
    ],
    telemetry: Telemetry,
    job: Annotated[str, typer.Option(help="The application that is to be started.", metavar="APPLICATION")],
    nodes: Annotated[str, typer.Option(help="Nodes that it would get, such as '0-7 12'.")] = "",
    workload: Annotated[str, typer.Option(help="What it depends on: compute, network or io.")] = "",
    now: Annotated[
        str, typer.Option(help="When it would start: clock, newest (just after the last sample) or seconds.")
    ] = "clock",
    probes: Annotated[str, typer.Option(help="Last known waits of the nine probes [s], separated by commas.")] = "",
    mapping: Mapping = None,
    list_account: ListAccount = False,
    as_json: Json = False,
) -> None:
    """Say whether a job would vary if it started now: what a scheduler asks before a start.

    The answer is a class, the probability of variation, or an abstention (class 0) and its reason.
    """
    from experiments.console import print_account, print_json, working
    from predictors.core.errors import JobcastError
    from predictors.data.runs import compact, expand
    from predictors.tracking.client import load_classifier
    from predictors.variability.classifiers.query import Question, ask
    from predictors.variability.windows import file_windows

    try:
        wanted = expand(nodes)
    except ValueError as error:
        raise JobcastError(f"--nodes {nodes!r}: {error}; write ids and ranges such as '0-7 12'.") from error
    waits = _waits(probes)
    with working(f"Loading {model}"):
        loaded = load_classifier(model)
    of_job = loaded.origin.scope == "job"
    if of_job and not wanted:
        raise JobcastError("This model looks at the job's nodes: say which it would get, --nodes '0-7 12'.")
    instant = _instant(now, telemetry, mapping)
    with working(f"Reading {telemetry}"):
        own = [wanted] if of_job else None
        seen, account = file_windows(telemetry, [instant], own, loaded.origin.window, mapping=mapping)
    silent = int(seen.silent[0])
    question = Question(seen.values[0], workload, job, waits, silent / len(wanted) if of_job else 0.0)
    answer = ask(loaded.classifier, question, "" if loaded.version is None else str(loaded.version))
    document = {
        "model": loaded.about(),
        "job": {"application": job, "nodes": compact(wanted), "n_nodes": len(wanted), "workload": workload or None},
        "now": instant,
        "window_s": loaded.origin.window,
        "n_samples": int(seen.counts[0].max()),
        "silent_nodes": silent,
        "class": answer.class_,
        "label": answer.label,
        "probability": answer.probability,
        "abstained": answer.abstained,
        "why": answer.why or None,
        "reason": answer.reason or None,
        "inputs_filled": answer.filled,
        "account": account.to_dict(),
    }
    if as_json:
        print_json(document)
        return
    by = f"{answer.model} ({model}{f', version {answer.version}' if answer.version else ''})"
    if answer.abstained:
        say(f"{job}: class {answer.class_}, abstained: {answer.reason}; {by}.")
    else:
        say(
            f"{job}: {answer.label}, probability of variation {answer.probability:.2f}; {by}, {answer.filled} inputs "
            "filled."
        )
    if account.dropped or account.changed:
        print_account(account, listed=list_account)


def _waits(text: str) -> Any:
    import numpy as np

    from predictors.core.errors import JobcastError
    from predictors.data.runs import PROBES

    if not text.strip():
        return None
    try:
        waits = np.array([float(part) for part in text.split(",")])
        if waits.shape != (len(PROBES),) or not (np.isnan(waits) | ((waits >= 0) & (waits < np.inf))).all():
            raise ValueError
    except ValueError as error:
        raise JobcastError(
            f"--probes {text!r}: give nine waits in seconds, separated by commas, nan where unknown: "
            f"{', '.join(PROBES)}."
        ) from error
    return waits


def _instant(now: str, telemetry: Path, mapping: Path | None) -> float:
    """Return the second that is meant [s, in the telemetry's clock]."""
    from predictors.core.errors import JobcastError
    from predictors.data.telemetry.read import Scan

    if now == "clock":
        return time.time()
    if now == "newest":
        last = max((float(part.time[-1]) for part in Scan(telemetry, mapping) if len(part)), default=math.nan)
        if math.isnan(last):
            raise JobcastError(f"{telemetry}: gives no rate at all, so nothing is the newest; give --now in seconds.")
        return math.nextafter(last, math.inf)
    try:
        instant = float(now)
    except ValueError:
        instant = math.nan
    if not math.isfinite(instant):
        raise JobcastError(f"--now {now!r}: give clock, newest or a number of seconds in the telemetry's clock.")
    return instant


app = typer.Typer(name="variability", no_args_is_help=True, help="Will a job be slowed down if it starts now?")


@app.command()
def dataset(
    runs: Annotated[Path, typer.Argument(help="Table of runs, CSV or Parquet.", metavar="RUNS")],
    telemetry: Telemetry,
    out: Annotated[Path, typer.Option(help="Parquet file to write.", writable=True)],
    scope: Annotated[str, typer.Option(help="Pool counters of all nodes, or of the job's: all, job.")] = "job",
    window: Annotated[float, typer.Option(min=1.0, help="How long before a start its window opens [s].")] = 300.0,
    mapping: Mapping = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse the first row that is not as it should be.")] = False,
    list_account: ListAccount = False,
    as_json: Json = False,
) -> None:
    """Join runs with the state of the machine before each of them: 282 inputs a run, as Parquet."""
    import numpy as np

    from experiments.console import after_reading, print_account, print_json, working
    from predictors.core.errors import percent
    from predictors.data.runs import read_runs
    from predictors.data.telemetry.read import Scan
    from predictors.tracking.model_folder import sha256
    from predictors.variability.dataset import assemble, write_dataset
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
    say(
        f"{out}: {len(made):,} rows of {document['n_inputs']} inputs (counters of {scope} nodes, {window:.0f} s), "
        f"{percent(document['missing'], 1)} of them missing; {document['n_variation']:,} runs with variation."
    )
    for account in accounts.values():
        print_account(account, listed=list_account)


def _version() -> str:
    from importlib.metadata import version

    return f"jobcast {version('jobcast')}"


for command in (select, train, predict):
    app.command()(command)
