"""Options of `jobcast advise` and `tune`."""

from pathlib import Path
from typing import Annotated

from typer import Option

from experiments.cli.options import shared
from experiments.compare.result import LEAST


class Advise(shared.Accounted):
    """Say in plain words what another policy or a predictor would gain on a log, and who would wait longer.

    Stopped and started again, it goes on where it was.
    """

    log: shared.LogOrSite = shared.NO_LOG
    site: shared.Site = None
    ungraded: shared.Ungraded = False
    current: Annotated[
        str,
        Option(
            autocompletion=shared.POLICIES,
            help="What the site runs today: easy, conservative, wfp, fcfs, any policy's name; slurm:FILE is its own "
            "slurm.conf, with files of sacctmgr behind commas.",
        ),
    ] = "easy"
    predictor: Annotated[
        str | None,
        Option(
            autocompletion=shared.PREDICTORS,
            help="Try EASY-SJBF by this predictor too: a name, or a model's address, models:/NAME@ALIAS.",
        ),
    ] = None
    agent: Annotated[
        str | None, Option(help="Try an agent file too, made by jobcast tune on earlier months.", metavar="FILE")
    ] = None
    seeds: Annotated[
        int, Option(help=f"Shaken copies of the log to simulate, at least {LEAST}; more make surer.", min=1)
    ] = 20
    measure: Annotated[str, Option(help="What decides: mean_bounded_slowdown, mean_wait_s, p99_wait_s, …")] = (
        "mean_bounded_slowdown"
    )
    soft_limits: Annotated[
        str | None,
        Option(
            help="Ask what the site's own scheduler gains by soft limits: slurm, slurm-23.11 (before 25.05.4) or pbs.",
            metavar="SCHEDULER",
        ),
    ] = None
    machine: shared.MachineFile = None
    kill: shared.StopAtRequest = True
    jobs_of: shared.JobsOptions
    pool: shared.PoolOptions
    out: shared.Reports = shared.REPORTS


class Tune(shared.Accounted):
    """Tune an agent on the first part of a log, test it on the rest, and say who would gain and who would pay.

    Then: jobcast simulate NEXT --policy agent:FILE. Needs the extra rl.
    """

    log: shared.LogOrSite = shared.NO_LOG
    site: shared.Site = None
    train: Annotated[
        str, Option(help="What is tuned on: a share of the jobs (0.5) or the first months (6mo, of 30 days).")
    ] = "0.5"
    objective: Annotated[
        str,
        Option(
            help="constrained: wait and slowdown, while p99, the longest wait and the widest 5 % stay within the "
            "tolerance; five: all five figures, the worst counting most; slowdown or wait alone, which lets others pay."
        ),
    ] = "constrained"
    tolerance: Annotated[float, Option(help="How much longer those three may become than under EASY: 0.05 is 5 %.")] = (
        0.05
    )
    reserve: Annotated[
        str, Option(help="Rules for the reserved job to choose from, in the training part: kept, oldest, again.")
    ] = "kept,oldest,again"
    estimates: Annotated[
        str,
        Option(
            help="What the agent sees and the policy plans by: requested, any that jobcast simulate takes, or by role, "
            "order=NAME: the agent sees predictions, plans are made by requested times."
        ),
    ] = "requested"
    agent: Annotated[
        str,
        Option(
            help="linear: twelve weights, searched by CMA-ES; network: a small network shared by all jobs, which "
            "learns by REINFORCE and fits machines of any size."
        ),
    ] = "linear"
    window: Annotated[int, Option(help="How many jobs at the front of the queue the agent sees.")] = 50
    generations: Annotated[
        int, Option(help="Of the search, 12 agents each, or of the training; a network of 0 is untrained.", min=0)
    ] = 60
    seed: shared.Seed = 0
    seeds: Annotated[int, Option(help="Shaken copies of the test part, 5 or more.", min=1)] = 10
    jobs_of: shared.JobsOptions
    pool: shared.PoolOptions
    out: Annotated[Path, Option(help="The agent file: .npz, or .json to be read by people.", writable=True)] = Path(
        "agent.npz"
    )
    report: shared.Reports = shared.REPORTS
    register: Annotated[str | None, Option(help="Register the agent in MLflow under this name.", metavar="NAME")] = None
    alias: shared.Alias = None
