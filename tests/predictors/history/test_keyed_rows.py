"""Rows by key do what a dictionary does, in its order, through any sequence of changes."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from predictors.history.keyed_rows import KeyedRows

KEYS = st.one_of(st.integers(0, 40), st.integers(-(2**63), 2**63 - 1), st.integers(2**52, 2**52 + 200))
STEPS = st.lists(st.tuples(st.sampled_from(("put", "pop", "put", "many", "remove")), KEYS), max_size=200)


@pytest.mark.parametrize(("width", "dtype"), [(1, np.int64), (3, np.float64)])
@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
@example(steps=[("put", key) for key in range(300)] + [("pop", key) for key in range(0, 300, 2)])
def test_any_sequence_of_changes_gives_what_a_dictionary_gives(width, dtype, steps):
    """Long probes, holes left by removals, growth, and keys that come again: values and order are a dictionary's."""
    table, expected = KeyedRows(width, dtype), {}
    for number, (what, key) in enumerate(steps):
        row = tuple(dtype(number + k).item() for k in range(width))
        if what == "put":
            table.put(key, row)
            expected[key] = row
        elif what == "pop":
            assert table.pop(key) == expected.pop(key, None)
        elif what == "many":
            keys = [key % 7, key, key % 5]
            table.put_many(keys, [row] * 3)
            expected |= dict.fromkeys(keys, row)
        else:
            table.remove_many([key % 7, key % 11])
            for one in (key % 7, key % 11):
                expected.pop(one, None)
        assert (key in table) == (key in expected)
        assert table.first(key) == expected.get(key, (None,))[0]
        assert table.get(key) == expected.get(key)
    assert len(table) == len(expected)
    assert table.keys().tolist() == list(expected)
    assert [tuple(row) for row in table.rows().tolist()] == list(expected.values())
    assert table.first_of([*expected, 9], dtype(-5).item())[: len(expected)] == [row[0] for row in expected.values()]


def test_a_key_takes_little_memory():
    """What it is for: 24 bytes for a key, its place in the order and one number, at a load of 0.58 or more."""
    table = KeyedRows(1, np.int64)
    table.put_many(np.arange(100_000) * 977, np.arange(100_000))
    taken = sum(array.nbytes for array in (table._keys, table._order, table._values))
    assert taken < 100_000 * 24 / 0.57
