"""Options of `jobcast simulate` about the machine: which nodes a job gets, what is reserved, and what fails."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from predictors.data.joblog import JobLog
    from schedsim.allocators import Allocator
    from schedsim.outages import Outages
    from schedsim.policy import Policy
    from schedsim.rules import Rules

AllocatorName = Annotated[
    str | None,
    typer.Option(
        "--allocator",
        help="Which nodes a job gets: scattered, first-fit, best-fit, contiguous or partitions; else processors count.",
    ),
]
PerLeaf = Annotated[int | None, typer.Option(help="Nodes of a leaf switch, for --allocator; else all are on one.")]
PartitionFile = Annotated[
    Path | None, typer.Option("--partitions", help="A TOML file with the machine's partitions.", metavar="FILE")
]
Seed = Annotated[
    int | None,
    typer.Option("--machine-seed", help="Seed of what --allocator scattered, or chance in failures, draws.", min=0),
]
OutageFile = Annotated[
    Path | None,
    typer.Option("--outages", help="Reservations, maintenance and failures: a CSV or TOML file.", metavar="FILE"),
]
InterruptedRule = Annotated[
    str | None, typer.Option("--interrupted", help="What becomes of a job on a node that fails: requeue or drop.")
]
BigRuns = Annotated[
    bool,
    typer.Option("--big-runs", help="After each maintenance of the whole machine, the largest capability jobs first."),
]


@dataclass(frozen=True)
class MachineOptions:
    """What the command line says of the machine."""

    allocator: str | None = None
    per_leaf: int | None = None
    partitions: Path | None = None
    seed: int | None = None
    outages: Path | None = None
    interrupted: str | None = None

    def built(self, cleaned: "JobLog") -> dict[str, Any]:
        """Return the arguments that a simulation of a cleaned log takes for it.

        Raises
        ------
        JobcastError
            If the machine cannot be built so.
        """
        from predictors.data.errors import JobcastError

        allocator, outages = self._allocator(cleaned), self._outages(cleaned)
        if self.seed is not None and self.allocator != "scattered" and (outages is None or not outages.draws):
            raise JobcastError(
                "--machine-seed is for --allocator scattered, or for --outages that tell how many nodes fail, not "
                "which; here nothing is drawn."
            )
        return {"allocator": allocator, "outages": outages}

    def _outages(self, cleaned: "JobLog") -> "Outages | None":
        from dataclasses import replace

        from predictors.data.errors import JobcastError, unknown_name
        from schedsim.outage_files import read_outages
        from schedsim.outages import RULES

        if self.outages is None:
            if self.interrupted is not None:
                raise JobcastError("--interrupted is about jobs on failed nodes; tell what fails with --outages.")
            return None
        found = read_outages(self.outages, cleaned.origin, cleaned.epoch)
        found = found if self.seed is None else replace(found, seed=self.seed)
        if self.interrupted is None:
            return found
        if not found.changes:
            raise JobcastError(f"--interrupted is about jobs on failed nodes; {self.outages} tells of no failure.")
        for rule in RULES:
            if rule == self.interrupted:
                return replace(found, interrupted=rule)
        raise unknown_name("rule for interrupted jobs", self.interrupted, RULES)

    def _allocator(self, cleaned: "JobLog") -> "Allocator | None":
        from predictors.data.errors import JobcastError

        if self.allocator is None:
            for option, value in (("--per-leaf", self.per_leaf), ("--partitions", self.partitions)):
                if value is not None:
                    raise JobcastError(f"{option} says where nodes lie; name an --allocator too.")
            return None
        from schedsim.partition_files import read_hierarchy
        from schedsim.partitions import allocator_named

        hierarchy = None if self.partitions is None else read_hierarchy(self.partitions)
        return allocator_named(self.allocator, int(cleaned.max_procs or 0), self.per_leaf, self.seed or 0, hierarchy)


def with_big_runs(
    policy: str, rule: "Policy | None", house: "Rules | None", outages: "Outages | None", procs: int
) -> "tuple[Policy, Rules | None]":
    """Return a policy and a site's rules with which big runs follow maintenance.

    Raises
    ------
    JobcastError
        If there is no maintenance, or the order cannot be put behind them.
    """
    from dataclasses import replace

    from predictors.data.errors import JobcastError
    from schedsim import big_run
    from schedsim._kernels_orders import SCORE
    from schedsim.policy import make_policy
    from schedsim.rules import Rules

    if outages is None:
        raise JobcastError("--big-runs come after maintenance of the whole machine; tell of it with --outages.")
    made = make_policy(policy) if rule is None else rule
    if made.order.code != SCORE:
        return big_run.with_big_runs(made, outages, procs), house
    house = Rules() if house is None else house
    return made, replace(house, commands=(*house.commands, *big_run.big_run_commands(outages, procs)))


def widths_note(cleaned: "JobLog", procs: "Any") -> str | None:
    """Return a sentence about jobs that get more nodes than they ask for, if there are any."""
    more = int((procs > cleaned.procs).sum())
    if not more:
        return None
    return (
        f"{more:,} of {len(cleaned):,} jobs get a larger partition than they ask for, and are counted with all of it."
    )


def outages_note(found: dict[str, Any]) -> str | None:
    """Return a sentence about what reservations and failures took, if there were any."""
    if "available" not in found:
        return None
    return (
        f"Of the machine, {found['available']:.1%} was available, of which {found['utilisation_of_available']:.1%} was "
        f"used; {found['interrupted']:,} runs were stopped by failures, {found['lost_processor_hours']:,.0f} processor "
        f"hours lost, {found['dropped']:,} jobs gone."
    )
