"""The 90 counters of LDMS samplers.

The paper on RUSH (Nichols, Marathe, Shoga, Gamblin, Bhatele: Resource Utilization Aware Job Scheduling to Mitigate
Performance Variability, IPDPS 2022, Table I) gives their numbers, 22 + 34 + 34, and names few. Here they are fixed:

* sysclassib: the 22 of LDMS's sampler of that name, in its order;
* opa_info: the 8 of LDMS's public sampler opa2, the 21 others of an Omni-Path port's status, and the first 5 that the
  port keeps for virtual lane 0: the sampler of that name at LLNL is not public, so which 34 it had is our choice;
* lustre2_client: the 34 of LDMS's sampler of that name for a mounted file system, in its order.

In files they are cumulative unsigned integers; in memory we hold rates per second. In the simulation a counter's
rate on a node is `scale` times the value of its `driver` on that node, give or take a little noise.
"""

import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from predictors.core.errors import JobcastError, unknown_name

Sampler = Literal["sysclassib", "opa_info", "lustre2_client"]

SAMPLERS: Final[Mapping[str, str]] = MappingProxyType(  # in order, with LDMS's prefix of their metrics
    {"sysclassib": "ib.", "opa_info": "", "lustre2_client": "client."}
)

DRIVERS: Final[Mapping[str, str]] = MappingProxyType(  # what can move a counter
    {
        "sent": "bytes per second that the node sends over the network",
        "received": "bytes per second that the node receives over the network",
        "stall": "share of time, 0 to 1, that the node's uplink makes it wait",
        "read": "bytes per second that the node reads from the parallel file system",
        "written": "bytes per second that the node writes to the parallel file system",
        "calls": "metadata operations per second of the node on the parallel file system",
        "noise": "a random number, never negative and 1 on average, that has to do with nothing",
        "none": "nothing: the counter stands still",
    }
)


@dataclass(frozen=True)
class Counter:
    """One counter of a node."""

    name: str  # as LDMS names it, without prefix and device
    sampler: Sampler  # the sampler, and thus the file, that it comes from
    driver: str  # what moves it in the simulation: see `DRIVERS`
    scale: float  # its rate per second for each unit of the driver
    unit: str  # what it counts in; its rate is that per second
    meaning: str  # what it counts, in addition to the unit; empty if the name of the counter says it
    bits: int = 64  # width, {32, 64}: it begins again at 0 after 2**bits - 1, or stays there if the hardware saturates

    def __post_init__(self) -> None:
        if self.sampler not in SAMPLERS:
            raise unknown_name("sampler", self.sampler, SAMPLERS)
        if self.driver not in DRIVERS:
            raise unknown_name("driver", self.driver, DRIVERS)
        if self.bits not in (32, 64):
            raise JobcastError(f"Counter {self.name!r} must have 32 or 64 bits; got {self.bits}.")
        if not self.scale >= 0 or (self.driver == "none") != (self.scale == 0):
            raise JobcastError(f"Counter {self.name!r} must have a scale above 0, or 0 with the driver none.")

    @property
    def column(self) -> str:
        """The counter's column in a file that LDMS writes, without the device.

        >>> COUNTERS[0].column
        'ib.symbol_error'
        """
        return SAMPLERS[self.sampler] + self.name


def _ib(name: str, driver: str, scale: float, unit: str, meaning: str = "", bits: int = 64) -> Counter:
    return Counter(name, "sysclassib", driver, scale, unit, meaning, bits)


def _opa(name: str, driver: str, scale: float, unit: str, meaning: str = "", bits: int = 64) -> Counter:
    return Counter(name, "opa_info", driver, scale, unit, meaning, bits)


def _lustre(name: str, driver: str, scale: float, unit: str, meaning: str = "") -> Counter:
    return Counter(name, "lustre2_client", driver, scale, unit, meaning)


COUNTERS: Final[tuple[Counter, ...]] = (  # the counters: 22 of sysclassib, 34 of opa_info, 34 of lustre2_client
    # InfiniBand counts data in words of 4 bytes; packets are taken to be 2 KiB, waiting ticks to be microseconds.
    _ib("symbol_error", "none", 0, "errors", "minor errors of the link; Omni-Path keeps none", 32),
    _ib("link_error_recovery", "noise", 1e-4, "events", "the link recovered from an error", 32),
    _ib("link_downed", "none", 0, "events", "the link went down", 32),
    _ib("port_rcv_errors", "noise", 1e-3, "packets", "received with an error", 32),
    _ib("port_rcv_remote_physical_errors", "noise", 1e-3, "packets", "received, marked as bad", 32),
    _ib("port_rcv_switch_relay_errors", "none", 0, "packets", "a switch could not forward them", 32),
    _ib("port_xmit_discards", "stall", 10.0, "packets", "discarded after too long a wait", 32),
    _ib("port_xmit_constraint_errors", "none", 0, "packets", "outgoing, forbidden by the switch", 32),
    _ib("port_rcv_constraint_errors", "none", 0, "packets", "incoming, forbidden by the switch", 32),
    _ib("COUNTER_SELECT2_F", "none", 0, "flags", "a field of the query, always 0", 32),
    _ib("local_link_integrity_errors", "noise", 1e-3, "errors", "the link had too many errors", 32),
    _ib("excessive_buffer_overrun_errors", "none", 0, "errors", "buffers overran repeatedly", 32),
    _ib("VL15_dropped", "none", 0, "packets", "management packets dropped: no room", 32),
    _ib("port_xmit_data", "sent", 1 / 4, "4 bytes"),
    _ib("port_rcv_data", "received", 1 / 4, "4 bytes"),
    _ib("port_xmit_packets", "sent", 1 / 2048, "packets"),
    _ib("port_rcv_packets", "received", 1 / 2048, "packets"),
    _ib("port_xmit_wait", "stall", 1e6, "ticks", "data waited for permission to be sent"),
    _ib("port_unicast_xmit_packets", "sent", 1 / 2048, "packets", "sent to one port"),
    _ib("port_unicast_rcv_packets", "received", 1 / 2048, "packets", "received, for this port only"),
    _ib("port_multicast_xmit_packets", "noise", 0.1, "packets", "sent to several ports"),
    _ib("port_multicast_rcv_packets", "noise", 0.5, "packets", "received, for several ports"),
    # Omni-Path counts data and waiting in flits of 8 bytes, 1.5625e9 a second at 100 Gbit/s; packets of 4 KiB.
    _opa("PortXmitData", "sent", 1 / 8, "8 bytes"),
    _opa("PortRcvData", "received", 1 / 8, "8 bytes"),
    _opa("PortXmitPkts", "sent", 1 / 4096, "packets"),
    _opa("PortRcvPkts", "received", 1 / 4096, "packets"),
    _opa("PortUnicastXmitPkts", "sent", 1 / 4096, "packets", "sent to one port"),
    _opa("PortUnicastRcvPkts", "received", 1 / 4096, "packets", "received, for this port only"),
    _opa("PortMulticastXmitPkts", "noise", 0.1, "packets", "sent to several ports"),
    _opa("PortMulticastRcvPkts", "noise", 0.5, "packets", "received, for several ports"),
    _opa("PortXmitWait", "stall", 1.5625e9, "flit times", "data waited for permission to be sent"),
    _opa("SwPortCongestion", "none", 0, "packets", "dropped by a congested port of a switch; 0 at a node"),
    _opa("PortRcvFECN", "stall", 2e4, "packets", "received, met congestion on their way"),
    _opa("PortRcvBECN", "stall", 1e4, "packets", "received, report congestion on the way out"),
    _opa("PortXmitTimeCong", "stall", 1.2e9, "flit times", "the port was congested"),
    _opa("PortXmitWastedBW", "stall", 1.5e8, "flit times", "idle within a packet while others waited"),
    _opa("PortXmitWaitData", "stall", 3e8, "flit times", "idle within a packet: the receiver had no room"),
    _opa("PortRcvBubble", "received", 1 / 64, "flit times", "idle within an incoming packet"),
    _opa("PortMarkFECN", "none", 0, "packets", "marked by a congested port of a switch; 0 at a node"),
    _opa("PortRcvConstraintErrors", "none", 0, "packets", "incoming, forbidden by the fabric"),
    _opa("PortRcvSwitchRelayErrors", "none", 0, "packets", "a switch could not forward them"),
    _opa("PortXmitDiscards", "stall", 10.0, "packets", "discarded after too long a wait"),
    _opa("PortXmitConstraintErrors", "none", 0, "packets", "outgoing, forbidden by the fabric"),
    _opa("PortRcvRemotePhysicalErrors", "noise", 1e-3, "packets", "received, marked as bad"),
    _opa("LocalLinkIntegrityErrors", "noise", 1e-2, "errors", "pieces sent again over the link"),
    _opa("PortRcvErrors", "noise", 1e-3, "packets", "received with an error"),
    _opa("ExcessiveBufferOverruns", "none", 0, "errors", "buffers overran"),
    _opa("FMConfigErrors", "none", 0, "errors", "packets against the fabric manager's configuration"),
    _opa("LinkErrorRecovery", "noise", 1e-4, "events", "the link recovered from an error", 32),
    _opa("LinkDowned", "none", 0, "events", "the link went down", 32),
    _opa("UncorrectableErrors", "none", 0, "errors", "of the port's hardware", 32),
    _opa("PortVLXmitData", "sent", 0.95 / 8, "8 bytes", "sent on virtual lane 0"),
    _opa("PortVLRcvData", "received", 0.95 / 8, "8 bytes", "received on virtual lane 0"),
    _opa("PortVLXmitPkts", "sent", 0.95 / 4096, "packets", "sent on virtual lane 0"),
    _opa("PortVLRcvPkts", "received", 0.95 / 4096, "packets", "received on virtual lane 0"),
    _opa("PortVLXmitWait", "stall", 1.5e9, "flit times", "as PortXmitWait, on virtual lane 0"),
    # Lustre's client counts bytes where its statistics have a sum, else calls; an operation is spread over the calls.
    _lustre("dirty_pages_hits", "written", 1 / 4096, "pages", "written, dirty before"),
    _lustre("dirty_pages_misses", "written", 1 / 8192, "pages", "written, clean before"),
    _lustre("read_bytes", "read", 1.0, "bytes", "read by programs"),
    _lustre("write_bytes", "written", 1.0, "bytes", "written by programs"),
    _lustre("brw_read", "read", 1 / 4096, "pages", "read from the servers in bulk"),
    _lustre("brw_write", "written", 1 / 4096, "pages", "written to the servers in bulk"),
    _lustre("osc_read", "read", 0.9, "bytes", "read from the object servers"),
    _lustre("osc_write", "written", 1.0, "bytes", "written to the object servers"),
    _lustre("ioctl", "noise", 0.2, "calls"),
    _lustre("open", "calls", 0.20, "calls"),
    _lustre("close", "calls", 0.20, "calls"),
    _lustre("mmap", "noise", 0.05, "calls"),
    _lustre("seek", "calls", 0.05, "calls"),
    _lustre("fsync", "written", 1e-8, "calls"),
    _lustre("readdir", "calls", 0.02, "calls"),
    _lustre("setattr", "calls", 0.03, "calls"),
    _lustre("truncate", "calls", 0.01, "calls"),
    _lustre("flock", "noise", 0.02, "calls"),
    _lustre("getattr", "calls", 0.25, "calls"),
    _lustre("create", "calls", 0.05, "calls"),
    _lustre("link", "none", 0, "calls"),
    _lustre("unlink", "calls", 0.05, "calls"),
    _lustre("symlink", "none", 0, "calls"),
    _lustre("mkdir", "calls", 0.01, "calls"),
    _lustre("rmdir", "calls", 0.01, "calls"),
    _lustre("mknod", "none", 0, "calls"),
    _lustre("rename", "calls", 0.01, "calls"),
    _lustre("statfs", "noise", 0.1, "calls"),
    _lustre("alloc_inode", "calls", 0.06, "calls", "inodes taken into memory"),
    _lustre("setxattr", "none", 0, "calls"),
    _lustre("getxattr", "calls", 0.05, "calls"),
    _lustre("listxattr", "none", 0, "calls"),
    _lustre("removexattr", "none", 0, "calls"),
    _lustre("inode_permission", "calls", 2.0, "calls", "permissions of each part of a path checked"),
)

COUNTER_NAMES: Final[tuple[str, ...]] = tuple(counter.name for counter in COUNTERS)  # their names, in order, all unlike

_USUAL_BITS: Final = 64  # the size of a counter where the page tells none

_PAGE_WIDTH: Final = 120


def counters_of(sampler: str) -> tuple[Counter, ...]:
    """Return a sampler's counters in order.

    >>> [len(counters_of(sampler)) for sampler in SAMPLERS]
    [22, 34, 34]
    """
    return tuple(counter for counter in COUNTERS if counter.sampler == sampler)


def table() -> str:
    """Return the counters as Markdown, for each sampler a list by unit and width; this module prints it when run."""
    parts: list[str] = []
    for sampler in SAMPLERS:
        units: dict[str, list[str]] = {}
        for c in counters_of(sampler):
            unit = c.unit if c.bits == _USUAL_BITS else f"{c.unit}, {c.bits} bits"
            units.setdefault(unit, []).append(f"`{c.name}`" + (f" ({c.meaning})" if c.meaning else ""))
        lines = [
            textwrap.fill(f"* **{unit}**: {', '.join(names)}", _PAGE_WIDTH, subsequent_indent="  ")
            for unit, names in units.items()
        ]
        parts += [f"## {sampler}", "", *lines, ""]
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(table())
