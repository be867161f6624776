"""Compiled code on disk: found again, and never used once something that it calls has changed."""

import os
import subprocess
import sys
from pathlib import Path

CALLEE = """
from typing import Final
from predictors.data.compiled import compiled
STEP: Final = {step}
@compiled
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
ASK = "from schedsim._caller import twice; print(twice(1), sum(twice.stats.cache_hits.values()))"


def asked(folder):
    """Return what a new process computes, and how often it found compiled code."""
    root = Path(__file__).parents[1]
    env = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{root}", "NUMBA_CACHE_DIR": str(folder / "cache")}
    run = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, env=env, cwd=folder, check=True)
    return tuple(map(int, run.stdout.split()))


def test_an_edit_two_calls_away_is_seen(tmp_path):
    package = tmp_path / "schedsim"
    package.mkdir()
    (package / "__init__.py").write_text("")
    for name, text in (("_callee", CALLEE.format(step=1)), ("_middle", MIDDLE), ("_caller", CALLER)):
        (package / f"{name}.py").write_text(text)
    assert asked(tmp_path) == (3, 0)
    assert asked(tmp_path) == (3, 1), "the second process finds the code"
    (package / "_callee.py").write_text(CALLEE.format(step=10))
    assert asked(tmp_path) == (21, 0)
