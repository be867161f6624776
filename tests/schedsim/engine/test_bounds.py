"""The kernels with bounds checks: no index leaves its array on the workloads of tests of all kinds of kernels."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT

KERNEL = """
import numpy as np
__name__ = {module!r}
from predictors.core.jit import compiled, lean, step
@step
def element(x, i):
    return x[i]
@{how}
def ask(x, i):
    return element(x, i)
assert ask(np.arange(3), 2) == 2
print(ask(np.arange(3), {index}))
"""


def checked(cache: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python with bounds checks in every kernel, compiled into a cache of its own."""
    env = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    env["MALLOC_PERTURB_"] = "165"  # memory that nobody has written holds no number that may be an index
    return subprocess.run([sys.executable, *command], cwd=ROOT, env=env, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "module", "index"),
    [("compiled", "__main__", 1 << 20), ("lean", "__main__", 1 << 20), ("lean", "schedsim.tried", -1)],
)
def test_an_index_out_of_bounds_in_a_step_raises(how: str, module: str, index: int, tmp_path: Path) -> None:
    """Otherwise the test below would prove nothing. Our kernels do not count from the end of an array either."""
    file = tmp_path / "kernel.py"
    file.write_text(KERNEL.format(how=how, module=module, index=index))
    ended = checked(tmp_path / "cache", str(file))
    assert ended.returncode == 1 and "IndexError" in ended.stderr, ended.stdout + ended.stderr


ENGINE = "tests/schedsim/engine"
PARTS = {
    "engine": (
        f"{ENGINE}/test_engine.py {ENGINE}/test_revisions.py",
        "oracle or other_estimates or go_on_alike or "
        "(one_schedule and (nodes or maintenance or failures or ceil or gated or agent))",
    ),
    "machine": (
        "tests/schedsim/sites/cobalt/test_cobalt.py tests/schedsim/machine tests/schedsim/policies "
        "tests/schedsim/contention/test_contention.py",
        "simulator_that_ticks or oracle or slow_program or algorithms_by_hand or compiled_score or conserved",
    ),
    "predictors": (
        "tests/predictors/history tests/predictors/models/test_online.py tests/predictors/data/telemetry/test_read.py",
        "slices or many_questions or compiled_loop or snapshot or read",
    ),
}
"""Modules and names of the tests that run each kind of kernel, cheap ones."""


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_kernels_stay_within_their_arrays(part: str, tmp_path: Path) -> None:
    modules, names = PARTS[part]
    options = ("-q", "-n", "0", "-m", "not slow", "-k", names, "-p", "no:cacheprovider")
    ended = checked(tmp_path, "-m", "pytest", *modules.split(), *options)
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-2000:]
