"""The paper's claims, each with a verdict.

Ratios are paired: of each seed both methods met the same shaken months. Every verdict stands on an interval over the
seeds, so much wider than one of 95 % that all of them hold together (Bonferroni). A claim holds where the whole
interval does; it does not where none of it does; else it is open, as it is with fewer than five seeds.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

import numpy as np
import pandas as pd

from experiments.compare.compare import compare
from experiments.compare.result import LEAST, LEVEL, Ratio, of_each
from experiments.compare.sentences import in_percent
from experiments.papers.dras.cases import (
    BINPACKING,
    CQSIM,
    DQL,
    FCFS,
    FROZEN,
    KEPT,
    OLDEST,
    OPTIMIZATION,
    PAPER,
    PG,
    RANDOM,
)
from experiments.papers.dras.figures import kiviat
from experiments.papers.dras.job_sets import ORDERS
from experiments.papers.dras.runs import TEST, VALIDATION
from predictors.core.arrays import Floats
from predictors.core.intervals import drawn_means, expanded

Holds = Literal["holds", "does not hold", "open"]

LONGEST: Final = 1.6  # longest wait relative to FCFS's in the paper: 20 days to 13
LESS: Final = 0.55  # mean wait relative to FCFS's in the paper: 45 % less
TWICE: Final = 2.0  # Optimization's longest wait relative to DRAS's


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and what came out."""

    text: str
    found: Holds
    evidence: str

    @property
    def sentence(self) -> str:
        return f"{self.found.capitalize()}: {self.text} {self.evidence}"


def ratio(
    runs: pd.DataFrame, case: str, beside: str, measure: str, part: str = TEST, level: float = LEVEL
) -> Ratio | None:
    """Return the paired ratio of two methods' figures, None where one of them was not run."""
    rows = runs[runs["part"] == part]
    if not {case, beside} <= set(rows["case"]):
        return None
    return compare(rows, case, beside, measure, level=level).ratio


def difference(
    runs: pd.DataFrame, case: str, beside: str, column: str, part: str = TEST, level: float = LEVEL
) -> Ratio | None:
    """Return the paired difference of a figure that is no ratio, such as a reward, with its interval."""
    table = runs[runs["part"] == part].pivot(index="seed", columns="case", values=column)
    if not {case, beside} <= set(table.columns):
        return None
    values: Floats = (table[case] - table[beside]).dropna().to_numpy(float)
    if not len(values):
        return None
    return mean_of(values, level)


def mean_of(values: Floats, level: float) -> Ratio:
    """Return the mean of one value a seed, with its interval."""
    return Ratio(float(values.mean()), *expanded(drawn_means(values), len(values), level))


def told_of(found: Ratio, digits: int = 4) -> str:
    """Return a difference with its interval, which one seed does not have.

    >>> told_of(Ratio(0.1, 0.0, 0.2), 2), told_of(Ratio(-0.1, float("nan"), float("nan")), 2)
    ('+0.10 [+0.00, +0.20]', '-0.10')
    """
    if np.isnan(found.low):
        return f"{found.value:+.{digits}f}"
    return f"{found.value:+.{digits}f} [{found.low:+.{digits}f}, {found.high:+.{digits}f}]"


def seeds_of(runs: pd.DataFrame, *cases: str) -> int:
    return min((int((runs[runs["part"] == TEST]["case"] == case).sum()) for case in cases), default=0)


def judged(found: Ratio | None, limit: float, below: bool, seeds: int) -> Holds:
    """Return whether a ratio is certainly below (above) a limit.

    >>> judged(Ratio(0.5, 0.4, 0.6), 0.7, True, 10), judged(Ratio(0.5, 0.4, 0.6), 0.7, True, 3)
    ('holds', 'open')
    """
    if found is None or seeds < LEAST or np.isnan(found.low):
        return "open"
    if (found.high <= limit) if below else (found.low >= limit):
        return "holds"
    return "does not hold" if (found.low > limit if below else found.high < limit) else "open"


def claims(runs: pd.DataFrame, curve: pd.DataFrame) -> Iterator[Claim]:
    """Yield the paper's claims with verdicts that hold together: each is one test."""
    tests = _tests(runs, curve)
    level = of_each(LEVEL, len(tests))
    yield from (test(level) for test in tests)


def _tests(runs: pd.DataFrame, curve: pd.DataFrame) -> list[Callable[[float], Claim]]:
    """Return the claims that these runs can tell something of, each a function of its interval's level."""
    cases = set(runs["case"])
    agents = [case for case in (PG, DQL) if case in cases]
    tests: list[Callable[[float], Claim]] = [
        partial(claim, runs, case) for claim in (_longest, _mean_wait, _optimization) for case in agents
    ]
    tests.append(partial(_worst, runs))
    tests += [partial(claim, runs, case) for claim in (_modes, _best) for case in agents]
    tests += [partial(_order, runs, order) for order in list(ORDERS)[1:] if {PG, f"{PG}, {order}"} <= cases]
    tests += [partial(_adaptation, runs, case) for case in agents if case + FROZEN in cases]
    learning = set(curve["case"]) if len(curve) else set()
    return tests + [partial(_rewards, runs, curve, case) for case in agents if case in learning]


def _told(found: Ratio | None) -> str:
    return "not run" if found is None else in_percent(found)


def _beside_fcfs(runs: pd.DataFrame, measure: str, level: float, *cases: str) -> str:
    return "; ".join(f"{name} {_told(ratio(runs, name, FCFS, measure, level=level))}" for name in cases)


def _longest(runs: pd.DataFrame, case: str, level: float) -> Claim:
    found = ratio(runs, case, FCFS, "max_wait_s", level=level)
    return Claim(
        f"{case}'s longest wait is at most {LONGEST} times FCFS's.",
        judged(found, LONGEST, True, seeds_of(runs, case)),
        f"Here {_told(found)} relative to FCFS's. Without learning: "
        f"{_beside_fcfs(runs, 'max_wait_s', level, KEPT, OLDEST)}. Among random picks the rule for the reservation "
        "makes the difference.",
    )


def _mean_wait(runs: pd.DataFrame, case: str, level: float) -> Claim:
    found = ratio(runs, case, FCFS, "mean_wait_s", level=level)
    return Claim(
        f"{case} has up to 45 % less mean wait than FCFS.",
        judged(found, LESS, True, seeds_of(runs, case)),
        f"Here {_told(found)} relative to FCFS. Without learning: "
        f"{_beside_fcfs(runs, 'mean_wait_s', level, RANDOM, KEPT, OLDEST)}.",
    )


def _optimization(runs: pd.DataFrame, case: str, level: float) -> Claim:
    found = ratio(runs, OPTIMIZATION, case, "max_wait_s", level=level)
    return Claim(
        f"Optimization's longest wait is twice that of {case}.",
        judged(found, TWICE, False, seeds_of(runs, case)),
        f"Here {_told(found)} relative to it; "
        f"{_told(ratio(runs, OPTIMIZATION, FCFS, 'max_wait_s', level=level))} relative to "
        "FCFS's.",
    )


def _worst(runs: pd.DataFrame, level: float) -> Claim:
    """Both must have longer mean waits than FCFS: of each seed the better one of them is compared."""
    table = runs[runs["part"] == TEST].pivot(index="seed", columns="case", values="mean_wait_s")
    table = table[[BINPACKING, RANDOM, FCFS]].dropna().clip(lower=1.0)
    waits = table.to_numpy(dtype=np.float64)
    better: Floats = np.log(waits[:, :2].min(axis=1) / waits[:, 2])
    return Claim(
        "BinPacking and Random are worst, users' measures included.",
        judged(mean_of(better, level), 0.0, False, len(better)),
        "; ".join(
            f"{name}: mean wait {_told(ratio(runs, name, FCFS, 'mean_wait_s', level=level))}, longest wait "
            f"{_told(ratio(runs, name, FCFS, 'max_wait_s', level=level))} relative to FCFS"
            for name in (BINPACKING, RANDOM)
        )
        + ".",
    )


def _modes(runs: pd.DataFrame, case: str, level: float) -> Claim:
    """Both shares must be above a half: of each seed the smaller one counts, by requested times."""
    test = runs[runs["part"] == TEST]
    told = list[str]()
    for name, estimates in ((case, "requested times"), (case + CQSIM, "cqsim estimates"), (FCFS, "FCFS")):
        mine = test[test["case"] == name]
        if len(mine):
            jobs, hours = float(mine["backfilled_jobs"].mean()), float(mine["reserved_hours"].mean())
            told.append(f"{estimates}: {jobs:.0%} of jobs are backfilled, {hours:.0%} of node hours reserved")
    smaller = test[test["case"] == case][["backfilled_jobs", "reserved_hours"]].min(axis=1).to_numpy(float)
    found = mean_of(smaller, level)
    return Claim(
        f"{case} backfills most jobs (84 %), and most node hours are of reserved jobs (55 %).",
        judged(found, 0.5, False, len(smaller)),
        f"The smaller of both shares is {_share(found)}. {'; '.join(told)}.",
    )


def _share(found: Ratio) -> str:
    return f"{found.value:.1%}" + ("" if np.isnan(found.low) else f" [{found.low:.1%}, {found.high:.1%}]")


def _best(runs: pd.DataFrame, case: str, level: float) -> Claim:
    """Its area must be larger than the largest of the others', seed by seed."""
    ahead, seeds = list[float](), runs[runs["part"] == TEST]
    for _, rows in seeds.groupby("seed"):
        areas = kiviat(rows, PAPER).set_index("method")["area"]
        if case in areas.index:
            ahead.append(float(areas[case] - areas.drop([PG, DQL], errors="ignore").max()))
    found = mean_of(np.array(ahead), level)
    ranked = kiviat(runs, PAPER).sort_values("area", ascending=False)
    told = ", ".join(f"{row.method} {row.area:.2f}" for row in ranked.itertuples())
    return Claim(
        f"{case} is better overall than the methods without DRAS: the largest area of the Kiviat graph.",
        judged(found, 0.0, False, len(ahead)),
        f"Its area relative to the largest of theirs: {told_of(found, 2)}. Areas of the medians: {told}.",
    )


def _order(runs: pd.DataFrame, order: str, level: float) -> Claim:
    other = f"{PG}, {order}"
    found = ratio(runs, PG, other, "mean_wait_s", level=level)
    reward = difference(runs, PG, other, "capability_reward", level=level)
    return Claim(
        f"Training in the order sampled, real, synthetic is better than {order}.",
        judged(found, 1.0, True, seeds_of(runs, PG, other)),
        f"Mean wait {_told(found)} relative to it; reward a start {'not run' if reward is None else told_of(reward)}.",
    )


def _adaptation(runs: pd.DataFrame, case: str, level: float) -> Claim:
    found = ratio(runs, case, case + FROZEN, "mean_wait_s", level=level)
    slow = ratio(runs, case, case + FROZEN, "mean_bounded_slowdown", level=level)
    return Claim(
        f"{case} adapts: going on to learn during the test lowers its mean wait.",
        judged(found, 1.0, True, seeds_of(runs, case, case + FROZEN)),
        f"Mean wait {_told(found)}, bounded slowdown {_told(slow)} relative to the frozen copy.",
    )


def _rewards(runs: pd.DataFrame, curve: pd.DataFrame, case: str, level: float) -> Claim:
    rows = runs[(runs["part"] == VALIDATION) & runs["case"].isin([*PAPER, KEPT, OLDEST])]
    means = rows.groupby("case")[["capability_reward", "mean_wait_s"]].mean()
    rank = float(np.corrcoef(means.rank().to_numpy(dtype=np.float64).T)[0, 1])
    mine = curve[curve["case"] == case].sort_values("episode")
    by_seed = mine.groupby("seed")[["reward_a_start", "mean_wait_s"]]
    begin, end = (one.to_numpy(dtype=np.float64) for one in (by_seed.first(), by_seed.last()))
    gained, waited = mean_of((end - begin)[:, 0], level), mean_of(np.log(end[:, 1] / begin[:, 1]), level)
    wait = Ratio(*(float(np.exp(value)) for value in (waited.value, waited.low, waited.high)))
    return Claim(
        f"{case} learns: its reward on the validation month rises in training (Figure 5).",
        judged(gained, 0.0, False, len(begin)),
        f"Reward a start {told_of(gained)} from untrained to trained, mean wait {in_percent(wait)}. Over {len(means)} "
        f"methods the reward's rank correlation with mean wait is {rank:+.2f} (above 0: who earns more lets jobs wait "
        "longer).",
    )
