"""Corrections: which estimate follows one that expired, by hand and in a simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictors.core.errors import JobcastError
from schedsim.engine.simulation import Simulation, simulate
from schedsim.kernels.corrections import (
    CORRECTIONS,
    DOUBLING,
    HALF_OF_REST,
    INCREMENTAL,
    INCREMENTS,
    MULTIPLES,
    PLUS_HOUR,
    REQUESTED_TIME,
    corrected,
    correction_code,
)
from schedsim.policies.policy import make_policy
from schedsim.workload.workload import Workload

HOUR = 3600


@pytest.mark.parametrize(
    ("code", "estimate", "first", "limit", "elapsed", "expected"),
    [
        (REQUESTED_TIME, 100, 100, 900, 100, 900),
        (INCREMENTAL, 100, 100, 9000, 100, 160),  # + 1 min
        (INCREMENTAL, 160, 100, 9000, 160, 400),  # + 5 min of the first estimate, not of the last
        (INCREMENTAL, 100, 100, 9000, 2000, 3700),  # several steps at once: + 1 h
        (INCREMENTAL, 100, 100, 300, 160, 300),  # at most the request
        (INCREMENTAL, 10, 10, 500 * HOUR, 100 * HOUR + 10, 500 * HOUR),  # no step left
        (DOUBLING, 100, 100, 900, 100, 200),
        (DOUBLING, 200, 100, 900, 450, 800),
        (DOUBLING, 800, 100, 900, 800, 900),
        (DOUBLING, 1, 1, 900, 1, 2),
        (REQUESTED_TIME, 900, 100, 900, 900, 1800),  # not killed: it outruns its request
        (INCREMENTAL, 900, 100, 900, 4000, 7200),
        (DOUBLING, 1800, 100, 900, 1800, 3600),
        (REQUESTED_TIME, 50, 50, 900, 2000, 3600),  # long overdue: from the request on
        (HALF_OF_REST, 100, 100, 900, 100, 500),
        (HALF_OF_REST, 500, 100, 900, 300, 600),  # asked again before it has expired
        (HALF_OF_REST, 100, 100, 900, 899, 900),
        (MULTIPLES, 100, 100, 900, 100, 200),
        (MULTIPLES, 200, 100, 900, 450, 500),  # multiples of the first estimate, not of the last
        (MULTIPLES, 800, 100, 850, 800, 850),
        (PLUS_HOUR, 100, 100, 9 * HOUR, 100, 100 + HOUR),
        (PLUS_HOUR, 100, 100, 9 * HOUR, 100 + HOUR, 100 + 2 * HOUR),
        (PLUS_HOUR, 100, 100, 900, 100, 900),
        (HALF_OF_REST, 900, 100, 900, 900, 1800),  # not killed
    ],
)
def test_by_hand(code, estimate, first, limit, elapsed, expected):
    assert corrected(code, estimate, first, limit, elapsed) == expected


@given(
    code=st.sampled_from([rule.code for rule in CORRECTIONS.values()]),
    first=st.integers(1, 10**6),
    more=st.integers(0, 10**6),
    late=st.integers(0, 10**6),
)
def test_a_correction_lies_in_the_future_and_within_the_request(code, first, more, late):
    limit, elapsed = first + more, first + late
    estimate = corrected(code, first, first, limit, elapsed)
    assert estimate > elapsed
    if elapsed < limit:
        assert estimate <= limit
    assert estimate > first


def test_rungs_are_those_of_the_paper():
    minutes = [1, 5, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000]
    assert list(INCREMENTS) == [60 * m for m in minutes]


def test_estimates_are_corrected_at_instants_only():
    """Row 0 is said to take 10 s and takes 50; row 1 blocks; row 2 comes at 30 s, the first instant after 10 s."""
    jobs = Workload.from_columns(
        range(3), submit=[0, 1, 30], procs=[6, 8, 2], requested=[100, 10, 100], run_time=[50, 10, 5], machine_procs=8
    )
    simulation = Simulation(jobs, make_policy("easy"), np.array([10, 10, 15]), "doubling")
    simulation.run(until=29)
    assert simulation.planned_ends.tolist() == [10]
    simulation.run(until=30)
    assert simulation.planned_ends.tolist() == [40]


def test_slurm_asks_again_at_every_instant():
    """Row 0 is said to take 10 s of its 100 and takes 90: corrected at 30 s to 65, asked again at 50 s: 75."""
    jobs = Workload.from_columns(
        range(4), submit=[0, 1, 30, 50], procs=[6, 8, 3, 3], requested=[100, 10, 100, 100], run_time=[90, 10, 5, 5],
        machine_procs=8,
    )  # fmt: skip
    simulation = Simulation(jobs, make_policy("easy"), np.array([10, 10, 15, 15]), "slurm")
    for second, planned in ((29, 10), (30, 65), (49, 65), (50, 75)):
        simulation.run(until=second)
        assert simulation.planned_ends.tolist() == [planned]


@pytest.mark.parametrize(
    ("correction", "start"),
    [
        ("requested", [0, 50, 30]),  # shadow 100: row 2 ends at 45
        ("incremental", [0, 50, 30]),  # shadow 70
        ("doubling", [0, 50, 60]),  # shadow 40: row 2 would end at 45
        ("pbs", [0, 50, 60]),  # shadow 40
        ("slurm", [0, 50, 30]),  # shadow 65
    ],
)
def test_the_correction_decides_who_is_backfilled(correction, start):
    jobs = Workload.from_columns(
        range(3), submit=[0, 1, 30], procs=[6, 8, 2], requested=[100, 10, 100], run_time=[50, 10, 5], machine_procs=8
    )
    assert simulate(jobs, make_policy("easy"), np.array([10, 10, 15]), correction).start.tolist() == start


def test_the_last_estimate_is_told():
    jobs = Workload.from_columns(
        [1, 2], submit=[0, 25], procs=[8, 8], requested=[99, 99], run_time=[30, 1], machine_procs=8
    )
    schedule = simulate(jobs, make_policy("easy"), np.array([10, 50]), "doubling")
    assert schedule.estimate.tolist() == [10, 50]
    assert schedule.last_estimate.tolist() == [40, 50]


def test_an_unknown_correction_is_an_error():
    with pytest.raises(JobcastError, match="No correction 'increment'; did you mean 'incremental'"):
        correction_code("increment")
