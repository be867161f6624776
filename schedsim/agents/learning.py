"""Training of DRAS's agents, job set after job set: policy gradient and Q-learning as in the paper.

DRAS (`schedsim.policies.networks`) learns while it schedules. Every ten scheduling instants an update moves the weights
by the picks since the last one. DRAS-PG follows equation 3: the score of the n-th pick rises with what the picks from
it on have earned, less the mean of that over the n-th picks of past updates (the authors' public code [1]_ takes mean
and deviation of the update itself). DRAS-DQL follows equation 4, with a plus where the paper prints a minus, which
would climb the error: the value of a pick moves towards its reward plus the greatest value at the next pick. An update
knows nothing of what follows it, so that the horizon is ten instants; with `returns="full"` it is the end of the job
set.

The paper does not say how often the chance of exploring shrinks: here once per update. Its rewards are those of
`schedsim.engine.learning.Reward`.

.. [1] https://github.com/SPEAR-UIC/CQSim, branch PG
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np

from predictors.core.arrays import Floats, Ints, Singles
from predictors.core.errors import JobcastError, unknown_name
from predictors.core.files import whole_file
from predictors.core.hash_random import mixed
from predictors.core.model_files import DAMAGE, read_stored
from predictors.core.validation import check_whole
from schedsim.agents.gradients import Adam, Network, entropy, first_weights, softmax
from schedsim.engine.learning import Picks, Reward
from schedsim.engine.simulation import Simulation
from schedsim.policies.agents import Reserve
from schedsim.policies.backfilling import Easy, Greedy
from schedsim.policies.networks import Dras, Shape
from schedsim.policies.policy import Policy
from schedsim.results.schedule import Schedule
from schedsim.workload.estimates import Estimates, RevisedEstimates, Separate
from schedsim.workload.workload import Workload

EstimatesOf = Callable[[Workload], Estimates | Separate | RevisedEstimates]

REWARDS: Final[Mapping[str, Reward]] = MappingProxyType(
    {
        "theta": Reward(),
        "theta-6h": Reward(least_wait=21_600),
        "cori": Reward("capacity"),
        "short": Reward("short"),
        "zero": Reward("none"),
        "shuffled": Reward(shuffled=True),
    }
)
"""Rewards by name: equation 1, the paper's for Theta; the same with the floor of the longest wait of its public code;
equation 2, for Cori; minus the estimate of the job picked, which points at waits; and two controls."""

MOST_VALUE: Final = 1e6  # largest target of Q-learning, since equation 4 does not discount

POOL: Final = 1_024
"""How many earlier rewards a shuffled one is exchanged with; within one update the sums would still be informative."""

# purposes of draws
DEALING: Final = 103
EPISODE: Final = 104


_PRINTED: Final = ("printed", 1.0, "pick", "past")  # returns, discount, earner, baseline


@dataclass(frozen=True)
class DrasSettings:
    """How an agent of DRAS is made and learns; the defaults are the paper's at a tenth of Theta.

    >>> DrasSettings("pg", 436).shape.parameters, DrasSettings("dql", 436).shape.parameters
    (259453, 215304)
    """

    # policy gradient, Q-learning, or the paper's Decima-PG: policy gradient without reservations, which picks among the
    # jobs that fit
    kind: Literal["pg", "dql", "decima"]
    nodes: int
    reward: str | Reward = "theta"  # the reward of a pick, or its name in `REWARDS`
    window: int = 50  # jobs that it sees
    dense: tuple[int, int] = (400, 100)  # neurons of the two dense layers
    # inputs are shares of the machine and days; or processors and seconds, from which it cannot learn; or each job's
    # numbers stand at the place of another job
    inputs: Literal["scaled", "raw", "permuted"] = "scaled"
    # the next four are of policy gradient alone. Whether rewards are summed to the end of the update or of the job set,
    # at whose end it then learns, update after update
    returns: Literal["printed", "full"] = "printed"
    discount: float = 1.0  # what a reward counts one pick (or instant) before it was earned
    # whether each pick earns its own reward, or all picks of an instant together their mean, as the paper's words say
    earner: Literal["pick", "instant"] = "pick"
    # what returns are compared with: the means of past updates by place, or mean and deviation of this update
    baseline: Literal["past", "update"] = "past"
    instants: int = 10  # scheduling instants between two updates
    rate: float = 0.001  # step size of Adam
    # {"kept", "oldest", "again"}: which job holds the reservation, see `schedsim.policies.agents.RESERVES`
    reserve: Reserve = "kept"
    # explore, explore_decay, explore_floor: chance with which Q-learning picks any job; its factor at each update; its
    # smallest value
    explore: float = 1.0
    explore_decay: float = 0.995
    explore_floor: float = 0.01

    def __post_init__(self) -> None:
        for name, known in (
            ("kind", ("pg", "dql", "decima")),
            ("inputs", ("scaled", "raw", "permuted")),
            ("returns", ("printed", "full")),
            ("earner", ("pick", "instant")),
            ("baseline", ("past", "update")),
            ("reserve", ("kept", "oldest", "again")),
        ):
            if getattr(self, name) not in known:
                raise JobcastError(f"{name} is one of {', '.join(known)}; got {getattr(self, name)!r}.")
        if isinstance(self.reward, str) and self.reward not in REWARDS:
            raise unknown_name("reward", self.reward, REWARDS)
        if not isinstance(self.reward, str | Reward):
            raise JobcastError(f"reward is a Reward or the name of one; got {self.reward!r}.")
        check_whole(self.instants, "the scheduling instants between two updates", 1)
        if self.kind == "dql" and (self.returns, self.discount, self.earner, self.baseline) != _PRINTED:
            raise JobcastError("returns, discount, earner and baseline are of policy gradient; got them for dql.")
        for name in ("explore", "explore_decay", "explore_floor", "discount"):
            if not 0 <= getattr(self, name) <= 1:
                raise JobcastError(f"{name} must be from 0 to 1; got {getattr(self, name)!r}.")
        if not 0 < self.rate < np.inf:
            raise JobcastError(f"rate must be above 0; got {self.rate!r}.")
        object.__setattr__(self, "dense", tuple(self.dense))
        _ = self.shape

    @property
    def shape(self) -> Shape:
        return Shape(self.nodes, "dql" if self.kind == "dql" else "pg", self.window, self.dense)

    @property
    def earns(self) -> Reward:
        return REWARDS[self.reward] if isinstance(self.reward, str) else self.reward


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


@dataclass(frozen=True, eq=False)
class Run:
    """One workload under an agent."""

    schedule: Schedule  # of all jobs
    episode: Episode  # its figures; without learning, `updates` and `refused` are 0
    agent: Dras  # as it is at the end
    # mean entropy of a frozen agent's chances relative to the largest possible, over picks among two jobs or more: 1
    # where all jobs are equally likely, 0 where one is certain. NaN for learning agents, for Q-learning, and without
    # such picks.
    entropy: float = float("nan")

    @property
    def reward(self) -> float:
        """Sum over the picks."""
        return self.episode.reward

    @property
    def picks(self) -> int:
        return self.episode.picks

    @property
    def updates(self) -> int:
        return self.episode.updates


class DrasLearner:
    """Moves the weights of a network by equations 3 and 4; an argument of `Simulation.learn`."""

    def __init__(
        self,
        settings: DrasSettings,
        weights: Singles,  # initial weights
        seed: int,  # of the exchange of shuffled rewards
        frozen: bool = False,  # whether it counts picks but learns nothing
    ) -> None:
        self.settings, self.seed, self.frozen = settings, seed, frozen
        self.instants, self.reward = settings.instants, settings.earns
        self.explore = settings.explore if settings.kind == "dql" and not frozen else 0.0
        self._own = np.array(weights, np.float32)
        self.weights = self._own.view()
        self.weights.flags.writeable = False
        self._network = Network(settings.shape)
        self.adam = Adam(0 if frozen else len(self._own), settings.rate)
        self.sums, self.counts = np.zeros(0), np.zeros(0)  # of the returns of each n-th pick of past updates
        self.pool = np.zeros(0)  # of earlier rewards, where they are shuffled
        self._waiting: list[Picks] = []  # until what follows is known
        self.updates = self.picks = self.refused = 0
        self.earned = 0.0
        self.entropy, self.drawn = 0.0, 0  # of a frozen agent's picks among two jobs or more: their sum, their number

    def take(self, weights: Singles) -> None:
        """Continue with other weights."""
        self._own[:] = weights

    def update(self, picks: Picks) -> None:
        """Learn from the picks of some instants."""
        self.picks += len(picks.place)
        self.earned += float(picks.reward.sum())
        if self.frozen:
            self._measure(picks)
            return
        if self.settings.kind == "dql":
            self._approach(picks, self._dealt(picks) + np.append(picks.value[1:], 0.0))
        elif self.settings.returns == "printed":
            self._learn([picks])
        else:
            self._waiting.append(replace(picks, seen=picks.seen.copy()))

    def _measure(self, picks: Picks) -> None:
        """Add up the entropy of the picks; Q-learning draws none by its scores."""
        open_picks = picks.of > 1
        if self.settings.kind == "dql" or not open_picks.any():
            return
        of = picks.of[open_picks]
        scores = self._network.scores(self.weights, picks.seen[open_picks])
        self.entropy += float(entropy(softmax(scores, of), of).sum())
        self.drawn += len(of)

    def finish(self) -> None:
        """Learn from what is known only at the end of a job set."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._learn(waiting)

    def _learn(self, several: Sequence[Picks]) -> None:
        """Follow equation 3 in updates that share their returns."""
        rewards = np.concatenate([self._dealt(picks) for picks in several])
        together = self.settings.earner == "instant"
        earners = np.concatenate([picks.instant for picks in several]) if together else np.arange(len(rewards))
        to_go = _to_go(rewards, earners, self.settings.discount)
        if self.settings.baseline == "past":
            worth = to_go - self._baseline(to_go)
        else:
            worth = (to_go - to_go.mean()) / (to_go.std() or 1.0)
        for picks in several:
            self._follow(picks, worth[: len(picks.place)])
            worth = worth[len(picks.place) :]

    def _dealt(self, picks: Picks) -> Floats:
        """Return the rewards of the picks; shuffled ones are exchanged for those of earlier picks."""
        if not self.reward.shuffled:
            return picks.reward
        dealt = picks.reward.copy()
        for place, reward in enumerate(picks.reward.tolist()):
            filling = len(self.pool) < POOL
            if filling:
                self.pool = np.append(self.pool, reward)
            drawn = mixed(self.seed, place, DEALING + self.updates) % len(self.pool)
            dealt[place] = self.pool[drawn]
            if not filling:
                self.pool[drawn] = reward
        return dealt

    def _baseline(self, to_go: Floats) -> Floats:
        """Return the mean of the returns of past updates at each pick's place, then add these returns."""
        n = len(to_go)
        if n > len(self.sums):
            more = np.zeros(n - len(self.sums))
            self.sums, self.counts = np.append(self.sums, more), np.append(self.counts, more)
        means = self.sums[:n] / np.maximum(self.counts[:n], 1)
        self.sums[:n] += to_go
        self.counts[:n] += 1
        return np.asarray(means)

    def _follow(self, picks: Picks, worth: Floats) -> None:
        """Equation 3: raise the chance of each pick by its worth."""
        scores = self._network.scores(self.weights, picks.seen)
        wanted = -softmax(scores, picks.of)
        wanted[np.arange(len(worth)), picks.place] += 1
        self._climb(picks, scores, wanted * worth[:, None])

    def _approach(self, picks: Picks, targets: Floats) -> None:
        """Equation 4: move the value of each pick towards its target."""
        scores = self._network.scores(self.weights, picks.seen)
        kept = np.clip(targets, -MOST_VALUE, MOST_VALUE)
        self.refused += int((kept != targets).sum())
        self._climb(picks, scores, kept[:, None] - scores)
        floor = self.settings.explore_floor
        self.explore = max(min(floor, self.settings.explore), self.explore * self.settings.explore_decay)

    def _climb(self, picks: Picks, scores: Any, wanted: Any) -> None:
        """Move the weights up the gradient, unless a number is not finite."""
        self.updates += 1
        if not (np.isfinite(scores).all() and np.isfinite(wanted).all()):
            self.refused += 1
            return
        self._network.climb(self._own, picks.seen, wanted.astype(np.float32), self.adam)


def _to_go(rewards: Floats, earners: Ints, discount: float) -> Floats:
    """Return what each pick and those after it earn; picks with one number, which ascends, earn their mean once.

    >>> _to_go(np.array([1.0, 3.0, 8.0]), np.array([4, 4, 6]), 0.5).tolist()
    [6.0, 6.0, 8.0]
    """
    _, own, n = np.unique(earners, return_inverse=True, return_counts=True)
    earned = np.bincount(own, rewards) / n
    for place in range(len(n) - 2, -1, -1):
        earned[place] += discount * earned[place + 1]
    return np.asarray(earned[own])


def untrained(settings: DrasSettings, seed: int) -> Dras:
    return _agent(settings, first_weights(settings.shape, seed), seed)


def _agent(settings: DrasSettings, weights: Singles, seed: int) -> Dras:
    raw, permuted = settings.inputs == "raw", settings.inputs == "permuted"
    return Dras(settings.shape, weights, seed, raw=raw, permuted=permuted)


def policy_of(settings: DrasSettings, agent: Dras) -> Policy:
    """Return the policy under which an agent picks: EASY with its rule for the reservation, or none for Decima-PG."""
    if settings.kind == "decima":
        return Policy(backfill=Greedy(), agent=agent, window=settings.window)
    return Policy(backfill=Easy(), agent=agent, reserve=settings.reserve, window=settings.window)


def run(
    workload: Workload,  # for a machine of `settings.nodes` processors
    agent: Dras,  # the initial agent; its seed is not used
    settings: DrasSettings,  # how it was made and learns; Adam and the mean of past updates start again
    seed: int,  # of the draws
    learning: bool = False,  # whether its weights move; a frozen agent does not explore
    estimates: EstimatesOf | None = None,  # estimates for the scheduler and the network; by default the requested times
) -> Run:
    """Run a workload under an agent that learns, or is frozen."""
    if agent.shape != settings.shape:
        raise JobcastError(f"The settings have a network of {settings.shape}, the agent one of {agent.shape}.")
    floor = min(settings.explore, settings.explore_floor)
    learner = DrasLearner(replace(settings, explore=floor), agent.weights, seed, frozen=not learning)
    return _episode(workload, learner, seed, estimates)


def _episode(workload: Workload, learner: DrasLearner, seed: int, estimates: EstimatesOf | None) -> Run:
    settings = learner.settings
    agent = _agent(settings, learner.weights, seed)
    counted, earned = (learner.picks, learner.updates, learner.refused), learner.earned
    simulation = Simulation(workload, policy_of(settings, agent), None if estimates is None else estimates(workload))
    simulation.learn(learner)
    simulation.run()
    learner.finish()
    schedule = simulation.schedule()
    wait = float((schedule.start - workload.submit).mean())
    now = learner.picks, learner.updates, learner.refused
    picks, updates, refused = (after - before for after, before in zip(now, counted, strict=True))
    reward = learner.earned - earned
    episode = Episode(workload.name, len(workload), picks, updates, reward, wait, learner.explore, refused)
    if not learner.frozen:
        agent = _agent(settings, learner.weights, seed)
    return Run(schedule, episode, agent, learner.entropy / learner.drawn if learner.drawn else float("nan"))


@dataclass(frozen=True, eq=False)
class Training:
    """The result of a training."""

    settings: DrasSettings
    agents: tuple[Dras, ...]  # the untrained agent, then the kept ones
    kept_after: tuple[int, ...]  # number of job sets that each has learnt from
    curve: tuple[Episode, ...]  # job set by job set

    @property
    def rewards(self) -> Floats:
        """Total of each job set, shape (n,)."""
        return np.array([episode.reward for episode in self.curve])


def train(
    workloads: Sequence[Workload],  # the job sets, for a machine of `settings.nodes` processors
    settings: DrasSettings,
    seed: int,  # of the first weights and all draws
    estimates: EstimatesOf | None = None,  # estimates for the scheduler and the network; by default the requested times
    keep_every: int = 1,  # job sets between two kept agents; the last agent is always kept
    progress: Callable[[int, int], object] | None = None,  # is called with the job sets done and all of them
    # a folder from which a stopped training continues after the last job set, to the same bits
    checkpoint: Path | None = None,
) -> Training:
    """Train an agent on job sets, one after the other, each on an idle machine."""
    check_whole(seed, "a training's seed", 0, (1 << 62) - 1)
    check_whole(keep_every, "the job sets between two kept agents", 1)
    first = untrained(settings, seed)
    for workload in workloads:
        first.check_machine(workload.machine_procs, settings.window)
    learner, curve = DrasLearner(settings, first.weights, seed), list[Episode]()
    kept, agents = [0], [first]
    store = None if checkpoint is None else Checkpoints(checkpoint, _identity(settings, seed, keep_every, estimates))
    if store is not None:
        names = [workload.digest for workload in workloads]
        curve = store.resume(learner, names)
        kept += [after for after in range(1, len(curve) + 1) if _is_kept(after, keep_every, len(workloads))]
        agents += [_agent(settings, store.weights(after), seed) for after in kept[1:]]
    for done, workload in enumerate(workloads[len(curve) :], len(curve) + 1):
        curve.append(_episode(workload, learner, int(mixed(seed, done, EPISODE)), estimates).episode)
        if _is_kept(done, keep_every, len(workloads)):
            kept.append(done)
            agents.append(_agent(settings, learner.weights, seed))
        if store is not None:
            store.keep(learner, curve, names[:done], _is_kept(done, keep_every, len(workloads)))
        if progress is not None:
            progress(done, len(workloads))
    return Training(settings, tuple(agents), tuple(kept), tuple(curve))


def _is_kept(done: int, keep_every: int, n: int) -> bool:
    return done % keep_every == 0 or done == n


def _identity(settings: DrasSettings, seed: int, keep_every: int, estimates: EstimatesOf | None) -> str:
    """Return what identifies a training, apart from its job sets."""
    named = "requested" if estimates is None else getattr(estimates, "__qualname__", type(estimates).__qualname__)
    known = asdict(replace(settings, reward=settings.earns)) | {"seed": seed, "keep": keep_every, "estimates": named}
    return json.dumps(known, sort_keys=True)


class Checkpoints:
    """The folder of one training: the learner's state after each job set, and the weights of the agents kept.

    `learner.npz` is written last and whole, so that a stopped training continues after the last complete job set.
    Nothing is unpickled.
    """

    def __init__(
        self,
        folder: Path,  # created if missing
        identity: str,  # distinguishes this training from others
    ) -> None:
        self.folder, self.identity = folder, identity
        folder.mkdir(parents=True, exist_ok=True)

    def keep(self, learner: DrasLearner, curve: Sequence[Episode], digests: Sequence[str], is_kept: bool) -> None:
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

    def resume(self, learner: DrasLearner, digests: Sequence[str]) -> list[Episode]:
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
        return np.asarray(_read(self._agent(done))["weights"])

    def _agent(self, done: int) -> Path:
        return self.folder / f"agent-{done:04d}.npz"


def _shapes(learner: DrasLearner) -> dict[str, tuple[int, ...]]:
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
