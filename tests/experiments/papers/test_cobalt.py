"""The study of Cobalt: a given log is scaled, prod-long is kept to its third, and the columns of Table 2."""

import numpy as np
import pytest

import experiments.papers.cobalt.cases as cases
from jobcast import clean, generate_log, make_policy, simulate
from schedsim.results.site_metrics import by_queue, capability_share
from schedsim.sites.cobalt.queues import mira_router
from schedsim.sites.cobalt.rules import Rules
from tests.support.engine_runs import jobs_of


def test_a_given_log_is_shaken_and_scaled(tmp_path):
    log = generate_log(120, seed=4, procs=96)
    runs = cases.runs_of((clean(log)[0], True, 0), 1)
    assert len(runs) == len(cases.CASES)
    assert runs["utilisation"].between(0, 1, inclusive="right").all()


def test_table_2_columns_and_the_split_metric():
    workload = jobs_of((0, 16384, 7200, 3600), (0, 8192, 3600, 3600), (0, 512, 30000, 3600), machine=49152)
    rules = Rules(mira_router())
    schedule = simulate(workload, make_policy("cobalt"), rules=rules)
    table = by_queue(schedule, rules)
    assert table["prod-capability"]["mean_nodes"] == 12_288
    assert table["prod-capability"]["mean_requested_node_hours"] == (2 * 16_384 + 8192) / 2
    assert table["prod-long"]["node_hours"] == 512
    work = np.array([16_384, 8192, 512]) / (16_384 + 8192 + 512)
    assert capability_share(schedule) == pytest.approx(0.8 * (work[0] + work[1]) + 0.2 * work[0])
