"""Corrections: which estimate follows one that expired, by hand, in the engine and in the slow oracle."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictors.core.errors import JobcastError
from schedsim.kernels.corrections import CORRECTIONS, INCREMENTS, corrected, correction_code
from tests.oracle.entry import Entry
from tests.oracle.entry import corrected as corrected_slowly

HOUR = 3600


@pytest.mark.parametrize(
    ("name", "estimate", "first", "limit", "elapsed", "expected"),
    [
        ("requested", 100, 100, 900, 100, 900),
        ("incremental", 100, 100, 9000, 100, 160),  # + 1 min
        ("incremental", 160, 100, 9000, 160, 400),  # + 5 min of the first estimate, not of the last
        ("incremental", 100, 100, 9000, 2000, 3700),  # several steps at once: + 1 h
        ("incremental", 100, 100, 300, 160, 300),  # at most the request
        ("incremental", 10, 10, 500 * HOUR, 100 * HOUR + 10, 500 * HOUR),  # no step left
        ("doubling", 100, 100, 900, 100, 200),
        ("doubling", 200, 100, 900, 450, 800),
        ("doubling", 800, 100, 900, 800, 900),
        ("doubling", 1, 1, 900, 1, 2),
        ("requested", 900, 100, 900, 900, 1800),  # not killed: it outruns its request
        ("incremental", 900, 100, 900, 4000, 7200),
        ("doubling", 1800, 100, 900, 1800, 3600),
        ("requested", 50, 50, 900, 2000, 3600),  # long overdue: from the request on
        ("slurm", 100, 100, 900, 100, 500),
        ("slurm", 500, 100, 900, 300, 600),  # asked again before it has expired
        ("slurm", 100, 100, 900, 899, 900),
        ("pbs", 100, 100, 900, 100, 200),
        ("pbs", 200, 100, 900, 450, 500),  # multiples of the first estimate, not of the last
        ("pbs", 800, 100, 850, 800, 850),
        ("plus-hour", 100, 100, 9 * HOUR, 100, 100 + HOUR),
        ("plus-hour", 100, 100, 9 * HOUR, 100 + HOUR, 100 + 2 * HOUR),
        ("plus-hour", 100, 100, 900, 100, 900),
        ("slurm", 900, 100, 900, 900, 1800),  # not killed
    ],
)
def test_by_hand(name, estimate, first, limit, elapsed, expected):
    assert corrected(CORRECTIONS[name].code, estimate, first, limit, elapsed) == expected
    if estimate <= elapsed:
        entry = Entry(0, 1, 0, 1, limit, limit, -1, first, first, first, estimate, start=0)
        assert corrected_slowly(entry, elapsed, name, kill=False) == expected


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


def test_an_unknown_correction_is_an_error():
    with pytest.raises(JobcastError, match="No correction 'increment'; did you mean 'incremental'"):
        correction_code("increment")
