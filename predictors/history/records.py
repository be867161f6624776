"""Records of a history: the as-of rule, a submitted job, the outcome of a job."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, Ints, short_repr
from predictors.core.errors import JobcastError, unknown_name
from predictors.history.names import NAMELESS, Called


@dataclass(frozen=True)
class AsOfRule:
    """The as-of rule: which jobs count as ended at a submission."""

    # whether a job that ends in the very second of a submission is known to it; if not, it still counts as running
    same_second: bool = True
    # {1, 2}: ended jobs of the user that `last_two_mean` needs; of a single one the mean is its own run time
    least_ended: int = 1

    def __post_init__(self) -> None:
        if self.least_ended not in (1, 2):
            raise JobcastError(f"AsOfRule.least_ended must be 1 or 2; got {self.least_ended!r}.")


AS_OF_RULES: Final[dict[str, AsOfRule]] = {"strict": AsOfRule(), "reis": AsOfRule(same_second=False, least_ended=2)}
"""The rules by protocol: `strict` (ends come before submissions); `reis`, as in his report (see `REIS_FEATURES`)."""


def as_of_rule(rule: str | AsOfRule) -> AsOfRule:
    """Return a rule by its name in `AS_OF_RULES`, or the rule itself."""
    if isinstance(rule, AsOfRule):
        return rule
    if rule not in AS_OF_RULES:
        raise unknown_name("as-of rule", rule, AS_OF_RULES)
    return AS_OF_RULES[rule]


@dataclass(frozen=True, slots=True)
class Job:
    """A job as its submission describes it; None stands for unknown. An unknown user has no history."""

    job_id: int  # unique among the jobs that have not ended
    submit: int  # submission [s on the history's clock]
    procs: int | None = None  # processors asked for
    requested_time: int | None = None  # walltime asked for [s]
    user: int | None = None  # user, group, executable, queue, partition: codes, not below 0
    group: int | None = None
    executable: int | None = None
    queue: int | None = None
    partition: int | None = None
    called: Called = NAMELESS  # what its names say (`predictors.history.names.called`); by default it has none
    soft_walltime: int | None = None  # run time that the site's own system predicted [s]

    @classmethod
    def coded(cls, job_id: int, submit: int, codes: Iterable[int]) -> Self:
        """Return a job by processors, requested time, user, group, executable, queue and partition; < 0 is unknown.

        >>> Job.coded(7, 50, (4, 600, 3, -1, -1, -1, -1)).user
        3
        """
        procs, requested_time, user, group, executable, queue, partition = (None if c < 0 else c for c in codes)
        return cls(job_id, submit, procs, requested_time, user, group, executable, queue, partition)


class Outcome(NamedTuple):
    """The outcome of one job: its row and prediction at submission, and how long it ran, or has run so far."""

    row: Floats  # features at the submission, shape (n_features,)
    issued: float  # the prediction that was given for it [s]; missing (NaN) if none was
    seconds: float  # run time, or elapsed time of a job that still runs [s]
    observed: bool  # whether the job has ended: otherwise its run time is censored at `seconds`
    time: int  # the second of the outcome: the job's end, or now [s]
    told: bool = False  # whether an outcome was sent before, while the job ran, as longer than `issued`


@dataclass(frozen=True)
class Outcomes:
    """Outcomes of many jobs as columns of equal length; see `Outcome`."""

    rows: Floats
    issued: Floats
    seconds: Floats
    observed: npt.NDArray[np.bool_]
    time: Ints
    told: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=np.bool_))  # by default of none

    __repr__ = short_repr

    def __post_init__(self) -> None:
        if len(self.told) != len(self.seconds):
            object.__setattr__(self, "told", np.zeros(len(self.seconds), dtype=np.bool_))

    def __len__(self) -> int:
        return len(self.seconds)

    def __iter__(self) -> Iterator[Outcome]:
        """Yield the outcomes one by one."""
        for i in range(len(self)):
            yield Outcome(
                self.rows[i], float(self.issued[i]), float(self.seconds[i]), bool(self.observed[i]), int(self.time[i]),
                bool(self.told[i]),
            )  # fmt: skip

    @classmethod
    def stack(cls, outcomes: Sequence[Outcome], features: Sequence[str]) -> Self:
        """Return single outcomes as columns."""
        rows, issued, seconds, observed, time, told = zip(*outcomes, strict=True) if outcomes else ((),) * 6
        return cls(
            np.array(rows, dtype=np.float64).reshape(len(outcomes), len(features)),
            np.array(issued, dtype=np.float64),
            np.array(seconds, dtype=np.float64),
            np.array(observed, dtype=np.bool_),
            np.array(time, dtype=np.int64),
            np.array(told, dtype=np.bool_),
        )

    def select(self, chosen: Ints) -> Self:
        """Return the outcomes at some positions."""
        return type(self)(**{column.name: getattr(self, column.name)[chosen] for column in fields(self)})

    def arrays(self, prefix: str) -> dict[str, npt.NDArray[Any]]:
        """Return the columns as plain arrays, each named by `prefix` and its column."""
        return {prefix + column.name: getattr(self, column.name) for column in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> Self:
        """Return what `arrays` gave."""
        return cls(**{column.name: arrays[prefix + column.name] for column in fields(cls)})
