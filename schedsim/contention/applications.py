"""Applications: their demands on the machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isclose, isfinite
from types import MappingProxyType
from typing import Final, Literal

from predictors.core.errors import JobcastError, unknown_name

Workload = Literal["compute", "network", "io"]

_MOSTLY_COMPUTE: Final = 0.85


@dataclass(frozen=True)
class App:
    """An application, as the contention model sees it.

    The shares divide its time on a machine without contention: its sensitivity. The loads are its effect on others.

    >>> App("stencil", compute=0.8, network=0.2, sends=1e9, spread=0.3).workload
    'network'
    """

    name: str
    # compute, network, io, metadata: shares of its time, each 0 to 1, together 1: computing, communicating, moving data
    # to and from the file system, waiting for metadata
    compute: float = 1.0
    network: float = 0.0
    io: float = 0.0
    metadata: float = 0.0
    sends: float = 0.0  # what each of its nodes sends over the network [bytes/s]
    spread: float = 0.0  # how far it sends, from 0 (to neighbours) to 1 (all to all)
    moves: float = 0.0  # what each of its nodes reads from and writes to the file system, in sum [bytes/s]
    calls: float = 0.0  # metadata operations of each node [1/s]

    def __post_init__(self) -> None:
        shares = {name: getattr(self, name) for name in ("compute", "network", "io", "metadata")}
        for name, value in {**shares, "spread": self.spread}.items():
            if not 0 <= value <= 1:
                raise JobcastError(f"Application {self.name!r}: {name} must be from 0 to 1; got {value}.")
        if not isclose(sum(shares.values()), 1, abs_tol=1e-9):
            raise JobcastError(f"Application {self.name!r}: the shares of its time must add up to 1; got {shares}.")
        for name in ("sends", "moves", "calls"):
            value = getattr(self, name)
            if not (value >= 0 and isfinite(value)):
                raise JobcastError(f"Application {self.name!r}: {name} must be 0 or more; got {value}.")

    @property
    def workload(self) -> Workload:
        """What its run time depends on most, as users would say: computing from 85 % computing on."""
        if self.compute >= _MOSTLY_COMPUTE:
            return "compute"
        return "network" if self.network >= self.io + self.metadata else "io"

    @property
    def vector(self) -> tuple[float, ...]:
        """Its numbers for the kernels, see `_loads`."""
        return self.network, self.io, self.metadata, self.sends, self.spread, self.moves, self.calls


APPS: Final[Mapping[str, App]] = MappingProxyType(
    {
        app.name: app
        for app in (
            App("AMG", 0.93, 0.07, sends=0.6e9, spread=0.5),
            App("Kripke", 0.94, 0.06, sends=0.8e9, spread=0.4),
            App("PENNANT", 0.90, 0.10, sends=1.0e9, spread=0.5),
            App("SWFFT", 0.72, 0.28, sends=3.5e9, spread=1.0),
            App("Laghos", 0.62, 0.33, 0.05, sends=2.5e9, spread=0.9, moves=0.02e9, calls=10),
            App("sw4lite", 0.66, 0.22, 0.12, sends=2.2e9, spread=0.8, moves=0.06e9, calls=10),
            App("LBANN", 0.58, 0.20, 0.15, 0.07, sends=2.8e9, spread=1.0, moves=0.12e9, calls=50),
        )
    }
)
"""The seven proxy applications of Nichols et al. (IPDPS 2022); the shares and loads are ours, chosen so that the spread
of run times is that of the literature: AMG, Kripke and PENNANT hardly suffer, sw4lite and LBANN most."""


ALONE: Final[Mapping[str, int]] = MappingProxyType(
    {"AMG": 280, "Kripke": 290, "PENNANT": 280, "SWFFT": 260, "Laghos": 260, "sw4lite": 270, "LBANN": 260}
)
"""Run times of their control jobs on 16 nodes of a machine without contention [s]. The paper gives none; it says that
190 jobs of 16 nodes drain from 512 nodes in 30 to 50 minutes."""


def apps_named(names: Sequence[str], known: Mapping[str, App] = APPS) -> tuple[App, ...]:
    """Return applications by name.

    >>> [app.workload for app in apps_named(["AMG", "SWFFT", "LBANN"])]
    ['compute', 'network', 'io']
    """
    for name in names:
        if name not in known:
            raise unknown_name("application", name, known)
    return tuple(known[name] for name in names)


def placebo(app: App) -> App:
    return App(app.name, sends=app.sends, spread=app.spread, moves=app.moves, calls=app.calls)
