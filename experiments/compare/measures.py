"""Measures of schedules and predictions: title, unit and direction of each, under the names that tables give them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

AS_LOGGED: Final = -1  # stands for a seed where the log is not shaken


@dataclass(frozen=True)
class Measure:
    """A figure as tables, pictures and sentences call it."""

    title: str
    unit: str = ""  # empty where it has none
    lower_is_better: bool = True
    as_ratio: bool = True  # whether ours / theirs makes sense, so that two cases can be compared by it


MEASURES: Final[Mapping[str, Measure]] = MappingProxyType(  # by column of `results.parquet` and key of `--json`
    {
        "mean_bounded_slowdown": Measure("mean bounded slowdown"),
        "median_bounded_slowdown": Measure("median bounded slowdown"),
        "mean_wait_s": Measure("mean wait", "s"),
        "p99_wait_s": Measure("99th percentile of wait", "s"),
        "max_wait_s": Measure("longest wait", "s"),
        "widest5_mean_wait_s": Measure("mean wait of the widest 5 %", "s"),
        "mean_response_s": Measure("mean response time", "s"),
        "mean_stretch": Measure("mean stretch"),
        "max_stretch": Measure("longest stretch"),
        "area_weighted_mean_wait_s": Measure("area-weighted mean wait", "s"),
        "area_weighted_mean_response_s": Measure("area-weighted response time", "s"),
        "area_weighted_mean_bounded_slowdown": Measure("area-weighted bounded slowdown"),
        "throughput_std": Measure("standard deviation of throughput", "of the machine"),
        "user_slowdown_gini": Measure("Gini of users' slowdown"),
        "makespan_s": Measure("makespan", "s"),
        "utilisation": Measure("utilisation", lower_is_better=False, as_ratio=False),
        "killed": Measure("killed at the requested time", "jobs", as_ratio=False),
        "soft_too_short": Measure("share of soft limits that were too short", as_ratio=False),
        "preemptions": Measure("preemptions", as_ratio=False),
        "preempted_processor_seconds": Measure("lost to preemption", "processor s", as_ratio=False),
        "past_request": Measure("ran past the requested time", "jobs", as_ratio=False),
        "sse_s2": Measure("sum of squared errors", "s²"),
        "mae_s": Measure("mean absolute error", "s"),
        "median_ae_s": Measure("median absolute error", "s"),
        "underestimation_rate": Measure("share of jobs predicted too short"),
        "sse_ratio_to_last_two": Measure("error / last-two", as_ratio=False),
        "r2": Measure("R²", lower_is_better=False, as_ratio=False),
        "mean_accuracy": Measure("mean accuracy", lower_is_better=False, as_ratio=False),
        **{
            f"{name}_{figure}": Measure(
                title.format(resource), unit, lower_is_better=figure != "utilisation", as_ratio=False
            )
            for name, resource in (("processors", "processors"), ("gpus", "GPUs"), ("memory_kb", "memory"))
            for figure, title, unit in (
                ("utilisation", "share of the {} asked for", "of makespan"),
                ("held", "share of the {} held", "of makespan"),
                ("mean_wait_s", "mean wait of jobs that ask for {} above all", "s"),
            )
        },
        "time_above_share": Measure("time above 95 % utilisation", "of makespan", as_ratio=False),
        "mean_user_wait_s": Measure("mean user wait", "s", as_ratio=False),
        "mean_user_wait_regular_s": Measure("mean user wait of regular jobs", "s", as_ratio=False),
        "mean_user_wait_postponable_s": Measure("mean user wait of postponable jobs", "s", as_ratio=False),
        "mean_user_slowdown": Measure("mean slowdown on user wait", as_ratio=False),
        "mean_user_slowdown_undilated": Measure("mean slowdown on user wait, undilated runs", as_ratio=False),
        "postponable": Measure("postponable", "jobs", as_ratio=False),
        "late": Measure("postponable jobs that ended late", as_ratio=False),
        "dilated": Measure("jobs that took longer than alone", as_ratio=False),
    }
)

BY_RESOURCE: Final = tuple(  # figures by resource that tables show, where jobs take GPUs and memory of nodes
    f"{name}_{figure}" for name in ("processors", "gpus", "memory_kb") for figure in ("utilisation", "mean_wait_s")
)

COMPARED: Final = tuple(name for name, one in MEASURES.items() if one.as_ratio and one.lower_is_better)
"""What can be compared: ratios make sense, and less is better."""


def heading(column: str) -> str:
    """Return a figure's name as the heading of a column: its title and unit, of other names their words.

    >>> heading("p99_wait_s"), heading("killed"), heading("n_jobs"), heading("ratio_low"), heading("median wait_s")
    ('99th percentile of wait [s]', 'killed at the requested time', 'jobs', 'ratio low', 'median wait [s]')
    """
    if column in MEASURES:
        one = MEASURES[column]
        return f"{one.title} [{one.unit}]" if one.unit and one.unit != "jobs" else one.title
    words = column.removeprefix("n_").replace("_", " ")
    return f"{words[:-2]} [s]" if words.endswith(" s") and not words.endswith("per s") else words


def titled(figures: Mapping[str, Any], names: Iterable[str]) -> list[tuple[str, Any, str]]:
    """Return figures as rows of a table: title, value, unit.

    >>> titled({"mean_wait_s": 60.0, "killed": 1}, ["mean_wait_s"])
    [('mean wait', 60.0, 's')]
    """
    return [(MEASURES[name].title, figures[name], MEASURES[name].unit) for name in names]
