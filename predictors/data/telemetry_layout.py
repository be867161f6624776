"""What do the columns of a telemetry file mean? Read off the header that LDMS writes, or off a mapping file.

LDMS writes `metric#instance` for each device of a node (ports of the network card, mounted file systems), or a row a
device with columns that name it. Either way a node's rate is the sum over its devices.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

from predictors.data.counters import COUNTER_NAMES, COUNTERS, SAMPLERS
from predictors.data.errors import JobcastError

Kind = Literal["cumulative", "rate"]
Clock = Literal["s", "ms", "us", "ns", "ms+us", "datetime"]

_PREFIX: Final = re.compile(r"^(ib|client)\.")
_RATE: Final = re.compile(r"[._]rate$")
_SERVER: Final = re.compile(r"^(osc|mdc)\.|-(osc|mdc)-")
_DEVICE_COLUMNS: Final = ("ca_name", "port", "hfi", "hca", "fs_name", "llite", "instance")
_OURS: Final[Mapping[str, int]] = MappingProxyType({name: k for k, name in enumerate(COUNTER_NAMES)})


@dataclass(frozen=True)
class Metric:
    """A column that holds a counter.

    Parameters
    ----------
    column : int
        Which column.
    counter : int
        Which counter: its position in `COUNTERS`.
    kind : {"cumulative", "rate"}
        Whether the column counts up, or holds rates per second.
    bits : {32, 64}
        Width of what counts up.
    scale : float
        What a unit of the column is in the counter's unit.
    flag : int
        Column that is not 0 where the value must not be used; -1: none.
    """

    column: int
    counter: int
    kind: Kind = "cumulative"
    bits: int = 64
    scale: float = 1.0
    flag: int = -1


@dataclass(frozen=True)
class Layout:
    """What the columns of one file are.

    Parameters
    ----------
    names : tuple of str
        The columns.
    clock : str
        What the time column is in; `ms+us`: milliseconds, and microseconds on top in the second time column.
    time : tuple of int
        The time column or columns.
    node : int
        The column with the node's id, or with the name that it ends.
    component : int
        Column with LDMS's component_id, asked where the name has no number; -1: none.
    devices : tuple of int
        Columns that tell a node's devices apart.
    metrics : tuple of Metric
        The counters, by column.
    ignored : tuple of str
        Columns with anything else that might have been meant.
    """

    names: tuple[str, ...]
    clock: Clock
    time: tuple[int, ...]
    node: int
    component: int = -1
    devices: tuple[int, ...] = ()
    metrics: tuple[Metric, ...] = ()
    ignored: tuple[str, ...] = field(default=(), compare=False)

    @property
    def counters(self) -> tuple[int, ...]:
        """The counters that there are, positions in `COUNTERS`, ascending."""
        return tuple(sorted({metric.counter for metric in self.metrics}))


def header_names(line: str) -> tuple[str, ...]:
    """Return the names of columns in a header line, without LDMS's mark and any quotes.

    Examples
    --------
    >>> header_names('#"Time","Time_usec","ProducerName"')
    ('Time', 'Time_usec', 'ProducerName')
    """
    return tuple(name.strip().strip('"').strip() for name in line.strip().removeprefix("#").split(","))


def is_ldms_header(line: str) -> bool:
    """Tell whether a line is the header of a file that LDMS's CSV stores wrote."""
    return line.startswith("#") and header_names(line)[0] in ("Time", "Time_msec")


def ldms_layout(names: Sequence[str], source: str) -> Layout:
    """Return what the columns of a file by LDMS's `store_csv` or `store_function_csv` are.

    A counter is found by its name, with or without the sampler's prefix (`ib.`, `client.`), with `.sum` (the newer
    Lustre sampler) or `.value` behind it. With `.rate` or `_rate` behind it the column holds rates, and is ignored if
    the counter itself is there too. Metrics of Lustre's servers (`#osc.…`, `#mdc.…`) are ignored: they count what the
    mounted file system counts already. A file belongs to the sampler most of whose counters it has.

    Raises
    ------
    JobcastError
        If a column that LDMS always writes is missing, or none holds a counter.

    Examples
    --------
    >>> layout = ldms_layout(("Time", "Time_usec", "ProducerName", "ib.port_xmit_data#hfi1_0.1"), "a.csv")
    >>> [(COUNTER_NAMES[m.counter], m.kind) for m in layout.metrics]
    [('port_xmit_data', 'cumulative')]
    """
    at = {name: k for k, name in reversed(list(enumerate(names)))}
    node = at.get("ProducerName", at.get("node", -1))
    if node < 0 or names[0] not in ("Time", "Time_msec") or (names[0] == "Time_msec" and "Time_usec" not in at):
        raise JobcastError(
            f"{source}: the header begins {','.join(names[:4])!r}; LDMS begins it #Time,Time_usec,ProducerName or "
            "#Time_msec,Time_usec,ProducerName. Give a mapping file for other schemas."
        )
    found, ignored = _metrics(names, at)
    if not found:
        raise JobcastError(
            f"{source}: no column holds a counter that is known (columns {', '.join(names[3:8])}…); give a mapping "
            "file that says which are."
        )
    return Layout(
        names=tuple(names),
        clock="s" if names[0] == "Time" else "ms+us",
        time=(0,) if names[0] == "Time" else (0, at["Time_usec"]),
        node=node,
        component=at.get("component_id", -1),
        devices=tuple(at[name] for name in _DEVICE_COLUMNS if name in at),
        metrics=found,
        ignored=ignored,
    )


def _metrics(names: Sequence[str], at: Mapping[str, int]) -> tuple[tuple[Metric, ...], tuple[str, ...]]:
    cumulative: dict[int, tuple[int, str]] = {}
    rates: dict[int, tuple[int, str]] = {}
    for column, name in enumerate(names):
        metric, _, device = name.removesuffix(".value").partition("#")
        is_rate = _RATE.search(metric) is not None
        counter = _OURS.get(_PREFIX.sub("", _RATE.sub("", metric)).removesuffix(".sum"))
        if counter is not None and not _SERVER.search(device) and not name.endswith(".userdata"):
            (rates if is_rate else cumulative)[column] = (counter, device)
    votes = [COUNTERS[counter].sampler for counter, _ in (*cumulative.values(), *rates.values())]
    sampler = max(SAMPLERS, key=lambda name: sum(vote == name for vote in votes))
    counted = set(cumulative.values())
    found = [
        Metric(column, counter, kind, COUNTERS[counter].bits, flag=at.get(f"{names[column]}.Flag", -1))
        for kind, columns in _both(cumulative, rates)
        for column, (counter, device) in columns.items()
        if COUNTERS[counter].sampler == sampler and (kind == "cumulative" or (counter, device) not in counted)
    ]
    used = {metric.column for metric in found} | {metric.flag for metric in found}
    plumbing = {"Time", "Time_msec", "Time_usec", "DT", "DT_usec", "ProducerName", "node", "component_id", "job_id",
                "app_id", "TimeFlag", *_DEVICE_COLUMNS}  # fmt: skip
    ignored = tuple(name for column, name in enumerate(names) if column not in used and name not in plumbing)
    return tuple(sorted(found, key=lambda metric: metric.column)), ignored


def _both(
    cumulative: dict[int, tuple[int, str]], rates: dict[int, tuple[int, str]]
) -> tuple[tuple[Kind, dict[int, tuple[int, str]]], ...]:
    return ("cumulative", cumulative), ("rate", rates)
