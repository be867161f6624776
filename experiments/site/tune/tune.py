"""Tuning of an agent on the first part of a log, the reservation rule chosen within that part.

The training part is cut once more: on its first two thirds a short search is made under each reservation rule, and the
rule is taken that gives the agent with the smallest objective on both pieces, each counting half, over shaken copies.
Then the agent is searched on the whole training part under that rule. The rest of the log is never read.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Final

import numpy as np

from experiments.console import progress
from experiments.reports.provenance import versions
from experiments.runs.clusters import Pool
from experiments.runs.policies import NamedPolicy
from experiments.runs.pool import HERE, each
from experiments.runs.simulate import check_names
from experiments.site.tune.search import BASE, FIVE, Contest, Frame, Objective, Search, check_cma, found_by, policy_of
from predictors.core.arrays import Floats
from predictors.core.errors import JobcastError, counted, unknown_name
from predictors.core.validation import check_whole
from predictors.data.joblog import JobLog
from predictors.data.summary import date_of
from schedsim.agents.files import NamedAgent
from schedsim.kernels.agents.picks import FEATURES
from schedsim.policies.agents import RESERVES, Linear, Reserve
from schedsim.policies.pooled import Pooled
from schedsim.workload.shaking import shaken

Finder = Callable[[JobLog, Search, Callable[[int], None]], tuple[float, ...] | Pooled]
"""Searches an agent on a log: the weights of a linear one, or a network."""
ESTIMATES: Final = ("requested", "clairvoyant", "cqsim")  # estimates that a network may be trained by
GENERATIONS: Final = 60
MOST_GENERATIONS: Final = 10_000
LEAST_JOBS: Final = 300  # of each part: below it a mean of the widest 5 % is one of fewer than 15 jobs
MONTH: Final = 30 * 86_400
_CHOOSING: Final = 2 / 3  # share of the training part on which the rules are tried; both pieces judge them
_SHORT: Final = 3  # the search under a rule that is tried is so many times shorter
_COPIES: Final = 5  # shaken copies by which a rule, and the figures of the training part, are judged
_MONTHS: Final = re.compile(r"([1-9]\d{0,3})mo")


@dataclass(frozen=True, eq=False)
class Split:
    """A log cut by submission: what is tuned on, and what is tested on.

    >>> from predictors.data.synthetic.generate import generate_log
    >>> split = Split(generate_log(1000, seed=1), "0.6")
    >>> len(split.first), len(split.rest)
    (600, 400)
    """

    log: JobLog  # cleaned by `predictors.data.cleaning.clean`
    train: str = "0.5"  # share of the jobs, `0.5`, or months from the first submission, `6mo`, a month being 30 days

    def __post_init__(self) -> None:
        self.cut  # noqa: B018 - what cannot be is refused at once

    @property
    def cut(self) -> int:
        n_jobs = len(self.log)
        months = _MONTHS.fullmatch(self.train)
        if months is not None:
            cut = int(np.searchsorted(self.log.values["submit"], int(months[1]) * MONTH))
        else:
            try:
                share = float(self.train)
            except ValueError:
                share = np.nan
            if not 0 < share < 1:
                raise JobcastError(f"--train is a share of the jobs, 0.5, or months, 6mo; got {self.train!r}.")
            cut = round(share * n_jobs)
        if min(cut, n_jobs - cut) < LEAST_JOBS:
            raise JobcastError(
                f"{self.log.name}: cannot be split at {self.train}: {counted(cut, 'job')} would be tuned on and "
                f"{n_jobs - cut:,} tested on; each part needs {LEAST_JOBS} or more. Give a longer log, or another "
                "--train."
            )
        return cut

    @property
    def first(self) -> JobLog:
        return self.log.select(slice(0, self.cut))

    @property
    def rest(self) -> JobLog:
        """The jobs to test on, which start on an idle machine."""
        return self.log.select(slice(self.cut, None))


@dataclass(frozen=True, eq=False)
class Tuning:
    """What is to be tuned on a split log."""

    split: Split
    objective: Objective = Objective()  # noqa: RUF009 - frozen
    reserves: tuple[Reserve, ...] = tuple(RESERVES)  # the reservation rules to choose from
    # as of `jobcast simulate --estimates`: what the policy plans by, and the features are made of
    estimates: str = "requested"
    generations: int = GENERATIONS  # of the search, twelve agents each
    seed: int = 0  # of all draws
    window: int = 50  # jobs at the front of the queue that the agent sees
    # the search: `experiments.site.tune.search.found_by` for linear agents, or for networks
    # `experiments.site.tune.reinforce.trained_on`, which may have no generations: then they are untrained
    find: Finder = found_by

    def __post_init__(self) -> None:
        if self.is_linear:
            check_cma()
        elif self.estimates not in ESTIMATES:
            raise JobcastError(
                f"A network is trained by estimates known beforehand: {', '.join(ESTIMATES)}; got {self.estimates!r}. "
                "Tune a linear agent, or leave --estimates out."
            )
        if not self.reserves or len(set(self.reserves)) < len(self.reserves):
            raise JobcastError(f"Name reservation rules, each once: {', '.join(RESERVES)}; got {self.reserves!r}.")
        for reserve in self.reserves:
            if reserve not in RESERVES:
                raise unknown_name("reservation rule", str(reserve), RESERVES)
        check_whole(self.generations, "the number of generations", int(self.is_linear), MOST_GENERATIONS)
        check_whole(self.seed, "the seed", 0, 2**32 - 1)
        check_names(NamedPolicy.of(BASE), self.estimates)
        policy_of(np.zeros(len(FEATURES)), self.reserves[0], self.window)  # refuses a window out of range

    @property
    def is_linear(self) -> bool:
        """Whether linear agents are searched, by CMA-ES."""
        return self.find is found_by

    @property
    def frame(self) -> Frame:
        return Frame(self.objective, self.window, self.estimates, self.seed)

    def run(self, pool: Pool = HERE) -> "Tuned":
        """Choose the rule, search the agent, and return it; the same for any number of workers."""
        train = self.split.first
        short = max(1, self.generations // _SHORT)
        several = len(self.reserves) > 1
        total = self.generations + several * short * len(self.reserves)
        with progress("Tuning", total) as advance:
            choices: dict[Reserve, float] = {}
            if several:
                trials = [Search(self.frame, reserve, short) for reserve in self.reserves]
                function = partial(tried, find=self.find)
                choices = dict(zip(self.reserves, _each(pool, function, train, trials, advance), strict=True))
            reserve = min(choices, key=lambda one: choices[one]) if several else self.reserves[0]
            found = self.find(train, Search(self.frame, reserve, self.generations), advance)
        contests = [Contest(shaken(train, seed), self.frame) for seed in range(1, _COPIES + 1)]
        policy = policy_of(found, reserve, self.window)
        ratios = np.exp(np.mean([contest.ratios(policy) for contest in contests], axis=0))
        kind = Linear(found) if isinstance(found, tuple) else found
        agent = NamedAgent(kind, reserve, self.window, BASE, self.estimates, self._origin(train, ratios))
        return Tuned(agent, choices, dict(zip(FIVE, ratios.tolist(), strict=True)))

    def _origin(self, train: JobLog, ratios: Floats) -> dict[str, str | int | float | None]:
        log, last = self.split.log, int(self.split.log.values["submit"][self.split.cut - 1])
        return {
            "log": log.name,
            "log_sha256": log.digest(),
            "train": self.split.train,
            "train_sha256": train.digest(),
            "train_jobs": len(train),
            "train_from": date_of(log, 0),
            "train_until": date_of(log, last),
            "train_seconds": last,
            "machine_procs": int(log.max_procs or 0),
            "objective": self.objective.name,
            "tolerance": self.objective.tolerance,
            "rules_tried": ", ".join(self.reserves),
            "generations": self.generations,
            "seed": self.seed,
            "jobcast": versions()["jobcast"],
            **({"cma": version("cma")} if self.is_linear else {"gymnasium": version("gymnasium")}),
            **{f"train_{name}_ratio": round(float(value), 4) for name, value in zip(FIVE, ratios, strict=True)},
        }


@dataclass(frozen=True, eq=False)
class Tuned:
    """What tuning found."""

    agent: NamedAgent  # the agent in its frame, and where it comes from
    # the objective of each reservation rule that was tried, within the training part; empty where one rule was given
    choices: Mapping[Reserve, float]
    # the five figures on the training part relative to EASY's: geometric means over shaken copies
    train: Mapping[str, float]


def tried(
    train: JobLog, search: Search, advance: Callable[[int], None] = lambda done: None, find: Finder = found_by
) -> float:
    """Search on the first two thirds of the training part; return the objective there and on its last third, averaged.

    Shaken copies of both pieces are taken. The last third alone would be too few jobs for longest waits, the first two
    alone would not show what lasts. The mean of the objective is taken, not the objective of the mean: a rule must hold
    its limits on each copy.
    """
    cut = round(_CHOOSING * len(train))
    first, last = train.select(slice(0, cut)), train.select(slice(cut, None))
    policy = policy_of(find(first, search, advance), search.reserve, search.frame.window)
    found = [
        search.frame.objective.of(Contest(shaken(piece, seed), search.frame).ratios(policy))
        for piece in (first, last)
        for seed in range(1, _COPIES + 1)
    ]
    return float(np.mean(found))


def _each(
    pool: Pool, function: Callable[..., float], train: JobLog, trials: Sequence[Search], advance: Callable[[int], None]
) -> list[float]:
    """Return `function(train, trial)` of each trial, done by the workers; in this process generation by generation."""
    if pool.alone:
        return [function(train, trial, advance) for trial in trials]
    found: dict[int, float] = {}
    for number, value in each(function, {"train": train}, [("train", trial) for trial in trials], pool):
        found[number] = value
        advance(trials[number].generations)
    return [found[number] for number in range(len(trials))]
