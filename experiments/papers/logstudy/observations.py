"""Queues, surges, exit codes, modes, cycles, overburn and failures in a log: Allcock et al.'s observations.

Allcock, Rich, Fan & Lan, Experience and Practice of Batch Scheduling on Leadership Supercomputers at Argonne, JSSPP
2017, doi 10.1007/978-3-319-77398-8_1.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pandas as pd

from experiments.papers.logstudy.jobs import CAPABILITY, LEAST_SHARE, LONG, SHORT, StudyJobs
from predictors.data.formats.alcf import Failures

TOP_QUEUES: Final = 6
LEAST_JOBS: Final = 20  # jobs that a queue must have in a month for its mean wait to count
TOP_USERS: Final = 8
TOP_CODES: Final = 6
DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
Row = tuple[int, str, str, str]  # number of the observation, question, the paper's answer for Mira, this log's answer

MIRA: Final[Mapping[str, tuple[float, ...]]] = MappingProxyType(  # the paper's Table 2 by queue, as in `COLUMNS`
    {
        "prod-short": (1080, 45243, 6754, 4361, 23082, 22406, 4289056697),
        "backfill": (1043, 61279, 4118, 2789, 16794, 16663, 883159087),
        "prod-capability": (13530, 278510, 20151, 12544, 656480, 651597, 13126325662),
        "prod-long": (1253, 276839, 39734, 24907, 137328, 33966, 2221830694),
        "prod-1024-torus": (1024, 17338, 3499, 14652, 66687, 66687, 149446510),
    }
)
COLUMNS: Final = (
    "mean_used_nodes", "mean_wait_s", "mean_walltime_s", "mean_runtime_s", "mean_used_core_hours",
    "mean_requested_core_hours", "total_used_core_hours",
)  # fmt: skip


def queue_table(jobs: StudyJobs, key: str = "queue") -> pd.DataFrame:
    """Return Table 2: one row a queue, the largest by core-hours first; figures over the jobs that ran."""
    parts = jobs.table.groupby(key, sort=False)
    table = pd.DataFrame(
        {
            "jobs": parts.size(), "mean_used_nodes": parts["nodes"].mean(), "mean_wait_s": parts["wait"].mean(),
            "mean_walltime_s": parts["requested_time"].mean(), "mean_runtime_s": parts["run_time"].mean(),
            "mean_used_core_hours": parts["core_hours"].mean(),
            "mean_requested_core_hours": parts["requested_core_hours"].mean(),
            "total_used_core_hours": parts["core_hours"].sum(),
        }
    )  # fmt: skip
    table = table.sort_values("total_used_core_hours", ascending=False).reset_index()
    table["share_of_jobs"] = table["jobs"] / table["jobs"].sum()
    table["share_of_core_hours"] = table["total_used_core_hours"] / table["total_used_core_hours"].sum()
    return table


def paper_table() -> pd.DataFrame:
    return pd.DataFrame([(queue, *figures) for queue, figures in MIRA.items()], columns=["queue", *COLUMNS])


def by_period(jobs: StudyJobs, period: str, *keys: str) -> pd.DataFrame:
    """Return jobs, core-hours and mean wait by period ("Y" or "M") of submission and by the keys."""
    table = jobs.table.assign(period=jobs.table["time"].dt.to_period(period).astype(str))
    grouped = table.groupby(["period", *keys], sort=True)
    return pd.DataFrame(
        {"jobs": grouped.size(), "core_hours": grouped["core_hours"].sum(), "mean_wait_s": grouped["wait"].mean()}
    ).reset_index()


def in_top(table: pd.DataFrame, column: str, n: int, by: str | None = None) -> "pd.Series[Any]":
    """Return a column with all but its n largest values as "others"."""
    sizes = table.groupby(column)[by].sum() if by else table[column].value_counts()
    top = sizes.sort_values(ascending=False).index[:n]
    shown: pd.Series[Any] = table[column].where(table[column].isin(top) | table[column].isna(), "others")
    return shown


def queues_observed(jobs: StudyJobs) -> list[Row]:
    """Return observations 1 to 4."""
    table = queue_table(jobs).set_index("queue")
    common = table[(table["share_of_jobs"] >= LEAST_SHARE) | (table["share_of_core_hours"] >= LEAST_SHARE)]
    most, hours = str(table["jobs"].idxmax()), str(table["total_used_core_hours"].idxmax())
    longest, widest = str(common["mean_runtime_s"].idxmax()), str(common["mean_used_nodes"].idxmax())
    years = by_period(jobs, "Y")
    return [
        (1, "which queue has most jobs", "prod-short", f"{most}: {table['share_of_jobs'][most]:.0%}"),
        (1, "which has most core-hours", "prod-capability: more than half",
         f"{hours}: {table['share_of_core_hours'][hours]:.0%}"),
        (1, "which has the longest mean run time", "prod-long: 24,907 s",
         f"{longest}: {table['mean_runtime_s'][longest]:,.0f} s"),
        (1, "which has the widest jobs", "prod-capability: 13,530 nodes",
         f"{widest}: {table['mean_used_nodes'][widest]:,.0f} nodes"),
        (2, "mean wait of backfill over prod-short", "1.35", _ratio(table, "backfill", SHORT)),
        (3, "mean wait of prod-capability over prod-long", "1.01", _ratio(table, CAPABILITY, LONG)),
        (4, "jobs a year, first whole year to last", "fewer", _change(jobs, years, "jobs")),
        (4, "core-hours a year, first whole year to last", "more", _change(jobs, years, "core_hours")),
    ]  # fmt: skip


def _ratio(table: pd.DataFrame, one: str, other: str) -> str:
    lacking = [queue for queue in (one, other) if queue not in table.index]
    if lacking:
        return f"unknown: no queue {' or '.join(lacking)}"
    ratio = table["mean_wait_s"][one] / table["mean_wait_s"][other]
    return f"{ratio:.2f}" if np.isfinite(ratio) else "unknown: the log lacks wait"


def _change(jobs: StudyJobs, years: pd.DataFrame, column: str) -> str:
    first, last = jobs.table["time"].min(), jobs.table["time"].max()
    whole = [p for p in years["period"] if pd.Period(p).start_time >= first and pd.Period(p).end_time <= last]
    if len(whole) < 2:
        return f"unknown: the log has {len(whole)} whole year{'' if len(whole) == 1 else 's'}"
    by_year = years.set_index("period")[column]
    return f"{by_year[whole[0]]:,.0f} to {by_year[whole[-1]]:,.0f}"


def users_observed(jobs: StudyJobs) -> list[Row]:
    """Return observations 5 to 8: the surges of two users."""
    if not jobs.has("user"):
        return [(n, "a user's surge", "", "unknown: the log lacks user") for n in (5, 6, 7, 8)]
    busiest, month = busiest_user(jobs)
    own = jobs.table[(jobs.table["user"] == busiest) & (_months(jobs.table) == month)]
    everyone = jobs.table[_months(jobs.table) == month]
    queue = own["queue"].mode().iloc[0]
    rows: list[Row] = [
        (5, "the user with most jobs, in the month with most of them", "20,000 in 3 months, all backfill, 512 nodes",
         f"user {busiest} in {month}: {len(own):,} jobs, {len(own) / len(everyone):.0%} of all; "
         f"{(own['queue'] == queue).mean():.0%} in {queue}, median {own['nodes'].median():,.0f} nodes"),
        (5, "its share of that month's core-hours", "little",
         f"{own['core_hours'].sum() / everyone['core_hours'].sum():.1%}"),
    ]  # fmt: skip
    waits = surge_waits(jobs, month)
    rows.append((6, "mean wait in that month over the months beside it, by queue", "up in backfill alone", waits))
    user, month = widest_user(jobs)
    wide = wide_jobs(jobs)
    mine = wide[(wide["user"] == user) & (_months(wide) == month)]
    rows.append((7, "the user with most core-hours of wide jobs in a month", "48 capability jobs in April 2016",
                 f"user {user} in {month}: {len(mine):,} jobs, "
                 f"{mine['core_hours'].sum():,.0f} core-hours"))  # fmt: skip
    rows.append((7, "that month over the months beside it", "fewer jobs, more core-hours", month_change(jobs, month)))
    rows.append((8, "mean wait in that month over the months beside it, by queue",
                 "up in prod-capability, more in backfill and prod-long", surge_waits(jobs, month)))  # fmt: skip
    rows.append((8, "rank correlation by month of wide jobs submitted with the mean wait, by queue", "positive",
                 waits_with_wide(jobs)))  # fmt: skip
    return rows


def busiest_user(jobs: StudyJobs) -> tuple[str, str]:
    """Return the user with most jobs, and the month in which that user had most."""
    user = jobs.table["user"].value_counts().index[0]
    return str(user), str(_months(jobs.table[jobs.table["user"] == user]).value_counts().index[0])


def wide_jobs(jobs: StudyJobs) -> pd.DataFrame:
    """Return the wide jobs of known users; where there is none, all jobs."""
    wide = jobs.table[jobs.table["wide"] & jobs.table["user"].notna()]
    return wide if len(wide) else jobs.table


def widest_user(jobs: StudyJobs) -> tuple[str, str]:
    """Return the user with most core-hours of wide jobs in a month, and that month."""
    wide = wide_jobs(jobs)
    hours = wide.assign(month=_months(wide)).groupby(["user", "month"], as_index=False)["core_hours"].sum()
    top = hours.loc[hours["core_hours"].idxmax()]
    return str(top["user"]), str(top["month"])


def around(jobs: StudyJobs, month: str) -> StudyJobs:
    """Return the jobs of a month and of the months around it: what Figures 8 to 10 show."""
    return replace(jobs, table=jobs.table[_months(jobs.table).isin([month, *_beside(month)])])


def _months(table: pd.DataFrame) -> "pd.Series[str]":
    months: pd.Series[str] = table["time"].dt.to_period("M").astype(str)
    return months


def _beside(month: str) -> list[str]:
    middle = pd.Period(month)
    return [str(middle - 1), str(middle + 1)]


def surge_waits(jobs: StudyJobs, month: str) -> str:
    """Return by queue how many times longer the mean wait of a month was than that of the months around it."""
    if not jobs.has("wait"):
        return "unknown: the log lacks wait"
    table = jobs.table.assign(month=_months(jobs.table), queue=in_top(jobs.table, "queue", TOP_QUEUES))
    here = table[table["month"] == month].groupby("queue")["wait"].agg(["mean", "size"])
    beside = table[table["month"].isin(_beside(month))].groupby("queue")["wait"].agg(["mean", "size"])
    both = here.add_suffix("_here").join(beside.add_suffix("_beside"), how="inner")
    both = both[both[["size_here", "size_beside"]].min(axis=1) >= LEAST_JOBS]
    ratio = (both["mean_here"] / both["mean_beside"]).replace([np.inf, -np.inf], np.nan).dropna()
    return "; ".join(f"{queue} {value:.2f}" for queue, value in ratio.items()) or "unknown: no month around it"


def month_change(jobs: StudyJobs, month: str) -> str:
    """Return jobs and core-hours of a month over the mean of the months around it."""
    table = by_period(jobs, "M").set_index("period")
    beside = table.reindex(_beside(month)).dropna(how="all")
    if beside.empty:
        return "unknown: no month around it"
    jobs_ratio, hours_ratio = (table[c][month] / beside[c].mean() for c in ("jobs", "core_hours"))
    return f"jobs {jobs_ratio:.2f}, core-hours {hours_ratio:.2f}"


def waits_with_wide(jobs: StudyJobs) -> str:
    """Return by queue the rank correlation over months of wide jobs submitted with the queue's mean wait."""
    table = jobs.table.assign(month=_months(jobs.table), queue=in_top(jobs.table, "queue", TOP_QUEUES))
    if not jobs.has("wait") or not table["wide"].any() or table["month"].nunique() < 6:
        return "unknown: no wait, no wide jobs, or less than six months"
    wide = table[table["wide"]].groupby("month").size()
    waits = table.pivot_table(index="month", columns="queue", values="wait", aggfunc="mean")
    wide = wide.reindex(waits.index).fillna(0)
    found = {queue: waits[queue].corr(wide, method="spearman") for queue in waits if waits[queue].nunique() > 1}
    return "; ".join(f"{queue} {value:+.2f}" for queue, value in found.items() if np.isfinite(value))


def exits(jobs: StudyJobs, key: str, n: int) -> pd.DataFrame:
    """Return the share of each exit code by queue, user or mode: the n largest, the most frequent codes."""
    table = jobs.table.dropna(subset=["exit_code", key])
    table = table.assign(code=in_top(table.assign(code=_code(table["exit_code"])), "code", TOP_CODES))
    kept = table[key].value_counts().index[:n]
    table = table[table[key].isin(kept)]
    counts = table.groupby([key, "code"]).size().rename("jobs").reset_index()
    counts["share"] = counts["jobs"] / counts.groupby(key)["jobs"].transform("sum")
    return counts


def _code(codes: "pd.Series[Any]") -> "pd.Series[str]":
    return codes.map(lambda code: f"{code:.0f}" if isinstance(code, float) else str(code))


def normal_exit(jobs: StudyJobs) -> "pd.Series[bool]":
    """Return which jobs ended well: exit code 0, or what stands in for it."""
    codes = jobs.table["exit_code"] if "exit_code" in jobs.table else pd.Series(0, index=jobs.table.index)
    well: pd.Series[bool] = codes.isin([0, "0", "completed", "ended before its limit"])
    return well


def exits_observed(jobs: StudyJobs) -> list[Row]:
    """Return observations 9 to 12: exit codes by queue and by user, modes, and both together."""
    if "exit_code" not in jobs.table:
        lacking = "unknown: the log lacks exit code, status and requested time"
        return [(n, "exit codes", "", lacking) for n in (9, 10, 12)]
    well = normal_exit(jobs)
    by_queue = well.groupby(jobs.table["queue"]).mean()
    sizes = jobs.table["queue"].value_counts()
    shown = by_queue.reindex(sizes.index[:TOP_QUEUES]).sort_values(ascending=False)
    rows: list[Row] = [
        (9, "share of jobs that end well", "70.5 %", f"{well.mean():.1%}"),
        (9, "the same by queue", "highest in prod-short, backfill and prod-1024-torus",
         "; ".join(f"{queue} {share:.0%}" for queue, share in shown.items())),
    ]  # fmt: skip
    rows.append(
        (10, "share that end well, of the users with most jobs", "from below 50 % to 90 %", _by_user(jobs, well))
    )
    if not jobs.has("mode"):
        return [
            *rows,
            (11, "modes", "", "unknown: the log lacks mode"),
            (12, "exit codes by mode", "", "unknown: the log lacks mode"),
        ]
    modes = jobs.table["mode"].value_counts(normalize=True)
    rows.append((11, "the most frequent mode", "script, in all years", f"{modes.index[0]}: {modes.iloc[0]:.0%}"))
    trend = jobs.table.assign(one=jobs.table["mode"] == "c1").groupby(jobs.table["time"].dt.year)["one"].mean()
    rows.append((11, "share of mode c1, first year to last", "rises", f"{trend.iloc[0]:.0%} to {trend.iloc[-1]:.0%}"))
    by_mode = well.groupby(jobs.table["mode"]).mean().reindex(modes.index[:TOP_QUEUES])
    rows.append((12, "share that end well, by mode", "script 80 %, c16 less than 50 %",
                 "; ".join(f"{mode} {share:.0%}" for mode, share in by_mode.items())))  # fmt: skip
    return rows


def _by_user(jobs: StudyJobs, well: "pd.Series[bool]") -> str:
    if not jobs.has("user"):
        return "unknown: the log lacks user"
    top = jobs.table["user"].value_counts().index[:20]
    shares = well.groupby(jobs.table["user"]).mean().reindex(top)
    least, most = shares.idxmin(), shares.idxmax()
    return f"{shares.min():.0%} (user {least}) to {shares.max():.0%} (user {most}), of {len(top)} users"


def cycles(jobs: StudyJobs) -> pd.DataFrame:
    """Return jobs by weekday and by month of the year, a day of the log each: the paper's Figure 19."""
    time = jobs.table["time"]
    days = pd.date_range(time.min().normalize(), time.max().normalize(), freq="D")
    rows = []
    for cycle, of_jobs, of_days, names in (
        ("weekday", time.dt.day_of_week, days.day_of_week, DAYS),
        (
            "month",
            time.dt.month - 1,
            days.month - 1,
            tuple(str(pd.Period(f"2001-{m:02}").strftime("%b")) for m in range(1, 13)),
        ),
        ("hour", time.dt.hour, np.repeat(np.arange(24), len(days)), tuple(str(hour) for hour in range(24))),
    ):
        jobs_in = np.bincount(np.asarray(of_jobs), minlength=len(names))
        days_in = np.bincount(np.asarray(of_days), minlength=len(names))
        rows += [
            (cycle, names[k], int(jobs_in[k]), jobs_in[k] / days_in[k] if days_in[k] else np.nan)
            for k in range(len(names))
        ]
    return pd.DataFrame(rows, columns=["cycle", "part", "jobs", "jobs_a_day"])


def user_weeks(jobs: StudyJobs) -> pd.DataFrame:
    """Return the share of each weekday in the jobs of the users with most jobs: Figure 20."""
    table = jobs.table.assign(weekday=jobs.table["time"].dt.day_of_week)
    table = table[table["user"].isin(table["user"].value_counts().index[:TOP_USERS])]
    counts = table.groupby(["user", "weekday"]).size().rename("jobs").reset_index()
    counts["share"] = counts["jobs"] / counts.groupby("user")["jobs"].transform("sum")
    return counts


def cycles_observed(jobs: StudyJobs) -> list[Row]:
    """Return observation 16."""
    table = cycles(jobs).dropna(subset=["jobs_a_day"])

    def best(cycle: str, n: int) -> str:
        return " and ".join(table[table["cycle"] == cycle].nlargest(n, "jobs_a_day")["part"])

    rows: list[Row] = [
        (16, "weekdays with most jobs", "Wednesday and Thursday", best("weekday", 2)),
        (16, "months with most jobs a day", "May and August", best("month", 2)),
    ]
    if not jobs.has("user"):
        return [*rows, (16, "users' own weeks", "some weekdays, some weekends", "unknown: the log lacks user")]
    counts = jobs.table["user"].value_counts()
    often = jobs.table[jobs.table["user"].isin(counts.index[counts >= 50])]
    if often.empty:
        return [*rows, (16, "users' own weeks", "some weekdays, some weekends", "unknown: no user has 50 jobs")]
    weekend = (often["time"].dt.day_of_week >= 5).groupby(often["user"]).mean()
    rows.append((16, "users with 50 jobs or more who submit mainly at weekends (more than 2/7)",
                 "some", f"{int((weekend > 2 / 7).sum())} of {len(weekend)}; "
                 f"{int((weekend == 0).sum())} never do"))  # fmt: skip
    return rows


def overburn(jobs: StudyJobs, project: str | None = None) -> pd.DataFrame:
    """Return by month the share of jobs and core-hours on time beyond an allocation: Figures 21 and 22."""
    table = jobs.table if project is None else jobs.table[jobs.table["project"] == project]
    beyond = (table["overburn"] == 1).astype(float)
    table = table.assign(month=_months(table), beyond=beyond, hours=beyond * table["core_hours"])
    months = table.groupby("month")
    return pd.DataFrame(
        {
            "jobs": months.size(),
            "share_of_jobs": months["beyond"].mean(),
            "share_of_core_hours": months["hours"].sum() / months["core_hours"].sum(),
        }
    ).reset_index()


def overburn_observed(jobs: StudyJobs) -> list[Row]:
    """Return observations 17 and 18."""
    if not jobs.has("overburn"):
        return [(n, "overburn", "", "unknown: the log lacks overburn") for n in (17, 18)]
    beyond = jobs.table["overburn"] == 1
    hours = jobs.table["core_hours"]
    months = overburn(jobs)
    rows: list[Row] = [
        (17, "share of jobs on overburn", "13 %", f"{beyond.mean():.1%}"),
        (17, "share of core-hours on overburn", "about 20 %", f"{hours[beyond].sum() / hours.sum():.1%}"),
        (17, "months with the largest share", "July to September",
         ", ".join(months.nlargest(3, "share_of_core_hours")["month"])),
    ]  # fmt: skip
    if "project" not in jobs.table:
        return [*rows, (18, "the largest project's overburn", "", "unknown: the log lacks project")]
    project = largest_project(jobs)
    own = overburn(jobs, project).nlargest(1, "share_of_core_hours").iloc[0]
    rows.append((18, "the largest project in its month of most overburn", "57 % of jobs, 80 % of core-hours",
                 f"project {project}, {own['month']}: {own['share_of_jobs']:.0%} of jobs, "
                 f"{own['share_of_core_hours']:.0%} of core-hours"))  # fmt: skip
    return rows


def largest_project(jobs: StudyJobs) -> str:
    return str(jobs.table.groupby("project")["core_hours"].sum().idxmax())


PARTS: Final[tuple[Callable[[StudyJobs], list[Row]], ...]] = (  # what is observed, in the order of the paper
    queues_observed, users_observed, exits_observed, cycles_observed, overburn_observed,
)  # fmt: skip


BEGINNING_S = 600


def hits(jobs: StudyJobs, failures: Failures) -> pd.DataFrame:
    """Return one row a failure that hit a job: the job's columns, and `after_s` from its start to the failure."""
    found = pd.DataFrame({"row": failures.row, "failure": failures.time})
    found = found.merge(jobs.table, on="row", how="inner")
    return found.assign(after_s=(found["failure"] - found["start"]).clip(lower=0))


def by_place(jobs: StudyJobs, failures: Failures) -> pd.DataFrame:
    """Return failures and node-hours of the places with most failures: partitions, or widths where the log has none."""
    key = "location" if "location" in jobs.table else "nodes"
    places = jobs.table[key].astype(str)
    node_hours = (jobs.table["nodes"] * jobs.table["run_time"] / 3600).groupby(places).sum()
    nodes = jobs.table["nodes"].groupby(places).median()
    counts = hits(jobs, failures)[key].astype(str).value_counts()
    table = pd.DataFrame({"failures": counts, "node_hours": node_hours, "nodes": nodes}).fillna({"failures": 0})
    table.index.name = "place"
    return table.sort_values(["failures", "node_hours"], ascending=False).reset_index()


def by_queue(jobs: StudyJobs, failures: Failures) -> pd.DataFrame:
    struck = jobs.table["row"].isin(np.unique(failures.row))
    parts = struck.groupby(jobs.table["queue"])
    table = pd.DataFrame({"jobs": parts.size(), "hit": parts.sum(), "share": parts.mean()})
    return table.sort_values("share", ascending=False).reset_index()


def failures_observed(jobs: StudyJobs, failures: Failures | None) -> list[Row]:
    """Return observations 13 to 15."""
    if failures is None:
        return [(n, "failures", "", "unknown: no failure log was given") for n in (13, 14, 15)]
    found = hits(jobs, failures)
    if found.empty:
        return [(n, "failures", "", "unknown: no failure hit a job of this log") for n in (13, 14, 15)]
    places, queues = by_place(jobs, failures), by_queue(jobs, failures)
    nodes = jobs.table["nodes"]
    struck = jobs.table["row"].isin(np.unique(failures.row))
    share = found["after_s"] / found["run_time"]
    return [
        (13, "rank correlation of a place's failures with its node-hours", "related",
         f"{places['failures'].corr(places['node_hours'], method='spearman'):+.2f} over {len(places)} places"),
        (13, "mean nodes of jobs with failures, over those without", "bigger",
         f"{nodes[struck].mean() / nodes[~struck].mean():.2f}" if (~struck).any() else "all jobs have failures"),
        (14, "failures in the first tenth of a job", "more than half at the very beginning",
         f"{(share <= 0.1).mean():.0%}; in its first ten minutes {(found['after_s'] <= BEGINNING_S).mean():.0%}"),
        (15, "the queue with the largest share of jobs hit", "prod-capability",
         f"{queues['queue'][0]}: {queues['share'][0]:.2%}"),
    ]  # fmt: skip
