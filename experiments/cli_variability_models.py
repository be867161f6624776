"""`jobcast variability select` and `train`: classifiers compared, their inputs chosen, the model kept."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from predictors.saved.records import LoggedRun, Registered
    from predictors.variability.comparison import Plan
    from predictors.variability.dataset import Dataset

Datasets = Annotated[
    list[Path], typer.Argument(help="What `variability dataset` wrote, one a node scope.", metavar="DATASET…")
]
Data = Annotated[Path, typer.Argument(help="What `variability dataset` wrote.", metavar="DATASET")]
Probes = Annotated[str, typer.Option(help="Probes as live (the paper's way), last-known or absent.")]
Register = Annotated[str, typer.Option(help="Name under which the model is kept.")]
Alias = Annotated[str | None, typer.Option(help="champion, challenger or shadow: taken from its holder.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of what is drawn by chance.")]
Quick = Annotated[bool, typer.Option("--quick", help="Fewer runs, trees and steps: in a minute or two.")]
Workers = Annotated[int, typer.Option(min=1, help="Processes; the results are the same.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

SHOWN: Final = ("f1", "f1_low", "f1_high", "f1_paper", "pr_auc", "base_rate", "precision", "recall", "accuracy")


def select(
    datasets: Datasets,
    models: Annotated[
        str, typer.Option(help="Classifiers to compare, separated by commas; default: all but one.")
    ] = "",
    out: Annotated[Path, typer.Option(help="Folder for tables and figures; makes its own in it.")] = Path("reports"),
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

    F1 with one application left out, as in the paper, and beside it: the earliest runs learnt from and the later ones
    judged, PR-AUC, the base rate, the rule that always says none, and a classifier that sees the true loads, if known.
    """
    from experiments.figures import report_folder
    from experiments.output import print_json, print_table, working
    from experiments.variability_figures import draw_selection
    from predictors.saved.uri import checked_alias, checked_name
    from predictors.variability.selection import select as choose

    begin = time.perf_counter()
    plan = _plan(models, quick, seed, workers)
    checked_name(register)
    if alias is not None:
        checked_alias(alias)
    with working("Reading"):
        tables = [_read(path, probes) for path in datasets]
    with working(f"Comparing {', '.join(plan.models)} on {len(tables[0]):,} runs"):
        found = choose(tables, plan, keep_all=keep_all)
    folder = report_folder(out, "variability")
    with working("Drawing"):
        files = draw_selection(folder, found)
    source = datasets[[table.scope for table in tables].index(found.winner.scope)]
    split = "one application left out; then the model learnt from all labelled runs, three classes"
    with working("Writing the run and the model"):
        run, kept = _keep(found, source.name, split, seed, register, alias)
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
        "model": _about(kept, run),
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
    from experiments.output import print_json, print_table, working
    from predictors.saved.uri import checked_alias, checked_name
    from predictors.tracking import log_classifier
    from predictors.tracking import register as keep
    from predictors.variability.comparison import compare
    from predictors.variability.labels import check_scheme
    from predictors.variability.selection import train as learn

    begin = time.perf_counter()
    plan = _plan(classifier, quick, seed, 1)
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
        run = log_classifier(model, table, labels, figures, split=split, name=data.name, seed=seed)
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
        "model": _about(kept, run),
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
        typer.echo(f"{len(model.ignored_)} inputs were known for no run and are left out, such as {model.ignored_[0]}.")
    typer.echo(f"Kept as {kept.uri}, version {kept.version}; run {run.run_id} in {run.store}")


def _plan(models: str, quick: bool, seed: int, workers: int) -> "Plan":
    from experiments.cli_evaluate import names_of
    from predictors.variability.comparison import Plan

    names = names_of(models)
    plan = Plan(models=names, seed=seed, workers=workers) if names else Plan(seed=seed, workers=workers)
    return plan.quick() if quick else plan


def _read(path: Path, probes: str) -> "Dataset":
    from predictors.data.errors import unknown_name
    from predictors.probes.history import PROBE_USES
    from predictors.variability.dataset_files import read_dataset

    if probes not in PROBE_USES:
        raise unknown_name("use of probes", probes, PROBE_USES)
    return read_dataset(path).with_probes(probes)  # type: ignore[arg-type]  # just checked


def _keep(
    found: Any, name: str, split: str, seed: int, register: str, alias: str | None
) -> "tuple[LoggedRun, Registered]":
    from predictors.tracking import log_classifier
    from predictors.tracking import register as keep

    run = log_classifier(
        found.classifier, found.dataset, found.labels, found.figures(), split=split, name=name, seed=seed
    )
    return run, keep(run, register, alias)


def _about(kept: "Registered", run: "LoggedRun") -> dict[str, Any]:
    return {
        "uri": kept.uri,
        "name": kept.name,
        "version": kept.version,
        "alias": kept.alias,
        "run_id": run.run_id,
        "sha256": run.sha256,
        "store": run.store,
    }


def _print_winner(document: dict[str, Any]) -> None:
    winner = document["winner"]
    typer.echo(
        f"Best: {winner['model']} on counters of {winner['scope']} nodes, mean F1 "
        f"{winner['f1_leave_one_application_out']:.2f} ({winner['f1_low']:.2f} to {winner['f1_high']:.2f})."
    )
    if document["elimination"] is not None:
        typer.echo(
            f"{winner['n_inputs']} inputs kept: F1 {winner['f1_selected_inputs']:.2f} chosen within each fold, "
            f"{winner['f1_selected_inputs_optimistic']:.2f} in the paper's way, which is optimistic."
        )
    if document["elimination"] is None:
        typer.echo(f"Three classes, cross-validated: F1 of variation {winner['three_f1']:.2f}.")
    else:
        typer.echo(
            f"Three classes, cross-validated: F1 of variation {winner['three_f1_optimistic']:.2f}, which is "
            "optimistic: the inputs were ranked on all runs."
        )
    typer.echo(
        f"Kept as {document['model']['uri']}, version {document['model']['version']}; files: {document['files'][0]} …"
    )
