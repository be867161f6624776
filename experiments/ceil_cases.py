"""What is scheduled in the study of CEIL: the paper's policies, CEIL without a part, other readings, other ceilings."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from schedsim.dilation import Dilation
from schedsim.policy import Policy, ceil, make_policy
from schedsim.postponing import Postponing

WFP: Final = make_policy("wfp3-easy")
CEIL: Final = ceil(WFP)

SHARES: Final = (0.3, 0.5, 0.7)
"""Of postponable jobs: workloads 1 to 3 in the first month, 4 to 6 in the second."""
MIDDLE: Final = 0.5

START, MEAN, NONE = "start", "mean", "none"
DILATIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        START: "runs dilated by the utilisation at their start",
        MEAN: "runs dilated by the mean utilisation over the run",
        NONE: "runs not dilated",
    }
)


@dataclass(frozen=True)
class Case:
    """A policy and what it believes."""

    name: str
    policy: Policy
    estimates: str = "requested"


BASE: Final = Case("WFP", WFP)
OURS: Final = Case("CEIL", CEIL)

PARTS: Final = (
    Case("CEIL without the ceiling", ceil(WFP, ceiling=1.0)),
    Case("CEIL without postponing", ceil(WFP, postpone=None)),
)
READINGS: Final = (
    Case("backfills from the queue only", ceil(WFP, postpone=Postponing(backfill=False))),
    Case("utilisation looked at before the pass", ceil(WFP, postpone=Postponing(looks="before"))),
    Case("utilisation looked at before and after it", ceil(WFP, postpone=Postponing(looks="both"))),
    Case("a head that the ceiling stops is passed over", ceil(WFP, refused="passed over")),
    Case("released by an empty queue and by time only", ceil(WFP, postpone=Postponing(low=0.0))),
    Case("FCFS instead of WFP", ceil(make_policy("easy"))),
)
PREDICTED: Final = (
    Case("WFP, default predictions", WFP, "default"),
    Case("CEIL, default predictions", CEIL, "default"),
)
CEILINGS: Final = (0.85, 0.88, 0.90, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99, 1.0)
SWEPT: Final = tuple(Case(f"ceiling {share:.0%}", ceil(WFP, ceiling=share)) for share in CEILINGS)


def world_of(dilation: str, seed: int) -> Dilation | None:
    """Return the model of run times of a variant."""
    if dilation == NONE:
        return None
    return Dilation(seed=seed) if dilation == START else replace(Dilation(seed=seed), by="mean")
