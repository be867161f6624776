"""Options of `jobcast experiment NAME`, a class for each experiment, and of `report`."""

import re
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from experiments.cli.options import shared

Seeds = Annotated[int | None, Option(help="How many seeds.", min=1, max=1000)]


class Experiment(shared.Printed):
    """Options of every experiment."""

    out: shared.Reports = shared.REPORTS
    seed: shared.Seed = 0
    quick: Annotated[bool, Option("--quick", help="Smaller models: the whole in a minute or two.")] = False

    @property
    def name(self) -> str:
        """The name of the experiment that has these options.

        >>> StartTimes().name
        'start-times'
        """
        return re.sub("(?<=[a-z])(?=[A-Z])", "-", type(self).__name__).lower()


class FromLog(Experiment, shared.Accounted):
    """Options of experiments on a job log."""

    log: Annotated[Path | None, Option(help="A job log; by default a seeded synthetic one.")] = None
    partition: shared.Partition = None
    requests_from: shared.RequestsFrom = None


class OnMachine(FromLog):
    """Options of experiments that simulate a log."""

    procs: shared.Procs = None


class Shared(shared.Options):
    """Options of experiments that workers can share."""

    pool: shared.PoolOptions = shared.PoolOptions()


class Reis(FromLog, Shared):
    """Learn run times as V. Reis did: Table 2 and Figures 1 to 4."""


class Runtime(OnMachine, Shared):
    """Study every predictor: errors, where they fall, costs, what they buy."""

    predictors: Annotated[
        str, Option(help="Study these alone, names separated by commas; its open questions stay aside.")
    ] = ""


class Backfilling(OnMachine, Shared):
    """Measure what predictions gain in backfilling, and who pays."""

    machine: shared.MachineFile = None


class Stress(OnMachine, Shared):
    """Test predictions when users game them, load grows, or nothing is known yet."""

    seeds: Seeds = None


class StartTimes(OnMachine):
    """Forecast the starts of waiting jobs, and score the forecasts."""


class Live(Experiment, Shared):
    """Simulate soft limits on a small cluster, as a real Slurm can run it."""


class Logstudy(OnMachine):
    """Study what a log tells: Allcock et al.'s observations, Li et al.'s section 3."""

    failures: Annotated[Path | None, Option(help="A CSV of failures for the log (RAS).")] = None


class Rush(Experiment, Shared):
    """Delay jobs that would vary: Nichols et al., Table II, Figures 1 and 4 to 11."""

    predictors: Annotated[str, Option(help="Ask the classifier at this address, models:/NAME@ALIAS or a folder.")] = ""
    experiments: Annotated[str, Option(help="Run these rows of Table II alone, as ADAA,SS.")] = ""
    ask_seconds: Annotated[
        int | None, Option(help="How long an ask takes, in the rows where it costs [s]; default 2.")
    ] = None
    probe_seconds: Annotated[
        int | None, Option(help="How long the probes take, in the rows where they cost [s]; default 20.")
    ] = None
    counter_lag: Annotated[
        int | None, Option(help="Counters come so late, in the rows where asks cost [s]; default 60.")
    ] = None
    thresholds: Annotated[str, Option(help="Skip thresholds; the highest is the main one; default 10,100.")] = ""


class RushDose(Experiment, Shared):
    """Measure what the gain of rush depends on: how slowly the machine changes, and placement."""

    experiments: Annotated[str, Option(help="Run these parts alone: tau, placement, source, episodes.")] = ""


class RepeatedRuns(Experiment):
    """Test whether slow runs come together, and can be foreseen without counters."""

    runs: Annotated[Path | None, Option(help="A table of runs, CSV or Parquet, see docs/how-to/repeated-runs.md.")] = (
        None
    )


class Ceil(OnMachine, Shared):
    """Put a ceiling on utilisation, with postponable jobs: Li et al., Table 6, Figures 4 and 5."""


class Cobalt(OnMachine, Shared):
    """Order the queue by a score, and keep a queue to a third: Allcock et al., Table 2, section 4.3."""


class Dras(OnMachine, Shared):
    """Compare agents that learn to schedule: Fan et al., Tables I to IV, Figures 2 to 9."""

    train: Annotated[str, Option(help="How long to train on, from the log's begin: 2mo, 6w, 45d.")] = ""
    test: Annotated[str, Option(help="How long to test on, after a validation half as long: rest, 9mo.")] = ""
    seeds: Seeds = None
    experiments: Annotated[str, Option(help="Train these agents alone: headline, paper, linear.")] = ""
    orders: Annotated[int | None, Option(help="How many orders of job sets, 1 to 3.", min=1, max=3)] = None
    job_sets: Annotated[
        int | None, Option(help="How many job sets to train on; by default the paper's 100.", min=3, max=1000)
    ] = None
    scale: Annotated[
        str, Option(help="tenth of the machine, or full: the paper's networks, DRAS-PG and DRAS-DQL alone, hours each.")
    ] = ""


class Report(shared.Printed):
    """Make one HTML page, DIR/report.html, from an experiment's or a sweep's folder; it needs no network."""

    folder: Annotated[Path, Argument(help="What an experiment or a sweep wrote.", metavar="DIR")]
