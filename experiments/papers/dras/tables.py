"""Tables I to IV, and the figures of all methods relative to FCFS with EASY backfilling."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from experiments.compare.relative import over_seeds, with_intervals
from experiments.papers.dras.cases import BINPACKING, CQSIM, DECIMA, DQL, FCFS, KEPT, OLDEST, OPTIMIZATION, PG, RANDOM
from experiments.papers.dras.job_sets import DAY, HOUR, THETA_NODES, Parts, Span
from experiments.papers.dras.runs import TEST, VALIDATION, WARM, Plan
from predictors.data.joblog import JobLog

RATIOS: Final = {  # columns relative to FCFS, and of which figure
    "mean_wait": "mean_wait_s", "bounded_slowdown": "mean_bounded_slowdown", "p99": "p99_wait_s",
    "longest": "max_wait_s", "widest_5_%": "widest5_mean_wait_s",
}  # fmt: skip

PAPER_IV: Final = {
    FCFS: (79.25, 30.45, 9.88, 16.99, 10.87, 52.56),
    PG: (83.76, 33.67, 8.63, 11.29, 7.61, 55.04),
    DQL: (84.83, 34.17, 6.84, 10.91, 15.17, 54.92),
}
"""The paper's Table IV: backfilled, ready and reserved, each by jobs and core hours [%]. DQL's jobs sum to 106.84."""

METHODS: Final = {  # of the methods of Table I: whether they adapt and need training, and what they are after
    FCFS: ("no", "no", "fairness"), BINPACKING: ("no", "no", "utilisation"), OPTIMIZATION: ("no", "no", "reward (1)"),
    DECIMA: ("yes", "yes", "reward (1)"), PG: ("yes", "yes", "reward (1)"), DQL: ("yes", "yes", "reward (1)"),
}  # fmt: skip


def against_fcfs(runs: pd.DataFrame, part: str) -> pd.DataFrame:
    """Return the runs on some months with the ratios to FCFS on the same shaken log, one row a case and seed."""
    rows = runs[runs["part"] == part].copy()
    base = rows[rows["case"] == FCFS].set_index("seed")
    for name, column in RATIOS.items():
        with np.errstate(divide="ignore", invalid="ignore"):
            rows[name] = rows[column].to_numpy(float) / rows["seed"].map(base[column]).to_numpy(float)
    return rows.replace([np.inf, -np.inf], np.nan)


def summary(runs: pd.DataFrame, part: str = TEST) -> pd.DataFrame:
    """Return every method's ratios to FCFS: medians over the seeds, in brackets their intervals."""
    rows = against_fcfs(runs, part)
    measures = [*RATIOS, "waiting_over_7_d", "capability_reward", "utilisation"]
    middle = over_seeds(rows, ["case"], measures)
    table: dict[str, Any] = {"method": middle["case"], "seeds": middle["case"].map(rows.groupby("case").size())}
    table |= {f"{name}_/_FCFS": with_intervals(middle, name, ".2f") for name in RATIOS}
    table["jobs_waiting_over_7_d"] = [f"{value:.0f}" for value in middle["waiting_over_7_d"]]
    table["reward_(1)_a_start"] = with_intervals(middle, "capability_reward", ".3f")
    if part == TEST:
        table["utilisation_%"] = [f"{100 * value:.1f}" for value in middle["utilisation"]]
    return pd.DataFrame(table)


def table_1(runs: pd.DataFrame, training: pd.DataFrame) -> pd.DataFrame:
    """Return Table I with measured columns, not ticks: starvation as longest wait relative to FCFS, cost in time."""
    middle = over_seeds(against_fcfs(runs, TEST), ["case"], ["mean_wait", "longest"]).set_index("case")
    wait, longest = middle["mean_wait"].to_dict(), middle["longest"].to_dict()
    seconds = training.groupby("case")["train_seconds"].median() if len(training) else pd.Series(dtype=float)
    rows = []
    for name, (adapts, trained, aim) in METHODS.items():
        if name not in middle.index:
            continue
        rows.append(
            {
                "method": name, "adapts": adapts, "needs_training": trained,
                "training_cpu_s": round(float(seconds.get(name, 0.0)), 1),
                "mean_wait_/_FCFS": round(wait[name], 2),
                "longest_/_FCFS": round(longest[name], 2), "aim": aim,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def table_2(log: JobLog, parts: Parts, train: str) -> pd.DataFrame:
    """Return Table II: the log and its parts, and the load that they offer the machine before and after scaling."""
    rows = []
    shares = {"whole log": log, f"train ({train})": parts.train, f"validation ({Span(train).half.text})":
              parts.validation, "test": parts.test}  # fmt: skip
    for name, part in shares.items():
        procs, run_time, submit = part.procs, part.values["run_time"], part.values["submit"]
        span, nodes = max(1, int(submit[-1] - submit[0])), int(part.max_procs or procs.max())
        rows.append(
            {
                "part": name, "nodes": nodes, "jobs": len(part), "days": round(span / DAY, 1),
                "offered_load_%": round(100 * float((procs * run_time).sum()) / nodes / span, 1),
                "narrowest_job": int(procs.min()), "widest_job": int(procs.max()),
                "longest_request_h": round(int(part.values["requested_time"].max()) / HOUR, 1),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def network_of(kind: str, nodes: int, window: int, dense: Sequence[int]) -> dict[str, Any]:
    """Return the layers of a network, and its parameters: filter, two dense layers without bias, output with bias.

    >>> network_of("pg", 4360, 50, (4000, 1000))["parameters"]
    21890053
    >>> network_of("dql", 4360, 50, (4000, 1000))["parameters"]
    21449004
    """
    rows, out = (2 * window + nodes, window) if kind == "pg" else (2 + nodes, 1)
    first, second = dense
    count = 3 + rows * first + first * second + second * out + out
    return {"input": f"[{rows}, 2]", "filter_rows": rows, "dense_1": first, "dense_2": second, "output": out,
            "parameters": count}  # fmt: skip


def dense_of(nodes: int) -> tuple[int, int]:
    """Return the sizes of the two dense layers, in the proportion that the paper has on Theta.

    >>> dense_of(4360), dense_of(436), dense_of(44)
    ((4000, 1000), (400, 100), (40, 10))
    """
    return max(2, round(nodes * 4000 / THETA_NODES)), max(2, round(nodes * 1000 / THETA_NODES))


def table_3(nodes: int, window: int) -> pd.DataFrame:
    """Return Table III: the paper's networks, recomputed, and those trained here."""
    printed = {
        ("Theta", "pg"): 21_890_053, ("Theta", "dql"): 21_449_004, ("Cori", "pg"): 161_960_053,
        ("Cori", "dql"): 161_764_004,
    }  # fmt: skip
    machines = {
        "Theta": (THETA_NODES, (4000, 1000)),
        "Cori": (12_076, (10_000, 4000)),
        "here": (nodes, dense_of(nodes)),
    }
    return pd.DataFrame(
        {
            "machine": name, "agent": {"pg": PG, "dql": DQL}[kind], "nodes": size,
            **network_of(kind, size, window, dense), "parameters_in_the_paper": printed.get((name, kind)),
        }
        for name, (size, dense) in machines.items()
        for kind in ("pg", "dql")
    )  # fmt: skip


def table_4(runs: pd.DataFrame, cases: Sequence[str]) -> pd.DataFrame:
    """Return Table IV: how jobs started, by jobs and core hours [%], by both kinds of estimates, and the paper's."""
    rows = list[dict[str, Any]]()
    test = runs[runs["part"] == TEST]
    ways = [(way, of) for way in ("backfilled", "ready", "reserved") for of in ("jobs", "hours")]
    for name in cases:
        for case, estimates in ((name, "requested"), (name + CQSIM, "cqsim")):
            mine = test[test["case"] == case]
            if len(mine):
                shares = {f"{way}_{of}_%": round(100 * float(mine[f"{way}_{of}"].mean()), 2) for way, of in ways}
                rows.append({"method": name, "estimates": estimates, **shares})
        if name in PAPER_IV:
            columns = (f"{way}_{of}_%" for way, of in ways)
            rows.append({"method": name, "estimates": "the paper", **dict(zip(columns, PAPER_IV[name], strict=True))})
    return pd.DataFrame(rows)


def rewards_beside_waits(runs: pd.DataFrame) -> pd.DataFrame:
    """Return what methods earn on the validation month, and their mean wait: means over the seeds."""
    rows = runs[runs["part"] == VALIDATION]
    table = rows.groupby("case", sort=False)[
        ["capability_reward", "capacity_reward", "mean_wait_s", "max_wait_s", "n_jobs"]
    ].mean()
    return pd.DataFrame({
        "method": table.index, "reward_(1)_a_start": table["capability_reward"].round(4),
        "total_reward_(1)": (table["capability_reward"] * table["n_jobs"]).round(1),
        "reward_(2)_a_start": table["capacity_reward"], "mean_wait_h": (table["mean_wait_s"] / HOUR).round(2),
        "longest_wait_h": (table["max_wait_s"] / HOUR).round(1),
    })  # fmt: skip


def tables_of(
    runs: pd.DataFrame, training: pd.DataFrame, log: JobLog, parts: Parts, train: str, plan: Plan, window: int
) -> Iterator[tuple[str, pd.DataFrame]]:
    yield "Months to test, compared with FCFS with EASY backfilling", summary(runs)
    yield "Months to test, on a machine at work (warm start)", summary(runs, WARM)
    yield "Table I: methods", table_1(runs, training)
    yield "Table II: the log and its parts", table_2(log, parts, train)
    yield "Table III: networks", table_3(plan.nodes, window)
    yield "Table IV: how jobs started", table_4(runs, (OPTIMIZATION, DECIMA, BINPACKING, RANDOM, FCFS, PG, DQL, KEPT,
                                                      OLDEST))  # fmt: skip
    yield "Figure 5: rewards and waits on the validation month", rewards_beside_waits(runs)
