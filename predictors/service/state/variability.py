"""State of variability: a ring of the newest counters, and the classifier that judges starts by it.

Telemetry is kept in memory only, five minutes of it: after a restart answers are abstentions until it has come again.
"""

import threading
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError
from predictors.data.telemetry.counters import COUNTERS
from predictors.tracking.describe import LoadedClassifier
from predictors.variability.classifiers.query import Question, ask
from predictors.variability.ring import CounterRing
from predictors.variability.verdict import Verdict


class Start(NamedTuple):
    """A start that is being considered."""

    application: str
    workload: str
    nodes: tuple[int, ...] | None
    probes: Floats | None


class VariabilityState:
    """Judges starts by the counters of the last minutes; any thread may call it, one at a time."""

    def __init__(self, loaded: LoadedClassifier) -> None:
        self.loaded: Final = loaded
        self._ring: CounterRing | None = None
        self._lock = threading.Lock()

    @property
    def newest(self) -> float | None:
        """Time of the newest sample [s]; None before the first."""
        return self._ring.newest if self._ring is not None and len(self._ring) else None

    def push(self, time: float, nodes: Sequence[int], rates: npt.ArrayLike) -> None:
        """Take in a sample of some nodes; the first one defines which nodes there are.

        `time` [s] lies after the sample before; `rates`, shape (n_nodes, 90), are per second in the order of
        `COUNTERS`, NaN where not known.
        """
        values, ids = np.asarray(rates, dtype=np.float64), np.asarray(nodes, dtype=np.int64)
        if values.shape != (len(ids), len(COUNTERS)) or len(np.unique(ids)) != len(ids):
            given = f"nodes {ids.tolist()!s:.40} and rates of the shape {values.shape}"
            raise JobcastError(f"nodes, rates: each node once with {len(COUNTERS)} rates; got {given}")
        with self._lock:
            if self._ring is None:
                self._ring = CounterRing(np.sort(ids), window=self.loaded.origin.window)
            known = self._ring.nodes
            _check_known(ids, known)
            whole = np.full((len(known), len(COUNTERS)), np.nan)
            whole[np.searchsorted(known, ids)] = values
            newest = self._ring.newest
            if not time > newest:
                raise JobcastError(f"time: must be after the newest sample's, {newest:g}; got {time:g}")
            self._ring.push(time, whole)

    def judge(self, starts: Sequence[Start], now: float) -> list[Verdict]:
        """Return the classifier's verdicts on starts at a second; abstentions where the counters are missing."""
        with self._lock:
            return [self._one(start, now) for start in starts]

    def _one(self, start: Start, now: float) -> Verdict:
        nodes, loaded = start.nodes, self.loaded
        if loaded.origin.scope == "job" and not nodes:
            raise JobcastError("nodes: this classifier judges by the job's own nodes, so they are needed; got none")
        of_job = nodes if loaded.origin.scope == "job" else None
        window, silent = np.full(3 * len(COUNTERS), np.nan), 1.0
        ring = self._ring
        if ring is not None and len(ring):
            asked = ring.nodes if of_job is None else np.array(sorted(set(of_job)), dtype=np.int64)
            _check_known(asked, ring.nodes)
            try:
                found = ring.windows(now, None if of_job is None else asked)
            except JobcastError:  # the samples of that moment are gone: the verdict is an abstention
                pass
            else:
                window, silent = found.values[0], float(found.silent[0]) / len(asked)
        version = "" if loaded.version is None else str(loaded.version)
        question = Question(window, start.workload, start.application, start.probes, silent)
        return ask(loaded.classifier, question, version)


def _check_known(nodes: Ints, known: Ints) -> None:
    if len(strange := np.setdiff1d(nodes, known)):
        raise JobcastError(f"nodes: expected those of the first sample; got {strange[0]}")
