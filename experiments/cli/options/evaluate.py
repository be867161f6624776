"""Options of `jobcast evaluate`, `train` and `predict`."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from experiments.cli.options import shared


class Evaluate(shared.Accounted):
    """Score run-time predictors on a log, compared with the mean of the user's last two jobs."""

    log: shared.LogOrSite = shared.NO_LOG
    site: shared.Site = None
    predictors: Annotated[
        str,
        Option(
            "--predictors",
            autocompletion=shared.PREDICTORS,
            help="Names, separated by commas; last-two is always added.",
        ),
    ] = "average,boosted,similar-mean,similar,forest,requested"
    train: Annotated[
        float | None,
        Option(help="Share of the jobs, the earliest, to learn from (0.8 if absent); the others are predicted."),
    ] = None
    prequential: Annotated[bool, Option("--prequential", help="Predict every job, learn from it when it ends.")] = False
    protocol: Annotated[str, Option("--protocol", help="strict, or reis: the rules of that paper.")] = "strict"
    partition: shared.Partition = None
    seed: shared.Seed = 0
    budget: shared.Budget = None
    requests_from: shared.RequestsFrom = None
    intervals: shared.Intervals = False
    kill: Annotated[
        bool | None,
        Option(help="Jobs are stopped at their request: P90 stays within it; or not: predictions may lie beyond it."),
    ] = None
    details: Annotated[bool, Option("--details", help="Also slices by run time, cold and warm users, and month.")] = (
        False
    )


class Train(shared.Accounted):
    """Learn from a log and keep the model. Several logs are joined, as by `jobcast log join`.

    Its figures are made first: learnt from the earliest jobs (--train), scored on the others. The model that is kept
    then learns from all jobs of the log. With --alias, a model with a squared error not below that of last-two on those
    others is refused and not kept, unless --even-if-worse says so. They calibrate P10, P50 and P90, which the model
    then carries. With --if-drift nothing is read or trained until the service says so.
    """

    logs: Annotated[
        list[Path], Argument(help="A job log, or several of one machine, such as months.", metavar="LOG...")
    ]
    predictor: Annotated[
        str, Option(autocompletion=shared.PREDICTORS, help="Predictor to train: forest, last-two, …")
    ] = "forest"
    register: shared.Register = "runtime"
    alias: shared.Alias = None
    share: Annotated[
        float, Option("--train", help="Share of the jobs, the earliest, to learn from for the figures.")
    ] = 0.8
    intervals: Annotated[bool, Option("--intervals/--no-intervals", help="Keep P10, P50 and P90 with the model.")] = (
        True
    )
    kill: shared.Kill = False
    even_if_worse: shared.EvenIfWorse = False
    if_drift: Annotated[
        str | None,
        Option(
            "--if-drift",
            help="Train only if the service at URL says that its champion has become worse than last-two; with "
            "--alias champion, which then goes to a model that beats that champion, too.",
            metavar="URL",
        ),
    ] = None
    token: shared.BearerToken = None
    seed: shared.Seed = 0


class Predict(shared.Accounted):
    """Predict the run time of each job of a log, as of its submission, with a model that is kept.

    By default the model knows no user's history before LOG begins; it follows the log's own starts and ends. P10, P50
    and P90 go on from those of `jobcast train`, or begin with the log. Where the log has run times, the model is
    compared with last-two.
    """

    model: shared.Model
    log: shared.Log
    out: Annotated[Path, Option(help="CSV file to write, one line a job.", writable=True)]
    warm: Annotated[
        bool, Option("--warm", help="Go on from the model's history; LOG must come later on the same machine.")
    ] = False
