"""Two stories of Cobalt's score: high initial scores that undo a drain, and short large jobs that saw at the machine.

Both run on a closed machine of Mira's size, after Allcock et al. (JSSPP 2017, doi:10.1007/978-3-319-77398-8_1),
sections 4.3.5 and 4.3.4. A stream of small jobs keeps the machine busy; the large ones need it drained.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from predictors.core.arrays import Ints
from schedsim.engine.simulation import simulate
from schedsim.machine.partitions import MIRA_NODES
from schedsim.policies.policy import make_policy
from schedsim.results.schedule import BACKFILLED, Schedule
from schedsim.results.timelines import in_use
from schedsim.sites.cobalt.accounts import Accounts, Project
from schedsim.sites.cobalt.rules import Rules
from schedsim.sites.cobalt.score import Score
from schedsim.workload.dependencies import Dependencies
from schedsim.workload.workload import Workload

HOUR: Final = 3600
SMALL: Final = 2048
LARGE_AT: Final = 12 * HOUR
FAVOURED_AT: Final = (15 * HOUR, 26 * HOUR)
DEBUG_AT: Final = 48 * HOUR
HORIZON: Final = 108 * HOUR
BACKLOG: Final = 432


@dataclass(frozen=True, eq=False)
class Story:
    """What came of it."""

    schedule: Schedule
    large: Ints  # rows of the large jobs
    # the stretch of time that is shown [s]
    begin: int
    end: int
    overtakings: int  # jobs submitted after a large job that started before it, not as a backfill: they delayed it
    drains: int  # large jobs started in the stretch: each needs the machine drained
    lost_node_hours: float  # idle node-hours of the stretch

    @property
    def large_started(self) -> int:
        """When the first large job started [s]."""
        return int(self.schedule.start[self.large[0]])


def _story(schedule: Schedule, large: Ints, begin: int, end: int) -> Story:
    seconds, used = in_use(schedule.start, schedule.end, schedule.workload.procs)
    edges = np.clip(np.append(seconds, max(end, int(seconds[-1]))), begin, end)
    idle = float(((MIRA_NODES - used) * np.diff(edges)).sum()) / HOUR
    started = schedule.start[large]
    row = int(large[0])
    later = np.arange(len(schedule.start)) > row
    ahead = later & (schedule.start < started[0]) & (schedule.started_by != BACKFILLED)
    drains = int(((started >= begin) & (started < end)).sum())
    return Story(schedule, large, begin, end, int(ahead.sum()), drains, idle)


def _stream(until: int, every: int, procs: int = SMALL, backlog: int = 0) -> list[tuple[int, int, int]]:
    """Return jobs of 3 to 5 hours, (submit, nodes, run time), so many of them waiting from the beginning."""
    submits = [0] * backlog + list(range(0, until, every))
    return [(submit, procs, 3 * HOUR + 300 * (7 * i % 25)) for i, submit in enumerate(submits)]


def _workload(jobs: list[tuple[int, int, int]]) -> tuple[Workload, Ints]:
    order = np.argsort([submit for submit, _, _ in jobs], kind="stable")
    submit, procs, run_time = np.array(jobs, dtype=np.int64)[order].T
    ids = np.arange(1, len(jobs) + 1)
    columns = {"submit": submit, "procs": procs, "requested": run_time, "run_time": run_time}
    rows = np.empty(len(jobs), dtype=np.int64)
    rows[order] = np.arange(len(jobs))
    return Workload.from_columns(ids, machine_procs=MIRA_NODES, **columns), rows


def drain(initial_score: float, until: int = 40 * HOUR) -> Story:
    """Let a full-machine job wait for its drain, at most `until`, while favoured small jobs keep coming."""
    jobs = _stream(until, 630)
    jobs += [(LARGE_AT, MIRA_NODES, 6 * HOUR), *((when, 512, 12 * HOUR) for when in FAVOURED_AT)]
    workload, rows = _workload(jobs)
    favoured = {int(workload.job_id[row]): 0 for row in rows[-len(FAVOURED_AT) :]}
    projects = (Project("favoured", "incite", 1e9, start_score=initial_score),)
    schedule = simulate(workload, make_policy("cobalt"), rules=Rules(accounts=Accounts(projects, favoured)))
    large = rows[-len(FAVOURED_AT) - 1 : -len(FAVOURED_AT)]
    return _story(schedule, large, LARGE_AT, until)


def sawtooth(score: Score, n_runs: int = 60) -> Story:
    """Let a user debug at scale: a job of 10 minutes on two thirds of the machine, and 5 minutes after it the next.

    Three days of the others' work is waiting, as on Mira.

    The runs are a chain with a think time; later links inherit nothing.
    """
    jobs = _stream(HORIZON, 600, backlog=BACKLOG) + [(DEBUG_AT, 32_768, 600)] * n_runs
    workload, rows = _workload(jobs)
    runs = rows[-n_runs:]
    ids = workload.job_id[runs]
    chain = Dependencies(ids[1:], ids[:-1], np.full(n_runs - 1, 300))
    alone = Score(score.tick, score.floor, score.ceiling, heirs_share=0.0)
    schedule = simulate(workload, make_policy("cobalt"), rules=Rules(score=alone, dependencies=chain))
    return _story(schedule, runs, DEBUG_AT, HORIZON)
