"""A command ended at any moment prints no traceback, ends by its signal's status and leaves nothing half done."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from experiments.cli.main import main
from predictors.data.formats.swf import write_swf
from predictors.data.synthetic.generate import generate_log
from tests.support.places import ROOT

KILLS = 50
LATEST = 1.5
"""Until when after the first handler a signal comes [s]: within imports, the work and the end."""
START = """
import os, sys
sys.argv[0] = "jobcast"
from experiments.cli import __main__ as start
os.write({fd}, b"!")
start.main()
"""
COMMANDS = {
    "simulate": ("simulate log.swf --policy careful --estimates careful --schedule out/schedule.csv", "schedule.csv"),
    "evaluate": ("evaluate log.swf --predictors requested,tsafrir,average", None),
    "train": ("train log.swf --predictor average --register killed", None),
    "predict": ("predict models:/kept/1 log.swf --out out/predicted.csv", "predicted.csv"),
    "sweep": ("sweep log.swf --policies fcfs,easy --seeds 2 --out out/swept", None),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory, empty_store):
    """A folder with a log, a store, and a model in it."""
    import shutil

    folder = tmp_path_factory.mktemp("kills")
    shutil.copytree(empty_store, folder / "mlruns")
    (folder / "out").mkdir()
    write_swf(generate_log(3000, seed=1, procs=64, users=8), folder / "log.swf")
    assert ended(folder, "train log.swf --predictor last-two --register kept").returncode == 0
    return folder


def ended(folder, line, after=None, number=signal.SIGINT):
    """Run a command, and send it a signal so many seconds after its first handler; return what came of it."""
    env = os.environ | {"JOBCAST_HOME": str(folder), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    env.pop("MLFLOW_TRACKING_URI", None)
    reads, writes = os.pipe()
    command = subprocess.Popen(
        [sys.executable, "-c", START.format(fd=writes), *line.split()], cwd=folder, env=env, pass_fds=[writes],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    os.close(writes)
    os.read(reads, 1)
    os.close(reads)
    if after is not None:
        time.sleep(after)
        command.send_signal(number)
    out, error = command.communicate(timeout=300)
    return subprocess.CompletedProcess(line, command.returncode, out, error)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_ended_leaves_no_traceback_and_nothing_half_written(home, name):
    line, out = COMMANDS[name]
    whole = ended(home, line)
    assert whole.returncode == 0, whole.stderr
    expected = (home / "out" / out).read_bytes() if out else b""
    draw, stopped = random.Random(name), 0
    for _ in range(int(os.environ.get("JOBCAST_KILLS", KILLS))):
        if out:
            (home / "out" / out).unlink(missing_ok=True)
        number, after = draw.choice((signal.SIGINT, signal.SIGTERM)), draw.uniform(0, LATEST)
        found = ended(home, line, after, number)
        what = f"{name}: {number.name} after {after:.3f} s: {found.returncode}\n{found.stderr}"
        assert "Traceback" not in found.stderr and "Exception ignored" not in found.stderr, what
        assert found.returncode in (0, 130 if number == signal.SIGINT else -number), what
        stopped += found.returncode != 0
        left = sorted(path.name for path in (home / "out").iterdir())
        assert not [one for one in left if one.startswith(".")], f"{what}{left}"
        if out and out in left:
            assert (home / "out" / out).read_bytes() == expected, what
    assert stopped > 0
    assert ended(home, line).returncode == 0  # the store and the folders are as usable as before


def test_an_interrupt_that_python_has_wrapped_ends_the_command(monkeypatch, capsys):
    """As `__set_name__` does while a class is made: a RuntimeError from it."""

    def stopped(**_):
        raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()

    monkeypatch.setattr("experiments.cli.main.app", stopped)
    with pytest.raises(KeyboardInterrupt):
        main()
