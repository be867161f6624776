"""For which jobs is a predictor good? Slices of the test jobs by run time, by what is known of the user, by month."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from predictors._history_calendar import utc_offsets
from predictors.data.joblog import JobLog
from predictors.metrics import Figures, Floats, figures

Bools = npt.NDArray[np.bool_]

RUN_TIME_BINS: Final[Mapping[str, float]] = MappingProxyType(
    {"<= 10 min": 600, "<= 1 h": 3600, "<= 4 h": 14_400, "<= 12 h": 43_200, "<= 24 h": 86_400, "<= 10 d": 864_000}
)
"""Upper ends of the run-time bins [s], each included; longer jobs make one more bin."""


@dataclass(frozen=True)
class Slice:
    """The figures of one predictor on some of the test jobs.

    Attributes
    ----------
    by : {"run time", "user", "month"}
        What the jobs were sliced by.
    label : str
        Which slice.
    figures : Figures
        Of these jobs alone; the ratio is to last-two on the same jobs.
    """

    by: str
    label: str
    figures: Figures


def slices(log: JobLog, rows: Bools, ended_count: Floats, predicted: Floats, baseline: Floats) -> tuple[Slice, ...]:
    """Return the figures of `predicted` on every slice that has jobs.

    Parameters
    ----------
    log : JobLog
        Whose jobs were predicted.
    rows : bool array of shape (n_jobs,)
        Jobs to score.
    ended_count : float64 array of shape (n_jobs,)
        Ended jobs of the user at the submission; NaN for nobody. Users without one are cold.
    predicted, baseline : float64 arrays of shape (n_jobs,)
        Predictions [s]; only those of `rows` are read.
    """
    run_time = log.filled("run_time").astype(np.float64)
    return tuple(
        Slice(by, label, figures(run_time[chosen], predicted[chosen], baseline[chosen]))
        for by, label, where in _parts(log, run_time, ended_count)
        if (chosen := where & rows).any()
    )


def _parts(log: JobLog, run_time: Floats, ended_count: Floats) -> Iterator[tuple[str, str, Bools]]:
    low = -np.inf
    for label, high in RUN_TIME_BINS.items():
        yield "run time", label, (run_time > low) & (run_time <= high)
        low = high
    yield "run time", "> 10 d", run_time > low
    warm = ended_count > 0
    yield "user", "warm", warm
    yield "user", "cold", ~warm
    months = months_of(log)
    for label in np.unique(months):
        yield "month", str(label), months == label


def months_of(log: JobLog) -> npt.NDArray[np.str_]:
    """Return the month of each submission in the machine's time zone; without an epoch, months of 30 days from 01 on.

    Examples
    --------
    >>> log = JobLog.from_columns({"job_id": [1, 2], "submit": [0, 86400]}, {}, epoch=1_706_659_200)
    >>> months_of(log).tolist()
    ['2024-01', '2024-02']
    """
    submit = log.filled("submit")
    if log.epoch is None:
        return np.char.zfill((submit // (30 * 86400) + 1).astype(np.str_), 2)
    unix = log.epoch + submit
    offsets = utc_offsets(log.time_zone)
    which = np.maximum(np.searchsorted(offsets[:, 0], unix, side="right") - 1, 0)
    local = (unix + offsets[which, 1]).astype("datetime64[s]")
    names: npt.NDArray[np.str_] = np.datetime_as_string(local.astype("datetime64[M]"))
    return names
