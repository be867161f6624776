"""Options of `jobcast variability …`."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from experiments.cli.options import shared

Datasets = Annotated[
    list[Path], Argument(help="What `variability dataset` wrote, one a node scope.", metavar="DATASET…")
]
Data = Annotated[Path, Argument(help="What `variability dataset` wrote.", metavar="DATASET")]
Probes = Annotated[str, Option(help="Probes as live (the paper's way), last-known or absent.")]
Quick = Annotated[bool, Option("--quick", help="Fewer runs, trees and steps: in a minute or two.")]
Workers = Annotated[int, Option(min=1, help="Processes; the results are the same.")]
Telemetry = Annotated[Path, Option(help="Folder that LDMS's CSV store writes to, or one file of it.", metavar="DIR")]
Mapping = Annotated[
    Path | None, Option(help="Mapping file for telemetry of another schema than LDMS's.", metavar="FILE")
]


class Select(shared.Printed):
    """Compare classifiers, eliminate inputs, train the best on three classes, and keep it.

    F1 with one application left out, as in the paper; in addition: the earliest runs learnt from and the later ones
    judged, PR-AUC, the base rate, the rule that always says none, and a classifier that sees the true loads, if known.
    """

    datasets: Datasets
    models: Annotated[
        str,
        Option(
            autocompletion=shared.CLASSIFIERS, help="Classifiers to compare, separated by commas; default: all but one."
        ),
    ] = ""
    out: shared.Reports = shared.REPORTS
    probes: Probes = "live"
    keep_all: Annotated[bool, Option("--keep-all", help="Leave out the elimination of inputs.")] = False
    register: shared.Register = "variability"
    alias: shared.Alias = None
    seed: shared.Seed = 0
    quick: Quick = False
    workers: Workers = 1


class Train(shared.Printed):
    """Learn from all labelled runs of a dataset and keep the model.

    Its figures are made first: with one application left out, and learnt from the earliest 70 % of the runs.
    """

    data: Data
    classifier: Annotated[
        str,
        Option(
            autocompletion=shared.CLASSIFIERS, help="adaboost, extra-trees, decision-forest, knn, boosted, calibrated."
        ),
    ] = "adaboost"
    classes: Annotated[str, Option(help="three (none, little, variation) or binary.")] = "three"
    probes: Probes = "live"
    register: shared.Register = "variability"
    alias: shared.Alias = None
    seed: shared.Seed = 0
    quick: Quick = False


class Predict(shared.Accounted):
    """Say whether a job would vary if it started now: what a scheduler asks before a start.

    The answer is a class, the probability of variation, or an abstention (class 0) and its reason.
    """

    model: shared.Model
    telemetry: Telemetry
    job: Annotated[str, Option(help="The application that is to be started.", metavar="APPLICATION")]
    nodes: Annotated[str, Option(help="Nodes that it would get, such as '0-7 12'.")] = ""
    workload: Annotated[str, Option(help="What it depends on: compute, network or io.")] = ""
    now: Annotated[str, Option(help="When it would start: clock, newest (just after the last sample) or seconds.")] = (
        "clock"
    )
    probes: Annotated[str, Option(help="Last known waits of the nine probes [s], separated by commas.")] = ""
    mapping: Mapping = None


class Dataset(shared.Accounted):
    """Join runs with the state of the machine before each of them: 282 inputs a run, as Parquet."""

    runs: Annotated[Path, Argument(help="Table of runs, CSV or Parquet.", metavar="RUNS")]
    telemetry: Telemetry
    out: Annotated[Path, Option(help="Parquet file to write.", writable=True)]
    scope: Annotated[str, Option(help="Pool counters of all nodes, or of the job's: all, job.")] = "job"
    window: Annotated[float, Option(min=1.0, help="How long before a start its window opens [s].")] = 300.0
    mapping: Mapping = None
    strict: shared.Strict = False
