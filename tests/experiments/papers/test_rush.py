"""RUSH's experiments: what the gate is shown, the jobs of Table II, the controls, and that workers change nothing."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest

from experiments.papers.rush import measures
from experiments.papers.rush.asking import PRICED, AskSettings, rows_of
from experiments.papers.rush.dose import LENGTH, MEASURED, Case, beside_none, on_ten_days, summed
from experiments.papers.rush.jobs import EXPERIMENTS, MACHINE, SIZES, jobs_of, scaled
from experiments.papers.rush.measures import CALM_EASY, CALM_RUSH, EASY, RANDOM, RUSH
from experiments.papers.rush.study import Shared, against, by_policy, row_trial, run, settings_of, tables_of, trials_of
from experiments.papers.rush.trials import (
    Control,
    Environment,
    Inputs,
    Learnt,
    Oracle,
    classifier_at,
    contention_of,
    learn,
    run_trial,
)
from experiments.runs.setting import Setting
from jobcast import JobcastError, Simulation, Workload, generate_log, make_policy, simulate
from predictors.data.telemetry.read import Scan
from predictors.data.telemetry.samples import Telemetry, write_rates
from predictors.tracking.model_folder import ClassifierOrigin, save_model
from predictors.variability.dataset import Dataset
from predictors.variability.features import FEATURES
from predictors.variability.labels import Norms
from predictors.variability.ring import CounterRing
from predictors.variability.selection.select import train
from predictors.variability.verdict import Verdict
from predictors.variability.windows import windows
from schedsim.contention.applications import ALONE, APPS
from schedsim.contention.background import Background
from schedsim.contention.model import ContentionModel
from schedsim.machine.topology import Topology
from schedsim.policies.rush import rush
from tests.support.variability_data import dataset

LOG = generate_log(10, seed=0)  # which nothing here looks at
SMALL = Topology(4, 8).with_apart(1 / 8)
NAMES = ["AMG", "LBANN", "Laghos", "SWFFT"] * 6
ROUGH = Background(tau=120, step=10, network=0.2, burst_leaves=1.0, burst_pause=2.0)


class Shows(CounterRing):
    """A ring that keeps all samples besides."""

    def __init__(self, nodes):
        super().__init__(np.arange(nodes))
        self.times, self.kept = [], []

    def push(self, time, rates):
        """Hand on, and keep."""
        self.times.append(time)
        self.kept.append(np.array(rates, dtype=np.float32))
        super().push(time, rates)


def small_jobs():
    n = len(NAMES)
    return Workload.from_columns(
        range(1, n + 1), submit=np.arange(n) * 20, procs=[6] * n, requested=[900] * n, run_time=[150] * n,
        machine_procs=SMALL.for_jobs,
    )  # fmt: skip


def small_contention(sink, **more):
    return ContentionModel(NAMES, SMALL, background=ROUGH, seed=3, sink=sink, origin=86_400 + 7, lost=0.02, **more)


# --- what the gate is shown -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["all", "job"])
def test_the_gate_is_shown_the_row_that_the_dataset_has_for_that_start(scope, tmp_path):
    apps, shown, ring = [APPS[name] for name in NAMES], {}, Shows(SMALL.nodes)
    inputs = Inputs(apps, scope)

    class Looks:
        def foresee(self, candidate):
            shown[candidate.row] = inputs.row(candidate.run_times, candidate.row, candidate.nodes)
            return "variation" if candidate.row % 5 == 0 and candidate.holds < 2 else "none"

    workload = small_jobs()
    simulation = Simulation(workload, rush(make_policy("easy"), Looks()), kill=False, run_times=small_contention(ring))
    simulation.run()
    runs = simulation.run_times.runs()
    write_rates(Telemetry(np.array(ring.times), np.arange(SMALL.nodes), np.stack(ring.kept)), tmp_path)
    nodes = None if scope == "all" else [runs.nodes(row) for row in range(len(runs))]
    found = windows(Scan(tmp_path), runs.start, nodes)
    built, _ = Dataset.build(runs, found, scope)
    assert len(built) == len(NAMES)
    for row, job in zip(built.rows, built.runs.job_id, strict=True):
        assert np.array_equal(row, shown[int(job) - 1], equal_nan=True), job
    assert built.rows.shape[1] == len(FEATURES) == 282
    assert len(np.unique(built.rows, axis=0)) == len(NAMES)


def test_inputs_need_a_ring():
    contention = small_contention(None)
    policy = rush(make_policy("easy"), Learnt(None, Inputs([APPS[name] for name in NAMES])))
    with pytest.raises(JobcastError, match="give the model of contention a CounterRing as its sink"):
        simulate(small_jobs(), policy, kill=False, run_times=contention)
    with pytest.raises(JobcastError, match="asks about a machine with contention"):
        simulate(small_jobs(), policy)


class Deaf(CounterRing):
    """A ring that hears nothing of its first nodes."""

    def __init__(self, nodes, silent):
        super().__init__(np.arange(nodes))
        self.silent = silent

    def push(self, time, rates):
        """Forget some, and hand on."""
        heard = np.array(rates, dtype=np.float32)
        heard[: self.silent] = np.nan
        super().push(time, heard)


class SaysVariation:
    """Stands for a classifier that always says variation."""

    name, class_names = "always", ("none", "variation")

    def judge_one(self, row, **about):
        """Say so."""
        return Verdict(1, "variation", 1.0)


@pytest.mark.parametrize(
    ("scope", "silent", "delays"), [("all", 3, True), ("all", 4, False), ("job", SMALL.nodes, False)]
)
def test_the_gate_does_not_delay_where_more_than_a_tenth_of_the_nodes_are_silent(scope, silent, delays):
    """Of 32 nodes, 3 are fewer than 10 % and 4 are more."""
    learnt = Learnt(SaysVariation(), Inputs([APPS[name] for name in NAMES], scope))
    policy = rush(make_policy("easy"), learnt)
    simulate(small_jobs(), policy, kill=False, run_times=small_contention(Deaf(SMALL.nodes, silent)))
    assert (policy.gate.tally.skips > 0) == delays
    assert (learnt.abstained == policy.gate.tally.calls) != delays


@pytest.fixture(scope="module")
def model():
    return learn(dataset(), "adaboost")


def test_a_classifier_by_its_address(tmp_path):
    data = dataset(scope="job")
    model, labels = train(data, "adaboost")
    origin = ClassifierOrigin.of(model, data, labels, "small")
    save_model(model, tmp_path, origin)
    again = classifier_at(str(tmp_path))
    assert again.origin.scope == "job"
    assert np.array_equal(again.classifier.predict(data.rows), model.predict(data.rows))
    with pytest.raises(JobcastError, match="nothing-there"):
        classifier_at(str(tmp_path / "nothing-there"))
    (tmp_path / "other").mkdir()
    save_model(model, tmp_path / "other", replace(origin, window=60.0))
    with pytest.raises(JobcastError, match="windows of 60 s"):
        classifier_at(str(tmp_path / "other"))


# --- the jobs -------------------------------------------------------------------------------------------------------


def test_table_two():
    for experiment, n in zip(EXPERIMENTS.values(), (190, 150, 150, 190, 190), strict=True):
        jobs = jobs_of(experiment, 4)
        submit = jobs.workload.submit
        assert len(submit) == n
        assert (submit == 0).sum() == round(0.2 * n)
        assert submit.max() <= 1200
        kinds = pd.Series(jobs.keys).value_counts()
        sizes = (16,) if experiment.scaling == "none" else SIZES
        assert len(kinds) == len(experiment.applications) * len(sizes)
        assert kinds.max() - kinds.min() <= 1
    assert (EXPERIMENTS["ADAA"].jobs, MACHINE.nodes, MACHINE.for_jobs) == (190, 512, 480)
    assert set(EXPERIMENTS["PDPA"].learnt).isdisjoint(EXPERIMENTS["PDPA"].applications)
    assert set(EXPERIMENTS["PDPA"].learnt) | set(EXPERIMENTS["PDPA"].applications) == set(APPS)


def test_adpa_and_pdpa_run_the_same_jobs_and_seeds_differ():
    one, other = (jobs_of(EXPERIMENTS[name], 2) for name in ("ADPA", "PDPA"))
    assert one.keys == other.keys
    assert one.workload.digest == other.workload.digest
    assert jobs_of(EXPERIMENTS["ADPA"], 3).keys != one.keys


def test_the_scaling_laws():
    for name in APPS:
        assert scaled(name, 16, "strong") == scaled(name, 16, "weak") == (APPS[name], float(ALONE[name]))
        weak = [scaled(name, nodes, "weak") for nodes in SIZES]
        strong = [scaled(name, nodes, "strong") for nodes in SIZES]
        for found in (weak, strong):
            assert [app.network for app, _ in found] == sorted(app.network for app, _ in found)
        assert [seconds for _, seconds in weak] == sorted(seconds for _, seconds in weak)
        assert [seconds for _, seconds in strong] == sorted((seconds for _, seconds in strong), reverse=True)
    app, seconds = scaled("AMG", 32, "strong")  # 280 s of .93 and .07: half and 1/sqrt(2) of them
    assert seconds == pytest.approx(280 * (0.93 / 2 + 0.07 / 2**0.5))
    assert app.network == pytest.approx(0.07 / 2**0.5 / (0.93 / 2 + 0.07 / 2**0.5))
    # bytes in all of a node fall as the time that goes into them does
    assert app.sends * seconds == pytest.approx(APPS["AMG"].sends * 280 / 2**0.5)


# --- trials and controls ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared(model):
    kinds = [(name, 16) for name in APPS]
    norms = Norms.of(
        [name for name, _ in kinds for _ in range(5)], [16] * 35,
        [ALONE[name] * f for name, _ in kinds for f in (1.05, 1.1, 1.15, 1.2, 1.25)],
    )  # fmt: skip
    models = {(one.learnt, "live"): model for one in EXPERIMENTS.values()}
    rows = {policy: row for policy, row in rows_of(AskSettings(thresholds=(10,))).items() if row.probes == "live"}
    del rows[PRICED]
    return Shared(Environment(), {"none": norms.to_json()}, models, "all", dict.fromkeys(EXPERIMENTS, rows))


@pytest.fixture(scope="module")
def found(shared):
    return [by_policy(shared, "PDPA", seed) for seed in (0, 1)]


def test_asking_without_delaying_is_fcfs_easy(shared, found):
    for seed in (0, 1):
        jobs = jobs_of(EXPERIMENTS["PDPA"], seed)
        plain = run_trial(jobs, contention_of(jobs, shared.environment, 1000 + seed))
        told = found[seed][EASY]
        assert plain.runs["start"].tolist() == told.runs["start"].tolist()
        assert plain.runs["run_time"].tolist() == told.runs["run_time"].tolist()
        assert set(told.runs["said"]) <= {"none", "little", "variation"}
        assert told.skips == 0


def test_chance_delays_as_often_as_rush(found):
    skipped = 0
    for trials in found:
        assert trials[RANDOM].skips == trials[RUSH].skips == trials[RUSH].runs["skips"].sum()
        assert trials[RANDOM].runs["skips"].sum() == trials[RUSH].skips
        skipped += trials[RUSH].skips
    assert skipped > 0, "else this shows nothing"


def test_where_nobody_is_slowed_down_there_is_nothing_to_win(found):
    """Each run takes its work under either policy, to the second; nothing varies, and delays can only cost."""
    for trials in found:
        easy, own = trials[CALM_EASY], trials[CALM_RUSH]
        assert easy.runs["run_time"].tolist() == own.runs["run_time"].tolist()
        assert (easy.runs["run_time"] < trials[EASY].runs["run_time"] + 1).all()
        assert own.makespan >= easy.makespan - 60


def test_the_oracle_delays_only_what_the_present_would_slow_down(shared):
    jobs = jobs_of(EXPERIMENTS["ADPA"], 0)
    contention = contention_of(
        jobs, replace(shared.environment, background=Background.none(), noise=None, contention=False), 1
    )
    oracle = Oracle(Norms.from_json(shared.norms["none"]), jobs.apps, contention.work(jobs.workload))
    trial = run_trial(jobs, contention, classifier=oracle)
    assert (trial.calls, trial.skips) == (150, 0)
    strict = Norms.of(["LBANN"] * 5, [16] * 5, [1.0, 1.1, 1.2, 1.3, 1.4])
    trial = run_trial(jobs, contention_of(jobs, shared.environment, 1),
                      classifier=Oracle(strict, jobs.apps, contention.work(jobs.workload)))  # fmt: skip
    skips = trial.runs.groupby("application")["skips"].max()
    assert skips.to_dict() == {"LBANN": 10, "Laghos": 0, "PENNANT": 0}
    assert trial.met == 50


# --- figures ----------------------------------------------------------------------------------------------------------


def test_measures_by_hand():
    """Two jobs of one seed; z against a mean of 100 and a std of 10, the same for both policies."""
    norms = Norms.of(["AMG"] * 5, [16] * 5, [100, 100, 100, 100 - 10 * 2**0.5, 100 + 10 * 2**0.5])
    runs = pd.DataFrame(
        {"experiment": "ADAA", "campaign": 0, "seed": 0, "policy": [EASY, EASY, RUSH, RUSH], "application": "AMG",
         "nodes": 16, "submit": [0, 5] * 2, "wait": [0, 10, 0, 30],
         "run_time": [120.0, 110.0, 108.0, 116.0], "said": ""}
    )  # fmt: skip
    runs = measures.with_z(runs, norms)
    assert runs["z"].tolist() == [2.0, 1.0, 0.8, 1.6]
    assert runs["varies"].tolist() == [True, False, False, True]
    trials = pd.DataFrame(
        {"experiment": "ADAA", "campaign": 0, "seed": 0, "policy": [EASY, RUSH], "makespan_s": [300, 280]}
    )
    trials = measures.paired(trials.merge(measures.per_trial(runs)), runs)
    own = trials[trials["policy"] == RUSH].iloc[0]
    assert (own["fewer_varying"], own["makespan_saved_s"], own["wait_added_s"]) == (0, 20, 20)
    assert own["longest_shortened_pct"] == pytest.approx(100 * 4 / 120)


def test_tables_carry_every_run(shared, found, monkeypatch):
    norms = Norms.from_json(shared.norms["none"])
    monkeypatch.setattr("experiments.papers.rush.study.by_policy", lambda shared, name, seed: found[seed])
    tables = [trials_of(shared, ("PDPA", seed)) for seed in (0, 1)]
    runs, trials = tables_of(tables, Control({}, {"none": norms}), 3)
    assert len(runs) == 2 * 6 * 150
    assert len(trials) == 12 and trials["campaign"].eq(3).all()
    assert trials.loc[trials["policy"] == EASY, "fewer_varying"].eq(0).all()
    assert not runs.loc[runs["policy"] == CALM_EASY, "varies"].all()
    paper = measures.beside_paper(trials)
    assert paper["experiment"].tolist() == ["PDPA"]


def test_cases_of_the_dose_response():
    for ratio in (0.25, 0.5, 2.0, 16.0):
        environment = Case(ratio=ratio).environment
        assert environment.background.tau == pytest.approx(ratio * LENGTH)
        assert environment.background.step <= environment.background.tau / 2
    assert Case(placement="best-fit").environment.allocator == "best-fit"


def test_the_dose_response_by_hand():
    """Two seeds: RUSH spares 3 and 1 runs, and 10 s and -10 s."""
    trials = pd.DataFrame(
        {"ratio": 2.0, "seed": [0, 1, 0, 1], "policy": [EASY, EASY, RUSH, RUSH], "varying": [5, 1, 2, 0],
         "makespan_s": [100, 100, 90, 110], "f1": 0.5, "f1_shuffled": 0.6, "spread": 2.0, "skips": 4, "met": 0}
    )  # fmt: skip
    found = summed(trials, "ratio").set_index("policy")
    assert found.loc[RUSH, ["varying", "fewer_varying", "makespan_saved_s"]].tolist() == [1, 2, 0]
    assert (found.loc[RUSH, "low"], found.loc[RUSH, "high"]) == (1, 3)
    assert found.loc[EASY, "fewer_varying"] == 0


# --- what asking costs ------------------------------------------------------------------------------------------------


def test_policies_of_a_trial():
    """What deals out skips comes after what gives them; the headline has the highest threshold."""
    rows = rows_of(AskSettings(thresholds=(3, 7)))
    policies = list(rows)
    for policy, row in rows.items():
        assert row.threshold in (0, 3, 7) and policy.endswith(", 3 skips") == (row.threshold == 3)
        assert not row.like or policies.index(row.like) < policies.index(policy)
    assert rows[RUSH].threshold == rows[RANDOM].threshold == 7
    assert (rows[PRICED].ask_seconds, rows[PRICED].probing) == (22, 1e8)
    assert set(rows_of(AskSettings(), "SS")) == {EASY, RUSH, f"{RUSH}, 10 skips", RANDOM}
    assert against(rows)[RUSH].keys() == {RANDOM, PRICED, "RUSH, no probes", "3 skips"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"ask_seconds": 0}, "ask_seconds must be from 1 to 3600 s; got 0"),
        ({"counter_lag": -1}, "counter_lag must be from 0"),
        ({"thresholds": (10, 10)}, "must be different whole numbers"),
    ],
)
def test_settings_of_asking_that_cannot_be(given, says):
    with pytest.raises(JobcastError, match=says):
        AskSettings(**given)


@pytest.mark.parametrize(
    ("about", "says"),
    [
        ({"ask_seconds": 5, "experiments": ("SS", "WS")}, "--ask-seconds is for .* of ADAA; add ADAA to .*SS,WS"),
        ({"probe_seconds": 7, "predictors": ("some/model",)}, "--probe-seconds is for .* with --predictors"),
        ({"counter_lag": 0, "predictors": ("some/model",)}, "--counter-lag is for"),
    ],
)
def test_settings_of_asking_that_would_do_nothing_are_refused(about, says, tmp_path):
    with pytest.raises(JobcastError, match=says):
        run(Setting(LOG, tmp_path, quick=True, **about))
    assert settings_of(Setting(LOG, tmp_path, experiments=("SS",))) == AskSettings()
    assert settings_of(Setting(LOG, tmp_path, probe_seconds=7)).probe_seconds == 7


def test_a_late_ring_answers_as_it_would_have_then():
    rng, late, then = np.random.default_rng(0), CounterRing([0, 1], late=60.0), CounterRing([0, 1])
    for k in range(50):
        rates = rng.uniform(0, 9, (2, 90)).astype(np.float32)
        late.push(10.0 * k, rates)
        if 10.0 * k < 430:
            then.push(10.0 * k, rates)
    assert np.array_equal(late.window(430.0), then.window(430.0))
    with pytest.raises(JobcastError, match="samples that are gone"):
        late.window(400.0)


def many_trials(counts):
    """Trials of ADAA by policy, from the runs that vary: of each campaign, a list over its seeds."""
    return pd.DataFrame([
        {"experiment": "ADAA", "policy": policy, "campaign": campaign, "seed": 100 * campaign + k, "varying": varying}
        for policy, each in counts.items() for campaign, own in enumerate(each) for k, varying in enumerate(own)
    ])  # fmt: skip


def test_the_campaign_is_the_unit():
    """Eight campaigns of two trials each: two trials of a campaign count as one mean."""
    counts = {EASY: [(9, 5)] * 8, RUSH: [(8, 4)] * 8, RANDOM: [(8, 6)] * 7 + [(0, 0)]}
    found = measures.differences(many_trials(counts), "ADAA", {RUSH: {EASY: EASY, RANDOM: RANDOM, "none": "absent"}})
    assert found["against"].tolist() == [EASY, RANDOM]
    assert found["fewer_varying"].tolist()[0] == "1 (1…1)" and found["p"].tolist()[0] == "0.008"
    values = np.array([3.0, -1.0, 2.0, 2.0, 0.0])
    flips = [abs(sum(v * s for v, s in zip(values, signs, strict=True))) for signs in product((1, -1), repeat=5)]
    assert measures.sign_flip_p(values) == np.mean(np.array(flips) >= 6)


def test_no_p_that_cannot_be_below_a_twentieth():
    """Five campaigns that differ have a floor of 1 / 16, six one of 1 / 32."""
    assert measures.told(np.array([1.0, 2.0, 1.0, 2.0, 1.0, 0.0]))["p"] == ""
    assert measures.told(np.array([1.0, 2.0, 1.0, 2.0, 1.0, 1.0]))["p"] == "0.031"


def test_the_design_of_the_paper_by_hand():
    """Ten trials that all have 17 runs under FCFS+EASY and 4 under RUSH; and a campaign that is unlike the paper's."""
    counts = {EASY: [[17] * 10, [30] * 10], RUSH: [[4] * 10, [5] * 10]}
    found = measures.in_the_papers_design(many_trials(counts), "ADAA", 0).set_index("others")
    assert found["easy_14_to_20"].tolist() == [0.5, 0.5]
    assert found["others_at_most_4"].to_dict() == {EASY: 0, RUSH: 1}
    assert measures.in_the_papers_design(many_trials({EASY: [[17] * 9]}), "ADAA", 0).empty


@pytest.mark.slow
def test_a_row_that_pays_for_its_probes_starts_nobody_before_they_are_done(shared):
    jobs, rows = jobs_of(EXPERIMENTS["PDPA"], 0), rows_of(AskSettings(thresholds=(2,)))
    trial = row_trial(shared, "PDPA", rows[PRICED], jobs, 0, {})
    assert trial.runs["start"].min() >= 22 and trial.calls >= 150 and trial.runs["skips"].max() <= 2


def test_on_ten_days_by_hand():
    data = dataset()
    varies = np.zeros(len(data), dtype=bool)
    assert np.isnan(on_ten_days(data, varies))
    varies[:3] = True
    assert on_ten_days(data, varies) == 1.0


def test_campaigns_are_compared_seed_by_seed():
    rows = [
        {"episodes": case, "seed": seed, **dict.fromkeys(MEASURED, 0.1 * seed + more)}
        for case, more in (("none", 0.0), ("shared, of about four days", 0.25))
        for seed in range(1, 7)
    ]
    rows[-1]["f1_last_30"] = np.nan  # a campaign without a slow run at its end has no pair
    found = beside_none(pd.DataFrame(rows)).set_index("figure")
    assert found["pairs"].to_dict() == {"f1_application_left_out": 6, "f1_last_30": 5}
    assert found["higher_by"].tolist() == ["0.25 (0.25…0.25)"] * 2  # the seeds differ by .1, the pairs do not
    assert found["p"].tolist() == [0.031, 0.062]
