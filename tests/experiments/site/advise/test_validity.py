"""A log on which nothing could be tested gets no verdict, but says why, and what would make it testable."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.cli.advise import _source
from experiments.cli.options.shared import JobsOptions
from experiments.site.advise.advise import BY_ESTIMATES, Question
from experiments.site.advise.report import report_on
from experiments.site.advise.sentences import remedy, sentence, verdict
from experiments.site.advise.validity import FARTHEST, lacks_of_made_requests, lacks_of_twin, lacks_of_ways
from experiments.sweeps.run import run_plan
from jobcast import JobcastError, JobLog, advise, clean, generate_log
from predictors.data.cleaning import RequestsFrom
from predictors.data.summary import Lack
from tests.experiments.site.advise.test_advise import NOBODY, SAME, runs_of


def log_of(run_time, **columns):
    """Return a log of jobs of one processor, a minute apart, without requests and users."""
    n = len(run_time)
    values = {"job_id": range(1, n + 1), "submit": range(0, 60 * n, 60), "requested_procs": [1] * n, **columns}
    return JobLog.from_columns({**values, "run_time": run_time}, {}, max_procs=4, name="site")


def made(log, rule):
    return clean(RequestsFrom(rule).apply(log)[0])[0]


def names(lacks):
    return [(lack.name, lack.forbids_verdict) for lack in lacks]


def test_an_invented_limit_that_removes_work_does_not_judge():
    log = log_of([600] * 90 + [7200] * 10, user=[7] * 100)
    (lack,) = lacks_of_made_requests(log, made(log, "1:00:00"))
    assert (lack.name, lack.forbids_verdict) == ("made-limit", True)
    assert "stops 10 jobs" in lack.text and "removes 28.6 % of the work" in lack.text
    assert "--no-kill" in lack.remedy and "--requests-from 2:00:00" in lack.remedy
    assert lacks_of_made_requests(log, made(log, "1:00:00"), kill=False) == ()
    assert lacks_of_made_requests(log, made(log, "2:00:00")) == ()


def test_an_invented_limit_that_removes_little_is_told():
    log = log_of([600] * 99 + [4000], user=[7] * 100)
    assert names(lacks_of_made_requests(log, made(log, "1:00:00"))) == [("made-limit", False)]


def test_a_limit_of_the_log_is_not_invented():
    log = log_of([600] * 90 + [7200] * 10, user=[7] * 100, requested_time=[3600] * 100)
    assert lacks_of_made_requests(log, made(log, "1:00:00")) == ()


def test_without_requests_and_users_nothing_is_known():
    log = log_of([600] * 100)
    assert names(lacks_of_made_requests(log, made(log, "1:00:00"))) == [("nothing-known", True)]
    half = log_of([600] * 100, requested_time=[3600] * 60 + [-1] * 40)
    assert lacks_of_made_requests(half, made(half, "1:00:00")) == ()
    with_users = log_of([600] * 100, user=list(range(100)))
    assert lacks_of_made_requests(with_users, made(with_users, "1:00:00")) == ()


@pytest.mark.parametrize(
    ("twin", "wait", "far"),
    [(76.0, 12, True), (1.02, 45_000, True), (FARTHEST, 0, False), (3.0, 12, False), (1.0, None, False)],
    ids=["twin slower", "site slower", "at the bound", "near", "no waits"],
)
def test_a_twin_far_from_the_log_does_not_judge(twin, wait, far):
    log = log_of([600] * 50, **({} if wait is None else {"wait": [wait] * 50}))
    runs = pd.DataFrame({"case": ["EASY", "EASY"], "seed": [-1, 1], "median_bounded_slowdown": [twin, 1e6]})
    found = lacks_of_twin(runs, "EASY", log)
    assert [lack.name for lack in found] == (["far-twin"] if far else [])
    if twin == 76.0:
        assert "is 76, that of the log's own waits 1.02" in found[0].text


def test_ways_that_give_the_same_schedules_test_nothing():
    runs = runs_of(easy=SAME).assign(area_weighted_mean_response_s=1.0)
    alike = pd.concat([runs, runs.assign(case="a"), runs.assign(case="b")])
    assert names(lacks_of_ways(alike, ("easy", "a", "b"))) == [("same-schedules", True)]
    other = alike.copy()
    other.loc[(other["case"] == "b").to_numpy() & (other["seed"] == 3).to_numpy(), "max_wait_s"] += 1
    assert lacks_of_ways(other, ("easy", "a", "b")) == ()
    assert lacks_of_ways(runs, ("easy", "a")) == (), "one way alone"


@pytest.mark.parametrize(
    ("name", "begins"),
    [("same-schedules", "Nothing could be tested:"), ("made-limit", "Nothing could be tested:"),
     ("no-queue", "Nothing could be tested:"), ("far-twin", "No verdict:"), ("dropped", "No verdict:")],
)  # fmt: skip
def test_what_was_not_tested_is_no_reason_to_stay(name, begins):
    lacks = (Lack("one-user", "all jobs are of one user.", ""), Lack(name, "it is so. More.", "Do this.", True))
    advice = advise(runs_of(easy=SAME, a=SAME), NOBODY, "easy", lacks=lacks)
    said = verdict(advice)
    assert sentence(advice) == f"{begins} it is so." and remedy(advice) == "Do this."
    assert said[0].startswith(begins) and "It is so. More. Do this." in said[0]
    assert len(said) == 2 and said[1].startswith("Caution: all jobs are of one user.")
    assert not any("No reason to leave" in one or "+0.0 %" in one for one in said)


def test_a_log_without_requests_and_users_is_not_judged():
    """Every estimate is the same, so EASY, EASY-SJBF and EASY++ give one schedule."""
    log = generate_log(150, seed=3, procs=64, load=1.0)
    unknown = {name: np.ones(len(log), dtype=np.bool_) for name in ("user", "requested_time")}
    bare = replace(log, unknown={**log.unknown, **unknown})
    question = Question(made(bare, "240:00:00"), "easy", 5)
    advice = question.advice(run_plan(question.plan))
    assert "same-schedules" in [lack.name for lack in advice.forbidden] and advice.untested
    assert sentence(advice).startswith("Nothing could be tested: EASY, EASY-SJBF and EASY++ give the same")
    assert set(BY_ESTIMATES) <= {case.name for case in question.cases}


def test_jobs_may_run_on_past_their_requests():
    log = generate_log(150, seed=3, procs=64, load=1.0)
    question = Question(clean(log)[0], "easy", 5, kill=False)
    assert question.plan.sweep.kill is False
    with pytest.raises(JobcastError, match="kill = false"):
        Question(clean(log)[0], "easy", 5, soft_limits="slurm", kill=False)


def test_where_nothing_can_be_judged_few_runs_are_done(tmp_path):
    log = clean(generate_log(150, seed=3, procs=64, load=1.0))[0]
    lack = Lack("no-waits", "the log records no waits.", "Take another.", True)
    question = Question(log, "wfp", 5, lacks=(lack,))
    found = question.run(tmp_path)
    assert found.runs["case"].tolist() == ["WFP", *BY_ESTIMATES] and set(found.runs["seed"]) == {-1}
    advice = question.advice(found)
    assert (advice.options, advice.forbidden[0].name) == ((), "no-waits")
    report = report_on(advice, found, log, "site.swf")
    assert set(report.tables) == {"five figures", "as logged, with commands"}
    assert report.first.sentence == "No verdict: the log records no waits." and report.first.remedy == "Take another."


@pytest.mark.parametrize(("kill", "told"), [(True, "a.swf"), (False, "a.swf --no-kill")])
def test_the_commands_of_a_page_let_jobs_run_on_too(kill, told):
    assert _source(Path("a.swf"), JobsOptions(), None, kill) == told
