"""The policies of a trial: which classifier the gate asks, how patient the gate is, and what an ask costs.

Every experiment has FCFS+EASY, RUSH with each skip threshold, and as many delays dealt to jobs by chance. ADAA also has
what RUSH's gain depends on: probes that take their time and load the network, with counters that lag; those of the job
that started last; no probes; an oracle that sees the true loads of now; and a machine
without contention, where there is nothing to win.

Models learn from the inputs that their row has: without probes, or from the last known ones.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal

from experiments.papers.rush.jobs import EXPERIMENTS
from experiments.papers.rush.measures import CALM_EASY, CALM_RUSH, EASY, ORACLE, RANDOM, RUSH
from experiments.papers.rush.trials import MODEL, Control, learn
from predictors.core.errors import JobcastError
from predictors.probes.measurements import ProbeUse, Settings
from predictors.variability.classifiers.base import Classifier
from schedsim.policies.rush import LONGEST_ASK

EXPERIMENT: Final = "ADAA"  # which of Table II the rows on what the gain depends on are of

Judge = Literal["model", "random", "oracle"]


@dataclass(frozen=True)
class AskSettings:
    """What an ask costs, and how patient the gate is.

    >>> AskSettings(ask_seconds=5).probe_seconds
    20
    """

    ask_seconds: int = 2  # how long the classifier takes to answer, in the rows where asking costs [s]
    # how long the probes take, where asking costs [s]. They send what `predictors.probes` sends by default.
    probe_seconds: int = 20
    counter_lag: int = 60  # counters are known so long after they were sampled, in the rows where asking costs [s]
    # skip thresholds; rows that have but one have the highest, the headline's
    thresholds: tuple[int, ...] = (10, 100)

    def __post_init__(self) -> None:
        for name in ("ask_seconds", "probe_seconds", "counter_lag"):
            value, least = getattr(self, name), 0 if name == "counter_lag" else 1
            if not least <= value <= LONGEST_ASK:
                raise JobcastError(f"rush: {name} must be from {least} to {LONGEST_ASK} s; got {value}.")
        if not self.thresholds or min(self.thresholds) < 1 or len(set(self.thresholds)) < len(self.thresholds):
            raise JobcastError(
                f"rush: skip thresholds must be different whole numbers, 1 or more; got {self.thresholds}."
            )

    @property
    def probing(self) -> float:
        """What each node sends while the probes run [bytes/s]: the ring's messages once, the all-reduce's twice."""
        sizes = Settings()
        sent = sizes.ring_iterations * sizes.ring_bytes + 2 * sizes.allreduce_iterations * sizes.allreduce_bytes
        return sent / self.probe_seconds


@dataclass(frozen=True)
class Row:
    """A policy of a trial."""

    name: str  # as tables have it
    threshold: int = 0  # how often a job may be skipped; 0: the answers are noted, and delay no job
    # who says which job is delayed; random delays deal out the skips of the policy `like`
    judge: Judge = "model"
    probes: ProbeUse = "live"  # what is known of the probes
    # what an ask costs, and how old the counters are [s]
    ask_seconds: int = 0
    lag: int = 0
    probing: float = 0.0  # what nodes send meanwhile [bytes/s]
    calm: bool = False  # without contention
    like: str = ""  # the policy with the skips that are dealt out

    @property
    def options(self) -> dict[str, Any]:
        if not self.threshold:
            return {"labels": ()}
        return {"threshold": self.threshold, "ask_seconds": self.ask_seconds}


PRICED: Final = "RUSH, probes and asks cost"
ABSENT: Final = "RUSH, no probes"


def rows_of(settings: AskSettings, experiment: str = EXPERIMENT, *, costs: bool = True) -> dict[str, Row]:
    """Return the rows of an experiment by policy, those that give skips before those that deal them out.

    A policy is called by its row, with its skips unless they are the highest threshold.
    """
    priced: dict[str, Any] = {
        "ask_seconds": settings.ask_seconds + settings.probe_seconds, "lag": settings.counter_lag,
        "probing": settings.probing,
    }  # fmt: skip
    most, kinds = max(settings.thresholds), dict[str, dict[str, Any]]({RUSH: {}})
    if costs and experiment == EXPERIMENT:
        kinds |= {
            PRICED: priced,
            ABSENT: {"probes": "absent"},
            "RUSH, last-known probes": {"probes": "last-known"},
            ORACLE: {"judge": "oracle"},
            CALM_EASY: {"calm": True},
            CALM_RUSH: {"calm": True},
        }
    kinds |= {RANDOM: {"judge": "random", "like": RUSH}}
    rows = {EASY: Row(EASY)}
    for name, more in kinds.items():
        for skips in settings.thresholds if name in (RUSH, PRICED, ABSENT, ORACLE) else (most,):
            rows[name + ("" if skips == most else f", {skips} skips")] = Row(name, skips * (name != CALM_EASY), **more)
    return rows


LIVE: Final[ProbeUse] = "live"
USES: Final[tuple[ProbeUse, ...]] = (LIVE, "last-known", "absent")

Models = dict[tuple[tuple[str, ...], ProbeUse], Classifier]
"""Classifiers by the applications that they learnt from, and by what they know of the probes."""


def models_of(control: Control, scope: str, seed: int, learnt: set[tuple[str, ...]]) -> Models:
    """Train the models of all rows on the control jobs."""
    everything = EXPERIMENTS[EXPERIMENT].learnt
    return {
        (names, use): learn(control.of(names, scope).with_probes(use), MODEL, seed)
        for names in sorted(learnt)
        for use in (USES if names == everything else USES[:1])
    }
