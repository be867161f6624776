"""The example scripts of the pages run, where torch is installed."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.support.places import ROOT

EXAMPLES = {"maskable_ppo.py": ("torch", "sb3_contrib"), "ppo_single_file.py": ("torch",)}


def test_every_example_is_tested_and_on_a_page():
    assert {path.name for path in (ROOT / "docs" / "examples").glob("*.py")} == set(EXAMPLES)
    page = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    assert all(f"(examples/{name})" in page for name in EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_without_its_library_says_so_in_one_line(name):
    missing = "; ".join(f"sys.modules[{library!r}] = None" for library in EXAMPLES[name])
    code = f"import runpy, sys; {missing}; runpy.run_path({str(ROOT / 'docs' / 'examples' / name)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and "pip install 'jobcast[rl,deep]'" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_trains_and_prints_an_agent_beside_easy(name):
    for library in EXAMPLES[name]:
        if find_spec(library) is None:
            pytest.skip(f"{library} is not installed: pip install torch stable-baselines3 sb3-contrib")
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning:stable_baselines3", ROOT / "docs" / "examples" / name],
        capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": os.pathsep.join(["", *sys.path])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    easy, agent = (float(line) for line in re.findall(r"mean[_ ]wait(?:_s)? (\d+)", done.stdout))
    assert agent < easy, "on this log a little training lowers the mean wait"
