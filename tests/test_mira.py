"""The synthetic log like Mira's: Table 2's mix, the load asked for, the same bits for the same seed."""

import numpy as np
import pytest

from predictors.data.errors import JobcastError
from predictors.data.mira import MIXES, NODES, OF_SPENT, mira_like_log
from schedsim.queues import mira_router

TABLE_2 = {  # nodes, walltime [s], run time [s], part of the core-hours
    "prod-capability": (13_530, 20_151, 12_544, 0.635),
    "prod-short": (1080, 6754, 4361, 0.207),
    "prod-long": (1253, 39_734, 24_907, 0.107),
    "backfill": (1043, 4118, 2789, 0.043),
}


def test_means_are_those_of_table_2():
    logs = [mira_like_log(20_000, seed=seed) for seed in range(4)]
    columns = {
        name: np.concatenate([log.filled(name) for log in logs]) for name in ("queue", "requested_time", "run_time")
    }
    procs = np.concatenate([log.procs for log in logs])
    work = procs * columns["run_time"]
    for code, (name, (nodes, walltime, run_time, part)) in enumerate(TABLE_2.items(), start=1):
        mine = columns["queue"] == code
        assert list(MIXES)[code - 1] == name
        assert procs[mine].mean() == pytest.approx(nodes, rel=0.15)
        assert columns["requested_time"][mine].mean() == pytest.approx(walltime, rel=0.15)
        assert columns["run_time"][mine].mean() == pytest.approx(run_time, rel=0.2)
        assert work[mine].sum() / work.sum() == pytest.approx(part, abs=0.08)


def test_load_seed_and_queues():
    log = mira_like_log(5000, seed=3, load=0.8)
    span = log.values["submit"][-1]
    assert (log.procs * log.values["run_time"]).sum() / (NODES * span) == pytest.approx(0.8, rel=0.05)
    assert log.digest() == mira_like_log(5000, seed=3, load=0.8).digest() != mira_like_log(5000, seed=4).digest()
    routed = mira_router().route(log.procs, log.values["requested_time"]) + 1
    own = log.values["group"] < OF_SPENT
    assert (routed[own] == log.values["queue"][own]).all()
    assert (log.values["queue"][~own] == 4).all()


def test_what_cannot_be_made_is_refused():
    with pytest.raises(JobcastError, match="needs 2 jobs or more"):
        mira_like_log(1)
