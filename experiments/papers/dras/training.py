"""Agents trained on job sets, and what they make of the months to test: DRAS-PG, DRAS-DQL, Decima-PG, and controls."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from time import process_time
from typing import Any, Final

import numpy as np
import pandas as pd

from experiments.papers.dras import cases
from experiments.papers.dras.job_sets import ORDERS, Counts, job_sets
from experiments.papers.dras.runs import CURVE, RUN, TEST, VALIDATION, Work, evaluated, months, row_of
from experiments.papers.dras.tables import dense_of
from experiments.runs.checkpoints import digest_of_values
from experiments.runs.simulate import estimates_by_name
from experiments.site.tune.search import Frame, Objective, Search, check_cma, found_by, policy_of
from predictors.core.errors import JobcastError
from predictors.data.joblog import JobLog
from schedsim.agents.learning import DrasSettings, Run, Training, run, train, untrained
from schedsim.engine.simulation import simulate
from schedsim.policies.networks import Dras
from schedsim.results.schedule import Schedule
from schedsim.workload.estimates import clairvoyant
from schedsim.workload.workload import Workload

PERMUTED: Final = "permuted features"
REWARD: Final = "reward_a_start"
WAIT: Final = "mean_wait_s"


@dataclass(frozen=True)
class Arm:
    """An agent to train."""

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)  # fields of `DrasSettings` apart from the machine's
    estimates: str = "requested"  # what it sees and what is planned by: `requested`, `clairvoyant` or `cqsim`
    # whether it goes on learning during the test; a frozen copy of the paper's has a name of its own
    updating: bool = False
    control: bool = True  # whether it is a control: fewer seeds
    choice: str = REWARD  # by which figure of the validation month the state to test is chosen
    trains: bool = True  # whether it is trained at all
    copied: bool = False  # whether its job sets are the weeks that it is tested on


_NORMALISED: Final = {"baseline": "update", "discount": 0.0, "rate": 1e-4}
ARMS: Final = (  # agents, the paper's three first
    Arm(cases.PG, updating=True, control=False),
    Arm(cases.DQL, {"kind": "dql"}, updating=True, control=False),
    Arm(cases.DECIMA, {"kind": "decima"}, control=False),
    Arm(cases.BY_INSTANT, {"earner": "instant"}, updating=True, control=False),
    Arm(cases.PUBLIC, {"baseline": "update", "discount": 0.6}, updating=True, control=False),
    Arm(cases.NORMALISED, _NORMALISED, updating=True, control=False),
    Arm(cases.SHORT, {**_NORMALISED, "reward": "short"}, updating=True, control=False, choice=WAIT),
    Arm("untrained", trains=False),
    Arm("shuffled rewards", {"reward": "shuffled"}),
    Arm("zero reward", {"reward": "zero"}),
    Arm(PERMUTED, {"inputs": "permuted"}),
    Arm("raw inputs", {"inputs": "raw"}),
    Arm(cases.FULL_RETURNS, {"returns": "full"}),
    Arm(cases.CAPACITY, {"reward": "cori"}),
    Arm(cases.TRUE_TIMES, estimates="clairvoyant"),
    Arm(cases.PG + cases.COPIED, copied=True),
    Arm(cases.PG + cases.CQSIM, estimates="cqsim"),
    Arm(cases.DQL + cases.CQSIM, {"kind": "dql"}, estimates="cqsim"),
)


@dataclass(frozen=True)
class Task:
    """An agent to train by a seed, in an order of the job sets."""

    arm: str
    seed: int
    order: str


def tasks_of(work: Work) -> list[Task]:
    """Return every training of a plan: the paper's agents by all seeds, controls by some, orders of DRAS-PG."""
    first, plan = work.first_seed, work.plan
    seeds = range(first, first + plan.seeds)
    orders = list(ORDERS)[: plan.orders]
    tasks = [Task(arm.name, seed, orders[0]) for arm in ARMS if not arm.control for seed in seeds]
    tasks += [Task(cases.PG, seed, order) for order in orders[1:] for seed in seeds]
    tasks += [Task(arm.name, seed, orders[0]) for arm in ARMS if arm.control for seed in seeds[: plan.control_seeds]]
    return [task for task in tasks if not plan.agents or task.arm in plan.agents]


def trained_runs(work: Work, task: Task) -> pd.DataFrame:
    """Train an agent, choose by the validation month which of its states is tested, and return all of its runs."""
    arm = next(one for one in ARMS if one.name == task.arm)
    settings = settings_of(work, arm)
    begin = process_time()
    training = _training(work, arm, settings, task)
    seconds = process_time() - begin
    first = task.order == next(iter(ORDERS))
    name = task.arm if first else f"{task.arm}, {task.order}"
    curve = _curve(work, arm, settings, training, task.seed)
    updates = sum(episode.updates for episode in training.curve) if training is not None else 0
    about = {"train_seconds": seconds, "updates": updates, "order": task.order}
    found = [curve.assign(table=CURVE, log=work.parts.test.name, case=name, seed=task.seed)]
    tests = [(name, arm.choice, arm.updating)]
    if first and name in (cases.PG, cases.DQL):
        tests.append((name + cases.FROZEN, arm.choice, False))
    if name == cases.PG:
        tests.append((cases.BY_WAIT, WAIT, arm.updating))
    for case, choice, learning in tests:
        agent = training.agents[_best_of(curve, choice)] if training is not None else untrained(settings, task.seed)
        go = _going(agent, settings, arm.estimates, task.seed, learning)
        only = TEST if arm.control or case in cases.VARIANTS else None
        found.append(evaluated(work, case, task.seed, go, about, only))
    return pd.concat([table for table in found if len(table)], ignore_index=True)


def settings_of(work: Work, arm: Arm) -> DrasSettings:
    nodes = int(work.parts.train.max_procs or work.plan.nodes)
    settings = DrasSettings("pg", nodes, window=cases.WINDOW, dense=dense_of(nodes))
    return replace(settings, **arm.changes)


def _training(work: Work, arm: Arm, settings: DrasSettings, task: Task) -> Training | None:
    if not arm.trains:
        return None
    sets = _copied_sets(work, task.seed) if arm.copied else _own_sets(work, task)
    every = max(1, work.plan.counts.total // work.plan.snapshots)
    kept = None if work.checkpoints is None else work.checkpoints / digest_of_values(repr(task))[:24]
    return train(sets, settings, task.seed, _estimates(arm.estimates), every, checkpoint=kept)


def _own_sets(work: Work, task: Task) -> list[Workload]:
    return [jobs for _, jobs in job_sets(work.parts.train, work.plan.counts, task.order, task.seed)]


def _copied_sets(work: Work, seed: int) -> list[Workload]:
    """Return as many job sets, which are weeks of the months to test, shaken as they are tested."""
    test = next(log for part, log, _ in months(work, seed) if part == TEST)
    weeks = Counts(sampled=0, real=work.plan.counts.total, synthetic=0)
    return [jobs for _, jobs in job_sets(test, weeks, next(iter(ORDERS)), seed)]


def _estimates(name: str) -> Callable[[Workload], Any] | None:
    """Return what makes estimates of a workload; None stands for requested times."""
    if name == "requested":
        return None
    return clairvoyant if name == "clairvoyant" else lambda jobs: cases.planned_by(name, _NO_LOG, jobs)


_NO_LOG: Final = JobLog.from_columns({"job_id": [], "submit": []}, {})


def _going(
    agent: Dras, settings: DrasSettings, estimates: str, seed: int, learning: bool
) -> Callable[[JobLog, Workload], Schedule]:
    def go(log: JobLog, jobs: Workload) -> Schedule:
        return _ran(agent, settings, estimates, seed, learning, jobs).schedule

    return go


def _ran(agent: Dras, settings: DrasSettings, estimates: str, seed: int, learning: bool, jobs: Workload) -> Run:
    return run(jobs, agent, settings, seed, learning=learning, estimates=_estimates(estimates))


def _curve(work: Work, arm: Arm, settings: DrasSettings, training: Training | None, seed: int) -> pd.DataFrame:
    """Return how each state of an agent that was kept does on the validation month, and what it earned in training."""
    if training is None:
        return pd.DataFrame({"episode": [0]})
    jobs = Workload.from_log(next(log for part, log, _ in months(work, seed) if part == VALIDATION))
    rows = []
    for after, agent in zip(training.kept_after, training.agents, strict=True):
        tried = _ran(agent, settings, arm.estimates, seed, False, jobs)
        done = row_of(tried.schedule)
        rewards = training.rewards[max(0, after - 1) : after]
        rows.append(
            {
                "episode": after, "reward_a_start": done["capability_reward"], "mean_wait_s": done["mean_wait_s"],
                "max_wait_s": done["max_wait_s"], "total_reward": done["capability_reward"] * done["n_jobs"],
                "reward_in_training": float(np.mean(rewards)) if len(rewards) else float("nan"),
                "entropy": tried.entropy,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def _best_of(curve: pd.DataFrame, choice: str) -> int:
    """Return the place of the trained state that is best on the validation month, the first of equal ones."""
    values = curve[choice].to_numpy()[1:]
    return 1 + int(np.argmin(values) if choice == WAIT else np.argmax(values))


def training_of(runs: pd.DataFrame) -> pd.DataFrame:
    """Return how long each training took, one row an agent, seed and order."""
    if "train_seconds" not in runs:
        return pd.DataFrame(columns=["case", "seed", "train_seconds", "updates"])
    rows = runs[(runs["table"] == RUN) & runs["train_seconds"].notna()]
    return rows.drop_duplicates(["case", "seed"])[["case", "seed", "train_seconds", "updates"]].reset_index(drop=True)


GENERATIONS: Final = 30  # of the search, twelve agents each


def tunable() -> bool:
    """Return whether the package is there that searches."""
    try:
        check_cma()
    except JobcastError:
        return False
    return True


def linear_tasks(work: Work) -> list[tuple[str, int]]:
    """Return the agents to tune, each by every seed; none without the package that searches."""
    seeds = range(work.first_seed, work.first_seed + work.plan.seeds)
    names = [name for name in cases.LINEARS if not work.plan.agents or name in work.plan.agents]
    return [(name, seed) for name in names for seed in seeds] if tunable() else []


def linear_runs(work: Work, task: tuple[str, int]) -> pd.DataFrame:
    """Tune a linear agent by a seed, on the training months or on the very jobs to test, and return its runs."""
    name, seed = task
    copied, estimates = name.endswith(cases.COPIED), "clairvoyant" if name == cases.LINEAR_TRUE else "requested"
    log = next(log for part, log, _ in months(work, seed) if part == TEST) if copied else work.parts.train
    search = Search(Frame(Objective(), cases.WINDOW, estimates, seed), "kept", GENERATIONS)
    begin = process_time()
    policy = policy_of(np.array(found_by(log, search)), "kept", cases.WINDOW)
    about = {"train_seconds": process_time() - begin, "updates": GENERATIONS}

    def go(log: JobLog, jobs: Workload) -> Schedule:
        return simulate(jobs, policy, estimates_by_name(estimates, log, jobs))

    return evaluated(work, name, seed, go, about, only=None if name == cases.LINEAR else TEST)
