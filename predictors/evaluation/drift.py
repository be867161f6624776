"""A test that may be checked at any time: whether a model is now worse than last-two, at a stated false-alarm rate.

The errors of the jobs that end within six hours are one block. A block's *loss* lies within -1 and 1: the model's sum
of errors less last-two's, over their total, where a total below the usual one of the last thirty days counts as the
usual one. It is taken of the squared and of the absolute errors, and the smaller of the two counts: a model that pays
for one kind with the other is not worse. Who bets a share b of its money on each block that the loss lies above 0
multiplies it by 1 + b * loss, and wins nothing on average while the model is no worse than last-two. Someone begins to
bet at each block; what all of them own is the *evidence* [1]_ [2]_, averaged over five shares.

**False alarms.** While the expected loss of a block, whatever came before it, is not above 0, evidence less the number
of blocks does not grow on average. The first alarm, at an evidence of as many blocks as lie within `1 / rate` years, is
therefore expected no sooner than after so many blocks; and within n blocks the chance of one is at most n over that
number (Ville). No distribution is assumed, nor that jobs or users are independent of each other within a block. Users
who lose for days on end break the rule between blocks. Blocks without ends do not count.

An alarm stands until the evidence has fallen to the square root of the threshold; then the test starts again.

.. [1] J. Shin, A. Ramdas, A. Rinaldo. E-detectors: a nonparametric framework for sequential change detection. The New
   England Journal of Statistics in Data Science 2(2), 2024.
.. [2] M. Pollak. Average run lengths of an optimal method of detecting a change in distribution. The Annals of
   Statistics 15(2), 1987.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Self

import numpy as np

from predictors.core.arrays import Floats
from predictors.core.errors import JobcastError
from predictors.evaluation.metrics import ratio

BLOCK: Final = 6 * 3600  # seconds of a block
ALARMS_PER_YEAR: Final = 0.05  # false alarms a year at most, unless another rate is asked for
MOST_PER_YEAR: Final = 12.0
_USUAL: Final = 120  # blocks that the usual total of errors is a mean of
_HELD: Final = 20.0  # a block's total counts for so many times the usual one at most, in what is usual
_SHARES: Final = np.array([0.05, 0.1, 0.2, 0.4, 0.8])
_BLOCKS_PER_YEAR: Final = 365.25 * 86_400 / BLOCK


def checked_rate(per_year: float) -> float:
    """Return a rate of false alarms [1 / year], if it lies above 0 and is at most 12.

    >>> checked_rate(0.05)
    0.05
    """
    if not 0 < per_year <= MOST_PER_YEAR:
        raise JobcastError(
            f"A rate of false drift alarms lies above 0 and is at most {MOST_PER_YEAR:g} a year; got {per_year}."
        )
    return per_year


@dataclass(frozen=True)
class Drift:
    """What the test says of a model."""

    stands: bool  # whether there is an alarm
    since: int | None  # second at which the loss probably began; None while nothing speaks for one
    alarm_at: int | None  # end of the block that gave the alarm [s]; None if there is none
    evidence: float  # evidence over that of an alarm, within 0 and 5
    # squared, absolute: sums of squared and absolute errors over last-two's, of the jobs that ended since then; NaN if
    # there is none
    squared: float
    absolute: float
    alarms_per_year: float  # false alarms a year at most

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values; None for a ratio that is no number."""
        told = (value if np.isfinite(value) else None for value in (self.squared, self.absolute))
        squared, absolute = told
        return {
            "stands": self.stands, "since": self.since, "alarm_at": self.alarm_at, "evidence": self.evidence,
            "squared_error_ratio_since": squared, "absolute_error_ratio_since": absolute,
            "false_alarms_per_year": self.alarms_per_year,
        }  # fmt: skip

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return what `to_json` wrote; a missing field raises KeyError."""
        ratios = (document[f"{name}_error_ratio_since"] for name in ("squared", "absolute"))
        squared, absolute = (float("nan") if one is None else float(one) for one in ratios)
        about = {name: document[name] for name in ("stands", "since", "alarm_at", "evidence")}
        return cls(**about, squared=squared, absolute=absolute, alarms_per_year=document["false_alarms_per_year"])

    def sentence(self, name: str, epoch: int | None) -> str:
        """Return what an alarm says of a model of that name; `epoch` is the clock's second 0 in Unix time, if known."""
        since = self.since or 0
        when = f"second {since:,}" if epoch is None else f"{datetime.fromtimestamp(epoch + since, UTC):%Y-%m-%d}"
        return (
            f"{name} is worse than last-two since about {when}: squared error x {self.squared:.2f}, absolute error x "
            f"{self.absolute:.2f}. At most {self.alarms_per_year:g} such alarms a year are false."
        )


class DriftTest:
    """Gathers errors in blocks, and evidence from the blocks.

    A model that errs by twice as much as last-two from the fortieth day on:

    >>> test, random = DriftTest(), np.random.default_rng(1)
    >>> for hour in range(60 * 24):
    ...     ours = random.normal(0, 100 if hour < 40 * 24 else 400)
    ...     test.add(hour * 3600, ours, random.normal(0, 200))
    ...     if test.now.stands:
    ...         break
    >>> hour // 24, test.now.since // 86400, test.now.stands
    (52, 40, True)
    """

    def __init__(
        self,
        alarms_per_year: float = ALARMS_PER_YEAR,  # false alarms a year at most, above 0
    ) -> None:
        self.alarms_per_year: Final = checked_rate(alarms_per_year)
        self._needed: Final = _BLOCKS_PER_YEAR / self.alarms_per_year
        self._block: int | None = None
        self._sums = [0.0] * 4  # of the block: squared and absolute errors, ours and then last-two's of each
        self._usual = np.zeros(2)
        self._n_blocks = 0
        self._evidence = np.zeros(len(_SHARES))
        self._runs = np.zeros((len(_SHARES), 6))  # of each share: log of a run's gain, its first block, sums since
        self._alarm_at: int | None = None
        self.now = self._judged()

    def add(self, time: int, ours: float, theirs: float) -> None:
        """Count an ended job: the model's and last-two's errors [s]. Ends come in their order."""
        block = time // BLOCK
        if self._block is None:
            self._block = block
        elif block > self._block:
            self._close(self._block)
            self._block = block
        sums = self._sums
        sums[0] += ours * ours
        sums[1] += theirs * theirs
        sums[2] += abs(ours)
        sums[3] += abs(theirs)

    def _close(self, block: int) -> None:
        sums, self._sums = np.array(self._sums), [0.0] * 4
        if not np.isfinite(sums).all():
            return
        total = sums[::2] + sums[1::2]
        at_least = np.maximum(total, self._usual)
        loss = np.divide(sums[::2] - sums[1::2], at_least, out=np.zeros(2), where=at_least > 0).min()
        self._n_blocks += 1
        held = np.where(self._usual > 0, np.minimum(total, _HELD * self._usual), total)  # one huge job is not usual
        self._usual += (held - self._usual) / min(self._n_blocks, _USUAL)
        gain = 1 + _SHARES * loss
        self._evidence = np.minimum((self._evidence + 1) * gain, len(_SHARES) * self._needed)
        runs = self._runs
        new = runs[:, 0] <= 0
        runs[new] = 0.0
        runs[new, 1] = block
        runs[:, 0] += np.log(gain)
        runs[:, 2:] += sums
        if self._alarm_at is None and self._evidence.mean() >= self._needed:
            self._alarm_at = (block + 1) * BLOCK
        elif self._alarm_at is not None and self._evidence.mean() <= self._needed**0.5:
            self._alarm_at = None
            self._evidence[:] = 0.0
            runs[:] = 0.0
        self.now = self._judged()

    def _judged(self) -> Drift:
        gain, begin, *sums = self._runs[int(self._evidence.argmax())].tolist()
        squared, theirs_squared, absolute, theirs = sums
        losing = gain > 0
        return Drift(
            stands=self._alarm_at is not None,
            since=int(begin) * BLOCK if losing else None,
            alarm_at=self._alarm_at,
            evidence=float(self._evidence.mean() / self._needed),
            squared=ratio(squared, theirs_squared) if losing else float("nan"),
            absolute=ratio(absolute, theirs) if losing else float("nan"),
            alarms_per_year=self.alarms_per_year,
        )

    def get_state(self) -> Floats:
        """Return everything as one array; the rate is not in it."""
        none = float("nan")
        about = (
            none if self._block is None else self._block,
            none if self._alarm_at is None else self._alarm_at,
            self._n_blocks,
        )
        return np.concatenate([about, self._sums, self._usual, self._evidence, self._runs.ravel()]).astype(np.float64)

    def set_state(self, state: Floats) -> None:
        """Go on from what `get_state` returned; anything else raises ValueError."""
        n = len(_SHARES)
        if state.shape != (9 + 7 * n,):
            raise ValueError("no state of a drift test")
        block, alarm_at, n_blocks = state[:3].tolist()
        self._block = None if block != block else int(block)
        self._alarm_at = None if alarm_at != alarm_at else int(alarm_at)
        self._n_blocks = int(n_blocks)
        self._sums, self._usual, self._evidence = state[3:7].tolist(), state[7:9].copy(), state[9 : 9 + n].copy()
        self._runs = state[9 + n :].reshape(n, 6).copy()
        self.now = self._judged()
