"""What RUSH's asks cost, and what its gain hangs on: rows of ADAA in addition to the main table.

In the main table a gate asks at no time and no cost, and runs the MPI probes on the tentative nodes at each ask. Here
the probes are left out, or are those of the job that started last, or take their time and load the network; an ask
takes time and sees counters with their lag; a job's skips count once a window of counters; and the model is the one
that the project's own selection takes, with an operating threshold chosen on control jobs. Each row has a skip
threshold of 10 and one of 100. RUSH, random delays and the oracle have the same two.

Models learn from the inputs that their row has: without probes, or from the last known ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import pandas as pd

from experiments.papers.rush.measures import EASY, sign_flip_p, with_wide_interval
from experiments.papers.rush.trials import MODEL, Control, learn
from predictors.core.errors import JobcastError
from predictors.probes.measurements import PROBE_USES, ProbeUse, Settings
from predictors.variability.classifiers.base import Classifier
from predictors.variability.classifiers.registry import seeded
from predictors.variability.dataset import Dataset
from predictors.variability.features import FEATURES
from predictors.variability.selection.compare import Plan, answer, compare
from predictors.variability.selection.scores import f1_of, scores
from predictors.variability.selection.select import train
from predictors.variability.splits import random_folds
from schedsim.policies.rush import COUNTER_WINDOW, LONGEST_ASK, CountOn

EXPERIMENT: Final = "ADAA"  # which of Table II the rows are of
TIMED: Final = "timed"  # a use of probes: as live, but they take their time and load the network
CHOSEN: Final = "chosen"  # the model that the selection takes
FOLDS: Final = 4

RowProbes = Literal["live", "last-known", "absent", "timed"]
Judge = Literal["model", "random", "oracle"]


@dataclass(frozen=True)
class AskSettings:
    """What an ask costs, and how patient the gate is.

    >>> AskSettings(ask_seconds=5).probe_seconds
    20
    """

    ask_seconds: int = 2  # how long the classifier takes to answer, in the rows where asking costs [s]
    # how long the probes take, where they cost [s]. They send what `predictors.probes` sends by default.
    probe_seconds: int = 20
    counter_lag: int = 60  # counters are known so long after they were sampled, in the rows where asking costs [s]
    # skip thresholds of all rows; in those with patience as time they count windows
    thresholds: tuple[int, ...] = (10, 100)
    window: int = COUNTER_WINDOW  # one skip a window of so long, in the rows with patience as time [s]

    def __post_init__(self) -> None:
        for name in ("ask_seconds", "probe_seconds", "counter_lag"):
            value, least = getattr(self, name), 0 if name == "counter_lag" else 1
            if not least <= value <= LONGEST_ASK:
                raise JobcastError(f"rush: {name} must be from {least} to {LONGEST_ASK} s; got {value}.")
        if not self.thresholds or min(self.thresholds) < 1 or len(set(self.thresholds)) < len(self.thresholds):
            raise JobcastError(
                f"rush: skip thresholds must be different whole numbers, 1 or more; got {self.thresholds}."
            )
        if self.window < 60 or self.window % 60:
            raise JobcastError(f"rush: a window of counters must be a multiple of 60 s; got {self.window}.")

    @property
    def probing(self) -> float:
        """What each node sends while the probes run [bytes/s]: the ring's messages once, the all-reduce's twice."""
        sizes = Settings()
        sent = sizes.ring_iterations * sizes.ring_bytes + 2 * sizes.allreduce_iterations * sizes.allreduce_bytes
        return sent / self.probe_seconds


@dataclass(frozen=True)
class Row:
    """A way to delay jobs."""

    name: str  # as tables have it; the policy is called so with its threshold
    threshold: int  # how often a job may be skipped
    # who says which job is delayed; random delays deal out the skips of the row `like`
    judge: Judge = "model"
    model: str = MODEL  # a classifier's name, or `CHOSEN`
    probes: RowProbes = "live"  # what is known of the probes
    # what an ask costs, and how old the counters are [s]
    ask_seconds: int = 0
    lag: int = 0
    probing: float = 0.0  # what nodes send meanwhile [bytes/s]
    # both as of `schedsim.policies.rush.Rush`
    count_on: CountOn = "release"
    window: int = COUNTER_WINDOW
    like: str = ""  # the policy with the skips that are dealt out

    @property
    def policy(self) -> str:
        """Its name among the policies of a trial."""
        return f"{self.name} [{self.threshold}]"

    @property
    def use(self) -> ProbeUse:
        """What its model has learnt from."""
        return "live" if self.probes == TIMED else self.probes

    @property
    def options(self) -> dict[str, Any]:
        names = ("threshold", "count_on", "window", "ask_seconds")
        return {name: getattr(self, name) for name in names}


FREE: Final = "probes at each ask, free"
ABSENT: Final = "no probes"
RANDOM_LIKE: Final = "random delays, as many as: "


def rows_of(settings: AskSettings) -> dict[str, Row]:
    """Return all rows by their policy, those that give skips before those that deal them out."""
    cost: dict[str, Any] = {"ask_seconds": settings.ask_seconds, "lag": settings.counter_lag}
    timed: dict[str, Any] = {"probes": TIMED, "ask_seconds": settings.probe_seconds, "probing": settings.probing}
    by_time: dict[str, Any] = {"count_on": "window", "window": settings.window}
    kinds: dict[str, dict[str, Any]] = {
        FREE: {}, "probes that take their time and load": timed, "last-known probes": {"probes": "last-known"},
        ABSENT: {"probes": "absent"}, "no probes, asks take time, counters lag": {"probes": "absent", **cost},
        "probes free, one skip a window": by_time,
    }  # fmt: skip
    kinds |= {
        f"chosen model, {FREE}": {"model": CHOSEN},
        "chosen model, probes that take their time and load": {"model": CHOSEN, **timed},
        f"chosen model, {ABSENT}": {"model": CHOSEN, "probes": "absent"},
        "chosen model, no probes, asks take time, counters lag": {"model": CHOSEN, "probes": "absent", **cost},
        "chosen model, no probes, one skip a window": {"model": CHOSEN, "probes": "absent", **by_time},
    }
    rows = [Row(name, most, **more) for name, more in kinds.items() for most in settings.thresholds]
    dealt = [one for one in rows if one.name in (FREE, f"chosen model, {FREE}", f"chosen model, {ABSENT}")]
    rows += [Row(RANDOM_LIKE + one.name, one.threshold, "random", like=one.policy) for one in dealt]
    rows += [Row("oracle of the present", most, "oracle") for most in settings.thresholds]
    return {row.policy: row for row in rows}


# --- models -----------------------------------------------------------------------------------------------------------


def selection_of(dataset: Dataset, seed: int, quick: bool) -> tuple[str, float, float]:
    """Return the model that the project's selection takes, its operating threshold, and F1 there.

    The model is the one with the highest mean F1 with one application left out, as `jobcast variability select` takes
    it, on 1,200 of the control jobs. The threshold is the one with the highest F1 on probabilities of runs that were
    left out by chance, a fourth at a time. Both see control jobs alone.
    """
    plan = Plan(seed=seed).quick() if quick else Plan(seed=seed, most_runs=MOST_RUNS)
    model = compare([dataset], plan).best().model
    return model, *threshold_of(dataset, model, seed)


MOST_RUNS: Final = 1200


def threshold_of(dataset: Dataset, model: str, seed: int) -> tuple[float, float]:
    """Return the probability from which on variation is said with the highest F1 on control jobs, and that F1."""
    truth, probability = [], []
    for fold in random_folds(dataset.runs, FOLDS, seed):
        _, found, _ = answer(seeded(model, seed), (dataset.rows, FEATURES), fold)
        truth.append(fold.classes[fold.test] == 1)
        probability.append(found)
    varies, p = np.concatenate(truth), np.nan_to_num(np.concatenate(probability))
    if not varies.any():
        raise JobcastError("No control job varies: a threshold cannot be chosen; take more days of control jobs.")
    steps = np.unique(p[p > 0])
    said = p[None, :] >= steps[:, None]
    right = (said & varies).sum(axis=1)
    f1 = f1_of(right, said.sum(axis=1) - right, varies.sum() - right)
    best = int(np.argmax(np.nan_to_num(f1)))
    return float(steps[best]), float(f1[best])


@dataclass(frozen=True, eq=False)
class Models:
    """The models of the rows."""

    fitted: Mapping[tuple[str, str], Classifier]  # by `Row.model` and `Row.use`
    table: pd.DataFrame  # what was chosen, and how well each foresees control jobs


def models_of(control: Control, scope: str, seed: int, quick: bool) -> Models:
    """Train the models of all rows on the control jobs: AdaBoost on three classes, the chosen ones on two."""
    fitted: dict[tuple[str, str], Classifier] = {}
    rows: list[dict[str, object]] = []
    for use in PROBE_USES:
        dataset = control.datasets[scope].with_probes(use)  # type: ignore[arg-type]
        fitted[MODEL, use] = learn(dataset, MODEL, seed)
        rows.append({"probes": use, "chosen": "as the paper's best", "model": MODEL, "says variation":
                     "where it is most probable", "f1": f1_on(dataset, MODEL, seed)})  # fmt: skip
        if use == "last-known":
            continue
        model, threshold, f1 = selection_of(dataset, seed, quick)
        chosen, _ = train(dataset, model, Plan(models=(model,), seed=seed), scheme="binary")
        chosen.threshold = threshold
        fitted[CHOSEN, use] = chosen
        rows.append({"probes": use, "chosen": "by the selection", "model": model, "says variation":
                     f"from a probability of {threshold:.3f} on", "f1": f1})  # fmt: skip
    return Models(fitted, pd.DataFrame(rows).round(3))


def f1_on(dataset: Dataset, model: str, seed: int) -> float:
    """Return F1 of two classes on control jobs, a fourth left out at a time; the trials may learn three."""
    varies, said = [], []
    for fold in random_folds(dataset.runs, FOLDS, seed):
        predicted, _, _ = answer(seeded(model, seed), (dataset.rows, FEATURES), fold)
        varies.append(fold.classes[fold.test] == 1)
        said.append(predicted)
    return scores(np.concatenate(varies), np.concatenate(said)).f1


# --- the table --------------------------------------------------------------------------------------------------------


def beside_easy(trials: pd.DataFrame, rows: Mapping[str, Row]) -> pd.DataFrame:
    """Return one line a row: runs that vary, how many fewer than under FCFS+EASY and than under equal random delays.

    Equal random delays are those with this row's own skips, where they were run. Means with 95 % intervals over seeds,
    widened because seeds are few.
    """
    own = trials[trials["experiment"] == EXPERIMENT].set_index(["policy", "seed"])
    random = {row.like: row.policy for row in rows.values() if row.judge == "random"}
    lines = []
    for policy, row in rows.items():
        if policy not in own.index.get_level_values(0):
            continue
        found = own.loc[policy]
        line = {"row": row.name, "threshold": row.threshold, "trials": len(found)}
        line |= {"varying": with_wide_interval(found["varying"].to_numpy(dtype=np.float64))}
        line |= {"fewer_varying": with_wide_interval(found["fewer_varying"].to_numpy(dtype=np.float64))}
        dealt = random.get(policy)
        beyond = None if dealt is None else (own.loc[dealt]["varying"] - found["varying"]).to_numpy(dtype=np.float64)
        line["fewer_than_random"] = "" if beyond is None else with_wide_interval(beyond)
        line |= {
            name: with_wide_interval(found[name].to_numpy(dtype=np.float64))
            for name in ("makespan_saved_s", "longest_shortened_pct")
        }
        line |= {name: round(float(found[name].mean()), 1) for name in ("calls", "skips", "met")}
        lines.append(line)
    return pd.DataFrame(lines)


def differences(trials: pd.DataFrame, rows: Mapping[str, Row]) -> pd.DataFrame:
    """Return how many fewer runs vary in a row than in another, paired by seed, with the exact p of sign flips.

    Each row is set against FCFS+EASY and against equal random delays; with more skips than the first threshold against
    the same row with that one; and with probes that are free against the same row without probes.
    """
    own = trials[trials["experiment"] == EXPERIMENT].set_index(["policy", "seed"])["varying"]
    random = {row.like: row.policy for row in rows.values() if row.judge == "random"}
    first = {row.name: policy for policy, row in reversed(list(rows.items()))}
    lines = []
    for policy, row in rows.items():
        absent = f"{row.name.replace(FREE, ABSENT)} [{row.threshold}]"
        against = {"FCFS+EASY": EASY, "equal random delays": random.get(policy, "")}
        against |= {} if first[row.name] == policy else {f"{rows[first[row.name]].threshold} skips": first[row.name]}
        against |= {"no probes": absent} if row.judge == "model" and FREE in row.name else {}
        for name, other in against.items():
            if {policy, other} <= set(own.index.get_level_values(0)):
                fewer = (own.loc[other] - own.loc[policy]).to_numpy(dtype=np.float64)
                about = {"row": row.name, "threshold": row.threshold, "against": name}
                lines.append(about | {"fewer_varying": with_wide_interval(fewer), "p": round(sign_flip_p(fewer), 3)})
    return pd.DataFrame(lines, columns=["row", "threshold", "against", "fewer_varying", "p"])
