"""Soft limits on a small cluster: what the simulator says beforehand, for the same workloads that a real Slurm can run.

Two hundred jobs on four nodes of eight processors, submitted by eight users in sessions of like jobs. Limits are asked
several times too long, as people round. The rules for soft limits are `last-two`, `cesnet`, an estimate within a budget
and the true run time, all held as by Slurm from 25.05.4 on.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from experiments.compare.compare import compare
from experiments.compare.measures import AS_LOGGED
from experiments.reports.figures import Axes, Picture, paint_ratios
from experiments.reports.report import Report
from experiments.runs.setting import Setting
from experiments.sweeps.run import run_sweep
from experiments.sweeps.sweep import Case, Sweep, first_seeds
from predictors.data.joblog import JobLog

if TYPE_CHECKING:
    from experiments.sweeps.results import Results

QUESTION: Final = "What does the simulator expect of soft limits on a small cluster, by mean wait and by width?"
WORKLOADS: Final = 4
SEEDS: Final = 10
QUICK_SEEDS: Final = 5
BUDGET: Final = 0.1
REQUEST: Final = "request"


def _soft(name: str, estimates: str, budget: float | None = None) -> Case:
    return Case(name, "easy", estimates, "slurm", budget=budget, soft_limits="slurm")


CASES: Final = (  # the limits as asked, and the rules for soft ones
    Case(REQUEST, "easy"),
    _soft("last-two", "last-two"),
    _soft("cesnet", "cesnet"),
    _soft(f"similar within {BUDGET:g}", "similar", BUDGET),
    _soft("perfect", "clairvoyant"),
)
NARROW: Final = ("1", "2", "3-4")
WIDE: Final = ("9-16", "17-32")  # classes of width that count as narrow, and as wide


@dataclass(frozen=True)
class Cluster:
    """The parameters of a workload."""

    # how many
    jobs: int = 200
    users: int = 8
    procs: int = 32
    load: float = 1.1  # offered load: work submitted by what the machine can do until the last submission
    # median of the sessions' typical run times [s], and the standard deviation of their logarithms
    median_s: float = 1500.0
    spread: float = 1.0
    within: float = 0.25  # the same of the run times within a session
    longest_session: int = 8  # jobs of a session, drawn evenly from 1 on
    # users ask for so many times the typical run time, drawn evenly, at least for 1.1 times the longest run
    least_factor: float = 1.5
    most_factor: float = 10.0

    def workload(self, seed: int) -> JobLog:
        """Return a log of such jobs; equal seeds, equal logs.

        >>> log = Cluster().workload(1)
        >>> len(log), int(log.procs.max()) <= 32, bool((log["run_time"] <= log["requested_time"]).all())
        (200, True, True)
        """
        random = np.random.default_rng(seed)
        rows: list[tuple[float, int, int, int, int]] = []
        while len(rows) < self.jobs:
            count = min(int(random.integers(1, self.longest_session + 1)), self.jobs - len(rows))
            user, width = int(random.integers(self.users)), int(random.choice(WIDTHS, p=SHARES))
            typical = float(np.clip(random.lognormal(np.log(self.median_s), self.spread), 240, 4 * 3600))
            runs = np.maximum(60, np.rint(typical * random.lognormal(0.0, self.within, count))).astype(int)
            factor = random.uniform(self.least_factor, self.most_factor)
            asked = asked_for(max(typical * factor, 1.1 * float(runs.max())))
            times = random.random() + np.cumsum(random.exponential(0.03, count))
            rows += [(at, user, width, int(run), asked) for at, run in zip(times.tolist(), runs.tolist(), strict=True)]
        at, users, widths, lengths, limits = (np.array(column) for column in zip(*sorted(rows), strict=True))
        span = float((widths * lengths).sum()) / (self.procs * self.load)
        submit = np.rint((at - at[0]) / max(float(at[-1] - at[0]), 1e-9) * span).astype(np.int64)
        columns: dict[str, Any] = {
            "job_id": np.arange(1, self.jobs + 1), "submit": submit, "run_time": lengths,
            "requested_time": limits, "requested_procs": widths, "user": users,
        }  # fmt: skip
        columns = {name: values.astype(np.int64) for name, values in columns.items()}
        return JobLog.from_columns(columns, {}, max_procs=self.procs, name=f"workload {seed}")


WIDTHS: Final = (1, 2, 4, 8, 16, 32)
SHARES: Final = (0.30, 0.22, 0.20, 0.16, 0.09, 0.03)  # how many sessions of each width there are
POPULAR: Final = (900, 1800, 3600, 7200, 14_400, 28_800, 43_200, 86_400)  # what people ask for [s]


def asked_for(seconds: float) -> int:
    """Return the least popular time that is enough, or a day.

    >>> asked_for(901), asked_for(10**6)
    (1800, 86400)
    """
    return next((one for one in POPULAR if one >= seconds), POPULAR[-1])


def run(setting: Setting) -> Report:
    """Simulate every workload under every rule, as it is and shaken, and compare."""
    logs = [Cluster().workload(setting.seed + number) for number in range(1, WORKLOADS + 1)]
    seeds = first_seeds(QUICK_SEEDS if setting.quick else SEEDS)
    sweep = Sweep(cases=CASES, seeds=seeds, by=("size",), beside=REQUEST)
    found = run_sweep(sweep, logs, pool=setting.pool, folder=setting.checkpoints and setting.checkpoints / "sweep")
    each, whole = _each(found), _whole(found)
    return Report(
        log=f"{WORKLOADS} workloads of {Cluster().jobs} jobs",
        seeds=seeds,
        tables={"over all workloads": whole, "each workload": each},
        data={"workloads": each},
        pictures=(Picture("changes", whole, paint_changes, 7.5, 3.8),),
        notes=_notes(len(seeds)),
        verdict=tuple(_verdict(whole)),
        facts={"workloads": WORKLOADS, "jobs of each": Cluster().jobs, "processors": Cluster().procs,
               "first seed": setting.seed + 1},
    )  # fmt: skip


def _waits(found: "Results") -> pd.DataFrame:
    """Return the runs with the mean waits of narrow and of wide jobs, in the columns of figures that are compared."""
    groups = found.groups
    runs = found.runs.set_index(["log", "case", "seed"])
    for name, classes in (("narrow_s", NARROW), ("wide_s", WIDE)):
        part = groups[groups["group"].isin(classes)]
        waits = (part["mean_wait_s"] * part["n_jobs"]).groupby([part["log"], part["case"], part["seed"]]).sum()
        runs[name] = waits / part["n_jobs"].groupby([part["log"], part["case"], part["seed"]]).sum()
    return runs.reset_index()


def _each(found: "Results") -> pd.DataFrame:
    """Return means over the shakes, a row a workload and rule; the change is that of the mean wait."""
    runs = _waits(found)
    shaken = runs[runs["seed"] != AS_LOGGED]
    columns = ["mean_wait_s", "narrow_s", "wide_s", "max_wait_s", "area_weighted_mean_wait_s", "mean_bounded_slowdown"]
    table = shaken.groupby(["log", "case"], sort=False)[[*columns, "soft_too_short"]].mean().reset_index()
    today = table[table["case"] == REQUEST].set_index("log")["mean_wait_s"]
    change = 100 * (table["mean_wait_s"].to_numpy() / today.loc[table["log"]].to_numpy() - 1)
    table.insert(3, "change_pct", change)
    return table.rename(columns={"log": "workload", "case": "rule", "soft_too_short": "too short"})


def _whole(found: "Results") -> pd.DataFrame:
    """Return for each rule the ratio to the limits as asked, over the workloads, with its interval."""
    runs = _waits(found)
    figures = {
        "mean wait": "mean_wait_s", "narrow": "narrow_s", "wide": "wide_s",
        "by area": "area_weighted_mean_wait_s", "longest": "max_wait_s",
    }  # fmt: skip
    rows = []
    for case in CASES[1:]:
        for title, column in figures.items():
            used = runs[["log", "case", "seed"]].assign(mean_wait_s=runs[column])
            ratio = compare(used, case.name, REQUEST, "mean_wait_s").ratio
            rows.append({"rule": case.name, "figure": title, "ratio": ratio.value, "low": ratio.low,
                         "high": ratio.high})  # fmt: skip
    return pd.DataFrame(rows)


def _verdict(whole: pd.DataFrame) -> list[str]:
    lines = []
    for case in CASES[1:]:
        rows = whole[(whole["rule"] == case.name) & whole["figure"].isin(("mean wait", "wide", "by area"))]
        told = [
            f"{row['figure']} {100 * (row['ratio'] - 1):+.0f} % [{100 * (row['low'] - 1):+.0f}, "
            f"{100 * (row['high'] - 1):+.0f}]"
            for row in rows.to_dict(orient="records")
        ]
        lines.append(f"{case.name}: {', '.join(told)}.")
    return lines


def _notes(n_seeds: int) -> tuple[str, ...]:
    return (
        f"Workloads: {Cluster()!r}.",
        f"Each of {WORKLOADS} workloads was simulated as it is and in {n_seeds} shaken copies (submissions moved by up "
        "to 60 s, run times by up to 3 %). Ratios are geometric means over workloads and copies; intervals (95 %) "
        "resample both.",
        "The same workloads run on a real Slurm by tests/bench/bench_closed_loop.py.",
        "Wide: 16 processors and more; narrow: at most 4. Each workload has few wide jobs.",
    )


def paint_changes(axes: Axes, table: pd.DataFrame) -> None:
    """Ratio of each figure to the limits as asked, by rule."""
    paint_ratios(axes, table, "rule", "figure")
    axes.set(title="Waits relative to the limits as asked", xlabel="ratio of mean waits: below 1 is better")
    axes.legend(fontsize=9, loc="upper center", bbox_to_anchor=(0.45, -0.16), ncols=5)
