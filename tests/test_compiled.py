"""Compiled code: steps are put together with their kernel; on disk it is found again, unless something has changed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CALLEE = """
from typing import Final
from predictors.data.compiled import {how}
STEP: Final = {step}
@{how}
def once_more(x: int) -> int:
    return x + STEP
"""
CALLER = """
from predictors.data.compiled import compiled
from schedsim._middle import middle
@compiled
def twice(x: int) -> int:
    return middle(x)
"""
MIDDLE = """
from predictors.data.compiled import compiled
import schedsim._callee as callee
from schedsim._callee import once_more
@compiled
def middle(x: int) -> int:
    return once_more(x) + callee.STEP
"""
STEPS = """
import sys
{before}
from predictors.data import compiled
from predictors.data.compiled import compiled as kernel, door, lean, step
@step
def plus(x: int, y: int) -> int:
    return x + y
@step
def twice(x: int) -> int:
    return plus(x, x)
@lean
def thrice(x: int) -> int:
    return plus(twice(x), x)
@kernel
def total(x):
    s = 0
    for i in range(len(x)):
        s += twice(x[i]) + thrice(x[i])
    return s
"""
ASK_STEPS = """
import numpy as np
from schedsim._steps import *
print(total(np.arange(4)), door(twice)(21), thrice(5), len(compiled.STEP))
"""
ASK = "from schedsim._caller import twice; print(twice(1), sum(twice.stats.cache_hits.values()))"


def asked(folder, ask=ASK):
    """Return the numbers that a new process prints."""
    root = Path(__file__).parents[1]
    env = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{root}", "NUMBA_CACHE_DIR": str(folder / "cache")}
    run = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, env=env, cwd=folder, check=True)
    return tuple(map(int, run.stdout.split()))


@pytest.mark.parametrize("how", ["compiled", "step"])
def test_an_edit_two_calls_away_is_seen(tmp_path, how):
    package = tmp_path / "schedsim"
    package.mkdir()
    (package / "__init__.py").write_text("")
    for name, text in (("_callee", CALLEE.format(how=how, step=1)), ("_middle", MIDDLE), ("_caller", CALLER)):
        (package / f"{name}.py").write_text(text)
    assert asked(tmp_path) == (3, 0)
    assert asked(tmp_path) == (3, 1), "the second process finds the code"
    (package / "_callee.py").write_text(CALLEE.format(how=how, step=10))
    assert asked(tmp_path) == (21, 0)


@pytest.mark.parametrize("before", ["", "sys.modules['predictors.data._linking'] = None"], ids=["linked", "without"])
def test_steps_compute_the_same_however_they_are_called(tmp_path, before):
    """Also where a numba to come lacks the parts that put them together."""
    (tmp_path / "schedsim").mkdir()
    (tmp_path / "schedsim" / "__init__.py").write_text("")
    (tmp_path / "schedsim" / "_steps.py").write_text(STEPS.format(before=before))
    linked = 0 if before else 1
    assert asked(tmp_path, ASK_STEPS) == (30, 42, 15, linked)
    assert asked(tmp_path, ASK_STEPS) == (30, 42, 15, linked), "from disk"
