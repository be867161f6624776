"""The prediction figures, against cases worked by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictors.core.errors import JobcastError
from predictors.evaluation import metrics

# Five jobs:  exact, 60 s over, 600 s under, 601 s over, both zero.
RUN = [100.0, 40.0, 800.0, 399.0, 0.0]
PREDICTED = [100.0, 100.0, 200.0, 1000.0, 0.0]


def test_every_figure_of_five_jobs_by_hand():
    found = metrics.figures(RUN, PREDICTED, baseline=[100.0, 40.0, 800.0, 399.0, 1000.0])
    squares = 60**2 + 600**2 + 601**2  # 724,801
    mean = 1339 / 5
    spread = sum((r - mean) ** 2 for r in RUN)
    assert found.n_test == 5
    assert found.sse_s2 == squares
    assert found.sse_ratio_to_last_two == squares / 1e6
    assert found.mae_s == (60 + 600 + 601) / 5
    assert found.rmse_s == pytest.approx(math.sqrt(squares / 5))
    assert found.median_ae_s == 60
    assert found.r2 == pytest.approx(1 - squares / spread)
    assert found.mean_accuracy == pytest.approx((1 + 0.4 + 0.25 + 0.399 + 1) / 5)
    assert found.underestimation_rate == 1 / 5
    assert found.within_1_min == 3 / 5  # 60 s is within one minute
    assert found.within_10_min == 4 / 5  # 600 s is within ten, 601 s is not


def test_mean_accuracy_when_one_of_the_two_is_zero():
    assert metrics.figures([0.0, 50.0], [50.0, 0.0], [0.0, 0.0]).mean_accuracy == 0.0


def test_pinball_by_hand():
    # r = p + 20: q * 20; r = p - 10: (1 - q) * 10
    assert metrics.pinball_loss([100.0], [80.0], 0.25) == pytest.approx(5.0)
    assert metrics.pinball_loss([100.0], [110.0], 0.25) == pytest.approx(7.5)
    assert metrics.pinball_loss([100.0], [100.0], 0.25) == 0.0


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=30), st.sampled_from([0.1, 0.25, 0.5, 0.9]))
def test_pinball_is_least_at_the_quantile(values, q):
    run_time = np.array(values, dtype=float)
    best = np.quantile(run_time, q, method="inverted_cdf")
    least = metrics.pinball_loss(run_time, np.full(len(run_time), best), q)
    for other in range(0, 1001, 50):
        assert least <= metrics.pinball_loss(run_time, np.full(len(run_time), float(other)), q) + 1e-9


def test_coverage_counts_both_ends():
    assert metrics.coverage([1.0, 2.0, 3.0, 4.0], [2.0] * 4, [3.0] * 4) == 0.5


def test_undefined_figures_are_nan():
    empty = metrics.figures([], [], [])
    assert empty.n_test == 0 and empty.sse_s2 == 0
    assert all(math.isnan(v) for v in (empty.mae_s, empty.rmse_s, empty.median_ae_s, empty.r2, empty.mean_accuracy))
    assert math.isnan(metrics.figures([7.0, 7.0], [7.0, 8.0], [7.0, 7.0]).r2)


def test_ratio_to_a_flawless_baseline():
    assert metrics.ratio(0.0, 0.0) == 1.0
    assert metrics.ratio(1.0, 0.0) == math.inf


def test_predicting_the_mean_explains_nothing():
    assert metrics.figures([1.0, 2.0, 6.0], [3.0, 3.0, 3.0], [0.0, 0.0, 0.0]).r2 == 0.0


def test_unequal_shapes_are_refused():
    with pytest.raises(JobcastError, match=r"\(2,\) and \(1,\)"):
        metrics.figures([1.0, 2.0], [1.0], [1.0, 2.0])
    with pytest.raises(JobcastError, match="between 0 and 1"):
        metrics.pinball_loss([1.0], [1.0], 1.0)


def test_a_prediction_that_is_missing_leaves_no_figure() -> None:
    """A comparison with NaN is false: it must not count as met or not met."""
    found = metrics.figures([1.0, 2.0], [math.nan, 2.0], [1.0, 2.0]).to_dict()
    assert {name for name, value in found.items() if not math.isnan(value)} == {"n_test"}
    assert math.isnan(metrics.coverage([1.0, 2.0], [math.nan, 0.0], [3.0, 3.0]))
    assert math.isnan(metrics.pinball_loss([1.0, 2.0], [math.nan, 0.0], 0.5))
