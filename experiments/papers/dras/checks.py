"""Checks of what agents learnt: against random picks and controls, on months seen before; how open their picks are."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd

from experiments.compare.result import LEAST, LEVEL, Ratio, of_each
from experiments.compare.sentences import in_percent
from experiments.papers.dras.cases import (
    AGAIN,
    AHEAD,
    CAPACITY,
    CONTROLS,
    COPIED,
    DECIMA,
    DQL,
    FCFS,
    FROZEN,
    FULL_RETURNS,
    KEPT,
    LINEAR,
    LINEAR_TRUE,
    ORACLE,
    PG,
    TRUE_TIMES,
    VARIANTS,
)
from experiments.papers.dras.claims import difference, mean_of, ratio, seeds_of, told_of
from experiments.papers.dras.runs import TEST, TRAIN
from experiments.site.tune.search import FIVE, Objective
from predictors.core.arrays import Floats

WAITS: Final = ("mean_wait_s", "mean_bounded_slowdown")
CERTAIN: Final = 0.01  # entropy below which an agent hardly ever tries another job


def controls(runs: pd.DataFrame) -> pd.DataFrame:
    """Compare agents and controls with random picks in the same frame, on the months to test.

    Reward and waits have separate judgements: waits are shorter (longer) where mean wait or bounded slowdown certainly
    is, and the other one is not certainly the contrary. The intervals of all rows hold together.
    """
    expected = {
        **dict.fromkeys((PG, PG + FROZEN, DQL, DQL + FROZEN), "more reward, shorter waits"),
        **dict.fromkeys(VARIANTS, ""),
        **dict.fromkeys(CONTROLS, "neither"),
        FULL_RETURNS: "",
        CAPACITY: "",
        LINEAR: "",
        TRUE_TIMES: "more reward, shorter waits",
        ORACLE: "shorter waits",
    }
    return _beside(runs, expected, KEPT)


def learnt(compared: pd.DataFrame) -> Iterator[str]:
    """Yield what agents learnt that random picks lack, of rows of `controls`: reward and waits each by itself."""
    rows = compared[compared["agent"].isin((PG, DQL, *VARIANTS))] if len(compared) else compared
    if not len(rows):
        yield "No agent was trained."
    for what, verdict, figure in (("Reward a start", "reward", "reward_a_start"), ("Waits", "waits", "mean_wait")):
        told = (f"{one['agent']} {one[verdict]} ({one[figure]})" for _, one in rows.iterrows())
        if len(rows):
            yield f"{what}, compared with random picks in the same frame: {'; '.join(told)}."


def look_ahead(runs: pd.DataFrame) -> pd.DataFrame:
    """Compare the look-ahead with random picks that are made again at each pass, as it ranks the queue again."""
    return _beside(runs, {AHEAD: "shorter waits"}, AGAIN)


def _beside(runs: pd.DataFrame, expected: Mapping[str, str], random: str) -> pd.DataFrame:
    """Compare methods with random picks in a frame, and with what is expected of them."""
    present = [name for name in expected if name in set(runs[runs["part"] == TEST]["case"])]
    level, rows = of_each(LEVEL, 3 * max(1, len(present))), []
    for name in present:
        wait, slow = (ratio(runs, name, random, column, level=level) for column in WAITS)
        reward = difference(runs, name, random, "capability_reward", level=level)
        if wait is None or slow is None or reward is None:
            continue
        few = seeds_of(runs, name) < LEAST
        rows.append({
            "agent": name, "seeds": seeds_of(runs, name), "mean_wait": in_percent(wait),
            "bounded_slowdown": in_percent(slow), "reward_a_start": told_of(reward),
            "reward": "too few seeds" if few else _sign(reward, 0.0, "less", "more"),
            "waits": "too few seeds" if few else _waits(wait, slow), "expected": expected[name],
        })  # fmt: skip
    return pd.DataFrame(rows)


def _sign(found: Ratio, middle: float, below: str, above: str) -> str:
    """Return on which side of a value an interval lies, or "open"."""
    return above if found.low > middle else below if found.high < middle else "open"


def _waits(wait: Ratio, slow: Ratio) -> str:
    """Return what two measures of waiting say together.

    >>> shorter, longer, unknown = Ratio(0.8, 0.7, 0.9), Ratio(1.2, 1.1, 1.3), Ratio(1.0, 0.9, 1.1)
    >>> _waits(shorter, unknown), _waits(unknown, longer), _waits(shorter, longer), _waits(unknown, unknown)
    ('shorter', 'longer', 'open', 'open')
    """
    said = {_sign(one, 1.0, "shorter", "longer") for one in (wait, slow)} - {"open"}
    return said.pop() if len(said) == 1 else "open"


def upper_bounds(runs: pd.DataFrame) -> pd.DataFrame:
    """Compare agents that see true run times with random picks and agents that do not: the former should wait least.

    The claim is that an agent is better than every other one. It holds only where each row says so, and needs no wider
    intervals for many rows (an intersection-union test, Berger, Technometrics 24, 1982); both of a row hold together.
    """
    bounds = (TRUE_TIMES, LINEAR_TRUE)
    others = (KEPT, "untrained", PG, PG + FROZEN, DQL, DQL + FROZEN, DECIMA, LINEAR)
    present = set(runs[runs["part"] == TEST]["case"])
    pairs = [(one, other) for one in bounds for other in others if {one, other} <= present]
    level, rows = of_each(LEVEL, 2), []
    for name, other in pairs:
        seeds = len(_common(runs, name, other)["seed"].unique())
        if not seeds:
            continue
        wait, slow = (ratio(runs, name, other, column, level=level) for column in WAITS)
        if wait is None or slow is None:
            continue
        rows.append({
            "agent": name, "beside": other, "seeds": seeds, "mean_wait": in_percent(wait),
            "bounded_slowdown": in_percent(slow), "waits": "too few seeds" if seeds < LEAST else _waits(wait, slow),
        })  # fmt: skip
    return pd.DataFrame(rows)


def train_and_test(runs: pd.DataFrame) -> pd.DataFrame:
    """Compare agents with random picks on the months they learnt from and on those to test, and return the gap.

    The gap is what a test on the training months would flatter them by: above 0 they are better on what they have seen.
    """
    rows = []
    for name in (PG, PG + FROZEN, DQL, DQL + FROZEN, DECIMA, LINEAR):
        on = {part: ratio(runs, name, KEPT, "mean_wait_s", part) for part in (TRAIN, TEST)}
        if on[TRAIN] is None or on[TEST] is None:
            continue
        both = _common(runs, name, KEPT)
        gap = mean_of(_logs_beside(both, name, TEST) - _logs_beside(both, name, TRAIN), LEVEL)
        rows.append({
            "agent": name, "mean_wait_on_training_months": in_percent(on[TRAIN]),
            "mean_wait_on_test_months": in_percent(on[TEST]),
            "gap": in_percent(Ratio(*(float(np.exp(end)) for end in (gap.value, gap.low, gap.high)))),
        })  # fmt: skip
    return pd.DataFrame(rows)


def _common(runs: pd.DataFrame, *cases: str) -> pd.DataFrame:
    test = runs[runs["part"] == TEST]
    seeds = set.intersection(*(set(test[test["case"] == case]["seed"]) for case in cases))
    return runs[runs["seed"].isin(seeds)]


def _figures(runs: pd.DataFrame, name: str, columns: Sequence[str], part: str = TEST) -> Floats:
    """Return figures of a method, one row a seed in the order of seeds."""
    mine = runs[(runs["part"] == part) & (runs["case"] == name)].sort_values("seed")
    return mine[list(columns)].to_numpy(dtype=np.float64)


def _logs_beside(runs: pd.DataFrame, name: str, part: str) -> Floats:
    """Return the logarithm of a method's mean wait relative to random picks', by seed."""
    mine, random = (_figures(runs, case, WAITS[:1], part)[:, 0] for case in (name, KEPT))
    return np.asarray(np.log(np.maximum(mine, 1.0) / np.maximum(random, 1.0)))


def _reward(runs: pd.DataFrame, name: str) -> Floats:
    return _figures(runs, name, ("capability_reward",))[:, 0]


def _objective(runs: pd.DataFrame, name: str) -> Floats:
    """Return what a linear agent is tuned for, by seed: of the logarithms of five figures relative to FCFS's."""
    mine, base = (np.log(np.maximum(_figures(runs, case, FIVE), 1.0)) for case in (name, FCFS))
    return np.array([Objective().of(row) for row in mine - base])


def copied(runs: pd.DataFrame) -> pd.DataFrame:
    """Compare agents that learnt from the very jobs of the test with those that did not: whether leakage is seen.

    Each is judged by what it learns for: the linear agent by the objective that it is tuned for, DRAS-PG by its
    reward. An agent that can use what leaks is better there.
    """
    level, rows = of_each(LEVEL, 2), []
    for name, seen, aim in ((LINEAR, LINEAR, "objective, less is better"), (PG, PG + FROZEN, "reward a start")):
        other = name + COPIED
        rows_of_all = _common(runs, other, seen, FCFS)
        if not len(rows_of_all):
            continue
        value = _objective if name == LINEAR else _reward
        found = mean_of(value(rows_of_all, other) - value(rows_of_all, seen), level)
        better = found.high < 0 if name == LINEAR else found.low > 0
        enough = seeds_of(runs, other, seen) >= LEAST
        rows.append({
            "agent": other, "beside": seen, "learns_for": aim, "difference": told_of(found),
            "leakage_is_seen": ("yes" if better else "no") if enough else "too few seeds",
        })  # fmt: skip
    return pd.DataFrame(rows)


def openness(curve: pd.DataFrame) -> pd.DataFrame:
    """Return agents' entropy on the validation month by the largest: 1 is undecided, at 0 one job is certain."""
    if "entropy" not in curve:
        return pd.DataFrame()
    known = curve[curve["entropy"].notna()].sort_values("episode")
    rows = []
    for name, mine in known.groupby("case", sort=False):
        by_seed = mine.groupby("seed")["entropy"]
        first, last = by_seed.first(), by_seed.last()
        rows.append({
            "agent": name, "untrained": round(float(first.median()), 3), "trained": round(float(last.median()), 3),
            "least": round(float(last.min()), 3), "largest": round(float(last.max()), 3),
            "seeds_below_0.01": int((last < CERTAIN).sum()), "seeds": len(last),
        })  # fmt: skip
    return pd.DataFrame(rows)
