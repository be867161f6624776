"""The study of budgets: rates by hand, months judged if large enough, and a table that a picture can be drawn from."""

import numpy as np
import pytest

from experiments.reports.figures import draw
from experiments.studies.reis_open_questions import (
    BLOCK,
    BUDGETS,
    OVERALL,
    block_band,
    calibration,
    in_words,
    paint_calibration,
    paint_reliability,
)
from jobcast import JobcastError, generate_log


@pytest.fixture(scope="module")
def table():
    return calibration(generate_log(2500, seed=11, users=10))


def test_each_budget_is_judged_over_the_whole_log(table):
    whole = table[table["period"] == OVERALL]
    assert whole["budget"].tolist() == list(BUDGETS)
    assert whole["observed"].is_monotonic_increasing
    assert (abs(whole["observed"] - whole["budget"]) < 0.06).all()
    assert ((table["low"] <= table["observed"]) & (table["observed"] <= table["high"])).all()
    assert table["inside"].tolist() == ((table["low"] <= table["budget"]) & (table["budget"] <= table["high"])).tolist()


def test_months_have_enough_jobs_and_are_part_of_the_whole(table):
    for _, part in table.groupby("budget"):
        months = part[part["period"] != OVERALL]
        assert (months["jobs"] >= 500).all()
        assert months["jobs"].sum() <= part["jobs"].iloc[0]


def test_bursts_widen_the_band():
    random = np.random.default_rng(0)
    alone = random.permutation(np.arange(2000) % 10 == 0)
    bursts = np.repeat(np.arange(2000 // BLOCK) % 10 == 0, BLOCK)
    narrow, wide = (np.diff(block_band(one, np.random.default_rng(1)))[0] for one in (alone, bursts))
    assert wide > 2 * narrow > 0


def test_a_few_jobs_are_refused_and_the_words_hold_the_rates(table):
    with pytest.raises(JobcastError, match="too few jobs"):
        calibration(generate_log(4))
    assert in_words(table).startswith(
        f"Jobs that outran their estimate, similar within a budget: {table['observed'][0]:.3f}"
    )


def test_the_pictures_are_drawn(table, tmp_path):
    for paint in (paint_calibration, paint_reliability):
        assert all(path.stat().st_size for path in draw(tmp_path, "figure_calibration", table, paint))
