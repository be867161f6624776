"""The closed loop's workloads: as their parameters say; and that rules are compared on the same jobs."""

import numpy as np
import pytest

from experiments.runs.setting import Setting
from experiments.studies import closed_loop
from experiments.studies.closed_loop import CASES, POPULAR, Cluster
from predictors.data.synthetic.generate import generate_log


def test_a_workload_is_as_its_parameters_say():
    for seed in range(1, 6):
        log = Cluster().workload(seed)
        work = (log.values["run_time"] * log.procs).sum()
        offered = work / (32 * log.values["submit"][-1])
        assert len(log) == 200 and offered == pytest.approx(1.1, rel=0.01)
        assert set(log.values["requested_time"].tolist()) <= set(POPULAR)
        assert (log.values["run_time"] * 1.09 <= log.values["requested_time"]).all()
        too_long = np.median(log.values["requested_time"] / log.values["run_time"])
        assert 3 < too_long < 12
    assert Cluster().workload(1).digest() == Cluster().workload(1).digest() != Cluster().workload(2).digest()


def test_every_rule_meets_every_workload(tmp_path, monkeypatch):
    monkeypatch.setattr(closed_loop, "WORKLOADS", 2)
    monkeypatch.setattr(closed_loop, "Cluster", lambda: Cluster(jobs=60))
    report = closed_loop.run(Setting(generate_log(3, seed=1), tmp_path, quick=True, checkpoints=tmp_path))
    assert (tmp_path / "sweep" / "results.parquet").is_file()
    table = report.tables["each workload"]
    assert len(table) == 2 * len(CASES)
    today = table[table["rule"] == "request"]
    assert (today["change_pct"] == 0).all() and today["too short"].isna().all()
    assert (table.loc[table["rule"] == "perfect", "too short"] == 0).all()
    assert set(report.tables["over all workloads"]["rule"]) == {case.name for case in CASES[1:]}
