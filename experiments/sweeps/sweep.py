"""Declaration of a sweep, as a value or a TOML file, and its cases."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Self, TypeVar

from pydantic import Field

from experiments.compare.measures import AS_LOGGED, COMPARED
from experiments.runs.policies import STORED, NamedPolicy
from experiments.runs.simulate import GIVEN, TABLES, check_names, usual_correction
from predictors.core.declarations import STRICT, check_fields, declared, parse_toml
from predictors.core.errors import JobcastError, unknown_name
from predictors.data.cleaning import RequestsFrom
from predictors.evaluation.evaluate import PROTOCOLS
from predictors.models.similar_jobs import SimilarRuns, estimates_name
from predictors.registry import make_predictor
from schedsim.agents.files import PREFIX, SHIPPED, is_agent
from schedsim.kernels.corrections import correction_code
from schedsim.policies.policy import Policy, policy_name
from schedsim.sites.slurm.files import PREFIX as OF_SLURM
from schedsim.sites.slurm.files import files_of_policy, is_slurm

T = TypeVar("T")
Name = Annotated[str, Field(min_length=1)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]  # what every library that draws by a seed takes
NEVER_EXPIRE: Final = tuple(GIVEN)  # estimates that no correction ever meets, since jobs are killed at their request


@dataclass(frozen=True)
class Case:
    """A way to schedule: the names that `jobcast simulate` takes, or rules without a name.

    With `shaken=False` it is run only on the log as it is: to see its figures, without intervals. Estimates may be a
    rule of revised estimates; `rule` is a `Policy` that differs from what `policy` names, for cases made in Python.
    """

    __pydantic_config__: ClassVar[Any] = STRICT

    name: Name
    policy: Name
    estimates: str | SimilarRuns = "requested"
    correction: Name = "requested"
    shaken: bool = True
    budget: float | None = None
    rule: Any = None
    soft_limits: str | None = None

    def __post_init__(self) -> None:
        check_fields(self, f"Case {self.name!r}")
        if self.rule is not None and not isinstance(self.rule, Policy):
            raise JobcastError(f"Case {self.name!r}: rule is a schedsim.policies.policy.Policy; got {self.rule!r}.")
        if self.rule is not None and (is_agent(self.policy) or is_slurm(self.policy)):
            raise JobcastError(f"Case {self.name!r}: {self.policy} has a policy of its own; leave rule out.")
        object.__setattr__(self, "policy", policy_name(self.policy))
        if isinstance(self.estimates, str):
            object.__setattr__(self, "estimates", estimates_name(self.estimates))
        if not self.name.isprintable():
            raise JobcastError(f"A case's name is shown: no line breaks or control characters; got {self.name!r}.")

    def check(self, kill: bool = True) -> None:
        """Raise JobcastError unless there is such a policy, estimates and correction, and they go together."""
        try:
            check_names(self.named, self.estimates, self.correction, self.budget, self.soft_limits)
            if not kill and self.correction not in ("requested", "doubling"):
                raise JobcastError(
                    f"jobs that are not killed at their request double their estimates: the correction "
                    f"{self.correction} does not go with kill = false."
                )
        except JobcastError as error:
            raise JobcastError(f"Case {self.name!r}: {error}") from error

    @cached_property
    def named(self) -> NamedPolicy:
        """What the policy's name stands for, read once; workers are given it with the case."""
        return NamedPolicy.of(self.policy)

    @property
    def passes(self) -> Policy:
        """The policy, or one with the same passes where each log has its own."""
        return self.named.passes if self.rule is None else self.rule

    def to_row(self) -> dict[str, Any]:
        """Return what stands in a table."""
        estimates = self.estimates if isinstance(self.estimates, str) else repr(self.estimates)
        return {
            "case": self.name,
            "policy": self.policy if self.rule is None else repr(self.rule),
            "estimates": estimates,
            "correction": self.correction,
            "budget": self.budget,
            **({} if self.soft_limits is None else {"soft_limits": self.soft_limits}),
        }


@dataclass(frozen=True)
class Learner:
    """A predictor to be evaluated or trained."""

    name: str
    predictor: str
    budget: float | None = None

    def to_row(self) -> dict[str, Any]:
        """Return what stands in a table."""
        return {"case": self.name, "predictor": self.predictor, "budget": self.budget}


@dataclass(frozen=True)
class Cell:
    """One run of a sweep: a log by its name, a case, a seed."""

    log: str
    case: Case | Learner
    seed: int

    @property
    def key(self) -> tuple[str, str, int]:
        return self.log, self.case.name, self.seed


def crossed(
    policies: tuple[str, ...],
    estimates: tuple[str, ...],
    corrections: tuple[str, ...],
    budget: float | None = None,
    soft_limits: str | None = None,
) -> tuple[Case, ...]:
    """Return a case for every combination, named by what differs.

    Estimates that never expire are combined with one correction only: the others would give the same schedule. Without
    estimates an agent has those that its file names, another policy the requested times.

    >>> [case.name for case in crossed(("easy", "easy-sjbf"), ("requested",), ("requested",))]
    ['easy', 'easy-sjbf']
    >>> [case.name for case in crossed(("easy",), ("requested", "tsafrir"), ("requested", "doubling"))]
    ['easy, requested', 'easy, tsafrir, requested', 'easy, tsafrir, doubling']
    >>> [case.name for case in crossed(("easy", "default"), ("default",), ("requested",))]  # older names
    ['easy', 'careful']
    """
    policies, estimates = tuple(map(policy_name, policies)), tuple(map(estimates_name, estimates))
    usual = {} if estimates else {policy: NamedPolicy.of(policy).estimates for policy in policies}
    cases = []
    for policy, estimated, correction in product(policies, estimates or ("",), corrections):
        estimated = estimated or usual[policy]
        if estimated in NEVER_EXPIRE and correction != corrections[0]:
            continue
        fixed = estimated in NEVER_EXPIRE
        names = [policy, *([estimated] if len(estimates) > 1 else []),
                 *([correction] if len(corrections) > 1 and not fixed else [])]  # fmt: skip
        cases.append(Case(", ".join(names), policy, estimated, "requested" if fixed else correction,
                          budget=budget, soft_limits=soft_limits))  # fmt: skip
    return tuple(cases)


KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "simulate": (
        "policies",
        "estimates",
        "corrections",
        "cases",
        "soft_limits",
        "as_logged",
        "kill",
        "drop_wide",
        "by",
    ),
    "evaluate": ("predictors", "train", "protocol"),
    "train": ("predictors", "train"),
}
"""What can be run, and the fields that only this kind has."""
MOST_SEEDS: Final = 100_000


@dataclass(frozen=True)
class LogFile:
    """A log to read, with what it does not have: the size of its machine or its nodes, requested times."""

    __pydantic_config__: ClassVar[Any] = STRICT

    path: Name
    procs: Annotated[int, Field(ge=1)] | None = None
    partition: Annotated[int, Field(ge=0)] | Name | None = None
    requests_from: str | None = None
    machine: Name | None = None

    def __post_init__(self) -> None:
        check_fields(self, f"Log {self.path!r}")
        if self.requests_from is not None:
            RequestsFrom(self.requests_from)


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Many runs: every log by every case by every seed.

    Parameters
    ----------
    logs : tuple of LogFile
        What is read; none where the logs are in memory (see `experiments.sweeps.plan.plan`).
    kind : {"simulate", "evaluate", "train"}
        Simulate policies, score predictors, or score them and keep the models.
    policies, estimates, corrections : tuple of str
        Simulations: every combination is a case, see `experiments.sweeps.sweep.crossed`.
    cases : tuple of Case
        Simulations: the cases one by one, instead.
    predictors : tuple of str
        Evaluations and trainings: every one is a case. The baseline, last-two, is added.
    seeds : tuple of int
        Simulations: shakes of the log (`schedsim.workload.shaking`), the same for every case. Else what
        predictors draw by; by default 0.
    as_logged : bool
        Simulations: run the logs as they are, too.
    kill, drop_wide : bool
        Simulations: stop jobs at their requested time; leave out jobs wider than the machine.
    budget : float, optional
        Share of the jobs that may run longer than estimated, of all predictors.
    soft_limits : str, optional
        Simulations: how a scheduler holds soft limits, which the estimates give, see `schedsim.workload.soft_limits`.
    by : tuple of str
        Simulations: also figures by `size`, `user`, `run-time` or `start`.
    train : float
        Evaluations and trainings: share of the jobs that is learnt from for the figures.
    protocol : str
        Evaluations: `strict` or `reis`.
    beside : str, optional
        Case that the others are compared with; by default the first.
    measure : str, optional
        Figure that decides.
    """

    __pydantic_config__: ClassVar[Any] = STRICT

    logs: tuple[LogFile, ...] = ()
    kind: str = "simulate"
    policies: tuple[Name, ...] = ()
    estimates: tuple[Name, ...] = ()
    corrections: tuple[Name, ...] = ()
    cases: tuple[Case, ...] = ()
    predictors: tuple[Name, ...] = ()
    seeds: tuple[Seed, ...] = ()
    as_logged: bool = True
    kill: bool = True
    drop_wide: bool = False
    budget: float | None = None
    soft_limits: str | None = None
    by: tuple[Name, ...] = ()
    train: Annotated[float, Field(gt=0, lt=1)] = 0.8
    protocol: str = "strict"
    beside: str | None = None
    measure: str | None = None

    def __post_init__(self) -> None:
        check_fields(self, "The sweep")
        if self.kind not in KINDS:
            raise unknown_name("kind of sweep", self.kind, KINDS)
        self._refuse_foreign()
        if len(self.seeds) > MOST_SEEDS:
            raise JobcastError(f"A sweep has at most {MOST_SEEDS:,} seeds; give fewer.")
        if len(set(self.seeds)) < len(self.seeds):
            raise JobcastError(f"The seeds of a sweep must differ; {_twice(self.seeds)} is given twice.")
        if self.protocol not in PROTOCOLS:
            raise unknown_name("protocol", self.protocol, PROTOCOLS)
        for name in self.by:
            if name not in TABLES:
                raise unknown_name("table by", name, TABLES)
        if self.measure is not None and self.measure not in COMPARED:
            raise unknown_name("measure", self.measure, COMPARED)
        names = [case.name for case in self.all_cases]
        if self.beside is not None and self.beside not in names:  # perhaps by older names
            parts = self.beside.split(", ")
            object.__setattr__(self, "beside", ", ".join(estimates_name(policy_name(part)) for part in parts))
        if len(set(names)) < len(names):
            raise JobcastError(f"Two cases of the sweep are called {_twice(names)!r}; give each a name of its own.")
        if self.beside is not None and self.beside not in names:
            raise unknown_name("case to compare with", self.beside, names)
        if self.beside is not None and self.seeds and self.kind == "simulate":
            shaken = [case.name for case in self.all_cases if _shaken(case)]
            if shaken and self.beside not in shaken:
                raise JobcastError(
                    f"{self.beside!r} is run on the logs as they are alone, the others are shaken: nothing can be "
                    "compared with it; let it be shaken, or take another case."
                )
        if not self.runs_of_a_log:
            raise JobcastError("This sweep runs nothing: give seeds, or as_logged = true.")

    def _refuse_foreign(self) -> None:
        """Raise JobcastError for fields that this kind of sweep would not look at, and for cases that cannot be."""
        usual = {f.name: f.default for f in fields(self)}
        for kind, own in KINDS.items():
            for name in own:
                if name not in KINDS[self.kind] and getattr(self, name) != usual[name]:
                    raise JobcastError(f"{name} is for sweeps that {kind}; this one is to {self.kind}.")
        if self.kind != "simulate" and any(log.machine is not None for log in self.logs):
            raise JobcastError(f"machine is for sweeps that simulate; this one is to {self.kind}.")
        if self.kind == "simulate":
            if self.cases and (
                self.policies
                or self.estimates
                or self.corrections
                or self.budget is not None
                or self.soft_limits is not None
            ):
                raise JobcastError(
                    "Give either cases, or policies, estimates, corrections, budget and soft limits; not both."
                )
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

    @cached_property
    def all_cases(self) -> tuple[Case, ...] | tuple[Learner, ...]:
        """The cases, by name."""
        if self.kind != "simulate":
            return tuple(Learner(name, name, self.budget) for name in self.predictors)
        if self.cases:
            return self.cases
        return crossed(
            self.policies or ("easy",),
            self.estimates,
            self.corrections or (usual_correction(self.soft_limits),),
            self.budget,
            self.soft_limits,
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
        """Read a declaration; paths of logs start from `folder`, `seeds = 10` means 1 to 10."""
        table = parse_toml(text, where)
        seeds = table.get("seeds", [])
        if not isinstance(seeds, list):
            if isinstance(seeds, bool) or not isinstance(seeds, int) or seeds < 0:
                raise JobcastError(f"{where}: seeds must be whole numbers from 0, or how many; got {seeds!r}.")
            table["seeds"] = first_seeds(seeds)
        for case in cases if isinstance(cases := table.get("cases"), list) else ():
            if isinstance(case, dict) and not isinstance(case.get("estimates", ""), str):
                raise JobcastError(f"{where}: estimates of a case must be a text; got {case['estimates']!r}.")
            if isinstance(case, dict) and isinstance(case.get("policy"), str):
                case["policy"] = _files_in_folder(case["policy"], folder)
        if isinstance(policies := table.get("policies"), list):
            table["policies"] = [_files_in_folder(one, folder) if isinstance(one, str) else one for one in policies]
            beside = table.get("beside")
            for one in policies if isinstance(beside, str) else ():
                if isinstance(one, str) and f"{beside}, ".startswith(f"{one}, "):  # see `crossed`
                    table["beside"] = _files_in_folder(one, folder) + str(beside).removeprefix(one)
        logs = table.get("logs", [])
        for log in logs if isinstance(logs, list) else [logs]:
            if not isinstance(log, str | dict):
                raise JobcastError(f"{where}: a log of a sweep is a path, or {{path = ..., procs = ...}}; got {log!r}.")
        table["logs"] = [
            {"path": log} if isinstance(log, str) else log for log in (logs if isinstance(logs, list) else [logs])
        ]
        made = declared(cls, table, where)
        return replace(made, logs=tuple(_in_folder(log, folder, where) for log in made.logs))


def first_seeds(count: int, start: int = 1) -> tuple[int, ...]:
    """Return so many seeds; of more than a sweep can have one too many, so that it is refused and not held in memory.

    >>> first_seeds(3), len(first_seeds(10**9)) - MOST_SEEDS
    ((1, 2, 3), 1)
    """
    return tuple(range(start, start + min(count, MOST_SEEDS + 1)))


def _files_in_folder(policy: str, folder: Path) -> str:
    """Return the name of a policy; the paths of an agent's or Slurm's files in it with the folder they start from."""
    if is_slurm(policy):
        return OF_SLURM + ",".join(str(folder / file) for file in files_of_policy(policy))
    name = policy.removeprefix(PREFIX)
    return policy if name == policy or name in SHIPPED or name.startswith(STORED) else f"{PREFIX}{folder / name}"


def _in_folder(log: LogFile, folder: Path, where: str) -> LogFile:
    try:
        machine = None if log.machine is None else str(folder / Path(log.machine).expanduser())
        return replace(log, path=str(folder / Path(log.path).expanduser()), machine=machine)
    except RuntimeError as error:
        raise JobcastError(f"{where}: log {log.path}: there is no such user; write the path out.") from error


def _twice(values: Sequence[T]) -> T:
    return next(one for one, times in Counter(values).items() if times > 1)


def _shaken(case: Case | Learner) -> bool:
    return isinstance(case, Case) and case.shaken
