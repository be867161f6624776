"""Stack: the members of `average` and cheap means, each weighted by how little it has erred of late.

Half of the answer is the plain mean of `average`. In the other half the weight of a member falls with a power of its
recent mean squared error: for the user's last ended jobs, filled up with those of everybody. A member that goes wrong
loses its weight within some fifty jobs, and where a plain mean serves a user best, it takes over. An error is known
when its job has ended, never before.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

import numpy as np

from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError
from predictors.core.jit import compiled
from predictors.core.model_files import read_arrays, write_arrays
from predictors.history.features import REQUESTED_TIME, WIDE_FEATURES
from predictors.history.history import Outcome, as_of_rule
from predictors.models.base import Estimator
from predictors.models.boosted import BOOSTED, FORESTS, Average, AverageEstimator
from predictors.models.conformal import GAP, HELD_OUT
from predictors.models.prediction import in_range, in_range_one

N_AVERAGE: Final = len(BOOSTED) + len(FORESTS) + 1
"""The first members are those of `average`, the weighted mean of similar jobs the last of them."""
CHEAP: Final[Mapping[str, str]] = MappingProxyType(
    {
        "requested": REQUESTED_TIME,
        "last-two": "last_two_mean",
        "user-mean": "ended_mean",
        "similar": "similar_median",
        "user, weighted": "of_user_weighted",
        "user and request, weighted": "of_user_request_weighted",
        "processors and request, weighted": "of_procs_request_weighted",
        "kernel, near": "kernel_near",
        "kernel, wide": "kernel_wide",
        "kernel, timed": "kernel_timed",
    }
)
"""The members that are read off the feature row, each with its column. One more is the similar jobs' share of their
requests times the request."""
COLUMNS: Final[Ints] = np.array([WIDE_FEATURES.index(column) for column in CHEAP.values()], dtype=np.int64)
REQUEST: Final = WIDE_FEATURES.index(REQUESTED_TIME)
RATIO: Final = WIDE_FEATURES.index("similar_ratio")
USER: Final = WIDE_FEATURES.index("user")
MEMBERS: Final = N_AVERAGE + len(CHEAP) + 1

USERS: Final = 512  # rows of the table of users' errors; users with codes that differ by a multiple share one
POWER: Final = 12.0  # the weight of a member is its recent mean squared error to the minus this power
KEPT_USER: Final = 0.5 ** (1 / 50)
KEPT_EVERYBODY: Final = 0.5 ** (1 / 2000)
"""What an error still counts after one more job: it has lost half after 50 jobs of the user, 2,000 of everybody."""
FILLED_UP: Final = 3.0  # for how many of a user's jobs everybody's errors count
PLAIN: Final = 0.5
"""The share of the plain mean of `average`'s members: they err differently, and weights by error alone would soon rest
on one or two of them."""
LEAST: Final = 1.0  # added to mean squared errors [s²]: none is better than to the second
ERRORS: Final = "errors.npz"


@compiled
def cap_answers(answers: Floats, requested: Floats) -> None:
    """Bring members' answers into the range of a prediction: the request where one has none."""
    for i in range(len(answers)):
        for k in range(answers.shape[1]):
            answers[i, k] = in_range_one(answers[i, k], requested[i], True)


@compiled
def row_of(user: float) -> int:
    """Return the row of a user in the table of errors; -1 if the user is unknown."""
    return int(user) % USERS if user >= 0 else -1


@compiled
def weighted(answers: Floats, user: float, everybody: Floats, by_user: Floats) -> float:
    """Return what follows from one job's answers; before the first error the plain mean of `average`'s members."""
    n, plain = len(answers), 0.0
    for k in range(N_AVERAGE):
        plain += answers[k] / N_AVERAGE
    seen, row = everybody[n], row_of(user)
    if not seen > 0:
        return plain
    least, errors = np.inf, np.empty(n)
    for k in range(n):
        errors[k] = everybody[k] / seen
        if row >= 0:
            errors[k] = (FILLED_UP * errors[k] + by_user[row, k]) / (FILLED_UP + by_user[row, n])
        least = min(least, errors[k])
    total, weights = 0.0, 0.0
    for k in range(n):
        weight = ((least + LEAST) / (errors[k] + LEAST)) ** POWER
        total += weight * answers[k]
        weights += weight
    return PLAIN * plain + (1.0 - PLAIN) * total / weights


@compiled
def weigh(answers: Floats, users: Floats, everybody: Floats, by_user: Floats, out: Floats) -> None:
    """Write `weighted` of each job."""
    for i in range(len(answers)):
        out[i] = weighted(answers[i], users[i], everybody, by_user)


@compiled
def take_in(answers: Floats, user: float, seconds: float, everybody: Floats, by_user: Floats) -> None:
    """Count the members' squared errors for one job that ended."""
    n, row = len(answers), row_of(user)
    everybody *= KEPT_EVERYBODY
    everybody[n] += 1.0
    if row >= 0:
        by_user[row] *= KEPT_USER
        by_user[row, n] += 1.0
    for k in range(n):
        square = (answers[k] - seconds) ** 2
        everybody[k] += square
        if row >= 0:
            by_user[row, k] += square


@compiled
def take_in_all(answers: Floats, users: Floats, seconds: Floats, everybody: Floats, by_user: Floats) -> None:
    for i in range(len(answers)):
        take_in(answers[i], users[i], seconds[i], everybody, by_user)


@compiled
def follow(
    jobs: Ints, ends: Ints, answers: Floats, users: Floats, seconds: Floats,
    everybody: Floats, by_user: Floats, out: Floats,
) -> None:  # fmt: skip
    """Go through submissions and ends (`ends` is 1) in time: write a prediction at the former, learn at the latter."""
    for i in range(len(jobs)):
        job = jobs[i]
        if ends[i] == 1:
            take_in(answers[job], users[job], seconds[job], everybody, by_user)
        else:
            out[job] = weighted(answers[job], users[job], everybody, by_user)


@dataclass(frozen=True, eq=False)
class StackEstimator:
    """The members and their recent errors at one time; immutable."""

    average: AverageEstimator  # the members that are trained
    # shape (MEMBERS + 1,); sums of each member's squared errors [s²], the older the less, and how many jobs they come
    # from
    everybody: Floats
    by_user: Floats  # shape (USERS, MEMBERS + 1); the same for each user

    @classmethod
    def of(cls, average: AverageEstimator) -> Self:
        """Return an estimator that knows no error yet."""
        return cls(average, np.zeros(MEMBERS + 1), np.zeros((USERS, MEMBERS + 1)))

    def predict(self, rows: Floats) -> Floats:
        out = np.empty(len(rows))
        weigh(self.answers(rows), rows[:, USER].copy(), self.everybody, self.by_user, out)
        return out

    def predict_one(self, row: Floats) -> float:
        return float(weighted(self._answers_one(row)[0], row[USER], self.everybody, self.by_user))

    def answers(self, rows: Floats) -> Floats:
        """Return the members' answers within the range of predictions [s], shape (n_rows, MEMBERS)."""
        return self._joined(np.column_stack(self.average.answers(rows)), rows)

    def after(self, rows: Floats, seconds: Floats) -> Self:
        """Return an estimator that also knows the errors for jobs that ended, in their order."""
        errors = self.everybody.copy(), self.by_user.copy()
        answers = self._answers_one(rows[0]) if len(rows) == 1 else self.answers(rows)
        take_in_all(answers, rows[:, USER].copy(), seconds, *errors)
        return replace(self, everybody=errors[0], by_user=errors[1])

    def _answers_one(self, row: Floats) -> Floats:
        return self._joined(np.array([self.average.answers_one(row)]), row[np.newaxis])

    def _joined(self, trained: Floats, rows: Floats) -> Floats:
        answers = np.empty((len(rows), MEMBERS))
        answers[:, :N_AVERAGE] = trained
        answers[:, N_AVERAGE:-1] = rows[:, COLUMNS]
        answers[:, -1] = rows[:, RATIO] * rows[:, REQUEST]
        cap_answers(answers, rows[:, REQUEST].copy())
        return answers


@dataclass(kw_only=True, eq=False, repr=False)
class Stack(Average):
    """Half `Average`; half its members and eleven cheap means (`CHEAP`), weighted by recent squared errors.

    A member's weight is its mean squared error to the power of -12, over the user's ended jobs: an error counts half
    after 50 more. Everybody's errors, half after 2,000 jobs, count as three of the user's jobs. The other half of the
    answer is the plain mean of `Average`. A fit learns the first weights from its newest fifth of jobs, which the
    members have then not seen. Every outcome of a stream moves them on, and refits of the members leave them as they
    are; with `refit_every` None a stream moves neither. Members are kept within the request.

    .. [1] J. M. Bates, C. W. J. Granger. The combination of forecasts. Operational Research Quarterly 20(4), 1969.
       doi:10.1057/jors.1969.103
    .. [2] N. Cesa-Bianchi, G. Lugosi. Prediction, learning, and games. Cambridge University Press, 2006.
       doi:10.1017/CBO9780511546921

    >>> from predictors.data.synthetic.generate import generate_log
    >>> log = generate_log(300, seed=1)
    >>> stack = Stack(n_boosted=5, n_forest=3).fit(log)
    >>> bool((stack.predict(log) <= log.filled("requested_time")).all())
    True
    """

    name = "stack"

    @property
    def stacked(self) -> StackEstimator:
        """The members and their errors, as learnt until now."""
        assert isinstance(self.estimator_, StackEstimator)
        return self.estimator_

    @property
    def members(self) -> AverageEstimator:
        return self.stacked.average

    def learn(self, rows: Floats, seconds: Floats) -> StackEstimator:
        """Learn weights from the newest jobs, by members grown on the older ones; then grow the members on all jobs.

        The jobs between the two are left out, as in `predictors.models.conformal.WithBudget`.
        """
        first = len(rows) - int(HELD_OUT * len(rows))
        older = first - int(GAP * len(rows))
        held = slice(first, None)
        if first == len(rows):
            return StackEstimator.of(self.grow(rows, seconds))
        weights = StackEstimator.of(self.grow(rows[:older], seconds[:older])).after(rows[held], seconds[held])
        return replace(weights, average=self.grow(rows, seconds))

    def learn_one(self, outcome: Outcome) -> None:
        """Take in what became of one job: its errors first, which the members could not know; then as `Average`."""
        if self.fitted and self.refit_every is not None and outcome.observed and outcome.seconds > 0:
            self.estimator_ = self.stacked.after(outcome.row[np.newaxis], np.array([outcome.seconds]))
        super().learn_one(outcome)

    def refit_estimator(self, now: int) -> Estimator:
        rows, seconds = self.window_.newest()
        return replace(self.stacked, average=self.grow(rows, seconds)) if self.fitted else self.learn(rows, seconds)

    def predict_as_they_end(
        self,
        rows: Floats,  # shape (n_jobs, n_features); jobs in order of submission
        submit: Ints,  # submit, end: shape (n_jobs,); submissions and ends [s]
        seconds: Floats,  # shape (n_jobs,); run times [s]; that of a job is used once it has ended
        end: Ints,
    ) -> Floats:
        """Return predictions [s], each weighted by the errors that were known at its submission; members stay."""
        rows, estimator, n = self._checked(rows), self.stacked, len(rows)
        jobs, ends = np.tile(np.arange(n), 2), np.repeat([1, 0], n)
        rank = 1 - ends if as_of_rule(self.as_of).same_second else ends
        order = np.lexsort((jobs, rank, np.concatenate([end, submit])))
        out = np.empty(n)
        errors = estimator.everybody.copy(), estimator.by_user.copy()
        follow(jobs[order], ends[order], estimator.answers(rows), rows[:, USER].copy(), seconds, *errors, out)
        return in_range(out, rows[:, REQUEST], self.cap)

    def save_estimator(self, folder: Path) -> None:
        super().save_estimator(folder)
        write_arrays(folder / ERRORS, {"everybody": self.stacked.everybody, "by_user": self.stacked.by_user})

    def load_estimator(self, folder: Path) -> None:
        super().load_estimator(folder)
        found = read_arrays(folder / ERRORS)
        assert isinstance(self.estimator_, AverageEstimator)
        empty = StackEstimator.of(self.estimator_)
        for name, own in (("everybody", empty.everybody), ("by_user", empty.by_user)):
            array = found.get(name, np.empty(0))
            if array.shape != own.shape or array.dtype != np.float64 or not (np.isfinite(array) & (array >= 0)).all():
                raise JobcastError(
                    f"{folder / ERRORS}: {name} must be {own.shape} numbers from 0 on; train the model again."
                )
        self.estimator_ = replace(empty, everybody=found["everybody"], by_user=found["by_user"])
