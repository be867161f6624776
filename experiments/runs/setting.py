"""The setting that an experiment is run with."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from experiments.runs.clusters import Pool
from experiments.runs.pool import HERE
from predictors.data.cleaning import of_partition

if TYPE_CHECKING:
    from predictors.data.joblog import JobLog
    from schedsim.machine.node_groups import Machine


@dataclass(frozen=True)
class Setting:
    """What an experiment is run with.

    Attributes
    ----------
    log : JobLog
        The job log, as read.
    folder : Path
        Where tables and figures go; it exists.
    seed : int
        Of everything drawn by chance.
    quick : bool
        Smaller models and fewer seeds, to see the whole in a minute or two.
    partition : str, int or None
        Keep only the jobs of one partition of the machine.
    procs : int or None
        Processors of the machine to simulate; by default as in the log.
    predictors : tuple of str
        Names of those to study, where an experiment studies predictors; none: all, or what the experiment chooses.
    pool : Pool
        The workers, for the experiments of `MANY`; results do not depend on them.
    failures : Path or None
        A log of failures for the job log, for logstudy.
    train, test : str
        How long a part of the log is trained and tested on, where an experiment splits it by time; empty: its own way.
    seeds, orders, job_sets : int or None
        How many, for the experiments that ask.
    scale : str
        How large the machine is made, for the experiments that scale it; empty: their own way.
    runs : Path or None
        A table of repeated runs, for repeated-runs.
    experiments : tuple of str
        Which experiments of a paper's table to run; none: all.
    ask_seconds, probe_seconds, counter_lag : int or None
        What asking a classifier costs, where an experiment has rows on it [s].
    thresholds : tuple of int
        Skip thresholds of these rows; none: the experiment's own.
    requests_from : str or None
        By which rule requested times of the log were made, see `predictors.data.cleaning.RequestsFrom`.
    machine : Machine or None
        The nodes with the processors, GPUs and memory that jobs take, for experiments that place them; None: none.
    checkpoints : Path or None
        Where those keep runs as they are done, see `experiments.runs.checkpoints`; None: nowhere.
    """

    log: "JobLog"
    folder: Path
    seed: int = 0
    quick: bool = False
    partition: str | int | None = None
    procs: int | None = None
    predictors: tuple[str, ...] = ()
    pool: Pool = HERE
    failures: Path | None = None
    train: str = ""
    test: str = ""
    seeds: int | None = None
    orders: int | None = None
    job_sets: int | None = None
    scale: str = ""
    requests_from: str | None = None
    runs: Path | None = None
    experiments: tuple[str, ...] = ()
    ask_seconds: int | None = None
    probe_seconds: int | None = None
    counter_lag: int | None = None
    thresholds: tuple[int, ...] = ()
    machine: "Machine | None" = None
    checkpoints: Path | None = None

    def jobs(self) -> "JobLog":
        """Return the log, or of it the jobs of the partition."""
        return of_partition(self.log, self.partition)[0]


WITHOUT_LOG: Final = frozenset({"rush", "rush-dose", "repeated-runs", "live"})
"""Experiments without a job log: on a machine of their own, or on a table of runs."""
