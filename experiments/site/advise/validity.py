"""Whether simulations can judge at all: invented requests, a twin far from the log, ways that do not differ.

Each check returns what the log lacks. `predictors.data.summary` decides what can be decided before anything is run.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from experiments.compare.measures import AS_LOGGED, MEASURES
from experiments.compare.result import MEASURE, PRICES, TOLERATED
from experiments.compare.sentences import listed
from experiments.site.advise.sentences import in_words
from predictors.core.errors import counted, percent
from predictors.data.cleaning import overran
from predictors.data.joblog import JobLog
from predictors.data.summary import LEAST_WAITS, Lack
from schedsim.results.metrics import figures_as_logged

if TYPE_CHECKING:
    import pandas as pd

MOST_CUT: Final = TOLERATED - 1
"""Share of the jobs, or of their work, that invented requests may cut: the change that a verdict tolerates itself."""
MOST_MADE: Final = 0.5  # share of requested times that may be made where the log names no user
TWIN: Final = "median_bounded_slowdown"
"""What the twin and the log are compared by: the slowdown of the typical job.

Means and longest waits hang on a few jobs, and on priorities and outages that no twin has. On seven public logs of the
right machine size (KTH-SP2, SDSC-SP2, HPC2N, Theta, Mira, CM5, Curie) the twin's and the log's medians are at most 3.1
times apart, and the means of the slowdown 7 times."""
FARTHEST: Final = 10.0  # how many times one may be the other: thrice what right machines give; guessed ones gave 29


def lacks_of_made_requests(
    log: JobLog,  # as read, before requested times were made
    used: JobLog,  # its jobs that are simulated
    kill: bool = True,  # whether jobs are stopped at their requested time
) -> tuple[Lack, ...]:
    """Return what a log lacks since its requested times are made: they stop jobs, or nothing is known of the jobs."""
    asked = log.known("requested_time") & (log.values["requested_time"] > 0)
    made = np.isin(used.values["job_id"], log.values["job_id"][~asked])
    run_time, request = used.values["run_time"], used.values["requested_time"]
    found = []
    cut = made & overran(used)
    if kill and cut.any():
        work = used.procs * run_time.astype(np.float64)
        lost = float((used.procs * (run_time - request).astype(np.float64))[cut].sum() / work.sum())
        much = max(lost, float(cut.mean())) > MOST_CUT
        text = (
            f"the invented requested time stops {counted(int(cut.sum()), 'job')}, which ran longer, and removes "
            f"{percent(lost, 1)} of the work."
        )
        hours = -(-int(run_time[made].max()) // 3600)
        remedy = f"Let jobs run on, --no-kill, or make no request too short: --requests-from {hours}:00:00."
        found.append(Lack("made-limit", text, remedy, much))
    constant = made.any() and len(np.unique(request[made])) == 1
    if constant and made.mean() > MOST_MADE and not used.known("user").any():
        text = (
            f"the log names no user, and {percent(float(made.mean()))} of the requested times are made, the same for "
            "each job, so that predictions have nothing to go by."
        )
        remedy = "Export the requested times, or the users, or keyed hashes of them."
        found.append(Lack("nothing-known", text, remedy, True))
    return tuple(found)


def lacks_of_twin(runs: "pd.DataFrame", current: str, log: JobLog) -> tuple[Lack, ...]:
    """Return that the simulated waits of today's way, in `runs`, are far from those that the log records."""
    own = figures_as_logged(log)
    if own is None or log.known("wait").mean() < LEAST_WAITS:
        return ()  # a log without waits carries no verdict as it is
    row = runs[(runs["case"] == current) & (runs["seed"] == AS_LOGGED)].iloc[0]
    twin, logged = float(row[TWIN]), float(own[TWIN])
    if max(twin, logged) <= FARTHEST * min(twin, logged):
        return ()
    text = (
        f"the simulation of {current} is far from the site: its {MEASURES[TWIN].title} is {in_words(TWIN, twin)}, that "
        f"of the log's own waits {in_words(TWIN, logged)}; a twin may be {FARTHEST:g} times apart."
    )
    remedy = (
        "Name what the site runs (--current), the machine's true size (--procs, --machine) or one partition of it "
        "(--partition)."
    )
    return (Lack("far-twin", text, remedy, True),)


def lacks_of_ways(runs: "pd.DataFrame", cases: Sequence[str]) -> tuple[Lack, ...]:
    """Return that ways which differ by what they know of run times gave the same schedules, if they all did."""
    columns = [MEASURE["simulate"], *PRICES["simulate"]]
    table = runs[runs["case"].isin(cases)].sort_values("seed", kind="stable")
    figures = [part[columns].to_numpy(dtype=np.float64) for _, part in table.groupby("case")]
    if len(figures) < 2 or not all(np.array_equal(figures[0], one, equal_nan=True) for one in figures[1:]):
        return ()
    ran = [case for case in cases if case in set(table["case"])]
    text = f"{listed(ran)} give the same schedules: on this log no estimate changes which job starts when."
    remedy = (
        "Take a log with longer queues. If all requested times are alike, or users are missing, export them (users "
        "also as keyed hashes)."
    )
    return (Lack("same-schedules", text, remedy, True),)
