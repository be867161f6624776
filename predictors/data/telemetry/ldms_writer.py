"""Writer of rates as LDMS would have stored them, so that simulated telemetry reads like that of a real machine."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Bools, Floats, Ints
from predictors.core.errors import JobcastError
from predictors.core.jit import compiled
from predictors.data.telemetry.counters import COUNTERS, SAMPLERS, counters_of

Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]


@compiled
def count_up(rates: npt.NDArray[np.float32], seconds: float, counters: Words, rest: Floats, known: Bools) -> bool:
    """Let the counters run at `rates` for so many seconds; tell whether all rates are in order.

    `rest` keeps the fractions, so that nothing is lost to rounding. A rate that is NaN moves nothing and makes the
    reading unknown. Where a rate is negative or infinite nothing is done.
    """
    for i in range(rates.shape[0]):
        for j in range(rates.shape[1]):
            if rates[i, j] < 0 or rates[i, j] == np.inf:
                return False
    for i in range(rates.shape[0]):
        for j in range(rates.shape[1]):
            rate = np.float64(rates[i, j])
            known[i, j] = rate == rate
            if known[i, j]:
                moved = rate * seconds + rest[i, j]
                whole = np.floor(moved)
                counters[i, j] += np.uint64(whole)
                rest[i, j] = moved - whole
    return True


@compiled
def _put(number: np.uint64, out: Bytes, at: int) -> int:
    """Write a number in decimals; return where it ends."""
    end = at + 1
    left = number // np.uint64(10)
    while left > 0:
        left //= np.uint64(10)
        end += 1
    left = number
    for k in range(end - 1, at - 1, -1):
        out[k] = np.uint8(48 + left % np.uint64(10))
        left //= np.uint64(10)
    return end


@compiled
def write_rows(
    times: Ints,
    names: Bytes,
    name_ends: Ints,
    jobs: Ints,
    devices: Bytes,
    counters: Words,
    known: Bools,
    first: int,
    last: int,
    masks: Words,
    lost: Bools,
    milliseconds: bool,
    out: Bytes,
) -> int:
    """Write one line a node that is not lost, with counters `first` to `last` (excluded); return the length.

    `times` are microseconds, `names` what stands between the times and the job, `devices` what stands after it.
    """
    at = 0
    million, thousand = np.uint64(1_000_000), np.uint64(1000)
    for i in range(times.size):
        if lost[i]:
            continue
        time = np.uint64(times[i])
        if milliseconds:
            at = _put(time // thousand, out, at)
            out[at] = 44
            at = _put(time % thousand, out, at + 1)
        else:
            at = _put(time // million, out, at)
            out[at] = 46
            part = time % million
            for k in range(6, 0, -1):
                out[at + k] = np.uint8(48 + part % np.uint64(10))
                part //= np.uint64(10)
            at += 7
            out[at] = 44
            at = _put(time % million, out, at + 1)
        begin = name_ends[i - 1] if i else 0
        for k in range(begin, name_ends[i]):
            out[at] = names[k]
            at += 1
        at = _put(np.uint64(jobs[i]), out, at)
        for k in range(devices.size):
            out[at] = devices[k]
            at += 1
        for j in range(first, last):
            out[at] = 44
            at += 1
            if known[i, j]:
                at = _put(counters[i, j] & masks[j], out, at)
        out[at] = 10
        at += 1
    return at


_DEVICE: Final = {"sysclassib": "#hfi1_0.1", "opa_info": "", "lustre2_client": "#llite.lustre"}
_LONGEST_NUMBER: Final = 21


@dataclass(frozen=True)
class LdmsOptions:
    """How the files shall look, and what shall be wrong with them.

    Parameters
    ----------
    period : float
        How often samples come [s]; before the first push a line is written that much earlier, with the counters' first
        values, from which a reader takes the first rates.
    epoch : float
        Added to all times [s]: Unix time of the simulation's second 0.
    rollover : float, optional
        A new file every so many seconds, its name ending in the second of its first line; absent: one file.
    altheader : bool
        Write the header to a file of its own, NAME.HEADER.
    milliseconds : bool
        Times as Time_msec,Time_usec (`time_format=1`) rather than Time,Time_usec.
    bits : {32, 64}, optional
        Width of all counters; absent: that of each. A counter begins again at 0 after its largest value.
    begin : int
        What the counters stand at when they begin.
    lost : float
        Share of lines, 0 to below 1, that are lost, each sampler's by itself.
    skew : float
        Each node's clock is off by up to this [s], always by the same.
    seed : int
        Of what is random in that.
    """

    period: float = 10.0
    epoch: float = 0.0
    rollover: float | None = None
    altheader: bool = False
    milliseconds: bool = False
    bits: int | None = None
    begin: int = 0
    lost: float = 0.0
    skew: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        rules = [
            ("period", self.period > 0, "above 0 s"),
            ("epoch", 0 <= self.epoch < 1e11, "0 s or more"),
            ("rollover", self.rollover is None or self.rollover > 0, "above 0 s"),
            ("bits", self.bits in (None, 32, 64), "32 or 64"),
            ("begin", 0 <= self.begin < 2**64, "within 0 to 2**64 - 1"),
            ("lost", 0 <= self.lost < 1, "0 or more and below 1"),
            ("skew", 0 <= self.skew < np.inf, "0 s or more"),
        ]
        for name, fine, rule in rules:
            if not fine:
                raise JobcastError(f"LdmsOptions: {name} must be {rule}; got {getattr(self, name)}.")


class LdmsWriter:
    """A sink for rates that writes LDMS's CSV files: `FOLDER/SAMPLER/SAMPLER[.EPOCH]` for each of the three samplers.

    A file is written under another name, hidden, and gets its own when it is complete: at a rollover or at the end of
    the `with` block. If the block fails, the files under way are removed.

    Parameters
    ----------
    folder : path-like
        Made if it is not there.
    nodes : array of shape (k,)
        Ids of the nodes, 0 or more; node 12 is the producer `nid00012`.
    options : LdmsOptions
        How the files shall look.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with LdmsWriter(folder, [0, 1]) as writer:
    ...     writer.push(10.0, np.ones((2, 90)))
    >>> text = (Path(folder) / "opa_info" / "opa_info").read_text().splitlines()
    >>> text[3][:60], writer.rows
    ('10.000000,0,nid00000,0,0,0,hfi1_0,1,10,10,10,10,10,10,10,10,', 12)
    """

    def __init__(
        self, folder: str | os.PathLike[str], nodes: npt.ArrayLike, options: LdmsOptions | None = None
    ) -> None:
        self.folder, self.options = Path(folder), options or LdmsOptions()
        self.nodes = np.array(nodes, dtype=np.int64).reshape(-1)
        k, m = len(self.nodes), len(COUNTERS)
        if not k or (self.nodes < 0).any() or len(np.unique(self.nodes)) < k:
            raise JobcastError("LdmsWriter: needs at least one node, ids 0 or more, each once.")
        self.rows = 0
        self._random = np.random.default_rng(self.options.seed)
        self._counters = np.full((k, m), self.options.begin, dtype=np.uint64)
        self._rest, self._known = np.zeros((k, m)), np.ones((k, m), dtype=np.bool_)
        self._masks = np.array([2 ** (self.options.bits or counter.bits) - 1 for counter in COUNTERS], dtype=np.uint64)
        self._skews = np.rint(self._random.uniform(-1, 1, k) * self.options.skew * 1e6).astype(np.int64)
        self._time = -np.inf
        self._jobs = np.zeros(k, dtype=np.int64)
        words = [f",nid{node:05d},{node},".encode() for node in self.nodes.tolist()]
        self._names = np.frombuffer(b"".join(words), dtype=np.uint8)
        self._name_ends = np.cumsum([len(word) for word in words])
        line = (
            40
            + max(map(len, words))
            + 2 * _LONGEST_NUMBER
            + _LONGEST_NUMBER * max(len(counters_of(s)) for s in SAMPLERS)
        )
        self._buffer = np.empty(k * line, dtype=np.uint8)
        self._files: dict[str, tuple[IO[bytes], Path, Path]] = {}
        self._until = -np.inf

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def push(self, time: float, rates: npt.ArrayLike, jobs: npt.ArrayLike | None = None) -> None:
        """Write one sample of all nodes: what the counters stand at after running at these rates since the one before.

        Parameters
        ----------
        time : float
            When [s]; after the sample before.
        rates : array of shape (k, 90)
            Rates per second; NaN leaves the cell empty. A reader knows no rate there, nor at the sample after.
        jobs : int64 array of shape (k,), optional
            What runs on each node; absent: 0, an idle node's.

        Raises
        ------
        JobcastError
            If time does not move on, the shape does not fit, a rate is negative or infinite, or a file cannot be made.
        """
        fresh = np.ascontiguousarray(rates, dtype=np.float32)
        if fresh.shape != self._counters.shape:
            raise JobcastError(f"LdmsWriter: rates have shape {fresh.shape}; they must have {self._counters.shape}.")
        at = time + self.options.epoch
        if not max(self._time, -1e-9) < at < 1e12:
            raise JobcastError(
                f"LdmsWriter: a sample at {time} s cannot follow one at {self._time - self.options.epoch} s."
            )
        if self._time == -np.inf and at >= self.options.period:
            self._write(at - self.options.period)
        seconds = at - self._time if self._time > -np.inf else 0.0
        if not count_up(fresh, seconds, self._counters, self._rest, self._known):
            raise JobcastError(f"LdmsWriter: at {time} s a rate is negative or infinite; give NaN if it is unknown.")
        if jobs is not None:
            self._jobs = np.array(jobs, dtype=np.int64).reshape(self._jobs.shape)
        self._write(at)

    def _write(self, at: float) -> None:
        if at >= self._until:
            self._roll(at)
        self._time = at
        times = np.maximum(round(at * 1e6) + self._skews, 0)
        first = 0
        for sampler in SAMPLERS:
            last = first + len(counters_of(sampler))
            lost = self._random.random(len(self.nodes)) < self.options.lost
            devices = b",0,hfi1_0,1" if sampler == "opa_info" else b",0"
            length = write_rows(
                times, self._names, self._name_ends, self._jobs, np.frombuffer(devices, dtype=np.uint8), self._counters,
                self._known, first, last, self._masks, lost, self.options.milliseconds, self._buffer,
            )  # fmt: skip
            file, part, _ = self._files[sampler]
            with _clear_errors(part):
                file.write(self._buffer[:length].data)
            self.rows += len(lost) - int(lost.sum())
            first = last

    def _roll(self, at: float) -> None:
        self.close()
        every = self.options.rollover
        self._until = np.inf if every is None else (at // every + 1) * every
        ending = "" if every is None else f".{int(at)}"
        for sampler in SAMPLERS:
            target = self.folder / sampler / f"{sampler}{ending}"
            part = target.with_name(f".{target.name}.part")
            header = _header(sampler, self.options.milliseconds).encode()
            with _clear_errors(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                self._files[sampler] = part.open("wb"), part, target
                if self.options.altheader:
                    target.with_name(f"{sampler}.HEADER{ending}").write_bytes(header)
                else:
                    self._files[sampler][0].write(header)

    def close(self) -> None:
        """Complete the files under way."""
        for file, part, target in self._files.values():
            with _clear_errors(target):
                file.close()
                part.replace(target)
        self._files = {}
        self._until = -np.inf

    def abandon(self) -> None:
        """Remove the files under way."""
        for file, part, _ in self._files.values():
            file.close()
            part.unlink(missing_ok=True)
        self._files = {}


def _header(sampler: str, milliseconds: bool) -> str:
    begin = "#Time_msec,Time_usec" if milliseconds else "#Time,Time_usec"
    device = ",ca_name,port" if sampler == "opa_info" else ""
    names = "".join(f",{counter.column}{_DEVICE[sampler]}" for counter in counters_of(sampler))
    return f"{begin},ProducerName,component_id,job_id,app_id{device}{names}\n"


@contextmanager
def _clear_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise JobcastError(f"{path}: cannot be written ({error.strerror}); choose another place.") from error
