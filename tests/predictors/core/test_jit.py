"""Compiled code: steps are put together with their kernel; on disk it is found again, unless something has changed."""

import os
import subprocess
import sys

import pytest

from tests.support.places import ROOT

CALLEE = """
from typing import Final
from predictors.core.jit import {how}
STEP: Final = {step}
@{how}
def once_more(x: int) -> int:
    return x + STEP
"""
CALLER = """
from predictors.core.jit import compiled
from schedsim._middle import middle
@compiled
def twice(x: int) -> int:
    return middle(x)
"""
MIDDLE = """
from predictors.core.jit import compiled
import schedsim._callee as callee
from schedsim._callee import once_more
@compiled
def middle(x: int) -> int:
    return once_more(x) + callee.STEP
"""
STEPS = """
import sys
{before}
from predictors.core import jit as compiled
from predictors.core.jit import compiled as kernel, door, lean, step
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
PAIRS = """
from typing import NamedTuple
class Pair(NamedTuple):
    x: int
    y: int
"""
SUMS = """
from predictors.core.jit import compiled
from schedsim._pairs import Pair
@compiled
def sum_of(pair: Pair) -> int:
    return pair.x + pair.y
"""
ASK_SUM = """
from schedsim._pairs import Pair
from schedsim._sums import sum_of
print(sum_of(Pair(1, 2)), sum(sum_of.stats.cache_hits.values()))
"""
ASK = "from schedsim._caller import twice; print(twice(1), sum(twice.stats.cache_hits.values()))"


def asked(folder, ask=ASK):
    """Return the numbers that a new process prints."""
    env = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "NUMBA_CACHE_DIR": str(folder / "cache")}
    run = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, env=env, cwd=folder, check=True)
    return tuple(map(int, run.stdout.split()))


@pytest.mark.parametrize(
    ("how", "mark"),
    [
        pytest.param("step", "_", id="private step"),
        pytest.param("compiled", "", id="public kernel", marks=pytest.mark.slow),
    ],
)
def test_an_edit_two_calls_away_is_seen(tmp_path, how, mark):
    """Whatever the modules are called."""
    package = tmp_path / "schedsim"
    package.mkdir()
    (package / "__init__.py").write_text("")
    for name, text in (("_callee", CALLEE.format(how=how, step=1)), ("_middle", MIDDLE), ("_caller", CALLER)):
        (package / f"{mark}{name[1:]}.py").write_text(text.replace("schedsim._", f"schedsim.{mark}"))
    ask = ASK.replace("schedsim._", f"schedsim.{mark}")
    assert asked(tmp_path, ask) == (3, 0)
    assert asked(tmp_path, ask) == (3, 1), "the second process finds the code"
    (package / f"{mark}callee.py").write_text(CALLEE.format(how=how, step=10))
    assert asked(tmp_path, ask) == (21, 0)


def test_code_kept_for_a_class_that_has_moved_is_compiled_again(tmp_path):
    package = tmp_path / "schedsim"
    package.mkdir()
    for module, text in (("__init__", ""), ("_pairs", PAIRS), ("_sums", SUMS)):
        (package / f"{module}.py").write_text(text)
    assert [asked(tmp_path, ASK_SUM) for _ in range(2)] == [(3, 0), (3, 1)]
    (package / "_pairs.py").rename(package / "_couples.py")
    (package / "_sums.py").write_text(SUMS.replace("_pairs", "_couples"))
    assert asked(tmp_path, ASK_SUM.replace("_pairs", "_couples")) == (3, 0)


@pytest.mark.parametrize(
    "before",
    [
        pytest.param("", id="linked"),
        pytest.param("sys.modules['predictors.core._numba_linking'] = None", id="without", marks=pytest.mark.slow),
    ],
)
def test_steps_compute_the_same_however_they_are_called(tmp_path, before):
    """Also where a numba to come lacks the parts that put them together."""
    (tmp_path / "schedsim").mkdir()
    (tmp_path / "schedsim" / "__init__.py").write_text("")
    (tmp_path / "schedsim" / "_steps.py").write_text(STEPS.format(before=before))
    linked = 0 if before else 1
    assert asked(tmp_path, ASK_STEPS) == (30, 42, 15, linked)
    assert asked(tmp_path, ASK_STEPS) == (30, 42, 15, linked), "from disk"


SHARED = """
import sys
from contextlib import suppress
from numba import TypingError
from predictors.core.jit import compiled
@compiled
def tenfold(x):
    return x * 10
@compiled
def wrong(x):
    return x.no_such_thing
with suppress(TypingError):
    wrong(1)
print("ready", flush=True)
sys.stdin.read()  # until all are
for x in eval(sys.argv[1]):
    assert tenfold(x) == x * 10 and type(tenfold(x)) is type(x * 10)
print(sum(tenfold.stats.cache_misses.values()), sum(tenfold.stats.cache_hits.values()))
"""


def test_processes_that_meet_a_kernel_at_once_compile_it_once_and_keep_all_its_specialisations(tmp_path):
    """One that can't be compiled makes nobody wait."""
    package = tmp_path / "schedsim"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "shared.py").write_text(SHARED)
    env = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def counted(*each):
        command, pipes = (
            [sys.executable, "-m", "schedsim.shared"],
            {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE},
        )
        runs = [subprocess.Popen([*command, one], env=env, cwd=tmp_path, text=True, **pipes) for one in each]
        assert [run.stdout.readline() for run in runs] == ["ready\n"] * len(runs)
        for run in runs:
            run.stdin.close()
            run.stdin = None
        told = [run.communicate()[0] for run in runs]
        assert [run.wait() for run in runs] == [0] * len(runs)
        return [[int(number) for number in line.split()] for line in told]

    assert sorted(counted("[1]", "[1]")) == [[0, 1], [1, 0]]
    assert sum(misses for misses, _ in counted("[1.5, 1j]", "[True, 1.5, 1j]")) == 3
    assert counted("[1, 1.5, 1j, True]") == [[0, 4]]


ASK_SCIPY = """
import sys
import numba, numpy as np
from predictors.core.hash_random import mixed
mixed(1, 2, 3)  # the kernel is loaded, or compiled
print("scipy.linalg" in sys.modules)
print(numba.njit(lambda a: a @ a)(np.eye(2) * 3).trace(), "scipy.linalg" in sys.modules)
"""


@pytest.mark.slow
def test_kernels_do_without_scipy_and_others_compiled_code_does_not():
    """Importing it takes a tenth of a short command; a predictor plugged in may compile linear algebra."""
    done = subprocess.run([sys.executable, "-c", ASK_SCIPY], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "18.0", "True"]


ROWS = """
import numpy as np
from predictors.core.jit import below, lean, lowest_bit, move
from schedsim.kernels.records import BLOCK, LIST_ROW
@lean
def moved(rows, target: int, source: int) -> None:
    move(rows[1].key, target, source, BLOCK)
@lean
def place(rows, key: int) -> int:
    return lowest_bit(~below(rows[1].key, key, BLOCK))
@lean
def last(rows, key: int) -> int:
    return lowest_bit(below(rows[1].key, key, BLOCK))
rows, ends = np.zeros(3, LIST_ROW), np.iinfo(np.int64)
for target, source in (3, 2), (2, 3), (BLOCK, BLOCK - 1), (0, 1), (BLOCK, 0):
    rows["key"][1] = plain = np.arange(2 * BLOCK)
    plain[target:target + BLOCK] = plain[source:source + BLOCK].copy()
    moved(rows, target, source)
    assert rows["key"].tolist() == [[0] * 2 * BLOCK, plain.tolist(), [0] * 2 * BLOCK], (target, source)
rows["key"][1] = np.sort(np.random.default_rng(0).integers(-9, 9, 2 * BLOCK))
for key in (ends.min, *range(-10, 11), ends.max):
    assert place(rows, key) == (rows["key"][1, :BLOCK] < key).sum(), key
    assert last(rows, key) == (0 if key > rows["key"][1, 0] else 64), key
"""


@pytest.mark.slow  # it compiles
def test_all_numbers_of_a_row_are_moved_and_compared_at_once(tmp_path):
    """The row between two others: neither is written."""
    (tmp_path / "rows.py").write_text(ROWS)
    env = os.environ | {"PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path)}
    ended = subprocess.run([sys.executable, "rows.py"], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
