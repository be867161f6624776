"""Agent files: an agent with its frame (reservation rule, window, estimates) and its origin, without pickle.

A file is a `.npz` of arrays with a description, or one `.json` document that a person can read. Both have a checksum of
their whole content, and both are written whole or not at all. `agent:FILE` is the policy of a file.
"""

import hashlib
import json
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from predictors.core.errors import JobcastError, printable, unknown_name
from predictors.core.files import whole_file
from predictors.core.model_files import DAMAGE, read_stored
from schedsim.kernels.agents.observation import CONTEXT
from schedsim.kernels.agents.picks import FEATURES
from schedsim.policies.agents import OLDEST_FIRST, RESERVES, Linear, RandomPicks, Reserve, Scored
from schedsim.policies.backfilling import Greedy
from schedsim.policies.networks import Dras, Shared
from schedsim.policies.policy import Policy, make_policy
from schedsim.policies.pooled import Pooled

Arrays = Mapping[str, npt.NDArray[Any]]

FORMAT: Final = 1
PREFIX: Final = "agent:"  # prefix of the policies of agents
SUFFIXES: Final = (".npz", ".json")
MOST_BYTES: Final = 1 << 30  # largest file: an agent of Theta's whole machine has 88 MB
GREEDY: Final = Policy(backfill=Greedy())  # the base `greedy`: the queue in its order, without reservations
_ABOUT: Final = "about"
_KEYS: Final = frozenset(
    ("format", "kind", "features", "window", "reserve", "base", "estimates", "origin", "arrays", "sha256")
)


@dataclass(frozen=True)
class Kind:
    """A kind of agent: its arrays, and how to restore it from them."""

    type: type
    names: tuple[str, ...]  # its arrays
    arrays: Callable[[Any], Arrays]  # from an agent to its arrays, by name
    # from arrays to the agent; raises JobcastError, ValueError or TypeError for arrays of no such agent
    restore: Callable[[Arrays], Any]
    features: tuple[str, ...] = ()  # the features of its weights, in this order; none for an agent without features


def _restored_linear(arrays: Arrays) -> Linear:
    return Linear(tuple(np.atleast_1d(arrays["weights"]).tolist()))


KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "linear": Kind(Linear, ("weights",), lambda agent: {"weights": agent.array}, _restored_linear, FEATURES),
        "random": Kind(
            RandomPicks, ("seed",), lambda agent: {"seed": np.array(agent.seed)},
            lambda arrays: RandomPicks(int(arrays["seed"])),
        ),
        "shared": Kind(Shared, ("weights", "hidden", "activation"), Shared.arrays, Shared.from_arrays, FEATURES),
        "pooled": Kind(Pooled, ("weights", "hidden"), Pooled.arrays, Pooled.from_arrays, (*FEATURES, *CONTEXT)),
        "dras": Kind(
            Dras, ("weights", "sizes", "kind", "seed", "flags", "explore"), Dras.arrays, Dras.from_arrays,
        ),
    }
)  # fmt: skip
"""Kinds of agents in files, by name."""


@dataclass(frozen=True)
class NamedAgent:
    """An agent and its frame.

    >>> NamedAgent(OLDEST_FIRST).policy.window
    50
    """

    agent: Scored | Pooled  # the agent that picks
    # {"kept", "oldest", "again"}: which job holds the reservation, see `schedsim.policies.agents.RESERVES`
    reserve: Reserve = "kept"
    window: int = 50  # jobs that it sees, 1 to 56
    # name of the policy in which it picks: easy, easy+promise and the like; or greedy, where it picks among the jobs
    # that fit, without reservations, like DRAS's Decima-PG
    base: str = "easy"
    # name of the estimates that the policy plans by and the features are made of, as `jobcast simulate --estimates`
    # takes it
    estimates: str = "requested"
    # where it comes from: digest of the log, the part it was tuned on, objective, seed, version
    origin: Mapping[str, str | int | float | None] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        self.kind  # noqa: B018 - an agent of no kind is refused
        if self.reserve not in RESERVES:
            raise unknown_name("reservation rule", str(self.reserve), RESERVES)
        if isinstance(self.window, bool) or not isinstance(self.window, int):
            raise JobcastError(f"An agent's window is a whole number of jobs; got {self.window!r}.")
        policy = self.policy  # refuses a window out of range, an unknown base, and a base without agents
        if policy.kind == "greedy" and self.reserve != "kept":
            raise JobcastError(
                f"Under {self.base} no job is reserved, so the reservation rule stays kept; got {self.reserve}."
            )
        if isinstance(self.agent, Dras):
            self.agent.check_machine(self.agent.shape.nodes, self.window)

    @property
    def kind(self) -> str:
        """The name of its kind."""
        for name, kind in KINDS.items():
            if isinstance(self.agent, kind.type):
                return name
        raise JobcastError(f"An agent file holds one of {', '.join(KINDS)}; got {type(self.agent).__name__}.")

    @property
    def policy(self) -> Policy:
        """The policy in which it picks."""
        base = GREEDY if self.base == "greedy" else make_policy(self.base)
        reserve = None if base.kind == "greedy" else self.reserve
        return replace(base, agent=self.agent, reserve=reserve, window=self.window)

    @property
    def digest(self) -> str:
        """SHA-256 of all that decides its picks; its origin does not."""
        return _sha256(self._about() | {"origin": {}}, self._arrays())

    def _arrays(self) -> Arrays:
        return KINDS[self.kind].arrays(self.agent)

    def _about(self) -> dict[str, Any]:
        kind = self.kind
        return {
            "format": FORMAT,
            "kind": kind,
            "features": list(KINDS[kind].features),
            "window": self.window,
            "reserve": self.reserve,
            "base": self.base,
            "estimates": self.estimates,
            "origin": dict(self.origin),
        }


def write_agent(agent: NamedAgent, path: str | PathLike[str]) -> None:
    """Write an agent file, `.npz`, or `.json` for people to read, whole or not at all."""
    check_suffix(path)
    about, arrays = agent._about(), agent._arrays()
    about |= {"sha256": _sha256(about, arrays)}
    with whole_file(path) as part:
        if Path(path).suffix == ".json":
            about |= {"arrays": {name: array.tolist() for name, array in arrays.items()}}
            part.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
            return
        with part.open("wb") as out:
            np.savez(out, allow_pickle=False, **{_ABOUT: np.array(json.dumps(about))}, **arrays)


def check_suffix(path: str | PathLike[str]) -> None:
    """Refuse a file name with another suffix than those of agent files."""
    if Path(path).suffix not in SUFFIXES:
        raise JobcastError(f"{path}: an agent file ends in {' or '.join(SUFFIXES)}; give it such a name.")


def read_agent(
    path: str | PathLike[str],  # the file; its content decides the form
    window: int | None = None,  # the only window that the caller can use
) -> NamedAgent:
    data = _content(path)
    about, arrays = _parsed(data, str(path))
    _check_about(about, str(path))
    kind = KINDS[about["kind"]]
    if about["features"] != list(kind.features):
        raise JobcastError(
            f"{path}: its weights belong to other features ({_listed(about['features'])}); agents of this jobcast look "
            f"at {_listed(list(kind.features))}. Tune it again."
        )
    if set(arrays) != set(kind.names):
        raise JobcastError(
            f"{path}: an agent of kind {about['kind']} has the arrays {_listed(list(kind.names))}; the file has "
            f"{_listed(sorted(arrays))}. Tune it again."
        )
    if about["sha256"] != _sha256({key: about[key] for key in about if key not in ("sha256", "arrays")}, arrays):
        raise JobcastError(f"{path}: is damaged: its content does not have its checksum. Tune it again.")
    if window is not None and about["window"] != window:
        raise JobcastError(f"{path}: was tuned for a window of {about['window']} jobs; here it is {window}.")
    frame = {name: about[name] for name in ("reserve", "window", "base", "estimates", "origin")}
    try:
        return NamedAgent(kind.restore(arrays), **frame)
    except (JobcastError, ValueError, TypeError, OverflowError) as error:
        raise JobcastError(f"{path}: {_brief(str(error), 600)}") from error


def _content(path: str | PathLike[str]) -> bytes:
    """Return the content of a file; refuse a pipe or a device, which may have no end."""
    try:
        found = Path(path).stat()
        if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
            raise JobcastError(f"{path}: is a device or a pipe, not a file; name an agent file.")
        if found.st_size > MOST_BYTES:
            raise JobcastError(f"{path}: has more than {MOST_BYTES:,} bytes: this is no agent file.")
        return Path(path).read_bytes()
    except OSError as error:
        raise JobcastError(f"{path}: cannot be read ({error.strerror}); name an agent file.") from error
    except ValueError as error:
        if isinstance(error, JobcastError):
            raise
        raise JobcastError(f"{printable(str(path))}: cannot be read ({error}); name an agent file.") from error


def _parsed(data: bytes, path: str) -> tuple[dict[str, Any], Arrays]:
    """Return the description and the arrays of a file, of either form."""
    try:
        if data[:2] != b"PK":
            about = json.loads(data.decode("utf-8"))
            arrays = {name: np.asarray(values) for name, values in about["arrays"].items()}
        else:
            arrays = read_stored(data)
            about = json.loads(str(arrays.pop(_ABOUT)))
        if any(array.dtype.kind not in "fiu" for array in arrays.values()):
            raise ValueError("an array holds something else than numbers")
    except DAMAGE as error:
        reason = printable(" ".join(str(error).split()))[:80]
        raise JobcastError(f"{path}: is no agent file, or a damaged one ({reason}).") from error
    return about, arrays


def _check_about(about: Any, path: str) -> None:
    version = about.get("format") if isinstance(about, dict) else None
    if isinstance(version, bool) or not isinstance(version, int):
        raise JobcastError(f"{path}: is no agent file: it has no format.")
    if version < 1:
        raise JobcastError(f"{path}: is no agent file: it is of format {_brief(str(version))}, and the first is 1.")
    if version > FORMAT:
        raise JobcastError(
            f"{path}: is of format {_brief(str(version))}; this jobcast reads up to {FORMAT}: upgrade it."
        )
    missing, foreign = _KEYS - {"arrays"} - set(about), set(about) - _KEYS
    if missing or foreign:
        what = f"lacks {_listed(sorted(missing))}" if missing else f"holds {_listed(sorted(foreign))} besides"
        raise JobcastError(f"{path}: is a damaged agent file: it {what}. Tune it again.")
    if not isinstance(about["kind"], str) or about["kind"] not in KINDS:
        raise JobcastError(f"{path}: {unknown_name('kind of agent', str(about['kind']), KINDS)}")
    texts = isinstance(about["base"], str) and isinstance(about["estimates"], str) and isinstance(about["reserve"], str)
    if not texts or not isinstance(about["origin"], dict):
        raise JobcastError(f"{path}: is a damaged agent file: base, estimates and reserve are texts, origin a table.")


def _sha256(about: Mapping[str, Any], arrays: Arrays) -> str:
    """Return the checksum of a description and arrays, the same for both forms of a file."""
    sha = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        sha.update(f"{name} {array.shape}".encode())
        sha.update(np.ascontiguousarray(array, dtype="<f8" if array.dtype.kind == "f" else "<i8").tobytes())
    return sha.hexdigest()


def _listed(names: Any) -> str:
    return _brief(", ".join(map(str, names)) if isinstance(names, list) else str(names)) or "none"


def _brief(text: str, most: int = 300) -> str:
    return printable(text if len(text) <= most else f"{text[: most - 1]}…")


SHIPPED: Final[Mapping[str, NamedAgent]] = MappingProxyType(
    {
        "oldest-first": NamedAgent(OLDEST_FIRST),
        **{f"random-{reserve}": NamedAgent(RandomPicks(), reserve) for reserve in RESERVES},
    }
)
"""Agents that need no file: `agent:oldest-first` is EASY; `agent:random-kept` and the like are the controls."""


def is_agent(policy: str) -> bool:
    """Return whether a policy's name is an agent's: `agent:FILE` or `agent:NAME`."""
    return policy.startswith(PREFIX)


def agent_of_file(name: str) -> NamedAgent:
    """Return the agent of a file, or of a name of `SHIPPED`.

    >>> agent_of_file("random-oldest").reserve
    'oldest'
    """
    if name in SHIPPED:
        return SHIPPED[name]
    if not Path(name).suffix and not os.path.isfile(name):  # noqa: PTH113 - False, too, for a name that no file can have
        raise unknown_name("agent", name, (*SHIPPED, "FILE.npz", "FILE.json"))
    return read_agent(name)
