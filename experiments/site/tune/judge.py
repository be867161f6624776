"""Test of a tuned agent on jobs that it was not tuned on, against EASY, chance in the same frame, and careful."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from experiments.compare.compare import compare
from experiments.compare.measures import MEASURES
from experiments.compare.result import LEAST, LEVEL, Comparison, of_each
from experiments.compare.sentences import listed, of
from experiments.runs.clusters import Pool
from experiments.runs.pool import HERE
from experiments.site.tune.search import FIVE, ONE_SIDED, Objective
from experiments.site.tune.tune import Tuned
from experiments.sweeps.plan import plan
from experiments.sweeps.results import Results
from experiments.sweeps.run import run_plan
from experiments.sweeps.sweep import MOST_SEEDS, Case, Sweep, first_seeds
from predictors.core.errors import JobcastError
from predictors.data.joblog import JobLog
from schedsim.agents.files import PREFIX, NamedAgent, write_agent
from schedsim.policies.agents import RandomPicks

AGENT: Final = "agent"
EASY: Final = "EASY"
CHANCE: Final = "random in the same frame"
SEEDS: Final = 10  # shaken copies of the test part
CONTROL: Final = "random.npz"  # the agent file of chance in the same frame, in the report's folder


@dataclass(frozen=True, eq=False)
class Judged:
    """What a test showed."""

    found: Results
    # each case compared with EASY, by the deciding figure; the other four are its prices
    beside_easy: Mapping[str, Comparison]
    agent_beside: Mapping[str, Comparison]  # the agent compared with each other case

    def ratio(self, case: str, measure: str) -> tuple[float, float, float]:
        """Return a figure of a case relative to EASY's, and the ends of its interval."""
        one = self.beside_easy[case]
        ratios = {one.measure: one.ratio} | {price.measure: price.ratio for price in one.prices}
        return ratios[measure].value, ratios[measure].low, ratios[measure].high


def decides(objective: Objective) -> str:
    """Return the figure that decides the verdict: what the objective is about."""
    return "mean_wait_s" if objective.name == "wait" else "mean_bounded_slowdown"


def judge(
    tuned: Tuned, rest: JobLog, file: Path, objective: Objective, folder: Path, seeds: int = SEEDS, pool: Pool = HERE
) -> Judged:
    """Run the agent and the other ways on shaken copies of the test part, and compare.

    The agent's file is written already. The report's folder keeps runs as they are done. There are 5 or more copies.
    """
    check_seeds(seeds)
    agent = tuned.agent
    control = NamedAgent(RandomPicks(), agent.reserve, agent.window, agent.base, agent.estimates)
    write_agent(control, folder / CONTROL)
    cases = [
        Case(EASY, "easy"),
        Case(AGENT, f"{PREFIX}{file}", agent.estimates),
        Case(CHANCE, f"{PREFIX}{folder / CONTROL}", agent.estimates),
        Case("EASY-SJBF", "easy-sjbf"),
        Case("careful", "careful", "careful"),
    ]
    if agent.estimates not in ("requested", "careful"):
        cases.insert(4, Case("EASY-SJBF by the agent's estimates", "easy-sjbf", agent.estimates))
    planned = plan(Sweep(cases=tuple(cases), seeds=first_seeds(seeds), beside=EASY), [rest])
    found = run_plan(planned, pool, folder / f"runs-{planned.identity()[:12]}")
    measure, others = decides(objective), [case.name for case in cases if case.name != AGENT]
    level = of_each(LEVEL, len(others))
    return Judged(
        found,
        {case.name: compare(found.runs, case.name, EASY, measure) for case in cases if case.name != EASY},
        {name: compare(found.runs, AGENT, name, measure, level=level) for name in others},
    )


def check_seeds(seeds: int) -> None:
    """Raise JobcastError unless that many shaken copies can decide anything."""
    if seeds < LEAST:
        raise JobcastError(f"Of {seeds} shaken copies of the test part nothing can be said; take --seeds {LEAST}.")
    if seeds > MOST_SEEDS:
        raise JobcastError(f"--seeds are at most {MOST_SEEDS:,} shaken copies of the test part; got {seeds:,}.")


def verdict(judged: Judged, tuned: Tuned, objective: Objective) -> list[str]:
    """Return the results, a sentence each: compared with EASY, with the others, and what to warn of."""
    sentences = [of(judged.agent_beside[EASY])]
    warned = overfit(judged, tuned, objective)
    sentences += [warned] if warned else []
    sentences += [of(one) for name, one in judged.agent_beside.items() if name != EASY]
    if objective.name in ONE_SIDED:
        sentences.append(
            f"The objective {objective.name} does not see who pays; --objective constrained keeps p99, the longest "
            "wait and the widest jobs' wait near EASY's."
        )
    return sentences


def overfit(judged: Judged, tuned: Tuned, objective: Objective) -> str | None:
    """Return a warning where the test part keeps less than half of the objective's gain; else None."""
    test = {name: judged.ratio(AGENT, name)[0] for name in FIVE}
    training, later = (np.log([figures[name] for name in FIVE]) for figures in (tuned.train, test))

    def changed(names: Iterable[str]) -> str:
        return listed(
            [
                f"{MEASURES[name].title} {tuned.train[name]:,.2f} in training, {test[name]:,.2f} in the test"
                for name in names
            ]
        )

    gained, kept, broken = objective.gain(training), objective.gain(later), objective.broken(later)
    if gained < 0 and kept <= gained / 2:
        return (
            (
                f"The gain lasts, but a limit does not hold. Times EASY's: {changed(FIVE[:2])}; beyond the limit of "
                f"{1 + objective.tolerance:,.2f}: {changed(broken)}."
            )
            if broken
            else None
        )
    if gained >= 0:
        return f"Nothing gained: in training the agent is no better than EASY by the objective {objective.name}."
    worst = max(FIVE, key=lambda name: test[name] / tuned.train[name])
    return (
        f"Overfitted: the test part keeps {'nothing' if kept >= 0 else 'less than half'} of what the training part "
        f"gained by the objective {objective.name}. Times EASY's: {changed(dict.fromkeys((*FIVE[:2], worst)))}."
    )


def with_test(agent: NamedAgent, judged: Judged) -> NamedAgent:
    ratios = {f"test_{name}_ratio": round(judged.ratio(AGENT, name)[0], 4) for name in FIVE}
    return replace(agent, origin={**agent.origin, **ratios})
