"""The study of DRAS: rewards, methods, verdicts, and the whole report on a small plan."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import experiments.papers.dras.study as study
import experiments.papers.dras.training as linear
from experiments.compare.result import Ratio
from experiments.papers.dras import runs as plans
from experiments.papers.dras.cases import (
    AGAIN,
    AHEAD,
    COPIED,
    CQSIM,
    DQL,
    FCFS,
    FIRST,
    FROZEN,
    KEPT,
    LINEAR,
    LINEAR_TRUE,
    OLDEST,
    OPTIMIZATION,
    ORACLE,
    PAPER,
    PG,
    RANDOM,
    TRUE_TIMES,
    UNTRAINED,
    planned_by,
)  # fmt: skip
from experiments.papers.dras.checks import controls, copied, learnt, look_ahead, openness, train_and_test, upper_bounds
from experiments.papers.dras.claims import LONGEST, claims, judged, ratio
from experiments.papers.dras.job_sets import Counts, default_log, split
from experiments.papers.dras.runs import (
    RUN,
    TEST,
    VALIDATION,
    WARM,
    Work,
    evaluated,
    of_rows,
    rewards,
    row_of,
    table_of,
    weeks_of,
)
from experiments.papers.dras.tables import against_fcfs, summary, table_3, table_4
from experiments.papers.dras.training import linear_runs
from experiments.registry import perform
from experiments.runs.setting import Setting
from jobcast import JobcastError, Pool, Workload, clean, make_policy, simulate
from schedsim.policies.agents import OLDEST_FIRST
from schedsim.workload.estimates import clairvoyant
from schedsim.workload.shaking import shaken

LOG = clean(default_log(1)[0])[0]
PARTS = split(LOG, "6w", "3w", nodes=44)
SMALL = replace(plans.QUICK, counts=Counts(1, 1, 1, jobs=120), seeds=2, snapshots=2, control_seeds=1, orders=2)
WORK = Work(PARTS, SMALL, first_seed=1)
CASES = {case.name: case for case in UNTRAINED}


def test_rewards_are_the_papers_formulas_at_every_start():
    """Made again job by job from the definitions."""
    jobs = Workload.from_log(PARTS.train.select(slice(0, 250)))
    schedule = simulate(jobs, make_policy("easy"))
    capability, capacity = rewards(schedule)
    order = np.argsort(schedule.start, kind="stable")
    for place, row in enumerate(order.tolist()):
        now, earlier = schedule.start[row], order[: place + 1]
        waiting = np.setdiff1d(np.flatnonzero(jobs.submit <= now), order[:place])
        longest = max(1, (now - jobs.submit[waiting]).max())
        used = jobs.procs[earlier[schedule.end[earlier] > now]].sum()
        expected = (schedule.wait[row] / longest + jobs.procs[row] / 44 + used / 44) / 3
        left = np.setdiff1d(waiting, [row])
        assert capability[row] == pytest.approx(expected)
        assert capacity[row] == pytest.approx(-(1 / jobs.requested[left]).mean() if len(left) else 0.0, abs=1e-12)


def test_oldest_first_in_the_frame_is_fcfs_with_easy():
    jobs = Workload.from_log(PARTS.test)
    easy = CASES[FCFS].run(PARTS.test, jobs, 1)
    assert np.array_equal(CASES[FIRST].run(PARTS.test, jobs, 1).start, easy.start)
    assert row_of(easy)["backfilled_jobs"] > 0.3


@pytest.mark.parametrize(("estimates", "looks_ahead"), [("requested", False), ("cqsim", True)])
def test_cqsims_estimates_look_ahead(estimates, looks_ahead):
    """Other run times of jobs that have not ended may move no start before they would end."""
    jobs = Workload.from_log(PARTS.test)
    first = simulate(jobs, make_policy("easy"), planned_by(estimates, PARTS.test, jobs))
    moved = []
    for now in np.quantile(first.start, np.linspace(0.1, 0.9, 9)):
        open_jobs = first.end > now
        longer = replace(jobs, run_time=np.where(open_jobs, jobs.requested, jobs.run_time))
        second = simulate(longer, make_policy("easy"), planned_by(estimates, PARTS.test, longer))
        before = first.start <= now
        moved.append(not np.array_equal(first.start[before], second.start[before]))
    assert any(moved) == looks_ahead


def test_a_part_of_a_schedule_and_its_weeks():
    schedule = simulate(Workload.from_log(PARTS.test), make_policy("easy"))
    part = of_rows(schedule, schedule.workload.submit >= 7 * 86_400)
    assert len(part.workload) < len(schedule.workload) and part.wait.sum() < schedule.wait.sum()
    weeks = weeks_of(schedule)
    assert weeks["jobs"].sum() == len(schedule.workload) and len(weeks) == 3
    assert np.average(weeks["wait_h"], weights=weeks["jobs"]) == pytest.approx(schedule.wait.mean() / 3600)


def test_a_warm_start_counts_the_same_jobs():
    found = table_of(evaluated(WORK, FCFS, 1, lambda log, jobs: CASES[FCFS].run(log, jobs, 1)), RUN).set_index("part")
    assert found.loc[WARM, "n_jobs"] == pytest.approx(found.loc[TEST, "n_jobs"], abs=2)
    assert found.loc[WARM, "mean_wait_s"] != found.loc[TEST, "mean_wait_s"]


def made(values, seeds=8, spread=0.001):
    """Return runs in which each method has these figures: reward, mean wait, bounded slowdown, longest wait."""
    rng, rows = np.random.default_rng(0), []
    for seed in range(1, seeds + 1):
        for case, (reward, wait, slow, longest) in values.items():
            noise = 1 + spread * rng.standard_normal(4)
            figures = np.array([reward, wait, slow, longest]) * noise
            for part in (TEST, VALIDATION):
                rows.append({"log": "x", "case": case, "seed": seed, "part": part, "capability_reward": figures[0],
                             "mean_wait_s": figures[1], "mean_bounded_slowdown": figures[2], "max_wait_s": figures[3],
                             "mean_stretch": figures[2], "mean_response_s": figures[1] + 900, "utilisation": 0.9,
                             "p99_wait_s": 1e5, "widest5_mean_wait_s": 1e5,
                             "backfilled_jobs": 0.8, "reserved_hours": 0.6})  # fmt: skip
    return pd.DataFrame(rows)


BASE = {
    FCFS: (0.4, 1e5, 50, 1e6), KEPT: (0.38, 7e4, 40, 2e6), OLDEST: (0.4, 8e4, 45, 1.05e6), RANDOM: (0.35, 5e4, 40, 3e6),
    "BinPacking": (0.37, 11e4, 60, 2e6), OPTIMIZATION: (0.36, 8e4, 45, 2.6e6),
}  # fmt: skip
"""Reward a start, mean wait, bounded slowdown, longest wait of methods without training."""


def test_more_reward_and_less_wait_are_asked_apart():
    reward, waits = learnt(controls(made(BASE | {PG: (0.45, 7e4, 40, 1.2e6), DQL: (0.37, 6e4, 30, 2e6)})))
    assert "DRAS-PG more (" in reward and "DRAS-DQL less (" in reward
    assert "DRAS-PG open (" in waits and "DRAS-DQL shorter (" in waits
    few = list(learnt(controls(made(BASE | {PG: (0.45, 6e4, 41, 1.2e6)}, seeds=3))))
    assert "DRAS-PG too few seeds" in few[0]
    assert list(learnt(controls(made(BASE)))) == ["No agent was trained."]


def test_one_seed_has_no_interval():
    runs = made(BASE | {PG: (0.45, 6e4, 41, 1.2e6), PG + FROZEN: (0.44, 6e4, 41, 1.2e6)}, seeds=1)
    runs["waiting_over_7_d"] = 0.0
    runs.loc[runs["case"] == FCFS, "widest5_mean_wait_s"] = 0.0
    told = [*(claim.sentence for claim in claims(runs, pd.DataFrame())), *learnt(controls(runs))]
    assert any("The smaller of both shares is 60.0%." in one for one in told)
    assert "DRAS-PG too few seeds" in told[-1]
    table = summary(runs).set_index("method")
    assert (table.loc[PG, "longest_/_FCFS"], table.loc[PG, "widest_5_%_/_FCFS"]) == ("1.20", "-")
    told += [table.to_string(), controls(runs).to_string(), train_and_test(runs).to_string(), copied(runs).to_string()]
    assert not [one for one in told if "nan" in one.lower()]


def test_each_claim_has_its_verdict():
    runs = made(BASE | {PG: (0.45, 5.2e4, 41, 1.2e6), PG + FROZEN: (0.45, 6e4, 41, 1.2e6)})
    found = {claim.text: claim.found for claim in claims(runs, pd.DataFrame())}
    told = {text[:25]: verdict for text, verdict in found.items()}
    assert told["DRAS-PG's longest wait is"] == "holds" and told["DRAS-PG has up to 45 % le"] == "holds"
    assert told["Optimization's longest wa"] == "holds"
    assert told["BinPacking and Random are"] == "does not hold"  # Random has less mean wait than FCFS
    assert told["DRAS-PG adapts: going on "] == "holds"
    worse = {c.text[:25]: c.found for c in claims(made(BASE | {PG: (0.45, 9e4, 41, 3e6)}), pd.DataFrame())}
    assert worse["DRAS-PG's longest wait is"] == worse["DRAS-PG has up to 45 % le"] == "does not hold"


def test_verdicts_hold_together():
    """Twenty tests of 95 % each would call one of them sure by chance; together they may not."""
    runs = made(BASE | {PG: (0.45, 6e4, 41, 1.35e6)}, seeds=6, spread=0.12)
    alone = judged(ratio(runs, PG, FCFS, "max_wait_s"), LONGEST, True, 6)
    first = next(claims(runs, pd.DataFrame()))
    assert (alone, first.found) == ("holds", "open") and first.text.startswith("DRAS-PG's longest wait")


def test_shares_and_areas_have_intervals():
    """A mean above a half, with seeds on both sides of it, holds nothing."""
    runs = made(BASE | {PG: (0.45, 9e4, 49, 2.5e6)})
    runs.loc[runs["case"] == PG, "backfilled_jobs"] = np.where(runs.loc[runs["case"] == PG, "seed"] % 2, 0.45, 0.58)
    told = {claim.text[:20]: claim.found for claim in claims(runs, pd.DataFrame())}
    assert told["DRAS-PG backfills mo"] == "open"
    assert told["DRAS-PG is better ov"] == "does not hold"  # Random has the largest area


def test_reward_and_waits_are_judged_apart():
    runs = made(BASE | {PG: (0.45, 9e4, 50, 1e6), ORACLE: (0.33, 2e4, 5, 3e6), "untrained": (0.38, 7e4, 40, 2e6)})
    table = controls(runs).set_index("agent")
    assert tuple(table.loc[PG, ["reward", "waits"]]) == ("more", "longer")
    assert tuple(table.loc[ORACLE, ["reward", "waits"]]) == ("less", "shorter")
    assert tuple(table.loc["untrained", ["reward", "waits"]]) == ("open", "open")
    few = controls(made(BASE | {"untrained": (0.5, 1e4, 4, 1e6)}, seeds=4)).iloc[0]
    assert few["reward"] == few["waits"] == "too few seeds"


def test_what_sees_true_run_times_should_be_better_than_all():
    values = {PG: (0.4, 7e4, 40, 1e6), LINEAR: (0.4, 6e4, 30, 1e6), LINEAR_TRUE: (0.4, 5e4, 20, 1e6),
              TRUE_TIMES: (0.4, 8e4, 45, 1e6)}  # fmt: skip
    told = upper_bounds(made(BASE | values)).set_index(["agent", "beside"])["waits"].to_dict()
    assert {told[LINEAR_TRUE, other] for other in (KEPT, PG, LINEAR)} == {"shorter"}
    assert {told[TRUE_TIMES, other] for other in (KEPT, PG, LINEAR)} == {"longer"}
    few = made(BASE | values)
    few = few[(few["case"] != TRUE_TIMES) | (few["seed"] <= 3)]
    table = upper_bounds(few).set_index("agent")
    assert set(table.loc[TRUE_TIMES, "seeds"]) == {3} and set(table.loc[TRUE_TIMES, "waits"]) == {"too few seeds"}
    assert upper_bounds(made(BASE)).empty


def test_a_look_ahead_stands_beside_random_picks_in_its_frame():
    values = {AGAIN: (0.4, 5e4, 30, 2e6), AHEAD: (0.4, 6e4, 35, 2e6)}  # shorter than kept, longer than again
    row = look_ahead(made(BASE | values)).set_index("agent").loc[AHEAD]
    assert (row["waits"], row["expected"]) == ("longer", "shorter waits")
    jobs = Workload.from_log(PARTS.test.select(slice(0, 300)))
    found = CASES[AHEAD].run(PARTS.test, jobs, 1)
    assert np.array_equal(found.start, simulate(jobs, make_policy("look-ahead")).start)
    assert not np.array_equal(found.start, CASES[FCFS].run(PARTS.test, jobs, 1).start)


def test_the_linear_agent_that_sees_true_run_times_plans_by_them(monkeypatch):
    """Longest waiting first under true run times is EASY under them; nothing is searched here."""
    seen = []
    monkeypatch.setattr(linear, "found_by", lambda log, search: seen.append(search) or OLDEST_FIRST.weights)
    found = table_of(linear_runs(WORK, (LINEAR_TRUE, 1)), RUN)
    jobs = Workload.from_log(shaken(PARTS.test, 1))
    assert (seen[0].frame.estimates, seen[0].reserve, found["part"].tolist()) == ("clairvoyant", "kept", [TEST])
    assert found["mean_wait_s"].item() == simulate(jobs, make_policy("easy"), clairvoyant(jobs)).wait.mean()


def test_what_leaks_is_seen_by_what_an_agent_learns_for():
    values = {LINEAR: (0.4, 6e4, 30, 1.3e6), LINEAR + COPIED: (0.4, 7e4, 35, 1e6),
              PG + FROZEN: (0.4, 7e4, 40, 1e6), PG + COPIED: (0.4, 6e4, 30, 1e6)}  # fmt: skip
    table = copied(made(BASE | values)).set_index("agent")["leakage_is_seen"]
    assert table[LINEAR + COPIED] == "yes"  # waits longer, but keeps the limit of the longest wait
    assert table[PG + COPIED] == "no"  # waits less, which is not what it learns for
    gap = train_and_test(made(BASE | values).replace({"part": {VALIDATION: "train"}})).set_index("agent")["gap"]
    assert gap[LINEAR].startswith(("+0.", "-0.")) and "[" in gap[LINEAR]


def test_the_entropy_of_picks_is_told_by_seed():
    curve = pd.DataFrame({"case": [PG] * 6, "seed": [1, 1, 2, 2, 3, 3], "episode": [0, 9] * 3,
                          "entropy": [0.99, 0.0, 0.97, 0.4, 0.98, 0.005]})  # fmt: skip
    row = openness(curve).iloc[0]
    assert (row["untrained"], row["trained"], row["largest"], row["seeds_below_0.01"]) == (0.98, 0.005, 0.4, 2)


def test_verdicts_need_the_whole_interval():
    assert judged(Ratio(1.5, 1.4, 1.7), 1.6, True, 10) == "open"
    assert judged(Ratio(1.5, 1.4, 1.6), 1.6, True, 10) == "holds"
    assert judged(Ratio(1.7, 1.61, 1.8), 1.6, True, 10) == "does not hold"
    assert judged(None, 1.6, True, 10) == "open"


def test_tables_beside_the_paper():
    third = table_3(436, 50).set_index(["machine", "agent"])["parameters"]
    assert third["Theta", PG] == 21_890_053 and third["Cori", DQL] == 160_784_004
    assert (third["here", PG], third["here", DQL]) == (259_453, 215_304)
    runs = made(BASE | {FCFS + CQSIM: BASE[FCFS]})
    for column in ("backfilled_hours", "ready_jobs", "ready_hours", "reserved_jobs"):
        runs[column] = 0.1
    assert table_4(runs, (FCFS,))["estimates"].tolist() == ["requested", "cqsim", "the paper"]
    assert (against_fcfs(runs, TEST).query("case == @FCFS")["mean_wait"] == 1).all()


@pytest.mark.slow
def test_the_report_is_the_same_for_any_workers(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "QUICK", SMALL)
    setting = Setting(LOG, tmp_path / "one", quick=True, train="6w", test="3w")
    setting.folder.mkdir()
    report = perform("dras", setting)
    assert len(report.seeds) == 2 and "too few seeds" in report.verdict[0]
    names = {path.name for path in report.figures}
    figures = {f"figure{n}.png" for n in ("2", "3a_by_day", "3b_by_hour", "3c_sizes", "3d_accuracy", *"456789")}
    assert figures | {"figure5_wait.svg", "figure7_by_size.csv", "curves.csv"} <= names
    main = report.tables["Months to test, compared with FCFS with EASY backfilling"].set_index("method")
    assert {*PAPER, KEPT, OLDEST, AGAIN, PG + FROZEN, "untrained"} <= set(main.index)
    assert main.loc[FIRST, "mean_wait_/_FCFS"] == "1.00"
    checks = report.tables["Agents and controls, compared with random picks in the same frame"].set_index("agent")
    assert checks.loc["zero reward", "mean_wait"] == checks.loc["untrained", "mean_wait"]
    assert report.account.used == PARTS.used
    (tmp_path / "two").mkdir()
    again = perform("dras", replace(setting, folder=tmp_path / "two", pool=Pool(workers=2)))
    name = f"runs_{LOG.name}.csv"
    tables = [pd.read_csv(tmp_path / which / name).drop(columns="train_seconds") for which in ("one", "two")]
    pd.testing.assert_frame_equal(*tables)
    assert again.verdict == report.verdict


def test_options_that_cannot_be(tmp_path):
    for given, says in (
        ({"seeds": 0}, "1 seed or more"),
        ({"orders": 4}, "1 to 3 orders"),
        ({"job_sets": 2}, "3 kinds"),
        ({"scale": "ful"}, "did you mean 'full'"),
        ({"scale": "full", "quick": True}, "leave --quick or --scale out"),
    ):
        with pytest.raises(JobcastError, match=says):
            study.plan_of(Setting(LOG, tmp_path, **given))
