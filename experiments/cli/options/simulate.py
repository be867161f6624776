"""Options of `jobcast simulate`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Option

from experiments.cli.options import shared


@dataclass(frozen=True)
class MachineOptions:
    """Options on the machine."""

    allocator: Annotated[
        str | None,
        Option(
            help="Which nodes a job gets: scattered, first-fit, best-fit, contiguous or partitions; else processors "
            "count."
        ),
    ] = None
    per_leaf: Annotated[int | None, Option(help="Nodes of a leaf switch, for --allocator; else all are on one.")] = None
    partitions: Annotated[Path | None, Option(help="A TOML file with the machine's partitions.", metavar="FILE")] = None
    machine: shared.MachineFile = None
    machine_seed: Annotated[
        int | None, Option(help="Seed of what --allocator scattered, or chance in failures, draws.", min=0)
    ] = None
    outages: Annotated[
        Path | None, Option(help="Reservations, maintenance and failures: a CSV or TOML file.", metavar="FILE")
    ] = None
    interrupted: Annotated[str | None, Option(help="What happens to a job on a node that fails: requeue or drop.")] = (
        None
    )
    big_runs: Annotated[
        bool,
        Option("--big-runs", help="After each maintenance of the whole machine, the largest capability jobs first."),
    ] = False


@dataclass(frozen=True)
class SiteOptions:
    """Options on the site."""

    site: Annotated[
        str | None,
        Option(
            help="A site's file, by jobcast site import. It gives what is not named here: the log, Slurm's own order "
            "as the policy, nodes, what jobs ask of them, and reservations. Or Cobalt's rules: a TOML file, mira, or "
            "none; by default mira with the policy cobalt.",
            metavar="FILE",
        ),
    ] = None
    commands: Annotated[
        Path | None, Option(help="A CSV file of holds, releases, alterations and big runs.", metavar="FILE")
    ] = None


@dataclass(frozen=True)
class CeilOptions:
    """Options on a full machine: ceilings, postponable jobs, dilated runs."""

    ceiling: Annotated[
        float | None,
        Option(
            help="No start may lift utilisation above this share of the machine, but of a job that alone needs as "
            "much; 0.95 under the policies ceil and BASE+ceil."
        ),
    ] = None
    release_below: Annotated[
        float | None, Option(help="CEIL: postponed jobs join the queue while less of the machine is in use: 0.6.")
    ] = None
    queue_only: Annotated[
        bool, Option("--queue-only", help="CEIL: backfill from the queue alone, not from the postponed jobs.")
    ] = False
    postponable: Annotated[
        str | None,
        Option(
            help="Which jobs may be postponed: a share drawn by seed (0.3), a rule on a column (queue=2, procs<=64, "
            "requested_time>=36000), or a CSV file with the columns job_id,deadline."
        ),
    ] = None
    postpone_seed: Annotated[int | None, Option(help="Seed of a share that is drawn; 0 if absent.", min=0)] = None
    dilation: Annotated[
        str | None,
        Option(
            help="Runs take 5.2 to 21.1 % longer above a utilisation of 95 %: that at their 'start', or its 'mean' "
            "over the run. They are not stopped at their requested time."
        ),
    ] = None
    dilation_seed: Annotated[int | None, Option(help="Seed of by how much each takes longer; 0 if absent.", min=0)] = (
        None
    )


class Simulate(shared.Accounted):
    """Replay a log's submissions under a scheduling policy and measure waits, slowdown and who pays."""

    log: shared.LogOrSite = shared.NO_LOG
    policy: Annotated[
        str,
        Option(
            autocompletion=shared.POLICIES,
            help="Queue order and backfilling: fcfs, easy, easy-sjbf, careful, ceil, cobalt, … Most sites run easy; "
            "the first alternative to try is careful, with --estimates careful; balanced bounds every wait by a due "
            "date. agent:FILE is one that jobcast tune made; slurm:FILE is a slurm.conf's own order, with files of "
            "sacctmgr behind commas.",
        ),
    ] = "easy"
    estimates: Annotated[
        str | None,
        Option(
            autocompletion=shared.PREDICTORS,
            help="What the policy plans by: requested; careful or balanced (nothing to train; for the policies of "
            "these names); bold (as careful, but short jobs gain more and wide ones wait longer); clairvoyant (the "
            "true run times); a predictor's name; a model's address; or by role, order=NAME+candidates=NAME.",
            show_default="requested; an agent's as its file names",
        ),
    ] = None
    correction: Annotated[
        str | None,
        Option(
            autocompletion=shared.CORRECTIONS,
            help="What replaces an expired estimate: requested, incremental, doubling, slurm, pbs or plus-hour; "
            "requests never expire.",
            show_default="requested; that of --soft-limits",
        ),
    ] = None
    budget: shared.Budget = None
    soft_limits: shared.SoftLimits = None
    looks: shared.LooksOptions
    shake: Annotated[
        int | None,
        Option(
            help="Move submissions by up to 60 s and run times by up to 3 %, by this seed: how sure is a figure?", min=0
        ),
    ] = None
    kill: shared.StopAtRequest = True
    jobs_of: shared.JobsOptions
    machine: MachineOptions
    ceil: CeilOptions
    at_site: SiteOptions
    schedule: Annotated[
        Path | None,
        Option(help="Write the schedule: .csv, .jobs.csv (Batsim's), .parquet, .swf or .swf.gz.", writable=True),
    ] = None
    figures: Annotated[
        Path | None, Option(help="Draw the schedule into this folder.", writable=True, file_okay=False)
    ] = None
    by: Annotated[str | None, Option(help="One more table: user, size, run-time, start or queue.")] = None
    explain: Annotated[
        int | None, Option(help="Tell why this job started when it did and not earlier.", metavar="JOB")
    ] = None
    paranoid: Annotated[
        bool, Option("--paranoid", help="Check the laws of the schedule again, without the engine.")
    ] = False
