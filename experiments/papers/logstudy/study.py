"""What a centre's job log tells of its queues, users and failures, and of run times while the machine is full.

Allcock et al., Experience and Practice of Batch Scheduling on Leadership Supercomputers at Argonne, JSSPP 2017, doi
10.1007/978-3-319-77398-8_1: the eighteen observations and Table 2. Li et al., The Effect of System Utilization on
Application Performance Variability, ROSS 2019, doi 10.1145/3322789.3328743: section 3, Figures 2 and 3.
"""

from functools import partial
from typing import Final

import pandas as pd

from experiments.papers.logstudy import applications as li
from experiments.papers.logstudy import figures
from experiments.papers.logstudy.jobs import StudyJobs, study_jobs
from experiments.papers.logstudy.observations import (
    PARTS,
    Row,
    by_place,
    by_queue,
    failures_observed,
    hits,
    paper_table,
    queue_table,
)
from experiments.reports.figures import Picture
from experiments.reports.report import Report
from experiments.runs.setting import Setting
from predictors.data.formats.alcf import Failures, read_failures

QUESTION: Final = (
    "What a centre's job log tells of its queues, users and failures, and of run times while the machine is full."
)

OBSERVED: Final = ("observation", "question", "paper_mira", "this_log")


def run(setting: Setting) -> Report:
    """Study a log: every observation that it has the columns for, and the applications that it repeats."""
    log = setting.jobs()
    jobs = study_jobs(log, setting.procs)
    failures, failed_notes = _failures(setting)
    observed = pd.DataFrame(observations(jobs, failures), columns=list(OBSERVED))
    drawn = [picture for picture in figures.pictures(jobs) if len(picture.table)]
    if failures is not None and len(hits(jobs, failures)):
        drawn += figures.failure_pictures(by_place(jobs, failures), hits(jobs, failures), by_queue(jobs, failures))
    found = li.applications(jobs)
    utilised, more, sentences = _utilisation(found)
    tables = {
        "observations": observed,
        "queues (Table 2)": queue_table(jobs),
        **({"classes by Allcock et al.'s router": queue_table(jobs, "routed")} if jobs.has("queue") else {}),
        "Table 2 of the paper (Mira)": paper_table(),
        **utilised,
    }
    return Report(
        log=log.name, seeds=(setting.seed,), tables=tables, pictures=(*drawn, *more),
        notes=(*jobs.notes, *failed_notes, *found.notes), verdict=sentences,
    )  # fmt: skip


def observations(jobs: StudyJobs, failures: Failures | None = None) -> list[Row]:
    """Return all observations in the order of the paper; where the log lacks a column, that is the answer."""
    rows = [row for part in PARTS for row in part(jobs)] + failures_observed(jobs, failures)
    return sorted(rows, key=lambda row: row[0])


def _failures(setting: Setting) -> tuple[Failures | None, tuple[str, ...]]:
    if setting.failures is None:
        return None, ()
    found, account = read_failures(setting.failures, setting.jobs())
    return found, (account.summary(), *(f"{f.rule}: {f.count:,}, {f.text}" for f in account.findings))


def _utilisation(found: li.Applications) -> tuple[dict[str, pd.DataFrame], list[Picture], tuple[str, ...]]:
    """Return tables, pictures and sentences on run times under High and Normal utilisation."""
    tables, drawn, sentences = {"choice of runs": found.funnel}, list[Picture](), list[str]()
    if len(found.sources):
        tables["executables are read from"] = found.sources
    tables["runs of an application are equal in"] = pd.DataFrame({"column": found.key})
    if found.runs.empty:
        return tables, [], (f"No application has {li.LEAST_RUNS} runs that pass Li et al.'s rules.",)
    for title, boundary in (("95 %", li.BOUNDARY), ("balanced", li.balanced_boundary(found.runs))):
        table = li.comparisons(found.runs, boundary)
        tables[f"utilisation above {boundary:.1%} ({title})"] = table
        verdict = li.verdict(table)
        sentences.append(_sentence(title, boundary, verdict))
        if table.empty:
            continue
        name = "95" if title == "95 %" else "balanced"
        shown = list(table["application"][: figures.SHOWN_APPLICATIONS])
        paint = partial(figures.paint_boxes, boundary=boundary)
        drawn.append(Picture(f"li_fig2_{name}", figures.boxes_of(found.runs, shown, boundary), paint))
        sizes = _family_sizes(found.runs, list(table["application"]))
        if len(sizes) > 1:
            drawn.append(Picture(f"li_fig3_{name}", figures.boxes_of(found.runs, sizes, boundary), paint))
        drawn.append(Picture(f"li_increase_{name}", table, figures.paint_increases, height=5.0))
    return tables, drawn, tuple(sentences)


def _sentence(title: str, boundary: float, verdict: dict[str, float | int]) -> str:
    if not verdict["applications"]:
        return f"Boundary {boundary:.1%} ({title}): no application has {li.LEAST_IN_GROUP} runs on either side of it."
    return (
        f"Boundary {boundary:.1%} ({title}): of {verdict['applications']} applications {verdict['longer_by_z']} run "
        f"longer above it by the z-test at 90 % ({verdict['longer_by_rank']} by Mann-Whitney, "
        f"{verdict['longer_within_weeks']} within calendar weeks), "
        f"{verdict['shorter_by_z']} run shorter; chance would give {verdict['expected_by_chance']:.1f} (probability "
        f"of as many: {verdict['p_chance']:.2g}). Median change of the mean {verdict['median_increase']:+.1%}. "
        f"Li et al. on Theta: 12 of 15, +6.7 to +21.1 %."
    )


def _family_sizes(runs: pd.DataFrame, shown: list[str]) -> list[str]:
    """Return the applications that are the same but for their nodes, of the program that runs at most sizes."""
    part = runs[runs["application"].isin(shown)].drop_duplicates("application")
    sizes = part.groupby("family")["nodes"].nunique()
    if sizes.empty or sizes.max() < 2:
        return []
    own = part[part["family"] == sizes.idxmax()].sort_values("nodes")
    return list(own["application"][: figures.SHOWN_APPLICATIONS])
