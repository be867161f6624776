"""What tuning gains on real logs, on the half that it has not seen, and what it costs."""

import time

import pytest

from experiments.site.tune.judge import AGENT, judge, verdict
from experiments.site.tune.reinforce import trained_on
from experiments.site.tune.search import FIVE, Objective
from experiments.site.tune.tune import Split, Tuning
from jobcast import clean, read_log
from schedsim.agents.files import write_agent

pytestmark = pytest.mark.slow


def outcome_of(path, objective, folder, **options):
    """Tune on the first half of a log and test on the second; return ratios to EASY, what was found, CPU seconds."""
    split = Split(clean(read_log(path)[0])[0])
    short = options | {"generations": 1, "reserves": ("again",)}
    Tuning(split, Objective(objective), **short).run()  # compiled code is not timed
    begin = time.process_time()
    tuned = Tuning(split, Objective(objective), **options).run()
    seconds = time.process_time() - begin
    write_agent(tuned.agent, folder / "agent.npz")
    judged = judge(tuned, split.rest, folder / "agent.npz", Objective(objective), folder, seeds=5)
    ratios = {name: judged.ratio(AGENT, name)[0] for name in FIVE}
    return ratios, tuned, judged, seconds


def test_on_kth_sp2(trace, tmp_path):
    """The aims are 0.80 for the wait and 0.60 for the slowdown, which are not reached: 0.83 and 0.64."""
    ratios, _, judged, seconds = outcome_of(trace("KTH-SP2-1996-2.1-cln"), "five", tmp_path)
    assert ratios["mean_wait_s"] <= 0.84, ratios
    assert ratios["mean_bounded_slowdown"] <= 0.66, ratios
    assert ratios["max_wait_s"] <= 1.0, ratios
    assert ratios["widest5_mean_wait_s"] <= 0.70, ratios
    assert judged.agent_beside["EASY"].outcome == "better"
    assert judged.beside_easy["random in the same frame"].paid, "chance lets others pay; the agent does not"
    assert not judged.beside_easy[AGENT].paid
    assert seconds <= 36, f"{seconds:.0f} CPU s"  # 30 on a quiet machine


def test_on_sdsc_sp2(trace, tmp_path):
    ratios, _, judged, _ = outcome_of(trace("SDSC-SP2-1998-4.2-cln"), "five", tmp_path)
    assert ratios["mean_wait_s"] <= 0.85, ratios
    assert ratios["mean_bounded_slowdown"] <= 0.70, ratios
    assert ratios["max_wait_s"] <= 1.15, ratios
    assert ratios["widest5_mean_wait_s"] <= 0.80, ratios
    assert judged.agent_beside["EASY"].outcome == "better"


def test_the_longest_wait_stays_on_theta(trace, tmp_path):
    ratios, tuned, _, _ = outcome_of(trace("ALCF-Theta-2022.cqsim"), "constrained", tmp_path)
    assert ratios["max_wait_s"] <= 1.25, ratios
    assert ratios["mean_wait_s"] <= 0.85, ratios
    assert tuned.agent.reserve == "oldest"


def test_slowdown_alone_starves_on_sdsc_sp2(trace, tmp_path):
    options = {"reserves": ("again",)}
    ratios, tuned, judged, _ = outcome_of(trace("SDSC-SP2-1998-4.2-cln"), "slowdown", tmp_path, **options)
    assert tuned.train["mean_bounded_slowdown"] < 0.6
    assert ratios["max_wait_s"] > 20, ratios
    assert judged.agent_beside["EASY"].outcome in ("at others' cost", "worse")
    assert any("longest wait" in sentence for sentence in verdict(judged, tuned, Objective("slowdown")))


def test_a_network_on_kth_sp2(trace, tmp_path):
    """It reaches the aims that linear agents miss: 0.80 for the wait and 0.60 for the slowdown, by 0.76 and 0.59."""
    options = {"reserves": ("kept",), "find": trained_on, "seed": 2}
    ratios, _, judged, seconds = outcome_of(trace("KTH-SP2-1996-2.1-cln"), "five", tmp_path, **options)
    assert ratios["mean_wait_s"] <= 0.80, ratios
    assert ratios["mean_bounded_slowdown"] <= 0.62, ratios
    assert ratios["max_wait_s"] <= 1.0, ratios
    assert ratios["widest5_mean_wait_s"] <= 0.70, ratios
    assert judged.agent_beside["EASY"].outcome == "better"
    assert judged.agent_beside["random in the same frame"].outcome == "better"
    assert not judged.beside_easy[AGENT].paid
    assert seconds <= 36, f"{seconds:.0f} CPU s"
