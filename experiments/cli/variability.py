"""`jobcast variability …`: datasets, selection, training, predictions."""

import math
import tempfile
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np

from experiments.cli.options import variability as options
from experiments.cli.options.shared import names_of
from experiments.console import about_model, after_reading, print_account, print_json, print_table, say, working
from experiments.reports.figures import report_folder, write_table
from experiments.runs.clusters import Pool
from experiments.runs.pool import mapped
from experiments.studies.variability_figures import draw_selection
from predictors.core.errors import JobcastError, percent, unknown_name
from predictors.data.runs import PROBES, compact, expand, read_runs
from predictors.data.telemetry.read import Scan
from predictors.probes.measurements import PROBE_USES
from predictors.tracking.client import load_classifier, log_classifier
from predictors.tracking.client import register as keep
from predictors.tracking.describe import LoggedRun, Registered
from predictors.tracking.model_folder import sha256
from predictors.tracking.uri import checked_alias, checked_name
from predictors.variability.classifiers.query import Question, ask
from predictors.variability.dataset import Dataset, assemble, read_dataset, write_dataset
from predictors.variability.features import check_scope
from predictors.variability.labels import check_scheme
from predictors.variability.selection.compare import Plan, compare
from predictors.variability.selection.select import select as choose
from predictors.variability.selection.select import train as learn
from predictors.variability.windows import file_windows

SHOWN: Final = ("f1", "f1_low", "f1_high", "f1_paper", "pr_auc", "base_rate", "precision", "recall", "accuracy")


def select(args: options.Select) -> None:
    begin, began = time.perf_counter(), time.time()
    plan, pool = _plan(args.models, args.quick, args.seed), Pool(args.workers)
    checked_name(args.register)
    if args.alias is not None:
        checked_alias(args.alias)
    with working("Reading"):
        tables = [_read(path, args.probes) for path in args.datasets]
    with working(f"Comparing {', '.join(plan.models)} on {len(tables[0]):,} runs"):
        found = choose(tables, plan, keep_all=args.keep_all, map_tasks=partial(mapped, pool))
    folder = report_folder(args.out, "variability")
    with working("Drawing"):
        files = draw_selection(folder, found)
    source = args.datasets[[table.scope for table in tables].index(found.winner.scope)]
    split = "one application left out; then the model learnt from all labelled runs, three classes"
    with working("Writing the run and the model"):
        run, kept = _keep(found, source.name, split, args.seed, args.register, args.alias, began, files)
    summary = found.comparison.summary()
    document = {
        "datasets": [str(path) for path in args.datasets],
        "probes": args.probes,
        "seed": args.seed,
        "quick": args.quick,
        "models": summary.to_dict(orient="records"),
        "winner": {"model": found.winner.model, "scope": found.winner.scope, **found.figures()},
        "inputs": list(found.classifier.features_),
        "elimination": None if found.elimination is None else found.elimination.table().to_dict(orient="records"),
        "three_classes": found.three.to_dict(orient="records"),
        "model": about_model(kept, run) | {"store": run.store},
        "files": [str(path) for path in files],
        "seconds": time.perf_counter() - begin,
    }
    if args.as_json:
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


def train(args: options.Train) -> None:
    begin, began = time.perf_counter(), time.time()
    plan = _plan(args.classifier, args.quick, args.seed)
    check_scheme(args.classes)
    checked_name(args.register)
    if args.alias is not None:
        checked_alias(args.alias)
    with working(f"Reading {args.data}"):
        table = _read(args.data, args.probes)
    with working(f"Judging {args.classifier} on {len(table):,} runs"):
        summary = compare([table], plan).summary()
    with working(f"Training {args.classifier} on {len(table):,} runs"):
        model, labels = learn(table, args.classifier, plan, scheme="three" if args.classes == "three" else "binary")
    own = summary[summary["model"] == args.classifier].set_index("split")
    figures = {f"{name}_{split.replace(' ', '_').replace(',', '')}": own.loc[split, name]
               for split in own.index for name in ("f1", "pr_auc", "base_rate")}  # fmt: skip
    split = "one application left out, and chronological; then the model learnt from all labelled runs"
    with working("Writing the run and the model"):
        with tempfile.TemporaryDirectory(prefix="jobcast-") as scratch:
            files = [write_table(summary, Path(scratch, "scores.csv"))]
            run = log_classifier(
                model, table, labels, figures, split=split, name=args.data.name, seed=args.seed, begin=began,
                files=files,
            )  # fmt: skip
        kept = keep(run, args.register, args.alias)
    document = {
        "dataset": str(args.data),
        "classifier": args.classifier,
        "classes": list(model.class_names),
        "probes": args.probes,
        "n_runs": int(labels.known.sum()),
        "unlabelled": labels.abstained(),
        "ignored": list(model.ignored_),
        "evaluation": summary.to_dict(orient="records"),
        "model": about_model(kept, run) | {"store": run.store},
        "seconds": time.perf_counter() - begin,
    }
    if args.as_json:
        print_json(document)
        return
    print_table(
        f"{args.classifier} on {args.data.name}, counters of {table.scope} nodes",
        ("split", "model", *(name.replace("_", " ") for name in SHOWN)),
        summary[["split", "model", *SHOWN]].itertuples(index=False),
    )
    if document["ignored"]:
        say(f"{len(model.ignored_)} inputs were known for no run and are left out, such as {model.ignored_[0]}.")
    say(f"Kept as {kept.uri}, version {kept.version}; run {run.run_id} in {run.store}")


def _plan(models: str, quick: bool, seed: int) -> Plan:
    names = names_of(models)
    plan = Plan(models=names, seed=seed) if names else Plan(seed=seed)
    return plan.quick() if quick else plan


def _read(path: Path, probes: str) -> Dataset:
    if probes not in PROBE_USES:
        raise unknown_name("use of probes", probes, PROBE_USES)
    return read_dataset(path).with_probes(probes)  # type: ignore[arg-type]  # just checked


def _keep(
    found: Any, name: str, split: str, seed: int, register: str, alias: str | None, began: float, files: list[Path]
) -> tuple[LoggedRun, Registered]:
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


def predict(args: options.Predict) -> None:
    try:
        wanted = expand(args.nodes)
    except ValueError as error:
        raise JobcastError(f"--nodes {args.nodes!r}: {error}; write ids and ranges such as '0-7 12'.") from error
    waits = _waits(args.probes)
    with working(f"Loading {args.model}"):
        loaded = load_classifier(args.model)
    of_job = loaded.origin.scope == "job"
    if of_job and not wanted:
        raise JobcastError("This model looks at the job's nodes: say which it would get, --nodes '0-7 12'.")
    instant = _instant(args.now, args.telemetry, args.mapping)
    with working(f"Reading {args.telemetry}"):
        own = [wanted] if of_job else None
        seen, account = file_windows(args.telemetry, [instant], own, loaded.origin.window, mapping=args.mapping)
    silent = int(seen.silent[0])
    question = Question(seen.values[0], args.workload, args.job, waits, silent / len(wanted) if of_job else 0.0)
    answer = ask(loaded.classifier, question, "" if loaded.version is None else str(loaded.version))
    document = {
        "model": loaded.about(),
        "job": {
            "application": args.job,
            "nodes": compact(wanted),
            "n_nodes": len(wanted),
            "workload": args.workload or None,
        },
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
    if args.as_json:
        print_json(document)
        return
    by = f"{answer.model} ({args.model}{f', version {answer.version}' if answer.version else ''})"
    if answer.abstained:
        say(f"{args.job}: class {answer.class_}, abstained: {answer.reason}; {by}.")
    else:
        say(
            f"{args.job}: {answer.label}, probability of variation {answer.probability:.2f}; {by}, "
            f"{answer.filled} inputs filled."
        )
    if account.dropped or account.changed:
        print_account(account, listed=args.list_account)


def _waits(text: str) -> Any:
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


def dataset(args: options.Dataset) -> None:
    check_scope(args.scope)
    with working(f"Reading {args.runs}"):
        table, lost = read_runs(args.runs, args.strict)
    wanted = np.column_stack([table.start - args.window, table.start])
    parts = Scan(args.telemetry, args.mapping, strict=args.strict, between=wanted)
    about = {
        "runs": args.runs.name,
        "runs_sha256": sha256(args.runs),
        "telemetry": args.telemetry.name,
        "made_by": _version(),
    }
    with after_reading(lost), working(f"Reading {args.telemetry}"):
        made, left_out = assemble(table, parts, args.scope, window=args.window, about=about)
    with working(f"Writing {args.out}"):
        write_dataset(made, args.out)
    labels = made.labels()
    accounts = {"runs": lost, "telemetry": parts.account(), "dataset": left_out}
    document = {
        "out": str(args.out),
        "scope": args.scope,
        "window_s": args.window,
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
    if args.as_json:
        print_json(document)
        return
    say(
        f"{args.out}: {len(made):,} rows of {document['n_inputs']} inputs (counters of {args.scope} nodes, "
        f"{args.window:.0f} s), {percent(document['missing'], 1)} of them missing; "
        f"{document['n_variation']:,} runs with variation."
    )
    for account in accounts.values():
        print_account(account, listed=args.list_account)


def _version() -> str:
    return f"jobcast {version('jobcast')}"
