"""The paper's claims, each with a verdict, and whether anything was learnt that random picks lack.

Ratios are paired: of each seed both methods met the same shaken months. Intervals are of 95 %, over the seeds. A claim
holds where the whole interval does; it does not where none of it does; else it is open, as it is with fewer than five
seeds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import pandas as pd

from experiments.compare.compare import compare
from experiments.compare.result import LEAST, LEVEL, Ratio
from experiments.compare.sentences import in_percent
from experiments.papers.dras.cases import (
    BINPACKING,
    CAPACITY,
    CONTROLS,
    CQSIM,
    DECIMA,
    DQL,
    FCFS,
    FROZEN,
    FULL_RETURNS,
    KEPT,
    OLDEST,
    OPTIMIZATION,
    ORACLE,
    PAPER,
    PG,
    RANDOM,
    TRUE_TIMES,
)
from experiments.papers.dras.figures import kiviat
from experiments.papers.dras.job_sets import ORDERS
from experiments.papers.dras.runs import TEST, TRAIN, VALIDATION
from predictors.core.arrays import Floats
from predictors.core.intervals import drawn_means, expanded

Holds = Literal["holds", "does not hold", "open"]

LONGEST: Final = 1.6
"""Longest wait beside FCFS's in the paper: 20 days beside 13."""
LESS: Final = 0.55
"""Mean wait beside FCFS's in the paper: 45 % less."""
TWICE: Final = 2.0
"""Optimization's longest wait beside DRAS's."""


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and what came out."""

    text: str
    found: Holds
    evidence: str

    @property
    def sentence(self) -> str:
        """It as a sentence of the report."""
        return f"{self.found.capitalize()}: {self.text} {self.evidence}"


def ratio(runs: pd.DataFrame, case: str, beside: str, measure: str, part: str = TEST) -> Ratio | None:
    """Return the paired ratio of two methods' figures, None where one of them was not run."""
    rows = runs[runs["part"] == part]
    if not {case, beside} <= set(rows["case"]):
        return None
    return compare(rows, case, beside, measure).ratio


def difference(runs: pd.DataFrame, case: str, beside: str, column: str, part: str = TEST) -> Ratio | None:
    """Return the paired difference of a figure that is no ratio, such as a reward, with its interval."""
    table = runs[runs["part"] == part].pivot(index="seed", columns="case", values=column)
    if not {case, beside} <= set(table.columns):
        return None
    values: Floats = (table[case] - table[beside]).dropna().to_numpy(float)
    if not len(values):
        return None
    low, high = expanded(drawn_means(values), len(values), LEVEL)
    return Ratio(float(values.mean()), low, high)


def seeds_of(runs: pd.DataFrame, *cases: str) -> int:
    """Return how many seeds all these methods have."""
    return min((int((runs[runs["part"] == TEST]["case"] == case).sum()) for case in cases), default=0)


def judged(found: Ratio | None, limit: float, below: bool, seeds: int) -> Holds:
    """Return whether a ratio surely is below (above) a limit.

    Examples
    --------
    >>> judged(Ratio(0.5, 0.4, 0.6), 0.7, True, 10), judged(Ratio(0.5, 0.4, 0.6), 0.7, True, 3)
    ('holds', 'open')
    """
    if found is None or seeds < LEAST or np.isnan(found.low):
        return "open"
    if (found.high <= limit) if below else (found.low >= limit):
        return "holds"
    return "does not hold" if (found.low > limit if below else found.high < limit) else "open"


def learnt(runs: pd.DataFrame) -> tuple[bool, str]:
    """Return whether an agent surely learnt what random picks in its frame lack, and the sentence that says it.

    It must earn more reward a start than they, and have less mean wait or less bounded slowdown.
    """
    parts, any_learnt, seeds = list[str](), False, 0
    for case in (PG, DQL):
        reward = difference(runs, case, KEPT, "capability_reward")
        wait, slow = (ratio(runs, case, KEPT, name) for name in ("mean_wait_s", "mean_bounded_slowdown"))
        if reward is None or wait is None or slow is None:
            continue
        seeds = seeds_of(runs, case, KEPT)
        sure = seeds >= LEAST and reward.low > 0 and (wait.high < 1 or slow.high < 1)
        any_learnt |= sure
        parts.append(
            f"{case} beside random picks in the same frame: reward a start {reward.value:+.3f} "
            f"[{reward.low:+.3f}, {reward.high:+.3f}], mean wait {in_percent(wait)}, bounded slowdown "
            f"{in_percent(slow)}"
        )
    if not parts:
        return False, "No agent was trained."
    if any_learnt:
        start = "It learnt what random picks in the same frame lack"
    elif seeds < LEAST:
        start = f"{seeds} seeds are too few to tell whether it learnt anything that random lacks"
    else:
        start = "It learnt nothing that random lacks"
    return any_learnt, f"{start}. {'; '.join(parts)}."


def claims(runs: pd.DataFrame, curve: pd.DataFrame) -> Iterator[Claim]:
    """Yield the paper's claims with verdicts."""
    agents = [case for case in (PG, DQL) if case in set(runs["case"])]
    for case in agents:
        yield _longest(runs, case)
    for case in agents:
        yield _mean_wait(runs, case)
    for case in agents:
        yield _optimization(runs, case)
    yield _worst(runs)
    for case in agents:
        yield _modes(runs, case)
    if len(agents):
        yield _best(runs)
        yield from _orders(runs)
        yield from _adaptation(runs, agents)
        yield from _rewards(runs, curve, agents)


def _told(found: Ratio | None) -> str:
    return "not run" if found is None else in_percent(found)


def _longest(runs: pd.DataFrame, case: str) -> Claim:
    found = ratio(runs, case, FCFS, "max_wait_s")
    frames = "; ".join(
        f"{name} {_told(ratio(runs, name, FCFS, 'max_wait_s'))}" for name in (KEPT, OLDEST) if name in set(runs["case"])
    )
    return Claim(
        f"{case}'s longest wait is at most {LONGEST} times FCFS's.",
        judged(found, LONGEST, True, seeds_of(runs, case)),
        f"Here {_told(found)} beside FCFS's. Without learning: {frames}: the rule for the reservation decides it.",
    )


def _mean_wait(runs: pd.DataFrame, case: str) -> Claim:
    found = ratio(runs, case, FCFS, "mean_wait_s")
    others = "; ".join(f"{name} {_told(ratio(runs, name, FCFS, 'mean_wait_s'))}" for name in (RANDOM, KEPT, OLDEST))
    return Claim(
        f"{case} has up to 45 % less mean wait than FCFS.",
        judged(found, LESS, True, seeds_of(runs, case)),
        f"Here {_told(found)} beside FCFS. Without learning: {others}.",
    )


def _optimization(runs: pd.DataFrame, case: str) -> Claim:
    found = ratio(runs, OPTIMIZATION, case, "max_wait_s")
    return Claim(
        f"Optimization's longest wait is twice that of {case}.",
        judged(found, TWICE, False, seeds_of(runs, case)),
        f"Here {_told(found)} beside it.",
    )


def _worst(runs: pd.DataFrame) -> Claim:
    found = {name: ratio(runs, name, FCFS, "mean_wait_s") for name in (BINPACKING, RANDOM)}
    seeds = seeds_of(runs, RANDOM)
    verdicts = {judged(one, 1.0, False, seeds) for one in found.values()}
    longest = {name: ratio(runs, name, FCFS, "max_wait_s") for name in found}
    held: Holds = "holds" if verdicts == {"holds"} else "does not hold" if "does not hold" in verdicts else "open"
    return Claim(
        "BinPacking and Random are worst, users' measures included.",
        held,
        "; ".join(
            f"{name}: mean wait {_told(found[name])}, longest wait {_told(longest[name])} beside FCFS" for name in found
        )
        + ".",
    )


def _modes(runs: pd.DataFrame, case: str) -> Claim:
    test = runs[runs["part"] == TEST]
    shares, verdicts = list[str](), list[bool]()
    for name, estimates in ((case, "requested times"), (case + CQSIM, "cqsim estimates")):
        mine = test[test["case"] == name]
        if len(mine):
            jobs, hours = float(mine["backfilled_jobs"].mean()), float(mine["reserved_hours"].mean())
            verdicts.append(jobs > 0.5 and hours > 0.5)
            shares.append(f"by {estimates} {jobs:.0%} of jobs are backfilled, {hours:.0%} of node hours reserved")
    held: Holds = "holds" if all(verdicts) else "does not hold" if not any(verdicts) else "open"
    return Claim(
        f"{case} backfills most jobs (84 %), and most node hours are of reserved jobs (55 %).",
        held if seeds_of(runs, case) >= LEAST else "open",
        f"Here {'; '.join(shares)}.",
    )


def _best(runs: pd.DataFrame) -> Claim:
    table = kiviat(runs, PAPER)
    ranked = table.sort_values("area", ascending=False)
    first = str(ranked["method"].iloc[0])
    held: Holds = "holds" if first in (PG, DQL) else "does not hold"
    told = ", ".join(f"{row.method} {row.area:.2f}" for row in ranked.itertuples())
    return Claim(
        "DRAS is best overall: the largest area of the Kiviat graph.",
        held if seeds_of(runs, first) >= LEAST else "open",
        f"Areas: {told}.",
    )


def _orders(runs: pd.DataFrame) -> Iterator[Claim]:
    for order in list(ORDERS)[1:]:
        other = f"{PG}, {order}"
        found = ratio(runs, PG, other, "mean_wait_s")
        reward = difference(runs, PG, other, "capability_reward")
        if found is not None and reward is not None:
            yield Claim(
                f"Training in the order sampled, real, synthetic is better than {order}.",
                judged(found, 1.0, True, seeds_of(runs, PG, other)),
                f"Mean wait {in_percent(found)} beside it; reward a start {reward.value:+.4f} "
                f"[{reward.low:+.4f}, {reward.high:+.4f}].",
            )


def _adaptation(runs: pd.DataFrame, agents: Sequence[str]) -> Iterator[Claim]:
    for case in agents:
        found = ratio(runs, case, case + FROZEN, "mean_wait_s")
        slow = ratio(runs, case, case + FROZEN, "mean_bounded_slowdown")
        if found is not None:
            yield Claim(
                f"{case} adapts: going on to learn during the test lowers its mean wait.",
                judged(found, 1.0, True, seeds_of(runs, case, case + FROZEN)),
                f"Mean wait {in_percent(found)}, bounded slowdown {_told(slow)} beside the frozen copy.",
            )


def _rewards(runs: pd.DataFrame, curve: pd.DataFrame, agents: Sequence[str]) -> Iterator[Claim]:
    rows = runs[(runs["part"] == VALIDATION) & runs["case"].isin([*PAPER, KEPT, OLDEST])]
    means = rows.groupby("case")[["capability_reward", "mean_wait_s"]].mean()
    rank = float(np.corrcoef(means.rank().to_numpy(dtype=np.float64).T)[0, 1])
    for case in agents:
        mine = curve[curve["case"] == case] if len(curve) else curve
        if not len(mine):
            continue
        ordered = mine.sort_values("episode").groupby("seed")[["reward_a_start", "mean_wait_s"]]
        begin, end = (one.to_numpy(dtype=np.float64) for one in (ordered.first(), ordered.last()))
        gained, waited = (end - begin)[:, 0], np.log(end[:, 1] / begin[:, 1])
        low, high = expanded(drawn_means(gained), len(gained), LEVEL)
        yield Claim(
            f"{case} learns: its reward on the validation month rises in training (Figure 5).",
            judged(Ratio(float(gained.mean()), low, high), 0.0, False, len(gained)),
            f"Reward a start {gained.mean():+.4f} [{low:+.4f}, {high:+.4f}] from untrained to trained, mean wait "
            f"{100 * np.expm1(waited.mean()):+.0f} %. Among the methods the reward's rank correlation with mean wait "
            f"is {rank:+.2f} (above 0: who earns more lets jobs wait longer).",
        )


def controls(runs: pd.DataFrame) -> pd.DataFrame:
    """Return agents and controls beside random picks in the same frame, on the months to test."""
    rows = []
    expected = {
        **dict.fromkeys((PG, PG + FROZEN, DQL, DQL + FROZEN), "better"),
        **dict.fromkeys(CONTROLS, "not better"),
        FULL_RETURNS: "",
        CAPACITY: "",
        TRUE_TIMES: "better",
        ORACLE: "better",
    }
    for name in expected:
        wait, slow = (ratio(runs, name, KEPT, column) for column in ("mean_wait_s", "mean_bounded_slowdown"))
        reward = difference(runs, name, KEPT, "capability_reward")
        if wait is None or slow is None or reward is None:
            continue
        better = reward.low > 0 and min(wait.high, slow.high) < 1
        few = seeds_of(runs, name) < LEAST
        rows.append(
            {
                "agent": name,
                "seeds": seeds_of(runs, name),
                "mean_wait": in_percent(wait),
                "bounded_slowdown": in_percent(slow),
                "reward_a_start": f"{reward.value:+.4f} [{reward.low:+.4f}, {reward.high:+.4f}]",
                "surely_better": ("too few seeds" if few else "yes" if better else "no"),
                "expected": expected[name],
            }
        )
    return pd.DataFrame(rows)


def train_and_test(runs: pd.DataFrame) -> pd.DataFrame:
    """Return how much better than random picks agents are on the months they learnt from, and on those to test.

    The gap is what a test on the training months would flatter them by.
    """
    rows = []
    agents = (PG, PG + FROZEN, DQL, DQL + FROZEN, DECIMA)
    for name in agents:
        on = {part: ratio(runs, name, KEPT, "mean_wait_s", part) for part in (TRAIN, TEST)}
        if on[TRAIN] is not None and on[TEST] is not None:
            gap = on[TEST].value / on[TRAIN].value
            rows.append(
                {
                    "agent": name,
                    "mean_wait_on_training_months": in_percent(on[TRAIN]),
                    "mean_wait_on_test_months": in_percent(on[TEST]),
                    "test_/_train": round(gap, 3),
                }
            )
    return pd.DataFrame(rows)
