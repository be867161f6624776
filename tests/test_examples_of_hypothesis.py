"""The random examples of the tests are the same in every run."""

import sys
from types import ModuleType

from hypothesis import given, settings
from hypothesis import strategies as st


def _examples():
    drawn = []

    @settings(settings.get_profile("usual"), max_examples=60)
    @given(st.lists(st.integers()))
    def draw(values):
        drawn.append(values)

    draw()
    return drawn


def test_examples_are_the_same_each_time_whatever_is_imported_in_between(tmp_path, monkeypatch):
    before = _examples()
    assert _examples() == before
    ours = ModuleType("ours")
    ours.__file__ = str(tmp_path / "ours.py")
    (tmp_path / "ours.py").write_text(f"values = {[7_000_001 + i for i in range(50)]}")
    monkeypatch.setitem(sys.modules, "ours", ours)
    assert _examples() == before
