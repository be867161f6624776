"""Predictors that learnt from a whole log, with the figures that are shown of them; training that waits for drift.

A timer can run the command that trains again: it does nothing until the service says that its champion has become worse
than last-two, and a model that is no better than that champion takes no alias from it.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.reports.figures import Axes, draw, write_table
from predictors.core.errors import JobcastError
from predictors.data.joblog import JobLog
from predictors.evaluation.drift import Drift
from predictors.evaluation.evaluate import jobs_that_count
from predictors.evaluation.metrics import ratio
from predictors.evaluation.results import Evaluation, Score
from predictors.models.base import Predictor
from predictors.models.stream import keep_full_history
from predictors.registry import make_predictor, seeded
from predictors.service.client import Client
from predictors.tracking.client import load_model


def fitted(log: JobLog, predictor: str, seed: int) -> tuple[Predictor, int]:
    """Return a predictor that has learnt from all jobs of a log and remembers them, and the last end of one [s]."""
    found = make_predictor(predictor, **seeded(predictor, seed)).fit(log)
    keep_full_history(found, log)
    return found, learnt_until(log)[0]


def learnt_until(log: JobLog) -> tuple[int, int]:
    """Return the last end of a job that ran [s since the log's first submission], and how many did.

    >>> from predictors.data.joblog import JobLog
    >>> columns = {"job_id": [1, 2, 3], "submit": [0, 5, 9], "wait": [2, 0, 0], "run_time": [60, 20, 0]}
    >>> learnt_until(JobLog.from_columns(columns, {}))
    (62, 2)
    """
    ran = log.filled("run_time") > 0
    ends = log.filled("submit") + log.filled("wait", 0) + log.filled("run_time")
    return int(ends[ran].max(initial=0)), int(ran.sum())


def figures_of(score: Score, n_train: int) -> dict[str, Any]:
    """Return what a run shows: the figures, the interval's ends, how P10 to P90 held if they were asked for, times."""
    low, high = score.interval
    held = {} if score.followed is None else score.followed.to_json()
    return {
        **score.figures.to_dict(),
        "sse_ratio_low": low,
        "sse_ratio_high": high,
        **held,
        "n_train": n_train,
        "fit_seconds": score.fit_seconds,
        "predict_us_per_job": score.predict_us_per_job,
    }


def files_of_run(found: Evaluation, predictor: str, folder: Path) -> list[Path]:
    """Write the tables and the picture that a training's run keeps into a folder; return their paths.

    The scores compared with last-two, the slices of the predictor, and its error by run time.
    """
    scores = pd.DataFrame({"predictor": score.name, **score.figures.to_dict()} for score in found.scores)
    parts = [{"by": part.by, "slice": part.label, **part.figures.to_dict()} for part in found[predictor].slices]
    slices = pd.DataFrame(parts)
    by_run_time = slices[slices["by"] == "run time"] if len(slices) else slices
    return [
        write_table(scores, folder / "scores.csv"),
        write_table(slices, folder / "slices.csv"),
        *draw(folder, "error_by_run_time", by_run_time, partial(_paint, predictor=predictor)),
    ]


def _paint(axes: Axes, table: pd.DataFrame, predictor: str) -> None:
    table = table[np.isfinite(table["sse_ratio_to_last_two"])]  # there is no ratio to an error of 0
    axes.barh(table["slice"], table["sse_ratio_to_last_two"], color="#4477aa")
    axes.axvline(1.0, color="black", linewidth=1)
    axes.invert_yaxis()
    axes.set(title=f"{predictor}, by run time", xlabel="squared error / last-two (left of 1 is better)")


CHAMPION = "champion"


@dataclass(frozen=True)
class DriftThere:
    """What a service says of its champion."""

    url: str
    name: str  # registered name of its champion
    version: int
    drift: Drift  # whether it has become worse than last-two
    epoch: int | None  # second 0 of the service's clock in Unix time, if known

    @property
    def sentence(self) -> str:
        who = f"The champion {self.name} {self.version}"
        if self.drift.stands:
            return self.drift.sentence(who, self.epoch)
        found = f"{100 * self.drift.evidence:.2g} % of the evidence of an alarm"
        return f"{self.url}: {who} has not become worse than last-two ({found})."


def drift_at(url: str, token: str | None, name: str) -> DriftThere:
    """Ask a service whether its champion, which must have this registered name, has become worse than last-two."""
    with Client(url, token, timeout=60.0) as client:
        document = client.models()
    champion = next(one for one in document["models"] if one["role"] == CHAMPION)
    if "drift" not in champion:
        raise JobcastError(f"{url}: the service tells no drift; upgrade it.")
    if champion["name"] != name:
        raise JobcastError(
            f"{url}: its champion is {champion['name']!r}, not {name!r}; give --register {champion['name']}."
        )
    if champion["version"] is None:
        raise JobcastError(f"{url}: its champion {name!r} is no registered model; serve models:/NAME@champion.")
    epoch = 0 if document["clock"] == "unix" else None
    return DriftThere(url, name, champion["version"], Drift.from_json(champion["drift"]), epoch)


def check_beaten(found: Evaluation, predictor: str, log: JobLog, there: DriftThere) -> float:
    """Return a predictor's squared error over that of the champion on the jobs that were scored.

    Both predict each job as of its submission from the log's own history. The champion may have learnt from some of
    these jobs: that is in its favour.
    """
    champion = load_model(f"models:/{there.name}/{there.version}")
    jobs, _ = jobs_that_count(log)
    theirs = champion.predictor.predict(jobs)[-found.n_test :]
    ours = found[predictor].predicted
    against = ratio(float(((ours - found.run_time) ** 2).sum()), float(((theirs - found.run_time) ** 2).sum()))
    if not against < 1:
        raise JobcastError(
            f"{predictor} on the last {found.n_test:,} jobs of {found.log}: the squared error is {against:.3f} times "
            f"that of the champion, {there.name} {there.version}, which stays. Give a newer or longer log, or another "
            "--predictor."
        )
    return against
