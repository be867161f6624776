"""Rows of features come back from their packed form with every bit."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from predictors.history._packed_rows import NarrowTable, PackedRows

ODD = (0.0, -0.0, 1.0, 65535.0, 65536.0, 2.0**32 - 1, 2.0**32, -1.0, 0.5, 1e308, 5e-324, np.inf, -np.inf, np.nan)
BITS = st.one_of(
    st.sampled_from([int(np.float64(value).view(np.uint64)) for value in ODD]),
    st.integers(0, 2**64 - 1),  # among them the other kinds of NaN
)


@settings(max_examples=80, deadline=None)
@given(rows=st.lists(st.lists(BITS, min_size=5, max_size=5), min_size=1, max_size=300), seed=st.integers(0, 9))
def test_every_bit_comes_back_from_any_slot(rows, seed):
    """Whatever a float64 can be; slots in any order, each keeping its newest row."""
    table = np.array(rows, dtype=np.uint64).view(np.float64)
    slots = np.random.default_rng(seed).permutation(len(rows)).tolist()
    packed = PackedRows(5)
    packed.put(slots, table[::-1].copy())
    packed.put(slots, table)
    assert np.array_equal(packed.of(slots).view(np.uint64), table.view(np.uint64))
    assert np.array_equal(packed.of(slots[:1]).view(np.uint64), table[:1].view(np.uint64))


def test_what_is_unknown_takes_no_room():
    """A row without history: two bits a value, and two bytes for each count."""
    packed = PackedRows(145)
    packed.put([3], np.array([[7.0, 3600.0] + [np.nan] * 143]))
    assert sum(map(len, packed._codes)) == 37 + 4


@settings(max_examples=40, deadline=None)
@given(
    limits=st.lists(st.sampled_from([0, 7, 15, 31, 52, 63]), min_size=1, max_size=4),
    n=st.sampled_from([0, 1, 5000]), seed=st.integers(0, 9),
)  # fmt: skip
def test_a_narrow_table_gives_back_every_number(limits, n, seed):
    """At and around the ends of each width; the copy does not follow what it was made of."""
    chance = np.random.default_rng(seed)
    columns = [chance.choice([-(2**k), 2**k - 1, -1, 0], n).astype(np.int64) for k in limits]
    kept, before = NarrowTable(columns), np.stack(columns, axis=1)
    for column in columns:
        column[:] = 3
    assert kept.shape == before.shape and np.array_equal(kept.whole(), before)
    assert np.array_equal(np.concatenate([np.empty((0, len(limits)), np.int64), *kept.pieces()]), before)
