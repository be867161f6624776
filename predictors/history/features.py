"""The features of a history: names, units and definitions, in one table.

All are facts as of a submission at second `now`. *Ended* and *running* are by the as-of rule in use
(`predictors.history.history.AsOfRule`); a user's ended jobs are ordered by (end, start, job id). What is not known is
missing (NaN): an unknown user has neither history nor running jobs, a user without an ended job has no last run time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from predictors.core.arrays import Ints
from predictors.core.errors import JobcastError, unknown_name
from predictors.history import _layout as at

REQUESTED_TIME: Final = "requested_time"  # read by every predictor: a cap of predictions, and their fallback


@dataclass(frozen=True)
class Feature:
    """One column of a feature row."""

    position: int  # where the compiled step puts it
    family: int  # bit of the small compiled function that computes it
    kind: Literal["number", "category"]  # whether its values can be ordered and averaged, or only compared for equality
    unit: str  # unit of a number; what a category's codes are
    definition: str  # value for a submission at second `now`


_J, _C, _E, _R = at.JOB_FAMILY, at.CALENDAR_FAMILY, at.ENDED_FAMILY, at.RUNNING_FAMILY
_S, _M = at.SUBMISSIONS_FAMILY, at.MACHINE_FAMILY

_GROUPS: Final[dict[str, str]] = {  # names of the kinds of groups, in the order of `_layout.KEYS`
    "user": "ended jobs of the user",
    "user_procs": "ended jobs of the user with the same processors",
    "user_request": "ended jobs of the user with the same requested time",
    "user_executable": "ended jobs of the user with the same executable",
    "user_procs_request": "ended jobs of the user with the same processors and requested time",
    "procs_request": "ended jobs of all users with the same processors and requested time",
    "group": "ended jobs of the group",
    "queue": "ended jobs of the queue",
}

_OF_GROUP: Final[dict[str, tuple[str, str]]] = {
    "count": ("jobs", "number of the {}"),
    "last": ("s", "run time of the last of the {}"),
    "weighted": ("s", "weighted mean run time of the {}: newest 1/10, all earlier 9/10; the first ten weigh the same"),
    "ratio": ("1", "the same mean of run time / requested time, of requests above 0"),
    "mean": ("s", "mean run time of the last ten {}"),
    "geometric": ("s", "geometric mean run time of the last ten {}, each at least 1 s"),
    "min": ("s", "shortest run time of the last ten {}"),
    "lower": ("s", "lower quartile of the last ten run times, linear between neighbours"),
    "median": ("s", "median run time of the last ten {}"),
    "upper": ("s", "upper quartile of the last ten run times, linear between neighbours"),
    "max": ("s", "longest run time of the last ten {}"),
    "age": ("s", "now - end of the last of the {}"),
}
"""Unit and definition of each fact of a group, in the order of the layout; missing where the group has none."""

_MOST_SPECIFIC: Final = (
    "ended jobs of the first group with any: same user, processors and requested time; user and requested time; user "
    "and processors; user; processors and requested time of all users"
)


_BY_NAME: Final = (
    "ended jobs of the first group with any: same user, stems of all names, processors and requested time; user, "
    "processors and requested time; user and requested time; user and stem of the first name given (job name, "
    "command, directory); then as `similar`"
)


def _of_group(name: str, members: str, first: int, family: int) -> "dict[str, Feature]":
    return {
        f"{name}_{fact}": Feature(first + k, family, "number", unit, definition.format(members))
        for k, (fact, (unit, definition)) in enumerate(_OF_GROUP.items())
    }


KERNEL_MEANS: Final = ("kernel_near", "kernel_wide", "kernel_timed")  # names, in the order of `_layout.KERNELS`
_KERNEL: Final = (
    f"mean run time of the user's last {at.MEMORY} ended jobs, each of weight exp(-d): d = {{}}; what is unknown or "
    "below 1 counts as 1"
)


def _distance(request: float, procs: float, runs: float, hours: float) -> str:
    """Return the formula of a run's distance from a job."""
    in_time = f" + ln(1 + hours since its end)/{hours:g}" if hours < float("inf") else ""
    return (
        f"abs(ln(request/its request))/{request:g} + abs(ln(procs/its procs))/{procs:g} + "
        f"jobs ended since/{runs:g}{in_time}"
    )


FEATURES: Final[dict[str, Feature]] = {  # every feature by name
    "procs": Feature(at.F_PROCS, _J, "number", "processors", "processors requested"),
    "requested_time": Feature(at.F_REQUESTED, _J, "number", "s", "walltime requested"),
    "last_two_mean": Feature(
        at.F_LAST_TWO_MEAN, _E, "number", "s",
        "mean run time of the user's last two ended jobs; of a single one its own, or missing, by the as-of rule",
    ),
    "last_run_time": Feature(at.F_LAST_RUN, _E, "number", "s", "run time of the user's last ended job"),
    "second_last_run_time": Feature(
        at.F_SECOND_RUN, _E, "number", "s", "run time of the ended job of the user before the last"
    ),
    "think_time": Feature(at.F_THINK_TIME, _E, "number", "s", "now - end of the user's last ended job"),
    "longest_running": Feature(
        at.F_LONGEST_RUNNING, _R, "number", "s", "longest elapsed time, now - start, of the user's running jobs"
    ),
    "running_sum": Feature(at.F_RUNNING_SUM, _R, "number", "s", "sum of the elapsed times of the user's running jobs"),
    "running_count": Feature(at.F_RUNNING_COUNT, _R, "number", "jobs", "the user's running jobs"),
    "running_mean": Feature(
        at.F_RUNNING_MEAN, _R, "number", "s", "mean elapsed time of the user's running jobs"
    ),
    "procs_held": Feature(
        at.F_PROCS_HELD, _R, "number", "processors", "processors of the user's running jobs; unknown counts 0"
    ),
    "user": Feature(at.F_USER, _J, "category", "user code", "who submits the job"),
    "group": Feature(at.F_GROUP, _J, "category", "group code", "the user's group or account"),
    "weekday": Feature(
        at.F_WEEKDAY, _C, "category", "0 Monday … 6 Sunday",
        "day of the week at now in the machine's time zone (UTC if unknown); missing without an epoch",
    ),
    "last_status": Feature(at.F_LAST_STATUS, _E, "category", "SWF status", "status of the user's last ended job"),
    "second_last_status": Feature(
        at.F_SECOND_STATUS, _E, "category", "SWF status", "status of the ended job of the user before the last"
    ),
    "executable": Feature(at.F_EXECUTABLE, _J, "category", "executable code", "application of the job"),
    "queue": Feature(at.F_QUEUE, _J, "category", "queue code", "queue of the job"),
    "partition": Feature(at.F_PARTITION, _J, "category", "partition code", "partition of the job"),
    "hour": Feature(
        at.F_HOUR, _C, "number", "h", "time of day at now, 0 ≤ hour < 24, as weekday"
    ),
    "ended_count": Feature(at.F_ENDED_COUNT, _E, "number", "jobs", "the user's ended jobs"),
    "ended_mean": Feature(at.F_ENDED_MEAN, _E, "number", "s", "mean run time of all the user's ended jobs"),
    "pending_count": Feature(
        at.F_PENDING_COUNT, _R, "number", "jobs", "the user's other jobs in the queue"
    ),
    "since_submit": Feature(at.F_SINCE_SUBMIT, _S, "number", "s", "now - the user's last submission"),
    "burst": Feature(
        at.F_BURST, _S, "number", "jobs",
        "earlier submissions of the user, each at most 60 s before the next; 0 begins a burst",
    ),
    "same_procs": Feature(
        at.F_SAME_PROCS, _S, "number", "0 or 1", "the user's last submission had as many processors"
    ),
    "same_request": Feature(
        at.F_SAME_REQUESTED, _S, "number", "0 or 1", "the user's last submission had the same walltime"
    ),
    "same_executable": Feature(
        at.F_SAME_EXECUTABLE, _S, "number", "0 or 1", "the user's last submission had the same executable"
    ),
    "machine_pending": Feature(at.F_MACHINE_PENDING, _M, "number", "jobs", "jobs in the queue"),
    "machine_pending_procs": Feature(
        at.F_MACHINE_PENDING_PROCS, _M, "number", "processors", "processors of the jobs in the queue"
    ),
    "machine_running": Feature(at.F_MACHINE_RUNNING, _M, "number", "jobs", "running jobs"),
    "machine_running_procs": Feature(
        at.F_MACHINE_RUNNING_PROCS, _M, "number", "processors", "processors of the running jobs"
    ),
    "machine_free_procs": Feature(
        at.F_MACHINE_FREE_PROCS, _M, "number", "processors",
        "processors that no running job has; missing without the machine's size",
    ),
    **{
        name: Feature(
            at.F_KERNEL + k, at.KERNEL_FAMILY, "number", "s",
            (_KERNEL if k == 0 else f"as `{KERNEL_MEANS[0]}`, with d = {{}}").format(_distance(*at.KERNELS[k])),
        )
        for k, name in enumerate(KERNEL_MEANS)
    },
    "worst_ratio": Feature(
        at.F_WORST_RATIO, at.PRODUCTION_FAMILY, "number", "1",
        f"greatest run time / requested time of the user's last {at.RATIO_RUNS} ended jobs, at most 1",
    ),
    "alike_mean": Feature(
        at.F_ALIKE_MEAN, at.PRODUCTION_FAMILY, "number", "s",
        f"mean run time of the user's last {at.MEMORY} ended jobs, up to {at.ALIKE_AGE // 86400} days ago, with the "
        "same queue, partition, processors and requested time",
    ),
    "place_mean": Feature(
        at.F_PLACE_MEAN, at.PRODUCTION_FAMILY, "number", "s",
        f"mean run time of the newest {at.PLACE_RUNS} of them in the same queue and partition, whatever else",
    ),
    **_of_group("similar", _MOST_SPECIFIC, at.F_SIMILAR, at.SIMILAR_FAMILY),
    "similar_rank": Feature(
        at.F_SIMILAR_RANK, at.SIMILAR_FAMILY, "number", "rank",
        "the group that `similar` is: 0 the most specific … 4 that of all users",
    ),
    **{
        name: feature
        for kind, (group, members) in enumerate(_GROUPS.items())
        for name, feature in _of_group(
            f"of_{group}", members, at.F_GROUPS + kind * at.GROUP_FACTS, at.GROUPS_FAMILY
        ).items()
    },
    **_of_group("named", _BY_NAME, at.F_NAMED, at.NAMED_FAMILY),
    "named_rank": Feature(
        at.F_NAMED_RANK, at.NAMED_FAMILY, "number", "rank",
        "the group that `named` is: 0 the most specific … 6 that of all users; 0 and 3 are of one stem",
    ),
    "near_text": Feature(
        at.F_NEAR_TEXT, at.TEXT_FAMILY, "number", "s",
        f"mean run time of the {at.NEIGHBOURS} nearest of the user's last {at.AMONG} ended jobs, by different bits of "
        f"the signatures of their names/{at.BITS_APART:g} + abs(ln(request/its request))/{at.NEAR_REQUEST:g} + "
        f"abs(ln(procs/its procs))/{at.NEAR_PROCS:g}",
    ),
    "soft_walltime": Feature(
        at.F_SOFT, at.LOGGED_FAMILY, "number", "s", "run time that the site's own system predicted for it, by the log"
    ),
}  # fmt: skip

REIS_FEATURES: Final[tuple[str, ...]] = (
    "procs", "requested_time", "last_two_mean", "last_run_time", "second_last_run_time", "think_time",
    "longest_running", "running_sum", "running_count", "running_mean", "procs_held", "user", "group", "weekday",
    "last_status", "second_last_status",
)  # fmt: skip
"""The sixteen of V. Reis, Learning job run-times in HPC systems (master's report, MoSIG, Grenoble), Table 1."""

RICH_FEATURES: Final[tuple[str, ...]] = (  # forty for learners that take more: above all the history of similar jobs
    "procs",
    "requested_time",
    "user",
    "last_two_mean",
    "ended_mean",
    "longest_running",
    "running_count",
    "procs_held",
    "hour",
    "weekday",
    "since_submit",
    "burst",
    "same_request",
    "machine_pending",
    "machine_running_procs",
    *(f"similar_{fact}" for fact in ("count", "last", "weighted", "ratio", "median", "lower", "max", "age", "rank")),
    *(
        f"of_{group}_{fact}"
        for group in ("user", "user_procs", "user_request", "user_procs_request", "procs_request")
        for fact in ("weighted", "max")
    ),
    "of_user_ratio",
    "of_user_median",
    "of_procs_request_ratio",
    "of_user_executable_weighted",
    "of_group_weighted",
    "of_queue_weighted",
)

WIDE_FEATURES: Final[tuple[str, ...]] = (
    *RICH_FEATURES,
    *KERNEL_MEANS,
    "machine_free_procs",
    "machine_pending_procs",
    "think_time",
    "last_status",
    "last_run_time",
    "second_last_run_time",
    "group",
    "executable",
    "queue",
    "running_sum",
    "running_mean",
    "pending_count",
    "same_procs",
    "same_executable",
    *(f"similar_{fact}" for fact in ("mean", "geometric", "min", "upper")),
)
"""The forty and twenty-one more: kernel means, the machine's state, more of similar jobs and of the user's newest."""

NAMELESS_FEATURES: Final[tuple[str, ...]] = tuple(  # those that need neither a job's names nor what its site predicted
    name for name, one in FEATURES.items() if not one.family & at.WIDE_FAMILIES
)

CATEGORIES: Final[frozenset[str]] = frozenset(name for name, one in FEATURES.items() if one.kind == "category")

CODED: Final = ("user", "group", "executable", "queue", "partition")  # categories that each log codes in its own way


def feature_plan(names: Sequence[str]) -> Ints:
    """Return the positions of features in the compiled step's facts, int64 of shape (n_features,).

    >>> feature_plan(["requested_time", "procs"]).tolist()
    [1, 0]
    """
    for name in names:
        if name not in FEATURES:
            raise unknown_name("feature", name, FEATURES)
    if not names or len(set(names)) < len(names):
        raise JobcastError(f"Features must be at least one name, none twice; got {', '.join(names) or 'none'}.")
    return np.array([FEATURES[name].position for name in names], dtype=np.int64)


def families_of(names: Sequence[str]) -> int:
    """Return the families that the features need, as bits."""
    bits = 0
    for name in names:
        bits |= FEATURES[name].family
    return bits


def codes_read(names: Sequence[str], past: bool = False) -> tuple[str, ...]:
    """Return the columns of a log that these features hold as codes; if `past`, those of their history, too.

    >>> codes_read(["requested_time", "last_two_mean"]), codes_read(["requested_time", "last_two_mean"], past=True)
    ((), ('user',))
    """
    found = {name for name in CODED if name in names}
    families = families_of(names)
    if past and families & at.GROUP_FAMILIES:
        found |= {"user", "group", "executable", "queue"}
        found |= {"partition"} if families & at.PRODUCTION_FAMILY else set()
    elif past and families & (at.ENDED_FAMILY | at.RUNNING_FAMILY):
        found.add("user")
    return tuple(name for name in CODED if name in found)


_PAGE: Final = """# Features

This page lists every fact that a predictor can read about a job at its submission, at second `now`. An unknown fact is
missing (NaN). Units stand in square brackets; without them the unit is the second.

* The as-of rule of the history decides which jobs count as *ended* and as *running*. A user's ended jobs are ordered by
  end, start and job id.
* The numbers in brackets name the sets: *16* is `REIS_FEATURES` (the sixteen of Reis), *40* is `RICH_FEATURES`
  (`boosted`, `censored`), *61* is `WIDE_FEATURES` (`average`), which holds the 40, too.

## The job, its user and the machine

"""

_PAGE_GROUPS: Final = """
## Groups of earlier jobs

Each feature here is one fact about one group of ended jobs. Its name is the group, `_` and the fact: `of_user_median`
is the median of the user's last ten run times. A fact is missing where the group has no ended job.

Each group holds ended jobs:

"""

_PAGE_FACTS: Final = """
## Facts of a group

"""


def _sets(name: str) -> str:
    """Return the sets that hold a feature, by their sizes; the 40 are part of the 61.

    >>> _sets("procs"), _sets("second_last_status"), _sets("queue"), _sets("partition")
    ('16, 40', '16', '61', '')
    """
    larger = WIDE_FEATURES[len(RICH_FEATURES) :]
    known = (("16", REIS_FEATURES), ("40", RICH_FEATURES), ("61", larger))
    return ", ".join(size for size, names in known if name in names)


def _unit(unit: str, kind: str = "number") -> str:
    """Return the unit as the page has it behind a definition: none for seconds.

    >>> _unit("s"), _unit("jobs"), _unit("user code", "category")
    ('', ' [jobs]', ' [category: user code]')
    """
    if kind == "category":
        return f" [category: {unit}]"
    return "" if unit == "s" else f" [{unit}]"


def page() -> str:
    """Return the page of features: every feature with its unit and definition; groups and facts apart."""
    own = {f"of_{name}": members for name, members in _GROUPS.items()}
    groups = {"similar": _MOST_SPECIFIC, "named": _BY_NAME} | own
    of_groups = {f"{group}_{fact}" for group in groups for fact in _OF_GROUP}
    alone: list[str] = []
    for name, one in FEATURES.items():
        if name in of_groups:
            continue
        sets = _sets(name)
        alone.append(f"* `{name}`: {one.definition}{_unit(one.unit, one.kind)}" + (f" ({sets})\n" if sets else "\n"))
    facts = []
    for fact, (unit, definition) in _OF_GROUP.items():
        by_sets: dict[str, list[str]] = {}
        for group in groups:
            if sets := _sets(f"{group}_{fact}"):
                by_sets.setdefault(sets, []).append(f"`{group}`")
        found = "; ".join(
            f"{sets}: {'all groups but `named`' if len(names) >= len(own) + 1 else ', '.join(names)}"
            for sets, names in by_sets.items()
        )
        facts.append(f"* `{fact}`: {definition.format('jobs')}{_unit(unit)} ({found})\n")
    rows = (f"* `{group}`: {members.removeprefix('ended jobs ')}\n" for group, members in groups.items())
    return "".join((_PAGE, *alone, _PAGE_GROUPS, *rows, _PAGE_FACTS, *facts))
