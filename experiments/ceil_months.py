"""Which jobs does the study of CEIL run? A log's two busiest months, or two months like a capability centre's."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import numpy as np

from predictors.data.account import Account
from predictors.data.capability import generate_capability_log
from predictors.data.errors import JobcastError
from predictors.data.joblog import JobLog

SPAN: Final = 30 * 86_400
"""A month of a log that does not tell the date [s]."""
LEAST: Final = 20
"""Jobs of a month that can be studied."""


@dataclass(frozen=True)
class Month:
    """The jobs submitted in one month, cleaned for simulation, and the whole log as it is."""

    name: str
    cleaned: JobLog
    log: JobLog


def default_log(seed: int) -> tuple[JobLog, Account]:
    """Return the log of those who give none: two months on 4,392 nodes, an early one and a full one."""
    return generate_capability_log(seed=seed), Account("synthetic log of a capability centre")


def busiest(log: JobLog, procs: int | None = None, most: int = 2) -> list[Month]:
    """Return the months whose jobs need most of the machine, in the order of time.

    Months are those of UTC, or spans of 30 days where a log does not tell the date.

    Raises
    ------
    JobcastError
        If no month has enough jobs.
    """
    cleaned, _ = log.for_simulation(procs, drop_wide=True)
    names = _names(cleaned)
    area = cleaned.values["run_time"] * cleaned.procs
    found = {name: int(area[names == name].sum()) for name in np.unique(names) if (names == name).sum() >= LEAST}
    if not found:
        raise JobcastError(f"{log.name}: no month has {LEAST} jobs that can be simulated.")
    chosen = sorted(sorted(found, key=lambda name: -found[name])[:most])
    return [Month(str(name), cleaned.select(names == name), log) for name in chosen]


def _names(log: JobLog) -> "np.ndarray[tuple[int], np.dtype[np.str_]]":
    submit = log.values["submit"]
    if log.epoch is None:
        return np.array([f"month {1 + n:03d}" for n in ((submit + log.origin) // SPAN).tolist()])
    return np.array([f"{datetime.fromtimestamp(log.epoch + s, UTC):%Y-%m}" for s in submit.tolist()])
