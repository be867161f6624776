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
    """What an experiment is run with."""

    log: "JobLog"  # the job log, as read
    folder: Path  # where tables and figures go; it exists
    seed: int = 0  # of everything drawn by chance
    quick: bool = False  # smaller models and fewer seeds, to see the whole in a minute or two
    partition: str | int | None = None  # keep only the jobs of one partition of the machine
    procs: int | None = None  # processors of the machine to simulate; by default as in the log
    # names of those to study, where an experiment studies predictors; none: all, or what the experiment chooses
    predictors: tuple[str, ...] = ()
    pool: Pool = HERE  # the workers, for the experiments of `MANY`; results do not depend on them
    failures: Path | None = None  # a log of failures for the job log, for logstudy
    # how long a part of the log is trained and tested on, where an experiment splits it by time; empty: its own way
    train: str = ""
    test: str = ""
    # how many, for the experiments that ask
    seeds: int | None = None
    orders: int | None = None
    job_sets: int | None = None
    scale: str = ""  # how large the machine is made, for the experiments that scale it; empty: their own way
    # by which rule requested times of the log were made, see `predictors.data.cleaning.RequestsFrom`
    requests_from: str | None = None
    runs: Path | None = None  # a table of repeated runs, for repeated-runs
    experiments: tuple[str, ...] = ()  # which experiments of a paper's table to run; none: all
    # what asking a classifier costs, where an experiment has rows on it [s]
    ask_seconds: int | None = None
    probe_seconds: int | None = None
    counter_lag: int | None = None
    thresholds: tuple[int, ...] = ()  # skip thresholds of these rows; none: the experiment's own
    # the nodes with the processors, GPUs and memory that jobs take, for experiments that place them; None: none
    machine: "Machine | None" = None
    # where those keep runs as they are done, see `experiments.runs.checkpoints`; None: nowhere
    checkpoints: Path | None = None

    def drawn(self, usual: int, quick: int, first: int = 1) -> tuple[int, ...]:
        """Return the seeds to run: as many as asked for, else so many, from `seed` plus `first` on."""
        begin = self.seed + first
        return tuple(range(begin, begin + (self.seeds or (quick if self.quick else usual))))

    def jobs(self) -> "JobLog":
        return of_partition(self.log, self.partition)[0]


WITHOUT_LOG: Final = frozenset({"rush", "rush-dose", "repeated-runs", "live"})
"""Experiments without a job log: on a machine of their own, or on a table of runs."""
