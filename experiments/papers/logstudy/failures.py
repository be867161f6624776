"""Failures and jobs: Allcock et al.'s observations 13 to 15 (JSSPP 2017, doi 10.1007/978-3-319-77398-8_1)."""

import numpy as np
import pandas as pd

from experiments.papers.logstudy.jobs import StudyJobs
from experiments.papers.logstudy.observations import Row
from predictors.data.formats.alcf import Failures

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
    """Return the share of each queue's jobs that a failure hit."""
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
