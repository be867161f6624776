"""Advice says what the runs say: no winner inside the noise, who pays, and a command behind each number."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.reports.manifest import read_manifest
from experiments.reports.page import PAGE, write_report
from experiments.site.advise.advice import FEWEST, Advice, changes
from experiments.site.advise.advise import ADDS, PERFECT, SHORT_LIST, Question, cases_with
from experiments.site.advise.report import FIGURES as REPORTED
from experiments.site.advise.report import report_on
from experiments.site.advise.sentences import sentence, verdict, who
from experiments.sweeps.results import Results
from experiments.sweeps.run import run_plan
from jobcast import JobcastError, JobLog, advise, clean, generate_log
from predictors.data.formats.swf import write_swf
from predictors.data.summary import Lack
from schedsim.results.metrics import RUN_TIME_CLASSES
from tests.experiments.reports.test_report import Page

SEEDS = range(1, 11)
FIGURES = ("mean_bounded_slowdown", "mean_wait_s", "p99_wait_s", "max_wait_s", "widest5_mean_wait_s")


def runs_of(**ways):
    """Return runs of some ways: of each its figures relative to 1000, in the order of FIGURES, with a little noise."""
    rows = []
    for way, ratios in ways.items():
        chance = np.random.default_rng(sum(way.encode()))
        for seed in SEEDS:
            figures = {f: 1000 * r * chance.uniform(0.995, 1.005) for f, r in zip(FIGURES, ratios, strict=True)}
            rows.append({"log": "site", "case": way, "seed": seed, **figures})
    return pd.DataFrame(rows)


def groups_of(by, group, n_jobs, **waits):
    """Return runs by group: of each way a mean wait, or one a seed."""
    return pd.DataFrame(
        [
            {"log": "site", "case": way, "seed": seed, "by": by, "group": group, "n_jobs": n_jobs, "mean_wait_s": wait}
            for way, several in waits.items()
            for seed, wait in zip(SEEDS, np.broadcast_to(several, len(SEEDS)), strict=True)
        ]
    )


NOBODY = groups_of("size", "1", 100, easy=1.0, a=1.0, b=1.0)
SAME = (1.0,) * 5


@pytest.mark.parametrize(
    ("a", "b", "told"),
    [
        (SAME, SAME, "No reason to leave easy"),
        (
            (1.2, *SAME[1:]),
            (1.1, *SAME[1:]),
            "Keep easy: each other way tried has a certainly higher",
        ),
        ((0.7, 0.8, 0.9, 1, 1), SAME, "Change from easy to a: the mean bounded slowdown falls by 30 %"),
        ((0.7, 0.8, 0.9, 1.5, 1), SAME, "No winner: a instead of easy lowers the mean bounded slowdown by 30 %, but"),
        ((0.7, 0.8, 1, 1, 1), (0.7001, 0.8, 1, 1, 1), "b and a instead of easy would certainly lower"),
        ((0.7, 0.8, 1, 1, 1), (0.6, 0.8, 1, 1.5, 1), "a instead of easy would certainly lower"),
    ],
    ids=["noise", "worse", "winner", "others pay", "two alike", "one pays"],
)
def test_the_first_sentence_names_no_winner_that_the_runs_do_not_name(a, b, told):
    advice = advise(runs_of(easy=SAME, a=a, b=b), NOBODY, "easy")
    assert sentence(advice).startswith(told) and verdict(advice)[0] == sentence(advice)
    assert ("Change" in sentence(advice)) == (advice.choice.case == "a")


def test_perfect_knowledge_is_told_but_never_chosen():
    runs = runs_of(easy=SAME, a=(0.9, *SAME[1:]), known=(0.5,) * 5)
    advice = advise(runs, NOBODY, "easy", perfect="known", adds=[("a", "easy"), ("x", "easy")])
    assert advice.choice.case == "a" and [option.case for option in advice.options] == ["a"]
    assert advice.most.ratio.value == pytest.approx(0.5, rel=0.01)
    assert [(one.case, one.beside) for one in advice.adds] == [("a", "easy")]
    said = verdict(advice)
    assert "known in advance" in said[-1] and "What the prediction alone adds, a instead of easy" in said[-2]


def outcome(by="size", n_jobs=100, easy=1000.0, a=1000.0):
    (change,) = changes(groups_of(by, "7", n_jobs, easy=easy, a=a), "a", "easy")
    return change.outcome


def test_classes_gain_or_lose_only_where_it_is_sure_and_worth_telling():
    noisy = 1000.0 * np.array([0.8, 1.5, 1.0, 1.4, 0.9, 1.3, 0.7, 1.6, 1.0, 1.1])
    assert outcome(a=1200.0) == "worse" and outcome(a=800.0) == "better"
    assert outcome(a=1040.0) == "open", "within 5 %"
    assert outcome(a=noisy) == "open", "inside the noise"
    assert outcome(easy=10.0, a=30.0) == "open", "under a minute"
    assert outcome(a=2000.0, n_jobs=FEWEST - 1) == "open", "too few jobs"


def test_users_gain_or_lose_only_where_every_shake_says_so():
    nine_of_ten = np.full(10, 1500.0)
    nine_of_ten[3] = 990.0
    assert outcome("user", a=1500.0) == "worse" and outcome("user", a=500.0) == "better"
    (change,) = changes(groups_of("user", "7", 100, easy=np.geomspace(2, 2000, 10), a=nine_of_ten), "a", "easy")
    assert change.after_s / change.before_s == pytest.approx(change.ratio.value), "as the sentence says"
    assert outcome("user", a=nine_of_ten) == "open" and outcome("size", a=nine_of_ten) == "worse"


def test_a_way_is_told_with_who_waits_longer():
    groups = pd.concat(
        [
            groups_of("size", "65-128", 50, easy=36_000.0, a=72_000.0),
            groups_of("run-time", "< 10 min", 500, easy=3600.0, a=600.0),
            groups_of("user", "3", 40, easy=3600.0, a=600.0),
            groups_of("user", "4", 40, easy=600.0, a=3600.0),
            groups_of("user", "-1", 40, easy=600.0, a=3600.0),
            groups_of("user", "5", 5, easy=600.0, a=3600.0),
        ]
    )
    (option,) = advise(runs_of(easy=SAME, a=(0.7, 1, 1, 1, 1)), groups, "easy").options
    said = who(option, "easy")
    assert "Longer waits for jobs of 65-128 processors (+100 %, 10.0 h to 20.0 h)." in said
    assert "Shorter waits for jobs that run 1 to 10 min (-83 %, 60 min to 10 min)." in said
    assert f"Of 2 users with {FEWEST} jobs or more 1 would certainly wait less and 1 longer: user 4 (6.0 times" in said
    assert "user -1" not in said, "nobody is no user"


def test_a_wait_that_may_have_grown_is_told_as_not_sure():
    runs, chance = runs_of(easy=SAME, a=(0.7, 0.9, 1, 1.04, 1)), np.random.default_rng(0)
    shaky = runs["case"] == "a"
    runs.loc[shaky, "max_wait_s"] *= chance.uniform(0.9, 1.1, shaky.sum())
    said = verdict(advise(runs, NOBODY, "easy"))[1]
    assert "mean wait -10." in said and "; perhaps more than 5 % worse: longest wait +" in said and "but" not in said


def test_all_that_the_verdict_says_holds_together():
    advice = advise(runs_of(easy=SAME, a=SAME, b=SAME, known=SAME), NOBODY, "easy", perfect="known", adds=[("a", "b")])
    assert len(advice.comparisons) == 4
    assert {one.level for one in advice.comparisons} == {1 - 0.05 / 4}


def test_of_few_jobs_it_is_not_said_that_nobody_loses():
    groups = groups_of("size", "1", FEWEST - 1, easy=100.0, a=9000.0)
    (option,) = advise(runs_of(easy=SAME, a=SAME), groups, "easy").options
    assert "too few jobs to tell" in who(option, "easy")


def test_every_class_of_run_time_has_words():
    for name in RUN_TIME_CLASSES:
        groups = groups_of("run-time", name, 100, easy=1000.0, a=9000.0)
        (option,) = advise(runs_of(easy=SAME, a=SAME), groups, "easy").options
        assert "jobs that run " in who(option, "easy")


@pytest.mark.parametrize(
    ("current", "name", "n_cases"),
    [("easy", "EASY", 8), ("EASY++", "EASY++", 8), ("wfp", "WFP", 8), ("wfp3-easy", "WFP", 8), ("fcfs", "fcfs", 9),
     ("careful", "careful", 8), ("balanced", "balanced", 8), ("default", "careful", 8),
     ("conservative-compress", "conservative", 8), ("hybrid-3", "hybrid-3", 9)],
)  # fmt: skip
def test_what_the_site_runs_today_comes_first(current, name, n_cases):
    today, cases = cases_with(current)
    assert (today.name, cases[0], cases[-1], len(cases)) == (name, today, PERFECT, n_cases)
    assert len({case.name for case in cases}) == n_cases


def test_what_a_predictor_adds_compares_like_with_like():
    ways = {case.name: case for case in SHORT_LIST}
    for with_it, without in ADDS:
        assert ways[with_it].policy == ways[without].policy and ways[without].estimates == "requested"


def test_a_predictor_of_ones_own_is_one_more_way():
    log = clean(generate_log(400, seed=3, procs=64, load=1.0))[0]
    people = tuple(f"person {code}" for code in range(int(log.filled("user").max()) + 1))
    log = replace(log, categories={**log.categories, "user": people})
    question = Question(log, "wfp", 5, predictor="last-two")
    assert [case.name for case in question.cases][-2:] == ["EASY-SJBF by last-two", PERFECT.name]
    advice = question.advice(run_plan(question.plan))
    assert advice.current == "WFP" and "EASY-SJBF by last-two" in {option.case for option in advice.options}
    assert [one.case for one in advice.adds] == ["EASY++", "EASY-SJBF by last-two"]
    users = {change.group for change in advice.options[0].changes if change.by == "user"}
    assert users and users <= set(people), "names, where the log has them"


def test_how_many_users_are_worse_off_is_told_of_each_way():
    """By the mean wait of each of the users, whatever their number of jobs; in the details and in the document."""
    waits = {"ann": (5, 10.0, 2000.0), "bob": (900, 10.0, 9.0)}
    groups = pd.concat([NOBODY, *(groups_of("user", one, n, easy=easy, a=a) for one, (n, easy, a) in waits.items())])
    advice = advise(runs_of(easy=SAME, a=SAME), groups, "easy")
    (option,) = advice.options
    assert "Of the users 50 % [50, 50] wait longer in the mean" in who(option, "easy")
    assert advice.to_json()["options"][0]["judgement"]["worse_off"]["share"] == 0.5
    (option,) = advise(runs_of(easy=SAME, a=SAME), NOBODY, "easy").options
    assert "Of the users" not in who(option, "easy")


def page_of_advice(folder, *, lacks=(), **ways):
    """Return the page of an advice on runs of some ways, read; a log of two jobs stands for the site's."""
    runs = runs_of(**ways)
    more = {name: 1.0 for name in ("median_bounded_slowdown", *REPORTED) if name not in runs}
    runs = runs.assign(policy=runs["case"], estimates="requested", correction="requested", **more)
    runs = pd.concat([runs, runs[runs["seed"] == 1].assign(seed=-1)])
    groups = pd.concat([
        groups_of("size", "65-128", 50, easy=36_000.0, a=72_000.0),
        groups_of("run-time", "< 10 min", 500, easy=3600.0, a=600.0),
    ])  # fmt: skip
    found = Results(runs, groups, {"seeds": list(SEEDS), "logs": []}, {})
    columns = {"job_id": [1, 2], "submit": [0, 9], "wait": [5, 25], "run_time": [50, 100], "requested_procs": [1, 1]}
    log = JobLog.from_columns(columns, {}, max_procs=2, name="site")
    advice = Advice.none("easy", lacks) if lacks else advise(runs, groups, "easy")
    report = report_on(advice, found, log, "site.swf")
    write_report(folder, report)
    return Page((folder / PAGE).read_text(encoding="utf-8"))


def test_the_page_answers_on_its_first_screen(tmp_path):
    """One sentence, one picture, one table of five figures, in this order; then everything else, folded."""
    page = page_of_advice(tmp_path, easy=SAME, a=(0.7, 0.8, 0.9, 1.5, 1))
    assert page.problems == []
    said = "No winner: a instead of easy lowers the mean bounded slowdown by 30 %, but the longest wait grows by 50 %."
    tags = [tag for tag, _ in page.elements if tag in ("h1", "img", "table", "details", "tr")]
    assert tags[:3] == ["h1", "img", "table"] and tags[3:9] == ["tr"] * 6 and tags[9] == "details"
    assert page.words.index(said) < page.words.index("+50 % ▲") < page.words.index("The verdict in full")
    assert not any("…" in image["alt"] for image in page.all("img")), "no label is cut"
    who = (tmp_path / "who.csv").read_text(encoding="utf-8")
    assert "ran 1 to 10 min" in who and "65-128 processors" in who and "all jobs" in who


def test_a_page_without_a_verdict_has_no_figures_of_nothing(tmp_path):
    lack = Lack("same-schedules", "all ways are the same.", "Export requested times.", True)
    page = page_of_advice(tmp_path, lacks=(lack,), easy=SAME, a=SAME)
    assert page.problems == []
    order = ["Nothing could be tested: all ways are the same.", "Export requested times.", "in the log", "full"]
    places = [page.words.index(what) for what in order]
    assert places == sorted(places)
    assert "No reason to leave" not in page.words and "instead of easy" not in page.words
    assert "+0.0 %" not in page.words and "-0.0 %" not in page.words
    assert not (tmp_path / "who.csv").exists(), "nobody gains or pays where nothing was tested"


@pytest.fixture
def jobcast(tmp_path, monkeypatch, command):
    """Run a command line beside a small log; return its status and what it printed."""
    monkeypatch.chdir(tmp_path)
    write_swf(generate_log(600, seed=3, procs=64, load=1.0), tmp_path / "site log.swf")
    return lambda *words: command(words)


@pytest.mark.slow
def test_each_number_is_what_its_command_prints(jobcast, tmp_path, monkeypatch):
    status, out, err = jobcast("advise", "site log.swf", "--seeds", "5", "--procs", "64", "--json")
    assert status == 0, err
    document = json.loads(out)
    rows = document["tables"]["as logged, with commands"]
    runs = pd.read_csv(tmp_path / "reports" / "advise-site_log" / "runs.csv")
    assert [row["case"] for row in rows] == [case.name for case in (*SHORT_LIST, PERFECT)]
    means = {row["case"]: row for row in document["tables"]["shaken, geometric means over the seeds"]}
    for option in document["advice"]["options"]:
        quotient = means[option["case"]]["mean_bounded_slowdown"] / means["EASY"]["mean_bounded_slowdown"]
        assert option["judgement"]["ratio"]["value"] == pytest.approx(quotient)
    for row in rows[::3]:
        for more, seed in ((), -1), (("--shake", "4"), 4):
            found = json.loads(jobcast(*shlex.split(row["command"])[1:], *more, "--json")[1])
            kept = runs[(runs["case"] == row["case"]) & (runs["seed"] == seed)].iloc[0]
            for name in FIGURES:
                assert found[name] == pytest.approx(kept[name], rel=1e-12)
                assert seed != -1 or found[name] == pytest.approx(row[name], rel=1e-12)
    assert document["verdict"][0] and document["advice"]["current"] == "EASY"
    folder = tmp_path / "reports" / "advise-site_log"
    written = {path.name for path in folder.iterdir() if path.is_file()}
    assert {Path(name).name for name in document["files"]} == written and "users.csv" in written

    page = (tmp_path / "reports" / "advise-site_log" / "report.html").read_text(encoding="utf-8")
    assert "jobcast simulate &#39;site log.swf&#39; --procs 64 --policy easy" in page
    assert read_manifest(tmp_path / "reports" / "advise-site_log")["seeds"] == [1, 2, 3, 4, 5]

    def again(*_):
        raise AssertionError("what is done must not be done again")

    monkeypatch.setattr("experiments.sweeps.work.run_by_name", again)
    status, out, err = jobcast("advise", "site log.swf", "--seeds", "5", "--procs", "64", "--json")
    assert (status, json.loads(out)["verdict"]) == (0, document["verdict"]), err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--current", "eazy"], "did you mean 'easy'"),
        (["--seeds", "4"], "--seeds 5 or more"),
        (["--measure", "mean_wiat_s"], "did you mean 'mean_wait_s'"),
        (["--measure", "sse_s2"], "measure 'sse_s2'"),
        (["--predictor", "similiar"], "did you mean 'similar'"),
        (["--predictor", "tsafrir"], "in the short list already, as EASY++"),
        (["--predictor", "models:/nothing@champion"], "nothing"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(words, told, jobcast, tmp_path):
    status, out, err = jobcast("advise", "site log.swf", *words)
    assert (status, out) == (2, "") and told in err and len(err.splitlines()) == 1, err
    assert [path.name for path in tmp_path.iterdir()] == ["site log.swf"]


def test_too_few_seeds_are_refused_before_anything_is_run():
    with pytest.raises(JobcastError, match="nothing can be said"):
        Question(None, seeds=1)


@pytest.mark.slow
def test_soft_limits_of_the_sites_own_scheduler(tmp_path):
    """Today's policy with soft limits by four predictors; the page says what the scheduler can do, with commands."""
    log = clean(generate_log(150, seed=6, users=6, load=0.9))[0]
    question = Question(log, "easy", 5, soft_limits="pbs")
    assert [case.name for case in question.cases][0::5] == ["EASY", "run times known"]
    assert {case.soft_limits for case in question.cases[1:]} == {"pbs"}
    found = question.run(tmp_path)
    advice = question.advice(found)
    assert len(advice.options) == 4 and advice.most is not None and not advice.adds
    report = report_on(advice, found, log, "site.swf", "pbs")
    command = report.tables["as logged, with commands"].set_index("case")["command"]["similar within 0.1"]
    assert command.endswith("--estimates similar --correction pbs --budget 0.1 --soft-limits pbs")
    assert any("Of balanced: PBS can order" in sentence for sentence in report.details)
    with pytest.raises(JobcastError, match="plans by requested times today; careful plans by careful"):
        Question(log, "careful", 5, soft_limits="slurm")
    with pytest.raises(JobcastError, match="has a list of its own"):
        Question(log, "easy", 5, predictor="last-two", soft_limits="slurm")
