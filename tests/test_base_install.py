"""Without extras: logs, the simulator and advice, in few packages; a command that needs more names its extra."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT

MOST_PACKAGES, MOST_MEGABYTES = 35, 620
UV = Path(sys.executable).with_name("uv")
pytestmark = pytest.mark.slow


def run(*words, **more):
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"NO_COLOR": "1"}
    return subprocess.run([*map(str, words)], capture_output=True, text=True, env=env, **more)


@pytest.fixture(scope="module")
def venv(tmp_path_factory):
    """An environment with the wheel and what it needs, in the versions of the lock file."""
    folder = tmp_path_factory.mktemp("base")
    made = run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    assert made.returncode == 0, made.stderr
    (wheel,) = folder.glob("*.whl")
    locked = run(UV, "export", "--frozen", "--no-dev", "--no-emit-project", "--no-hashes", "--quiet", cwd=ROOT)
    (folder / "locked.txt").write_text(locked.stdout)
    run(UV, "venv", "--quiet", "--python", sys.executable, folder / "venv")
    python = folder / "venv" / "bin" / "python"
    done = run(UV, "pip", "install", "--quiet", "--python", python, "-c", folder / "locked.txt", wheel)
    if done.returncode and "ailed to fetch" in done.stderr:
        pytest.skip(f"packages cannot be downloaded: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return folder / "venv"


def test_it_is_small(venv):
    packages = json.loads(run(UV, "pip", "list", "--format", "json", "--python", venv / "bin" / "python").stdout)
    files = [path for path in (venv / "lib").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    megabytes = sum(path.stat().st_size for path in files) / 1e6
    print(f"{len(packages)} packages, {megabytes:.0f} MB")
    assert len(packages) <= MOST_PACKAGES and megabytes <= MOST_MEGABYTES


def test_every_name_of_jobcast_can_be_imported(venv, tmp_path):
    code = "import jobcast; [getattr(jobcast, name) for name in jobcast.__all__]"
    assert run(venv / "bin" / "python", "-c", code, cwd=tmp_path).stderr == ""


def test_logs_the_simulator_and_advice_work_and_all_else_names_its_extra(venv, tmp_path):
    def jobcast(line):
        done = run(venv / "bin" / "jobcast", *line.split(), cwd=tmp_path)
        return done.returncode, done.stdout, done.stderr

    for line in (
        "log generate log.swf --jobs 300",
        "log info log.swf",
        "simulate log.swf --policy careful --estimates careful",
        "advise log.swf --seeds 5",
        "evaluate log.swf --predictors similar",
    ):
        status, _, err = jobcast(line)
        assert status == 0, err
    for line, extra in (
        ("evaluate log.swf --predictors forest", "models"),
        ("simulate log.swf --figures drawn", "plots"),
        ("serve last-two", "service"),
        ("train log.swf --predictor last-two", "tracking"),
        ("evaluate log.swf --predictors online-tree", "online"),
        ("tune log.swf", "rl"),
        ("advise log.swf --seeds 5 --workers 2", "cluster"),
    ):
        status, out, err = jobcast(line)
        assert status == 2 and err.splitlines()[-1].endswith(f"is missing: pip install 'jobcast[{extra}]'."), (out, err)
