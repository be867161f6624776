"""One-sided z labels of runs, and the norms of application and number of nodes that they are measured against.

A run's z is (run time - mean) / std, mean and std being those of the runs of the same application on as many nodes.
Only slow runs count: a run far below the mean has no variation. Labels are `as_of` if mean and std come from the
training part alone, so that no label of it moves when the future does; `whole` takes them from all runs, as for RUSH.

The std is the sample's, with n - 1 in the denominator. Fewer than five runs give no label: the largest z that one of
n runs can have among themselves is (n - 1) / sqrt(n), which passes 1.5 from n = 5 on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, Self

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Bools, Floats, Ints, short_repr
from predictors.core.errors import JobcastError
from predictors.core.variation import CLASSES, NONE, VARIATION
from predictors.data.runs import Runs, Words

Scheme = Literal["binary", "three"]

VARIATION_Z: Final = 1.5  # a run with a z above it has variation
LITTLE_Z: Final = 1.2  # a run with a z from here up to `VARIATION_Z`, both included, has little variation
DDOF: Final = 1
LEAST_RUNS: Final = 5
UNLABELLED: Final = -1  # the class of a run that cannot be labelled

SCHEMES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({"binary": (NONE, VARIATION), "three": CLASSES})
"""Names of the classes 0, 1, … of each scheme; the last is the one that matters."""

REASONS: Final = MappingProxyType(  # reasons for which a run has no label
    {
        "unseen": "no run of this application on as many nodes to measure against",
        "few": "too few runs of this application on as many nodes",
        "constant": "all runs of this application on as many nodes took the same time",
    }
)

_SAME: Final = 1e-9  # a spread below this share of the mean is rounding


@dataclass(frozen=True)
class Norm:
    """The norm of one application on one number of nodes."""

    # mean, std: of the run times [s]; the std is NaN for a single run
    mean: float
    std: float
    count: int  # runs behind them


@dataclass(frozen=True)
class Norms:
    """Norms of run times, by (application, number of nodes).

    >>> norms = Norms.of(["AMG"] * 5, [16] * 5, [100, 100, 110, 90, 100])
    >>> norms.z(["AMG", "AMG", "LBANN"], [16, 32, 16], [120.0, 120.0, 120.0]).round(3).tolist()
    [2.828, nan, nan]
    >>> norms.reasons(["AMG", "AMG", "LBANN"], [16, 32, 16]).tolist()
    ['', 'unseen', 'unseen']
    """

    by_key: Mapping[tuple[str, int], Norm]  # read-only after construction
    ddof: int = DDOF  # the std's denominator is n - ddof
    least: int = LEAST_RUNS  # fewest runs that make a norm, at least 2

    def __post_init__(self) -> None:
        if self.ddof not in (0, 1) or self.least < 2:
            raise JobcastError(f"Norms: ddof must be 0 or 1 and least at least 2; got {self.ddof} and {self.least}.")
        object.__setattr__(self, "by_key", MappingProxyType(dict(self.by_key)))

    @classmethod
    def of(
        cls,
        application: npt.ArrayLike,
        node_count: npt.ArrayLike,
        seconds: npt.ArrayLike,
        *,
        ddof: int = DDOF,
        least: int = LEAST_RUNS,
    ) -> Self:
        """Measure runs: application names, numbers of nodes and run times [s], each of shape (n,)."""
        names, sizes, times = _columns(application, node_count, seconds)
        by_key = {}
        for key in sorted(set(zip(names.tolist(), sizes.tolist(), strict=True))):
            own = times[(names == key[0]) & (sizes == key[1])]
            std = float(own.std(ddof=ddof)) if len(own) > ddof else float("nan")
            by_key[key] = Norm(float(own.mean()), std, len(own))
        return cls(by_key, ddof, least)

    @classmethod
    def of_runs(cls, runs: Runs, *, ddof: int = DDOF, least: int = LEAST_RUNS) -> Self:
        """Measure a table of runs by `Runs.run_time`."""
        return cls.of(runs.application, runs.node_count, runs.run_time, ddof=ddof, least=least)

    def reason(self, application: str, node_count: int) -> str:
        """Return why runs of this kind cannot be labelled, from `REASONS`; empty where they can."""
        norm = self.by_key.get((application, node_count))
        if norm is None:
            return "unseen"
        if norm.count < self.least:
            return "few"
        return "" if norm.std > _SAME * abs(norm.mean) else "constant"

    def reasons(self, application: npt.ArrayLike, node_count: npt.ArrayLike) -> Words:
        """Return the same for many runs."""
        names, sizes = np.asarray(application, dtype=np.str_), np.asarray(node_count, dtype=np.int64)
        known = {key: self.reason(*key) for key in set(zip(names.tolist(), sizes.tolist(), strict=True))}
        return np.array([known[key] for key in zip(names.tolist(), sizes.tolist(), strict=True)], dtype=np.str_)

    def z(self, application: npt.ArrayLike, node_count: npt.ArrayLike, seconds: npt.ArrayLike) -> Floats:
        """Return each run's z; NaN where it cannot be labelled."""
        names, sizes, times = _columns(application, node_count, seconds)
        mean, std = self._of_each(names, sizes)
        return (times - mean) / std

    def limits(self, application: npt.ArrayLike, node_count: npt.ArrayLike) -> Floats:
        """Return the run time above which each run would vary [s]: mean + 1.5 std; NaN where it cannot be labelled.

        >>> Norms.of(["AMG"] * 5, [16] * 5, [98, 99, 100, 101, 102]).limits(["AMG"], [16]).round(2).tolist()
        [102.37]
        """
        names, sizes, _ = _columns(application, node_count, np.zeros(np.shape(application)))
        mean, std = self._of_each(names, sizes)
        return mean + VARIATION_Z * std

    def _of_each(self, names: Words, sizes: Ints) -> tuple[Floats, Floats]:
        """Return the mean and the std that each run is measured against; NaN where it cannot be labelled."""
        mean, std = np.full((2, len(names)), np.nan)
        for (name, size), norm in self.by_key.items():
            if not self.reason(name, size):
                own = (names == name) & (sizes == size)
                mean[own], std[own] = norm.mean, norm.std
        return mean, std

    def to_json(self) -> dict[str, Any]:
        rows = [
            [*key, norm.mean, None if np.isnan(norm.std) else norm.std, norm.count] for key, norm in self.by_key.items()
        ]
        return {"ddof": self.ddof, "least": self.least, "norms": rows}

    @classmethod
    def from_json(cls, about: Mapping[str, Any]) -> Self:
        try:
            by_key = {
                (str(name), int(size)): Norm(float(mean), float("nan") if std is None else float(std), int(count))
                for name, size, mean, std, count in about["norms"]
            }
            return cls(by_key, int(about["ddof"]), int(about["least"]))
        except (KeyError, TypeError, ValueError) as error:
            raise JobcastError(f"These are no norms of run times ({error}); measure the runs again.") from error


def classes_of(z: npt.ArrayLike, scheme: Scheme = "binary") -> Ints:
    """Return the class of each z: 0 none, …, the last variation; `UNLABELLED` where z is NaN.

    >>> classes_of([1.19, 1.2, 1.5, 1.51, -3.0, float("nan")], "three").tolist()
    [0, 1, 1, 2, 0, -1]
    >>> classes_of([1.19, 1.2, 1.5, 1.51, -3.0, float("nan")]).tolist()
    [0, 0, 0, 1, 0, -1]
    """
    check_scheme(scheme)
    values = np.asarray(z, dtype=np.float64)
    found = (values > VARIATION_Z).astype(np.int64)
    if scheme == "three":
        found += values >= LITTLE_Z
    return np.where(np.isnan(values), UNLABELLED, found)


def check_scheme(scheme: str) -> None:
    if scheme not in SCHEMES:
        raise JobcastError(f"Labels are binary or three; got {scheme!r}.")


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of some runs, and why others have none."""

    z: Floats  # shape (n,); NaN where there is no label
    classes: Ints  # shape (n,); `UNLABELLED` where there is none
    reason: Words  # shape (n,); from `REASONS`; empty where there is a label
    norms: Norms  # what they were measured against
    scheme: Scheme  # which classes there are

    __repr__ = short_repr

    @property
    def known(self) -> Bools:
        """Where there is a label, shape (n,)."""
        known: Bools = self.classes != UNLABELLED
        return known

    def abstained(self) -> dict[str, int]:
        """Return how many runs have no label, by reason."""
        return {reason: int((self.reason == reason).sum()) for reason in REASONS if (self.reason == reason).any()}


def label(
    application: npt.ArrayLike,  # application, node_count, seconds: shape (n,); names, numbers of nodes, run times [s]
    node_count: npt.ArrayLike,
    seconds: npt.ArrayLike,
    # shape (n,); the training part: mean and std come from it alone (`as_of`). Absent: from all runs (`whole`).
    train: npt.ArrayLike | None = None,
    *,
    scheme: Scheme = "binary",  # {"binary", "three"}: which classes
    ddof: int = DDOF,  # ddof, least: as in `Norms`
    least: int = LEAST_RUNS,
) -> Labels:
    """Label runs.

    >>> seconds = [100, 100, 110, 90, 100, 120, 105]
    >>> labels = label(["AMG"] * 7, [16] * 7, seconds, train=[True] * 5 + [False] * 2)
    >>> labels.classes.tolist()
    [0, 0, 0, 0, 0, 1, 0]
    """
    check_scheme(scheme)
    names, sizes, times = _columns(application, node_count, seconds)
    part = np.ones(len(times), dtype=np.bool_) if train is None else np.asarray(train, dtype=np.bool_)
    if part.shape != times.shape or not part.any():
        raise JobcastError("Labels need a training part: which of the runs, at least one, mean and std come from.")
    norms = Norms.of(names[part], sizes[part], times[part], ddof=ddof, least=least)
    z = norms.z(names, sizes, times)
    return Labels(z, classes_of(z, scheme), norms.reasons(names, sizes), norms, scheme)


def _columns(
    application: npt.ArrayLike, node_count: npt.ArrayLike, seconds: npt.ArrayLike
) -> tuple[Words, Ints, Floats]:
    names, sizes = np.asarray(application, dtype=np.str_), np.asarray(node_count, dtype=np.int64)
    times = np.asarray(seconds, dtype=np.float64)
    if names.ndim != 1 or not names.shape == sizes.shape == times.shape:
        raise JobcastError(
            f"Labels need one application, number of nodes and run time a run; got shapes {names.shape}, {sizes.shape} "
            f"and {times.shape}."
        )
    if not np.isfinite(times).all():
        raise JobcastError("Labels need finite run times.")
    return names, sizes, times
