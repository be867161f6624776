"""A training in a folder: the learner's state after each job set, and the weights of the agents kept.

`learner.npz` is written last and whole, so that a stopped training continues after the last complete job set. Nothing
is unpickled.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from predictors.core.arrays import Floats, Singles
from predictors.core.errors import JobcastError
from predictors.core.files import whole_file
from predictors.core.model_files import DAMAGE, read_stored
from schedsim.agents.gradients import Adam


@dataclass(frozen=True)
class Episode:
    """The training on one job set."""

    name: str  # of the job set
    # how many there were
    jobs: int
    picks: int
    updates: int
    reward: float  # sum over the picks. More picks earn more: look at `reward / picks` too.
    mean_wait: float  # of its jobs [s]
    explore: float  # chance of exploring at its end
    refused: int  # updates left out because a score was not finite, and targets that were cut


class Resumable(Protocol):
    """The stored part of a learner."""

    adam: Adam
    sums: Floats
    counts: Floats
    pool: Floats
    explore: float
    updates: int
    picks: int
    refused: int
    earned: float

    @property
    def weights(self) -> Singles:
        """Its weights."""

    def take(self, weights: Singles) -> None:
        """Continue with other weights."""


class Checkpoints:
    """The folder of one training."""

    def __init__(
        self,
        folder: Path,  # created if missing
        identity: str,  # distinguishes this training from others
    ) -> None:
        self.folder, self.identity = folder, identity
        folder.mkdir(parents=True, exist_ok=True)

    def keep(self, learner: Resumable, curve: Sequence[Episode], digests: Sequence[str], is_kept: bool) -> None:
        """Store the state of a training, and its weights separately if the agent is kept."""
        if is_kept:
            _write(self._agent(len(curve)), {"weights": learner.weights})
        about = {"training": self.identity, "job sets": list(digests), "curve": [asdict(one) for one in curve]}
        numbers = [learner.explore, learner.updates, learner.picks, learner.refused, learner.earned]
        arrays = {
            "about": np.array(json.dumps(about)),
            "weights": learner.weights,
            "mean": learner.adam.mean,
            "square": learner.adam.square,
            "steps": np.array(learner.adam.steps),
            "sums": learner.sums,
            "counts": learner.counts,
            "pool": learner.pool,
            "numbers": np.array(numbers, np.float64),
        }
        _write(self.folder / "learner.npz", arrays)

    def resume(self, learner: Resumable, digests: Sequence[str]) -> list[Episode]:
        """Set a learner to the stored state; return the job sets done, none if nothing is stored."""
        path = self.folder / "learner.npz"
        if not path.exists():
            return []
        arrays = _read(path)
        try:
            about = json.loads(str(arrays["about"]))
            curve = [Episode(**one) for one in about["curve"]]
            done, training = about["job sets"], about["training"]
        except (KeyError, TypeError, ValueError) as error:
            raise JobcastError(f"{path}: is damaged ({error}); give another folder, or delete this one.") from error
        if training != self.identity or done != list(digests[: len(done)]):
            what = "settings, seed or estimates" if training != self.identity else "job sets"
            raise JobcastError(f"{path}: is of a training with other {what}; give another folder, or delete this one.")
        shapes = {name: (array.shape, array.dtype.kind in "fiu") for name, array in arrays.items()}
        lacking = [name for name, shape in _shapes(learner).items() if shapes.get(name) != (shape, True)]
        lacking += [name for name in ("sums", "counts", "pool") if name not in arrays or arrays[name].ndim != 1]
        if lacking:
            raise JobcastError(f"{path}: is damaged ({', '.join(lacking)}); give another folder, or delete this one.")
        learner.take(arrays["weights"])
        learner.adam.mean[:], learner.adam.square[:] = arrays["mean"], arrays["square"]
        learner.adam.steps = int(arrays["steps"])
        learner.sums, learner.counts, learner.pool = arrays["sums"], arrays["counts"], arrays["pool"]
        explore, updates, picks, refused, earned = arrays["numbers"].tolist()
        learner.explore, learner.earned = explore, earned
        learner.updates, learner.picks, learner.refused = int(updates), int(picks), int(refused)
        return curve

    def weights(self, done: int) -> Singles:
        """Return the weights of a kept agent."""
        return np.asarray(_read(self._agent(done))["weights"])

    def _agent(self, done: int) -> Path:
        return self.folder / f"agent-{done:04d}.npz"


def _shapes(learner: Resumable) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a learner's arrays, without those that grow."""
    adam = learner.adam
    found = {"weights": learner.weights.shape, "mean": adam.mean.shape, "square": adam.square.shape}
    return found | {"steps": (), "numbers": (5,)}


def _write(path: Path, arrays: dict[str, Any]) -> None:
    """Write arrays, whole or not at all; weights do not get smaller by compression."""
    with whole_file(path) as part, part.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_stored(path.read_bytes())
    except DAMAGE as error:
        raise JobcastError(f"{path}: cannot be read ({error}); give another folder, or delete this one.") from error
