"""Tuning: what is tuned for, that only the training part decides, what the command leaves, what it refuses."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from experiments.runs.policies import agent_named
from experiments.site.tune import search as search_module
from experiments.site.tune import tune as tuning_module
from experiments.site.tune.judge import AGENT, CHANCE, EASY, Judged, judge, overfit, verdict
from experiments.site.tune.search import (
    FIVE,
    OBJECTIVES,
    Contest,
    Frame,
    Objective,
    Search,
    five,
    found_by,
    policy_of,
    variant,
)
from experiments.site.tune.tune import Split, Tuned, Tuning
from jobcast import JobcastError, Pool, Workload, clean, figures, generate_log, make_policy, simulate, write_log
from schedsim.agents.files import NamedAgent, read_agent, write_agent
from schedsim.policies.agents import OLDEST_FIRST, RESERVES, Linear

FRAME = Frame(Objective("wait"))


@pytest.fixture(scope="module")
def log():
    """Return a busy log of 700 jobs, cleaned."""
    return clean(generate_log(700, seed=5, procs=64, load=1.0))[0]


@pytest.fixture
def quick(monkeypatch):
    """Let parts of 100 jobs do, and fewer copies."""
    monkeypatch.setattr(tuning_module, "LEAST_JOBS", 100)
    monkeypatch.setattr(tuning_module, "_COPIES", 2)


def test_the_five_figures_are_those_of_every_table(log):
    schedule = simulate(Workload.from_log(log), make_policy("easy"))
    told = figures(schedule)
    assert np.allclose(np.exp(five(schedule)), [max(1.0, told[name]) for name in FIVE], rtol=1e-12)


def test_objectives_see_what_they_say():
    better, starving = np.log([0.5, 0.5, 1.0, 1.0, 1.0]), np.log([0.4, 0.4, 1.0, 3.0, 1.0])
    for name in OBJECTIVES:
        aim = Objective(name)
        assert aim.of(np.zeros(5)) == 0
        assert aim.of(better) < 0
        one_sided = name in ("slowdown", "wait")
        assert (aim.of(starving) < aim.of(better)) == one_sided, name
    narrow = np.log([1.0, 1.0, 1.0, 1.0, 0.5])
    assert Objective("five").of(narrow) < 0 == Objective("constrained").of(narrow)
    loose = Objective("constrained", tolerance=2.0)
    assert loose.of(starving) < loose.of(better)


def test_a_log_is_cut_by_share_or_months(log):
    split = Split(log, "0.5")
    assert (len(split.first), len(split.rest)) == (350, 350)
    assert split.first["submit"].max() + split.first.origin <= split.rest.origin
    days = log["submit"] // 86_400
    cut = Split(clean(generate_log(4000, seed=5, procs=64, load=0.3))[0], "1mo")
    assert int(cut.first["submit"].max()) < 30 * 86_400 <= cut.rest.origin - cut.first.origin
    assert days.max() < 30, "this log has no second month"
    for train, said in (
        ("1mo", "700 jobs would be tuned on and 0 tested on"), ("0.99", "cannot be split"), ("half", "share of the"),
        ("0", "share"), ("1.5", "share"), ("nan", "share"), ("0mo", "share"), ("-1mo", "share"),
    ):  # fmt: skip
        with pytest.raises(JobcastError, match=said):
            Split(log, train)


def test_longest_waiting_first_is_easy_on_every_variant(log):
    for number in range(2):
        contest = Contest(variant(log, 0, number), FRAME)
        for reserve in RESERVES:
            assert not contest.ratios(policy_of(np.array(OLDEST_FIRST.weights), reserve, 50)).any()


def test_variants_arrive_faster_and_slower_and_keep_their_jobs(log):
    lasts = [int(variant(log, 0, number)["submit"][-1]) for number in range(6)]
    ratio = np.array(lasts) / int(log["submit"][-1])
    assert 0.89 < ratio.min() < 0.97 and 1.03 < ratio.max() < 1.11
    assert sorted(variant(log, 0, 1)["job_id"].tolist()) == sorted(log["job_id"].tolist())


def test_a_search_finds_shorter_waits_and_is_the_same_again(log):
    search, ticks = Search(FRAME, "again", 4), []
    weights = found_by(log, search, ticks.append)
    assert ticks == [1] * 4
    assert found_by(log, search) == weights
    assert found_by(log, replace(search, frame=replace(FRAME, seed=1))) != weights
    assert Contest(log, FRAME).ratios(policy_of(np.array(weights), "again", 50))[0] < -0.05


def test_only_the_training_part_decides(log, quick):
    tuning = Tuning(Split(log), generations=2, seed=3)
    found = tuning.run()
    late = np.arange(len(log)) >= 350
    values = dict(log.values)
    values["run_time"] = np.where(late, values["requested_time"] // 2 + 1, values["run_time"])
    other = Tuning(Split(replace(log, values=values)), generations=2, seed=3).run()
    assert other.agent.agent == found.agent.agent
    assert (other.agent.reserve, other.choices) == (found.agent.reserve, found.choices)
    assert found.agent.reserve == min(found.choices, key=found.choices.get)
    assert set(found.choices) == set(RESERVES)
    origin = found.agent.origin
    assert (origin["train_jobs"], origin["objective"], origin["seed"]) == (350, "constrained", 3)
    assert origin["log_sha256"] == log.digest() != origin["train_sha256"]


def test_one_rule_is_taken_as_it_is_and_predictions_may_be_seen(log, quick):
    found = Tuning(Split(log), reserves=("oldest",), estimates="order=last-two", generations=1, window=7).run()
    assert (found.agent.reserve, found.choices, found.agent.window) == ("oldest", {}, 7)
    assert found.agent.estimates == "order=last-two"
    plain = Tuning(Split(log), reserves=("oldest",), generations=1, window=7).run()
    assert plain.agent.agent != found.agent.agent


@pytest.mark.slow
def test_the_agent_does_not_depend_on_the_workers(log):
    tuning = Tuning(Split(log), generations=2)
    one, two = tuning.run(), tuning.run(Pool(workers=2))
    assert (one.agent, one.choices, one.train) == (two.agent, two.choices, two.train)


def test_what_cannot_be_tuned_is_refused(log):
    for wrong, said in (
        ({"reserves": ()}, "Name reservation rules"), ({"reserves": ("kept", "kept")}, "each once"),
        ({"reserves": ("kpet",)}, "did you mean 'kept'"), ({"estimates": "lst-two"}, "did you mean 'last-two'"),
        ({"window": 57}, "1 to 56"), ({"generations": 0}, "generations"),
    ):  # fmt: skip
        with pytest.raises(JobcastError, match=said):
            Tuning(Split(log), **wrong)
    with pytest.raises(JobcastError, match="did you mean 'constrained'"):
        Objective("constraint")
    with pytest.raises(JobcastError, match="tolerance"):
        Objective("constrained", float("nan"))


def tuned_like(training, test):
    """Return a Tuned and a Judged of these ratios, as the warning looks at them."""

    class Fixed(Judged):
        def __init__(self):
            pass

        def ratio(self, case, measure):
            return (dict(zip(FIVE, test, strict=True))[measure],) * 3

    agent = NamedAgent(Linear(OLDEST_FIRST.weights))
    return Fixed(), Tuned(agent, {}, dict(zip(FIVE, training, strict=True)))


def test_a_gain_that_does_not_last_is_called_overfit():
    aim = Objective("slowdown")
    said = overfit(*tuned_like((0.6, 0.4, 0.8, 17.0, 1.8), (2.1, 1.05, 3.5, 51.0, 5.9)), aim)
    assert said.startswith("Overfitted: the test part keeps nothing of what the training part gained")
    assert "less than half" in overfit(*tuned_like((1, 0.4, 1, 1, 1), (1, 0.8, 1, 2, 1)), aim)
    said = overfit(*tuned_like((1, 0.4, 1, 1, 1), (1, 0.8, 1, 3, 1)), aim)
    assert "longest wait 1.00 in training, 3.00 in the test" in said
    assert overfit(*tuned_like((1, 0.4, 1, 1, 1), (1, 0.6, 1, 1, 1)), aim) is None
    assert overfit(*tuned_like((1, 1, 1, 1, 1), (1, 1, 1, 1, 1)), aim).startswith("Nothing gained")


def test_a_gain_that_lasts_is_not_called_overfit_where_a_limit_breaks():
    aim, training = Objective("constrained"), (0.53, 0.6, 1.0, 1.04, 1.0)
    said = overfit(*tuned_like(training, (0.47, 0.55, 1.0, 1.62, 1.0)), aim)
    assert said == (
        "The gain lasts, but a limit does not hold. Times EASY's: mean wait 0.53 in training, 0.47 in the test and "
        "mean bounded slowdown 0.60 in training, 0.55 in the test; beyond the limit of 1.05: longest wait 1.04 in "
        "training, 1.62 in the test."
    )
    assert overfit(*tuned_like(training, (0.47, 0.55, 1.0, 1.04, 1.0)), aim) is None
    paid = overfit(*tuned_like((0.5, 0.45, 0.9, 1.0, 1.0), (0.55, 0.5, 1.0, 1.1, 0.9)), aim)
    assert (
        paid.startswith("The gain lasts, but a limit does not hold.") and "longest wait 1.00 in training, 1.10" in paid
    )
    broken_in_training = (0.53, 0.6, 1.0, 1.3, 1.0)
    assert overfit(*tuned_like(broken_in_training, (0.6, 0.65, 1.0, 1.0, 1.0)), aim) is None
    said = overfit(*tuned_like(training, (0.97, 0.95, 1.0, 1.62, 1.0)), aim)
    assert said.startswith("Overfitted: the test part keeps less than half") and "0.53 in training, 0.97" in said


def test_the_test_stands_beside_chance_in_the_same_frame(log, tmp_path):
    agent = NamedAgent(Linear(OLDEST_FIRST.weights), "oldest", 9, estimates="order=last-two")
    write_agent(agent, tmp_path / "agent.json")
    tuned = Tuned(agent, {}, dict.fromkeys(FIVE, 1.0))
    judged = judge(tuned, log, tmp_path / "agent.json", Objective(), tmp_path, seeds=5)
    control = read_agent(tmp_path / "random.npz")
    assert (control.kind, control.reserve, control.window, control.estimates) == (
        "random", "oldest", 9, "order=last-two",
    )  # fmt: skip
    assert list(judged.agent_beside)[:2] == [EASY, CHANCE]
    assert "EASY-SJBF by the agent's estimates" in judged.agent_beside
    assert judged.ratio(AGENT, "mean_wait_s")[0] == 1.0, "longest waiting first is EASY: the order is its own"
    assert verdict(judged, tuned, Objective())[0].startswith("No winner between agent and EASY")
    assert verdict(judged, tuned, Objective("wait"))[-1].startswith("The objective wait does not see who pays")
    with pytest.raises(JobcastError, match="take --seeds 5"):
        judge(tuned, log, tmp_path / "agent.json", Objective(), tmp_path, seeds=4)


@pytest.fixture
def place(log, tmp_path, monkeypatch):
    """Work in a folder with a log."""
    monkeypatch.chdir(tmp_path)
    write_log(log, tmp_path / "site.swf")
    return tmp_path


WORDS = ("tune", "site.swf", "--procs", "64", "--generations", "2", "--seeds", "5")


def test_the_command_leaves_an_agent_a_page_and_a_registered_version(place, quick, home, monkeypatch, command):
    monkeypatch.chdir(place)
    status, out, err = command((*WORDS, "--out", "mine.json", "--register", "order", "--alias", "champion", "--json"))
    assert status == 0, err
    found = json.loads(out)
    agent = read_agent("mine.json")
    assert (agent.reserve, agent.digest) == (found["reserve"], found["digest"])
    assert agent.origin["test_mean_wait_s_ratio"] > 0
    page = (place / found["page"]).read_text(encoding="utf-8")
    assert "random in the same frame" in page and "careful" in page
    cases = {row["case"] for row in found["tables"]["test part, relative to EASY"]}
    assert cases == {"agent", "random in the same frame", "EASY-SJBF", "careful"}
    assert found["registered"] == "models:/order@champion"
    assert agent_named("agent:models:/order@champion") == agent
    status, out, err = command(("simulate", "site.swf", "--procs", "64", "--policy", "agent:models:/order/1", "--json"))
    assert status == 0, err
    told = json.loads(out)
    assert told["learnt_from_this_log"] is True
    by_file = ("simulate", "site.swf", "--procs", "64", "--policy", "agent:mine.json", "--json")
    assert json.loads(command(by_file)[1])["mean_wait_s"] == told["mean_wait_s"]
    status, out, err = command(("advise", "site.swf", "--procs", "64", "--agent", "mine.json", "--seeds", "5"))
    assert (status, out) == (2, "")
    assert "was tuned on a part of this very log" in err
    stored = next(path for path in home.rglob("agent.json"))
    stored.write_text(stored.read_text().replace('"window": 50', '"window": 49'))
    with pytest.raises(JobcastError, match="changed since it was logged"):
        agent_named("agent:models:/order/1")
    with pytest.raises(JobcastError, match="models:/order/1"):
        agent_named("agent:models:/order/1")


def test_a_command_that_is_stopped_leaves_nothing_half_written(place, quick, monkeypatch, command):
    def stopped(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(search_module, "Contest", stopped)
    monkeypatch.setattr(sys, "argv", ["jobcast", *WORDS])
    from experiments.cli.main import main

    with pytest.raises((KeyboardInterrupt, SystemExit)):
        main()
    assert [path.name for path in place.iterdir()] == ["site.swf"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--objective", "fivee"), "did you mean 'five'"),
        (("--train", "0.01"), "each part needs 300 or more"),
        (("--reserve", "kept,nver"), "No reservation rule 'nver'"),
        (("--estimates", "order=lasttwo"), "did you mean 'last-two'"),
        (("--tolerance", "-1"), "tolerance"),
        (("--out", "agent.pkl"), "ends in .npz or .json"),
        (("--out", "site.swf"), "very file that is read"),
        (("--seeds", "4"), "take --seeds 5"),
        (("--seeds", "9999999999"), "at most 100,000"),
        (("--window", "0"), "1 to 56"),
        (("--alias", "champion"), "give --register"),
        (("--register", "a b"), "model's name"),
    ],
)
def test_bad_input_is_one_clear_line(place, command, words, told):
    options = dict(zip(WORDS[2::2], WORDS[3::2], strict=True)) | {words[0]: words[1]}
    status, out, err = command((*WORDS[:2], *(part for option in options.items() for part in option)))
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert told in err
    assert [path.name for path in place.iterdir()] == ["site.swf"]


def test_a_folder_of_reports_that_cannot_be_made_is_refused_before_the_tuning(place, command):
    (place / "reports").mkdir()
    (place / "reports" / "tune-site").write_text("no folder")
    status, out, err = command(WORDS)
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert "tune-site: cannot be written" in err and "is no folder" in err
    assert sorted(path.name for path in place.iterdir()) == ["reports", "site.swf"]
