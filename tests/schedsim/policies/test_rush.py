"""RUSH's gate: Algorithms 1 and 2 call by call, and what it leaves alone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobcast import JobcastError, Policy, Simulation, Workload, make_policy, simulate
from schedsim.contention.background import Background
from schedsim.contention.model import ContentionModel
from schedsim.explain.explain import explain
from schedsim.explain.sentences import in_words
from schedsim.machine.topology import Topology
from schedsim.policies.gates import Candidate, Verdict
from schedsim.policies.rush import Rush, Scripted, rush
from tests.by_hand.rush import rush as by_hand
from tests.support.engine_runs import goes_on_alike, jobs_of, workload_of
from tests.support.strategies import PROCS, seeded_workload, workloads

EASY = make_policy("easy")


class Model:
    """A classifier by a rule (row, now) -> bool that writes down its calls."""

    def __init__(self, varies, word="variation"):
        self.varies, self.word, self.calls = varies, word, []

    def foresee(self, candidate):
        """Say what the rule says."""
        self.calls.append((candidate.now, candidate.row))
        return self.word if self.varies(candidate.row, candidate.now) else "none"


def never(row, now):
    return False


def always(row, now):
    return True


def sometimes(seed):
    """Return a rule without memory that says variation for about half of all (row, now)."""
    return lambda row, now: (row * 7919 + now * 104729 + seed * 31) % 97 < 48


def three_jobs(**more):
    """Two jobs that fit side by side, the third needs the machine."""
    columns = {"submit": [0, 0, 0], "procs": [4, 4, 8], "requested": [50] * 3, "run_time": [50] * 3} | more
    return Workload.from_columns([1, 2, 3], machine_procs=8, **columns)


# --- the script of three jobs ----------------------------------------------------------------------------------------


def test_after_ten_skips_a_job_starts_without_a_call():
    model = Model(lambda row, now: row == 0)
    policy = rush(EASY, model)
    w = three_jobs(procs=[4, 2, 2], requested=[10_000, 50, 50])
    schedule = simulate(w, policy)
    asked = [now for now, row in model.calls if row == 0]
    # its tenth skip is at 480 s; 50 s is the end of the two others
    assert asked == [0, 50, 60, 120, 180, 240, 300, 360, 420, 480]
    assert schedule.start.tolist() == [540, 0, 0]
    assert vars(policy.gate.tally) == {"calls": 12, "skips": 10, "met": 1}
    assert len(model.calls) == 12


def test_only_variation_delays_unless_little_is_asked_for():
    w, little = three_jobs(), Model(lambda row, now: row == 0 and now < 50, "little")
    assert simulate(w, rush(EASY, little)).start.tolist() == [0, 0, 50]
    assert simulate(w, rush(EASY, little, labels=("little", "variation"))).start.tolist() == [50, 0, 100]


def test_thresholds_by_job():
    model = Model(always)
    policy = rush(EASY, model, threshold=np.array([2, 0, 1]))
    schedule = simulate(three_jobs(procs=[1, 1, 1]), policy)
    assert schedule.start.tolist() == [60, 0, 50]
    assert vars(policy.gate.tally) == {"calls": 3, "skips": 3, "met": 2}, "row 1 is exempt, and meets no threshold"


def test_an_idle_machine_is_asked_again_when_counters_arrive():
    w = jobs_of((59, 1, 10, 10), machine=8)
    assert simulate(w, rush(EASY, Model(lambda row, now: now < 100))).start.tolist() == [120]
    assert simulate(w, rush(EASY, Model(lambda row, now: now < 100), recheck=7)).start.tolist() == [105]


def test_a_skip_is_told_in_words():
    model = Model(lambda row, now: row == 0 and now < 50)
    w = three_jobs()
    lines = in_words(explain(simulate(w, rush(EASY, model)), 1, rush(EASY, model)))
    assert lines[1] == "t=0: it could have started, but was held: RUSH foresees variation: skip 1 of 10."


# --- what it leaves alone --------------------------------------------------------------------------------------------

BASES = ["fcfs", "sjf", "easy", "easy-sjbf", "wfp3-easy", "saf-easy", "easy+promise", "binpacking"]


@given(jobs=workloads(), name=st.sampled_from(BASES))
def test_a_model_that_never_says_variation_changes_nothing(jobs, name):
    workload, base = workload_of(jobs), make_policy(name)
    gated, free = simulate(workload, rush(base, Model(never))), simulate(workload, base)
    assert gated.start.tolist() == free.start.tolist()
    assert gated.started_by.tolist() == free.started_by.tolist()


@given(jobs=workloads(), seed=st.integers(0, 9), threshold=st.integers(0, 4), everywhere=st.booleans(),
       recheck=st.sampled_from([7, 60]))  # fmt: skip
def test_equals_the_algorithms_by_hand(jobs, seed, threshold, everywhere, recheck):
    starts, calls = by_hand(jobs, PROCS, sometimes(seed), threshold, recheck, everywhere)
    model = Model(sometimes(seed))
    policy = rush(EASY, model, threshold=threshold, recheck=recheck, count_on="pass" if everywhere else "release")
    assert simulate(workload_of(jobs), policy).start.tolist() == starts
    assert model.calls == calls
    assert policy.gate.tally.calls == len(model.calls)


@pytest.mark.parametrize("name", BASES)
def test_no_job_is_skipped_more_often_than_it_may_be_and_all_start(name):
    for seed in range(10):
        workload, model = workload_of(seeded_workload(seed)), Model(always)
        policy = rush(make_policy(name), model, threshold=3)
        simulate(workload, policy)
        counts = np.bincount([row for _, row in model.calls], minlength=len(workload))
        assert (counts == 3).all()
        assert vars(policy.gate.tally) == {"calls": counts.sum(), "skips": counts.sum(), "met": len(workload)}


def test_scripted_skips_are_all_made():
    for seed in range(10):
        workload = workload_of(seeded_workload(seed))
        skips = np.random.default_rng(seed).integers(0, 5, len(workload))
        policy = rush(EASY, Scripted(skips))
        simulate(workload, policy)
        assert policy.gate.tally.skips == skips.sum()


def test_the_classifier_sees_the_nodes_of_the_tentative_placement():
    from schedsim.machine.allocators import FirstFit

    seen = []

    class Looks(Model):
        def foresee(self, candidate):
            seen.append((candidate.row, candidate.nodes.tolist()))
            return super().foresee(candidate)

    found = simulate(three_jobs(), rush(EASY, Looks(lambda row, now: row == 0 and now < 50)),
                     allocator=FirstFit(Topology.flat(8)))  # fmt: skip
    nodes = [0, 1, 2, 3]
    assert seen == [(0, nodes), (1, nodes), (0, nodes), (2, list(range(8)))], "given back, and offered to the next"
    assert found.nodes[1].tolist() == [0, 1, 2, 3]


# --- copies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_window", [False, True])
def test_copies_and_moments_keep_the_skips(by_window):
    copied, options = 0, {"count_on": "window", "recheck": 7, "window": 21, "threshold": 3} if by_window else {}
    for seed in range(10):
        model = Model(always if by_window else sometimes(seed))
        workload, policy = workload_of(seeded_workload(seed)), rush(EASY, model, **options)
        whole = simulate(workload, policy)
        for until in np.unique(workload.submit)[1:].tolist():
            simulation = Simulation(workload, policy)
            if simulation.run(until=until):
                continue
            goes_on_alike(simulation, whole)
            copied += 1
    assert copied > 20


def test_a_fresh_gate_has_counted_nothing():
    policy = rush(EASY, Model(sometimes(1)))
    simulate(workload_of(seeded_workload(1)), policy)
    assert policy.gate.tally.calls > 0
    assert policy.gate.fresh().tally.calls == 0


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"threshold": -1}, "threshold must be a whole number"),
        ({"threshold": np.array([1, -1])}, "threshold must be a whole number"),
        ({"recheck": 0}, "every 1 s or more"),
        ({"count_on": "submission"}, "release, pass, window; got 'submission'"),
        ({"labels": ("many",)}, "none, little, variation"),
    ],
)
def test_what_cannot_be_is_refused(more, told):
    with pytest.raises(JobcastError, match=told):
        rush(EASY, Model(never), **more)


def test_one_gate_a_policy_and_words_that_are_known():
    with pytest.raises(JobcastError, match="has a gate already"):
        rush(rush(EASY, Model(never)), Model(never))
    with pytest.raises(JobcastError, match="it said 'perhaps'"):
        simulate(three_jobs(), rush(EASY, Model(always, "perhaps")))
    assert isinstance(rush(Policy(), Model(never)), Policy)


@pytest.mark.parametrize("name", ["rush", "easy+rush", "easy-sjbf+rush"])
def test_a_name_alone_makes_no_rush(name):
    with pytest.raises(JobcastError, match="asks a classifier about a machine with contention"):
        make_policy(name)


@pytest.mark.parametrize("answer", [None, True, ("no",), Verdict("no"), Verdict(float("nan"))])
def test_a_gate_answers_a_verdict_of_true_or_false(answer):
    gate = type("Odd", (), {"ask": lambda self, candidate: answer})()
    workload = jobs_of((0, 4, 50, 50), machine=8)
    with pytest.raises(JobcastError, match="gate must answer"):
        simulate(workload, replace(make_policy("easy"), gate=gate))


@pytest.mark.parametrize(
    "wrong", [{"threshold": 1.5}, {"threshold": "x"}, {"threshold": None}, {"threshold": np.array([1.5])},
              {"recheck": "60"}, {"recheck": 1.5}, {"recheck": 10**30}, {"labels": "variation"}, {"labels": [1]}]
)  # fmt: skip
def test_settings_of_wrong_types_are_refused(wrong):
    with pytest.raises(JobcastError, match="RUSH"):
        Rush(Scripted(np.zeros(1, dtype=np.int64)), **wrong)


# --- patience as time, and asks that take time ------------------------------------------------------------------------


def one_leaf(apps, **more):
    """A machine of one leaf switch on which nobody disturbs anybody."""
    about = {"background": Background.none(), "jitter": 0.0} | more
    return ContentionModel(apps, Topology(1, 8), **about)


def test_with_one_skip_a_window_only_the_first_ask_of_a_window_counts():
    """Asked at 0, 60, …, 240 and 300: the first and the one at 300 s count; at 360 s both skips are used."""
    one = three_jobs(submit=[0, 1000, 1000])
    by_window = rush(EASY, Model(always), threshold=2, count_on="window")
    assert simulate(one, by_window).start[0] == 360
    assert (by_window.gate.tally.skips, by_window.gate.tally.met) == (6, 3)
    assert simulate(one, rush(EASY, Model(always), threshold=2)).start[0] == 120


def test_a_window_counts_whenever_in_it_the_job_is_asked_about():
    """The job fits at no multiple of 300 s: asked a few seconds later, each new window counts once all the same."""
    gate, holds, held_at, counted = Rush(Model(always), threshold=4, count_on="window"), 0, None, []
    for now in (10, 310, 590, 620, 910, 1230, 9999):
        verdict = gate.ask(Candidate(0, now, 8, holds, True, False, held_at=held_at))
        if verdict.start:
            break
        if verdict.counts:
            holds, held_at = holds + 1, now
            counted.append(now)
    assert (counted, now, gate.tally.skips) == ([10, 310, 620, 910], 1230, 4)


def test_the_engine_keeps_when_a_skip_counted():
    """Another job has the machine from 290 to 310 s: asked at 10 and 310, both count, and the next start is allowed."""
    w = jobs_of((10, 4, 50, 50), (290, 8, 20, 20), machine=8)
    for name in ("easy", "sjf"):
        found = simulate(w, policy := rush(make_policy(name), model := Model(lambda row, now: row == 0),
                                           threshold=2, count_on="window"))  # fmt: skip
        assert found.start.tolist() == [360, 290] and policy.gate.tally.met == 1
        assert [now for now, row in model.calls if row == 0] == [10, 60, 120, 180, 240, 310]


def test_with_asks_that_take_time_a_window_is_that_of_the_ask():
    """Asked at 295, and at 305 when it was answered: two windows. By the answers, 300 and 310, it would be one."""
    gate = Rush(Model(always), threshold=9, count_on="window", ask_seconds=5)
    for last, now, new in ((300, 310, True), (305, 310, False), (300, 304, False)):
        assert gate._in_new_window(Candidate(0, now, 8, 1, True, False, held_at=last)) == new


def test_an_ask_takes_its_time_and_keeps_nodes_for_its_job():
    """Two are asked about at once; the third, which needs the machine, waits for them, is asked at 55 and starts."""
    model = Model(never)
    policy = rush(EASY, model, ask_seconds=5)
    found = simulate(three_jobs(), policy, kill=False, run_times=one_leaf(["AMG"] * 3))
    assert found.start.tolist() == [5, 5, 60] and model.calls == [(0, 0), (0, 1), (55, 2)]
    assert (policy.gate.tally.calls, policy.gate.tally.skips) == (3, 0)


def test_the_answer_is_of_when_the_job_was_asked_about():
    """Asked at 0 it would vary, though not any more at the answer at 5; asked again at 60, when counters come."""
    policy = rush(EASY, Model(lambda row, now: now < 3), ask_seconds=5)
    found = simulate(three_jobs(submit=[0, 900, 900]), policy, kill=False, run_times=one_leaf(["AMG"] * 3))
    assert found.start[0] == 65 and policy.gate.tally.skips == 1


def test_copies_have_their_own_asks():
    policy = rush(EASY, Model(sometimes(3)), ask_seconds=7, threshold=4)
    whole, half = (Simulation(three_jobs(), policy, kill=False, run_times=one_leaf(["AMG"] * 3)) for _ in range(2))
    whole.run()
    half.run(until=3)
    copy = half.fork()
    half.run()
    copy.run()
    assert half.schedule().start.tolist() == copy.schedule().start.tolist() == whole.schedule().start.tolist()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"ask_seconds": -1}, "takes 0 to 3600 whole seconds; got -1"),
        ({"count_on": "window", "window": 90}, "must be a multiple of recheck=60 s; got 90"),
    ],
)
def test_asks_and_windows_that_cannot_be(options, says):
    with pytest.raises(JobcastError, match=says):
        rush(EASY, Model(never), **options)


def test_asks_that_take_time_need_a_machine_that_keeps_them():
    with pytest.raises(JobcastError, match="leave ask_seconds at 0"):
        simulate(three_jobs(), rush(EASY, Model(never), ask_seconds=5))
