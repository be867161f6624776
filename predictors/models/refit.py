"""Batch learners that are fitted again, now and then, on a window of the newest outcomes."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final, Self

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats
from predictors.core.errors import JobcastError
from predictors.core.model_files import part, read_arrays, write_arrays
from predictors.core.params import ABOVE_0, Count
from predictors.history.history import Outcome
from predictors.models.base import Estimator, Predictor

FIRST_FIT: Final = 100  # outcomes before the first fit
WINDOW: Final = "window.npz"
MOST_BYTES: Final = 2**28  # larger estimators are not kept as state: a database keeps no value of much more
_NEVER: Final = -1
_SCHEDULE: Final = "schedule_"
_FILE: Final = "file_"


class Window:
    """The newest outcomes: feature rows and run times, the oldest dropped first.

    >>> window = Window(2, 1)
    >>> for second in (5.0, 6.0, 7.0):
    ...     window.add(np.array([second]), second)
    >>> window.newest()[1].tolist(), window.total
    ([6.0, 7.0], 3)
    """

    def __init__(self, size: int, n_features: int) -> None:
        self.total = 0
        self._size = size
        self._oldest = 0
        self._rows = np.empty((0, n_features))
        self._seconds = np.empty(0)
        self._kept = 0

    def add(self, row: Floats, seconds: float) -> None:
        """Take in one outcome; memory grows with those kept."""
        if self._kept == self._size:
            place, self._oldest = self._oldest, (self._oldest + 1) % self._size
        else:
            place, self._kept = self._kept, self._kept + 1
            if place == len(self._seconds):
                more = min(max(place, 1024), self._size - place)
                self._rows = np.concatenate([self._rows, np.empty((more, self._rows.shape[1]))])
                self._seconds = np.concatenate([self._seconds, np.empty(more)])
        self._rows[place], self._seconds[place] = row, seconds
        self.total += 1

    def extend(self, rows: Floats, seconds: Floats) -> None:
        """Take in many outcomes, oldest first."""
        for row, ran in zip(rows[-self._size :], seconds[-self._size :], strict=True):
            self.add(row, ran)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        rows, seconds = self.newest()
        return {"rows": rows, "seconds": seconds, "total": np.array(self.total)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], size: int, n_features: int) -> Self:
        try:
            rows, seconds, total = arrays["rows"], arrays["seconds"], int(arrays["total"])
        except (KeyError, TypeError, ValueError) as error:
            raise JobcastError(f"The model's window cannot be read ({error}); train it again.") from error
        kept = min(size, total)
        if (
            rows.shape != (kept, n_features)
            or seconds.shape != (kept,)
            or not rows.dtype == seconds.dtype == np.float64
        ):
            raise JobcastError(f"The model's window has rows of shape {rows.shape}, not {(kept, n_features)}.")
        window = cls(size, n_features)
        window.total = total - kept
        window.extend(rows, seconds)
        return window

    def newest(self) -> tuple[Floats, Floats]:
        """Return copies of the rows and run times kept, oldest first."""
        order = (self._oldest + np.arange(self._kept)) % max(self._kept, 1)
        return self._rows[order], self._seconds[order]


@dataclass(kw_only=True, eq=False, repr=False)
class RefittingPredictor(Predictor):
    """Base of batch learners: `learn_one` collects, and fits again from time to time.

    The first fit comes after `FIRST_FIT` outcomes. From then on it is fitted again whenever `refit_every` seconds have
    gone by, or twice as many outcomes have been seen as at the last fit. Jobs that ran for 0 s are not learnt from.
    `window_` is what the next fit learns from (`fit` fills it), `fits_` the number of fits on a stream since `fit`.
    """

    # seconds between fits on a stream; None: a stream teaches nothing
    refit_every: Annotated[int, ABOVE_0] | None = 30 * 86400
    window: Count = 60_000  # newest outcomes that a fit on a stream learns from
    _fitted_at: int | None = field(default=None, init=False)
    _fitted_on: int = field(default=0, init=False)

    @abstractmethod
    def learn(self, rows: Floats, seconds: Floats) -> Estimator:
        """Return an estimator learnt from ended jobs: rows (n_jobs, n_features) and run times (n_jobs,) [s]."""

    def fit_rows(self, rows: Floats, seconds: Floats) -> Self:
        """Forget, then learn from feature rows, NaN = missing, and run times [s]; the newest begin the window."""
        super().fit_rows(rows, seconds)
        self._begin_window(np.asarray(rows, dtype=np.float64), np.asarray(seconds, dtype=np.float64))
        return self

    def learn_one(self, outcome: Outcome) -> None:
        if self.refit_every is None or not outcome.observed or not outcome.seconds > 0:
            return
        if not hasattr(self, "window_"):
            self._begin_window(np.empty((0, len(self.features))), np.empty(0))
        self.window_.add(outcome.row, outcome.seconds)
        if self._fitted_at is None and self.fitted:
            self._fitted_at = outcome.time
        if self._is_due(outcome.time, self.refit_every):
            self.estimator_ = self.refit_estimator(outcome.time)
            self._fitted_at, self._fitted_on = outcome.time, self.window_.total
            self.fits_ += 1

    def refit_estimator(self, now: int) -> Estimator:
        """Return an estimator learnt from the window, at the second `now`."""
        return self.learn(*self.window_.newest())

    def _is_due(self, now: int, refit_every: int) -> bool:
        if self._fitted_at is None:
            return self.window_.total >= FIRST_FIT
        return now - self._fitted_at >= refit_every or self.window_.total >= 2 * self._fitted_on

    def _begin_window(self, rows: Floats, seconds: Floats) -> None:
        self.window_ = Window(self.window, len(self.features))
        self.window_.extend(rows, seconds)
        self.fits_ = 0
        self._fitted_at = None
        self._fitted_on = self.window_.total

    def get_state(self) -> dict[str, npt.NDArray[Any]] | None:
        """Return the window and the schedule of fits, and the estimator as the files that it is saved in.

        These hold no code. None if it cannot be saved, or would be larger than `MOST_BYTES`.
        """
        arrays = {f"{_SCHEDULE}{name}": array for name, array in self._schedule().items()}
        if not self.fitted:
            return arrays
        try:
            with TemporaryDirectory() as name:
                self.save_estimator(Path(name))
                files = {
                    path.relative_to(name).as_posix(): np.frombuffer(path.read_bytes(), dtype=np.uint8)
                    for path in sorted(Path(name).rglob("*"))
                    if path.is_file() and path.name != WINDOW
                }
        except Exception:  # whatever it is: what cannot be saved is learnt again
            return None
        if sum(map(len, files.values())) > MOST_BYTES:
            return None
        return arrays | {f"{_FILE}{name}": content for name, content in files.items()}

    def set_state(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Go on from what `get_state` returned: collect and fit again as the other would have."""
        schedule, files = part(arrays, _SCHEDULE), part(arrays, _FILE)
        if files:
            with TemporaryDirectory() as name:
                folder = Path(name)
                for path, content in files.items():
                    (folder / path).parent.mkdir(parents=True, exist_ok=True)
                    (folder / path).write_bytes(content.tobytes())
                write_arrays(folder / WINDOW, {name: schedule[name] for name in ("rows", "seconds", "total")})
                self.load_estimator(folder)
        if schedule:
            window = Window.from_arrays(schedule, self.window, len(self.features))
            self.fits_, self._fitted_on, at = schedule["fits"].tolist()
            self._fitted_at, self.window_ = None if at == _NEVER else at, window

    def _schedule(self) -> dict[str, npt.NDArray[Any]]:
        """Return what the next fit depends on: the window, and when the last one was; empty before both."""
        if not hasattr(self, "window_"):
            return {}
        at = _NEVER if self._fitted_at is None else self._fitted_at
        return {**self.window_.arrays(), "fits": np.array([self.fits_, self._fitted_on, at], dtype=np.int64)}

    def save_estimator(self, folder: Path) -> None:
        if not self.fitted:
            raise JobcastError(f"This {self.name} has not been fitted: call fit(log) first.")
        write_arrays(folder / WINDOW, self.window_.arrays())

    def load_estimator(self, folder: Path) -> None:
        self._begin_window(np.empty((0, len(self.features))), np.empty(0))
        self.window_ = Window.from_arrays(read_arrays(folder / WINDOW), self.window, len(self.features))
        self._fitted_on = self.window_.total
