"""BudgetByClass: the budget of underestimation kept in each class of jobs, by their requests or their widths.

`WithBudget` keeps one share for all jobs, so that a budget of 5 % over all of them may be 1 % of the short and 15 % of
the wide ones. Here each class has its own share and its own interval: conformal prediction by groups, as in V. Vovk,
Conditional validity of inductive conformal predictors, Machine Learning 92, 2013, doi 10.1007/s10994-013-5355-6.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, Self

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError
from predictors.core.model_files import read_arrays, write_arrays
from predictors.core.prediction_bounds import SHORTEST
from predictors.history.features import REQUESTED_TIME
from predictors.models.base import Estimator
from predictors.models.conformal import MovedEstimator, WithBudget, at_share, ends_around, limits
from predictors.models.wrapper import Wrapper

EDGES: Final[Mapping[str, tuple[float, ...]]] = MappingProxyType(
    {"request": (3600.0, 4 * 3600.0, 12 * 3600.0), "procs": (1.0, 8.0, 64.0)}
)
"""The greatest value of each class but the last; an unknown value is of the last class."""
N_CLASSES: Final = 4
LEAST_HELD_OUT: Final = 40  # held-out jobs of a class that begins with its own share, not that of all jobs


def class_of(values: Floats, by: str) -> Ints:
    """Return the class of each value, 0 to 3.

    >>> class_of(np.array([600.0, 3600.0, 3601.0, 86_400.0, np.nan]), "request").tolist()
    [0, 0, 1, 3, 3]
    >>> class_of(np.array([1.0, 8.0, 64.0, 65.0]), "procs").tolist()
    [0, 1, 2, 3]
    """
    return np.searchsorted(np.array(EDGES[by]), values, side="left").astype(np.int64)


@dataclass(frozen=True, eq=False)
class ClassCalibratedEstimator(MovedEstimator):
    """One that moves answers by the share of each job's class."""

    column: int
    by: str
    shares: tuple[float, ...]

    def _moved(self, seconds: Floats, rows: Floats) -> Floats:
        limit, group = limits(rows[:, self.request]), class_of(rows[:, self.column], self.by)
        result = np.maximum(seconds, SHORTEST)
        for one, share in enumerate(self.shares):
            of_it = group == one
            result[of_it] = at_share(result[of_it], limit[of_it], share)
        return result


@dataclass(kw_only=True, eq=False, repr=False)
class BudgetByClass(WithBudget):
    """As `WithBudget`, with a `budget` for each class of jobs, by request or by width.

    `class_shares_`, shape (4, 3), says of each class how far predictions are moved, and the ends of the interval from
    them.

    >>> from predictors.data.synthetic.generate import generate_log
    >>> log = generate_log(4000, seed=1)
    >>> careful = BudgetByClass(budget=0.1).fit(log)
    >>> outran = (careful.predict(log) < log.filled("run_time"))[-800:]  # the newest fifth, which calibrates
    >>> classes = class_of(log.filled("requested_time").astype(float), "request")[-800:]
    >>> [round(float(outran[classes == k].mean()), 2) for k in range(4)]  # 0: the request, which one in ten reaches
    [0.1, 0.1, 0.0, 0.09]
    """

    name = "with-budget-by-class"

    # what makes a class: the requested time (up to 1 h, 4 h, 12 h, more) or the processors (1, up to 8, 64, more); the
    # latter needs a predictor that reads them, such as `boosted` or `forest`
    by: Literal["request", "procs"] = "request"

    def check(self) -> None:
        super().check()
        if self._column_name not in self.inside_features:
            raise JobcastError(
                f"{self.name}: by='procs' needs a predictor that reads the processors; {self.pattern.name} reads "
                f"{', '.join(self.inside_features)}. Take by='request', or one such as boosted or forest."
            )

    @property
    def _column_name(self) -> str:
        return REQUESTED_TIME if self.by == "request" else "procs"

    def _classes(self, rows: Floats) -> Ints:
        return class_of(rows[:, self.features.index(self._column_name)], self.by)

    @property
    def fitted(self) -> bool:
        return "class_shares_" in vars(self)

    @property  # type: ignore[override]
    def estimator_(self) -> Estimator | None:
        """The estimator inside, moved class by class; None as long as it has learnt nothing."""
        inner: Estimator | None = getattr(self._base(), "estimator_", None)
        if inner is None:
            return None
        column = self.features.index(self._column_name)
        moves = tuple(self._table()[:, 0].tolist())
        return ClassCalibratedEstimator(inner, self._request, column, self.by, moves)

    @estimator_.setter
    def estimator_(self, learnt: Estimator) -> None:
        """Ignored: the learnt estimator stands in `base_` and `class_shares_`."""

    def _table(self) -> Floats:
        found: Floats = vars(self).get("class_shares_", np.zeros((N_CLASSES, 3)))
        return found

    def _calibrate(self, held: Floats, ran: Floats, predicted: Floats, limit: Floats) -> None:
        """Set each class's shares by its held-out jobs, those of all jobs where it has few."""
        table = np.tile(np.array(self._shares_of(ran, predicted, limit)), (N_CLASSES, 1))
        classes = self._classes(held)
        for one in range(N_CLASSES):
            of_it = classes == one
            if of_it.sum() >= LEAST_HELD_OUT:
                table[one] = self._shares_of(ran[of_it], predicted[of_it], limit[of_it])
        self.class_shares_ = table

    def _enter(self, row: Floats) -> None:
        share, low, high = self._table()[int(self._classes(row[None])[0])].tolist()
        self.shares_ = share, low, high

    def _leave(self, row: Floats) -> None:
        """Keep the shares as those of the row's class: in a new table, since a copy may share the old one."""
        table = self._table().copy()
        table[int(self._classes(row[None])[0])] = self.shares_
        self.class_shares_ = table

    def _share_with(self, copy: Self) -> None:
        copy.class_shares_ = self._table()

    def _ends(self, rows: Floats, point: Floats, limit: Floats) -> tuple[Floats, Floats]:
        lower, upper = point.copy(), point.copy()
        classes = self._classes(rows)
        for one, (_, low, high) in enumerate(self._table().tolist()):
            of_it = classes == one
            lower[of_it], upper[of_it] = ends_around(point[of_it], limit[of_it], low, high)
        return lower, upper

    def save_estimator(self, folder: Path) -> None:
        write_arrays(folder / "shares.npz", {"shares": self._table()})

    def load_estimator(self, folder: Path) -> None:
        found = read_arrays(folder / "shares.npz").get("shares", np.empty(0))
        if found.shape != (N_CLASSES, 3) or not np.isfinite(found).all():
            raise JobcastError(
                f"{folder / 'shares.npz'}: does not hold three shares of {N_CLASSES} classes; train the model again."
            )
        self.class_shares_ = found.astype(np.float64)

    def get_state(self) -> dict[str, npt.NDArray[Any]] | None:
        arrays = Wrapper.get_state(self)
        return arrays if arrays is None or not self.fitted else arrays | {"shares": self._table()}

    def set_state(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        Wrapper.set_state(self, arrays)
        if "shares" in arrays:
            self.class_shares_ = np.asarray(arrays["shares"], dtype=np.float64)
