"""One-hot encoding: exactly the training part's categories, unseen ones unmarked, tables checked when they are read."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictors.data.errors import JobcastError
from predictors.encoding import BELOW_ALL, Encoding, fit_encoding

NAN = np.nan
# feature 0 is a number, feature 1 a category: 7 three times, 5 twice, 9 twice, 8 once, once missing
ROWS = np.array([[1, 7], [2, 5], [3, 7], [NAN, 9], [4, 8], [5, 5], [6, 7], [7, 9], [8, NAN]], dtype=float)


def test_every_category_gets_its_column_in_the_order_of_codes():
    encoding = fit_encoding(ROWS, [False, True])
    assert encoding.sources(["number", "category"]) == ("number", *["category"] * 4)
    expected = {
        5: [1, 0, 0, 0],
        7: [0, 1, 0, 0],
        8: [0, 0, 1, 0],
        9: [0, 0, 0, 1],
        6: [0] * 4,
        10: [0] * 4,
        NAN: [0] * 4,
    }
    for code, columns in expected.items():
        assert encoding.transform([[2.5, code]]).tolist() == [[2.5, *columns]]


def test_only_the_most_frequent_categories_get_a_column_ties_by_code():
    encoding = fit_encoding(ROWS, [False, True], most=2)
    assert encoding.codes.tolist() == [5, 7]
    assert encoding.transform([[0, 7], [0, 5], [0, 9]]).tolist() == [[0, 0, 1], [0, 1, 0], [0, 0, 0]]


def test_missing_numbers_stay_missing_unless_rows_become_sparse():
    assert np.isnan(fit_encoding(ROWS, [False, True], most=4).transform(ROWS)[3, 0])
    full = fit_encoding(ROWS, [False, True])
    assert full.transform(ROWS)[3, 0] == BELOW_ALL
    np.testing.assert_array_equal(full.for_fit(ROWS).toarray(), full.transform(ROWS))


def test_a_category_that_is_never_known_keeps_an_empty_column():
    encoding = fit_encoding(np.full((3, 2), NAN), [False, True])
    assert encoding.transform([[1, 2], [1, NAN]]).tolist() == [[1, 0], [1, 0]]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=20),
    st.sampled_from([None, 1, 3]),
)
def test_a_row_marks_at_most_one_column_an_attribute(pairs, most):
    rows = np.array(pairs, dtype=float)
    encoding = fit_encoding(rows, [True, True], most)
    sources = np.array(encoding.sources(["a", "b"]))
    encoded = encoding.transform(rows)
    for name, column in (("a", 0), ("b", 1)):
        marks = encoded[:, sources == name].sum(axis=1)
        assert set(marks) <= ({1.0} if most is None else {0.0, 1.0})
        n_columns = (sources == name).sum()
        assert n_columns == min(most or 6, len(np.unique(rows[:, column])))


def test_it_survives_its_arrays():
    encoding = fit_encoding(ROWS, [False, True])
    again = Encoding.from_arrays(encoding.arrays())
    np.testing.assert_array_equal(again.transform(ROWS), encoding.transform(ROWS))


@pytest.mark.parametrize(
    "change",
    [
        {"starts": np.array([0, 0, 9])},  # beyond the codes
        {"starts": np.array([0, 2, 1])},  # backwards
        {"starts": np.array([1, 1, 4])},
        {"places": np.array([0, 7])},  # beyond the columns
        {"n_columns": np.array(3)},
        {"codes": np.zeros((2, 2))},
    ],
)
def test_damaged_tables_are_refused(change):
    with pytest.raises(JobcastError, match="points outside its tables"):
        Encoding.from_arrays(fit_encoding(ROWS, [False, True]).arrays() | change)


def test_incomplete_tables_are_refused():
    arrays = fit_encoding(ROWS, [False, True]).arrays()
    del arrays["codes"]
    with pytest.raises(JobcastError, match="cannot be read"):
        Encoding.from_arrays(arrays)
    with pytest.raises(JobcastError, match=r"2 features; got shape \(1, 3\)"):
        fit_encoding(ROWS, [False, True]).transform([[1, 2, 3]])
