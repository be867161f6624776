"""Labels of runs: the paper's limits by hand, laws, nothing from the future, abstention with a reason."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictors.core.errors import JobcastError
from predictors.data.runs import Runs
from predictors.variability.labels import LEAST_RUNS, UNLABELLED, Norms, classes_of, label

seconds_of = st.lists(st.floats(1, 1e4), min_size=LEAST_RUNS, max_size=30).filter(lambda s: np.std(s) > 1e-3)


def test_a_hand_series_meets_the_limits_from_both_sides():
    """Mean 100, std exactly 10: z = 1.19, 1.2, 1.5, 1.51 are none, little, little, variation."""
    base = np.array([90.0, 110.0] * 50)
    assert base.std(ddof=0) == 10
    seconds = np.concatenate([base, [111.9, 112.0, 115.0, 115.1]])
    train = np.arange(104) < 100
    three = label(["AMG"] * 104, [16] * 104, seconds, train, scheme="three", ddof=0)
    np.testing.assert_allclose(three.z[-4:], [1.19, 1.2, 1.5, 1.51])
    assert three.classes[-4:].tolist() == [0, 1, 1, 2]
    assert label(["AMG"] * 104, [16] * 104, seconds, train, ddof=0).classes[-4:].tolist() == [0, 0, 0, 1]


def test_the_spread_is_the_samples():
    norm = Norms.of(["a"] * 5, [1] * 5, [1, 2, 3, 4, 5]).by_key["a", 1]
    assert (norm.mean, norm.count) == (3, 5) and norm.std == pytest.approx(np.sqrt(2.5))


@given(seconds_of, st.floats(0.1, 10), st.floats(0, 1000))
def test_z_does_not_depend_on_unit_or_origin(seconds, scale, shift):
    names, sizes = ["a"] * len(seconds), [4] * len(seconds)
    z = label(names, sizes, seconds).z
    moved = label(names, sizes, np.array(seconds) * scale + shift).z
    np.testing.assert_allclose(z, moved, atol=1e-5)


@given(seconds_of)
def test_a_longer_run_never_has_a_lower_class(seconds):
    found = label(["a"] * len(seconds), [4] * len(seconds), seconds, scheme="three")
    assert (np.diff(found.classes[np.argsort(seconds)]) >= 0).all()
    binary = classes_of(found.z)
    np.testing.assert_array_equal(binary == 1, found.classes == 2)


@given(
    seconds_of, st.lists(st.floats(1, 1e5), min_size=1, max_size=8), st.lists(st.floats(1, 1e5), min_size=8, max_size=8)
)
def test_labels_of_the_past_do_not_move_with_the_future(past, future, other):
    n, m = len(past), len(future)
    train = np.arange(n + m) < n
    one = label(["a"] * (n + m), [4] * (n + m), [*past, *future], train)
    two = label(["a"] * (n + m), [4] * (n + m), [*past, *other[:m]], train)
    np.testing.assert_array_equal(one.z[:n], two.z[:n])
    assert one.norms == two.norms


def test_whole_labels_do_move_with_the_future():
    calm = [100, 101, 99, 100, 104]
    now = label(["a"] * 5, [1] * 5, calm).classes
    later = label(["a"] * 10, [1] * 10, [*calm, 200, 210, 190, 220, 205]).classes
    assert now[4] == 1 and later[4] == 0


def test_applications_and_sizes_are_measured_by_themselves():
    rng = np.random.default_rng(0)
    names = np.repeat(["a", "b", "a"], 20)
    sizes = np.repeat([8, 8, 16], 20)
    seconds = np.concatenate([rng.normal(100, 1, 20), rng.normal(1000, 100, 20), rng.normal(60, 5, 20)])
    z = label(names, sizes, seconds).z
    for k in range(3):
        own = slice(20 * k, 20 * k + 20)
        np.testing.assert_allclose(z[own], (seconds[own] - seconds[own].mean()) / seconds[own].std(ddof=1))


def test_a_run_at_its_limit_has_a_z_of_one_and_a_half():
    norms = Norms.of(["a"] * 6 + ["b"], [4] * 7, [100, 110, 90, 95, 105, 100, 7])
    limits = norms.limits(["a", "b", "a"], [4, 4, 5])
    assert np.isnan(limits[1:]).all() and norms.z(["a"], [4], limits[:1])[0] == pytest.approx(1.5)


def test_what_cannot_be_labelled_says_why():
    names = ["known"] * 6 + ["few"] * 4 + ["constant"] * 6 + ["unseen", "known"]
    sizes = [16] * 16 + [16, 32]
    seconds = [100, 110, 90, 100, 105, 95, 1, 2, 3, 4] + [50.0] * 6 + [70, 70]
    found = label(names, sizes, seconds, train=[True] * 16 + [False] * 2)
    assert found.reason.tolist() == [""] * 6 + ["few"] * 4 + ["constant"] * 6 + ["unseen"] * 2
    assert (found.classes[6:] == UNLABELLED).all() and np.isnan(found.z[6:]).all()
    assert found.abstained() == {"unseen": 2, "few": 4, "constant": 6}


def test_five_runs_are_the_fewest_of_which_one_can_vary():
    for n in (4, 5):
        seconds = [100.0] * (n - 1) + [200.0]
        assert (Norms.of(["a"] * n, [1] * n, seconds, least=2).z(["a"] * n, [1] * n, seconds) > 1.5).any() == (n == 5)


@pytest.mark.parametrize(("last", "mean"), [(50, 50), (np.nan, 100)])
def test_the_main_regions_time_is_labelled_where_all_runs_of_an_application_have_it(last, mean):
    """Else that of the job, for all of them: two kinds of times in one mean would make labels of the difference."""
    runs = Runs.of(
        job_id=range(6),
        application=["a"] * 6,
        node_count=[1] * 6,
        start=[0] * 6,
        end=[100] * 6,
        workload=["io"] * 6,
        region_time=[50, 51, 49, 50, 50, last],
    )
    assert Norms.of_runs(runs).by_key["a", 1].mean == pytest.approx(mean)


def test_norms_survive_their_writing():
    norms = Norms.of(["a", "a", "b"], [1, 1, 2], [3, 4.5, 6])
    back = Norms.from_json(norms.to_json())
    assert back.to_json() == norms.to_json() and np.isnan(back.by_key["b", 2].std)
    with pytest.raises(JobcastError, match="no norms"):
        Norms.from_json({"norms": [[1]]})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"train": [False] * 3}, "training part"),
        ({"scheme": "four"}, "'four'"),
        ({"seconds": [1, 2, np.inf]}, "finite"),
        ({"node_count": [1, 1]}, "shapes"),
        ({"ddof": 2}, "ddof"),
    ],
)
def test_what_cannot_be_used_is_told(wrong, said):
    given = {"application": ["a"] * 3, "node_count": [1] * 3, "seconds": [1, 2, 3]}
    with pytest.raises(JobcastError, match=said):
        label(**{**given, **wrong})
