"""Options of `jobcast simulate` about the machine: which nodes a job gets."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from predictors.data.joblog import JobLog
    from schedsim.allocators import Allocator

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
Seed = Annotated[int, typer.Option("--machine-seed", help="Seed of what an allocator draws.")]


@dataclass(frozen=True)
class MachineOptions:
    """What the command line says of the machine."""

    allocator: str | None = None
    per_leaf: int | None = None
    partitions: Path | None = None
    seed: int = 0

    def built(self, cleaned: "JobLog") -> dict[str, Any]:
        """Return the arguments that a simulation of a cleaned log takes for it.

        Raises
        ------
        JobcastError
            If the machine cannot be built so.
        """
        return {"allocator": self._allocator(cleaned)}

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
        return allocator_named(self.allocator, int(cleaned.max_procs or 0), self.per_leaf, self.seed, hierarchy)


def widths_note(cleaned: "JobLog", procs: "Any") -> str | None:
    """Return a sentence about jobs that get more nodes than they ask for, if there are any."""
    more = int((procs > cleaned.procs).sum())
    if not more:
        return None
    return (
        f"{more:,} of {len(cleaned):,} jobs get a larger partition than they ask for, and are counted with all of it."
    )
