"""What shall be run? Logs x cases x seeds, declared as a value or in a TOML file that sets its fields."""

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeVar

from experiments.cases import Case, Learner, crossed
from experiments.judgement import MEASURES
from experiments.simulation import TABLES
from experiments.sweep_results import AS_LOGGED
from predictors.data.errors import JobcastError, unknown_name
from predictors.evaluate import PROTOCOLS
from predictors.registry import make_predictor
from schedsim.corrections import correction_code

Kind = Literal["simulate", "evaluate", "train"]
Made = TypeVar("Made")

KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "simulate": ("policies", "estimates", "corrections", "cases", "as_logged", "kill", "drop_wide", "by"),
    "evaluate": ("predictors", "train", "protocol"),
    "train": ("predictors", "train"),
}
"""What can be run, and the fields that only this kind has."""
MOST_SEEDS: Final = 100_000
GREATEST_SEED: Final = 2**32 - 1
"""What every library that draws by a seed takes."""


@dataclass(frozen=True)
class LogFile:
    """A log to read, and the machine that it ran on where it does not tell."""

    path: str
    procs: int | None = None
    partition: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not self.path:
            raise JobcastError(f"A log of a sweep is a path, or {{path = …, procs = …}}; got {self.path!r}.")
        for name, least in (("procs", 1), ("partition", 0)):
            if (value := getattr(self, name)) is not None and (not _whole(value) or value < least):
                raise JobcastError(f"Log {self.path}: {name} must be a whole number, {least} or more; got {value!r}.")


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Many runs: every log by every case by every seed.

    Parameters
    ----------
    logs : tuple of LogFile
        What is read; none where the logs are in memory (see `experiments.sweep_plan.plan`).
    kind : {"simulate", "evaluate", "train"}
        Simulate policies, score predictors, or score them and keep the models.
    policies, estimates, corrections : tuple of str
        Simulations: every combination is a case, see `experiments.cases.crossed`.
    cases : tuple of Case
        Simulations: the cases one by one, instead.
    predictors : tuple of str
        Evaluations and trainings: every one is a case. The baseline, last-two, stands beside them.
    seeds : tuple of int
        Simulations: shakes of the log (`schedsim.shaking`), the same for every case. Else what
        predictors draw by; by default 0.
    as_logged : bool
        Simulations: run the logs as they are, too.
    kill, drop_wide : bool
        Simulations: stop jobs at their requested time; leave out jobs wider than the machine.
    budget : float, optional
        Share of the jobs that may run longer than estimated, of all predictors.
    by : tuple of str
        Simulations: figures by `size`, `user`, `run-time` or `start` besides.
    train : float
        Evaluations and trainings: share of the jobs that is learnt from for the figures.
    protocol : str
        Evaluations: `strict` or `reis`.
    beside : str, optional
        Case that the others are judged beside; by default the first.
    measure : str, optional
        Figure that decides.
    """

    logs: tuple[LogFile, ...] = ()
    kind: Kind = "simulate"
    policies: tuple[str, ...] = ()
    estimates: tuple[str, ...] = ()
    corrections: tuple[str, ...] = ()
    cases: tuple[Case, ...] = ()
    predictors: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    as_logged: bool = True
    kill: bool = True
    drop_wide: bool = False
    budget: float | None = None
    by: tuple[str, ...] = ()
    train: float = 0.8
    protocol: str = "strict"
    beside: str | None = None
    measure: str | None = None

    def __post_init__(self) -> None:
        self._check_types()
        if self.kind not in KINDS:
            raise unknown_name("kind of sweep", self.kind, KINDS)
        self._refuse_foreign()
        if len(self.seeds) > MOST_SEEDS:
            raise JobcastError(f"A sweep has at most {MOST_SEEDS:,} seeds; give fewer.")
        if len(set(self.seeds)) < len(self.seeds):
            raise JobcastError(f"The seeds of a sweep must differ; {_twice(self.seeds)} is given twice.")
        if max(self.seeds, default=0) > GREATEST_SEED:
            raise JobcastError(f"A seed is at most {GREATEST_SEED:,}; got {max(self.seeds):,}.")
        if self.protocol not in PROTOCOLS:
            raise unknown_name("protocol", self.protocol, PROTOCOLS)
        if not 0 < self.train < 1:
            raise JobcastError(f"The training share must lie between 0 and 1, such as 0.8; got {self.train:g}.")
        for name in self.by:
            if name not in TABLES:
                raise unknown_name("table by", name, TABLES)
        if self.measure is not None and self.measure not in MEASURES:
            raise unknown_name("measure", self.measure, MEASURES)
        names = [case.name for case in self.all_cases]
        if len(set(names)) < len(names):
            raise JobcastError(f"Two cases of the sweep are called {_twice(names)!r}; give each a name of its own.")
        if self.beside is not None and self.beside not in names:
            raise unknown_name("case to stand beside", self.beside, names)
        if self.beside is not None and self.seeds and self.kind == "simulate":
            shaken = [case.name for case in self.all_cases if _shaken(case)]
            if shaken and self.beside not in shaken:
                raise JobcastError(
                    f"{self.beside!r} is run on the logs as they are alone, the others are shaken: nothing can be "
                    "judged beside it; let it be shaken, or take another case."
                )
        if not self.runs_of_a_log:
            raise JobcastError("This sweep runs nothing: give seeds, or as_logged = true.")

    def _check_types(self) -> None:
        for name, kind in (("kind", str), ("protocol", str), ("beside", str | None), ("measure", str | None)):
            if not isinstance(getattr(self, name), kind):
                raise JobcastError(f"{name} must be a name; got {getattr(self, name)!r}.")
        for name, cls in (("logs", LogFile), ("cases", Case)):
            if not isinstance(found := getattr(self, name), tuple) or not all(isinstance(one, cls) for one in found):
                raise JobcastError(f"{name} must be a list of tables; got {found!r}.")
        whole: tuple[str, ...] = ("seeds",)
        for name in ("policies", "estimates", "corrections", "predictors", "by", *whole):
            found, wanted = getattr(self, name), "whole numbers from 0" if name in whole else "names"
            if not isinstance(found, tuple) or not all(
                _whole(one) and one >= 0 if name in whole else isinstance(one, str) and one for one in found
            ):
                raise JobcastError(f"{name} must be a list of {wanted}; got {found!r}.")
        for name in ("as_logged", "kill", "drop_wide"):
            if not isinstance(getattr(self, name), bool):
                raise JobcastError(f"{name} must be true or false; got {getattr(self, name)!r}.")
        for name in ("train", "budget"):
            found = getattr(self, name)
            if found is not None and (isinstance(found, bool) or not isinstance(found, int | float)):
                raise JobcastError(f"{name} must be a share; got {found!r}.")

    def _refuse_foreign(self) -> None:
        """Raise JobcastError for fields that this kind of sweep would not look at, and for cases that cannot be."""
        usual = {f.name: f.default for f in fields(self)}
        for kind, own in KINDS.items():
            for name in own:
                if name not in KINDS[self.kind] and getattr(self, name) != usual[name]:
                    raise JobcastError(f"{name} is for sweeps that {kind}; this one is to {self.kind}.")
        if self.kind == "simulate":
            if self.cases and (self.policies or self.estimates or self.corrections or self.budget is not None):
                raise JobcastError("Give either cases, or policies, estimates, corrections and budget; not both.")
            for name in self.corrections:
                correction_code(name)
            for case in self.all_cases:
                if isinstance(case, Case):
                    case.check(self.kill)
            return
        if not self.predictors:
            raise JobcastError(f"A sweep that is to {self.kind} needs predictors.")
        if self.kind == "train" and self.budget is not None:
            raise JobcastError("A budget goes with simulations and evaluations; name with-budget as a predictor.")
        for name in self.predictors:
            make_predictor(name)

    @property
    def all_cases(self) -> tuple[Case, ...] | tuple[Learner, ...]:
        """The cases, by name."""
        if self.kind != "simulate":
            return tuple(Learner(name, name, self.budget) for name in self.predictors)
        if self.cases:
            return self.cases
        return crossed(
            self.policies or ("easy",),
            self.estimates or ("requested",),
            self.corrections or ("requested",),
            self.budget,
        )

    @property
    def runs_of_a_log(self) -> tuple[tuple[Case | Learner, int], ...]:
        """The runs of each log, case and seed, by seed; the log as it is comes last."""
        if self.kind != "simulate":
            return tuple((case, seed) for seed in self.seeds or (0,) for case in self.all_cases)
        found = [(case, seed) for seed in self.seeds for case in self.all_cases if _shaken(case)]
        return (*found, *((case, AS_LOGGED) for case in self.all_cases if self.as_logged))

    def to_json(self) -> dict[str, Any]:
        """Return the declaration as plain values; rules that have no name as text."""
        return {
            name: [repr(one) if not isinstance(one, str | int) and name != "logs" else one for one in value]
            if isinstance(value, tuple)
            else value
            for name, value in {**asdict(self), "cases": self.cases, "logs": [asdict(log) for log in self.logs]}.items()
        }

    @classmethod
    def from_toml(cls, text: str, where: str, folder: Path = Path()) -> Self:
        """Read a declaration; paths of logs start from `folder`, `seeds = 10` means 1 to 10.

        Raises
        ------
        JobcastError
            If it is no TOML, has an unknown key, or declares what cannot be run; `where` is named.
        """
        try:
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise JobcastError(f"{where}: is no TOML ({error}).") from error
        try:
            return cls.from_table(table, folder)
        except JobcastError as error:
            raise JobcastError(f"{where}: {error}") from error

    @classmethod
    def from_table(cls, table: Mapping[str, Any], folder: Path = Path()) -> Self:
        """Make a sweep of a table of plain values, as TOML gives it."""
        known = [f.name for f in fields(cls)]
        for key in table:
            if key not in known:
                raise unknown_name("key of a sweep", key, known)
        given: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in table.items()
        }
        if _whole(given.get("seeds")) and given["seeds"] >= 0:
            given["seeds"] = first_seeds(given["seeds"])
        if "logs" in given:
            logs = given["logs"] if isinstance(given["logs"], tuple) else (given["logs"],)
            given["logs"] = tuple(_log_file(one, folder) for one in logs)
        if isinstance(given.get("cases"), tuple):
            given["cases"] = tuple(_made(Case, one, "case") for one in given["cases"])
        return cls(**given)


def first_seeds(count: int, start: int = 1) -> tuple[int, ...]:
    """Return so many seeds; of more than a sweep can have one too many, so that it is refused and not held in memory.

    Examples
    --------
    >>> first_seeds(3), len(first_seeds(10**9)) - MOST_SEEDS
    ((1, 2, 3), 1)
    """
    return tuple(range(start, start + min(count, MOST_SEEDS + 1)))


def _log_file(given: Any, folder: Path) -> LogFile:
    log = _made(LogFile, given if isinstance(given, dict) else {"path": given}, "log")
    try:
        path = folder / Path(log.path).expanduser()
    except RuntimeError as error:
        raise JobcastError(f"Log {log.path}: there is no such user; write the path out.") from error
    return LogFile(str(path), log.procs, log.partition)


def _made(cls: type[Made], table: Any, what: str) -> Made:
    """Make a value of a table's keys."""
    known = [f.name for f in fields(cls)]  # type: ignore[arg-type]
    if not isinstance(table, dict):
        raise JobcastError(f"Each {what} must be a table of {', '.join(known)}; got {table!r}.")
    for key in table:
        if key not in known:
            raise unknown_name(f"key of a {what}", key, known)
    try:
        return cls(**table)
    except TypeError as error:
        raise JobcastError(f"Each {what} needs {known[0]}; got {table!r}.") from error


def _twice(values: Sequence[Made]) -> Made:
    """Return a value that is there twice."""
    return next(one for one, times in Counter(values).items() if times > 1)


def _shaken(case: Case | Learner) -> bool:
    return isinstance(case, Case) and case.shaken


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
