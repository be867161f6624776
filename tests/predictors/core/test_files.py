"""Files are written whole or not at all, and only onto files."""

import os
import signal
import subprocess
import sys

import pytest

from predictors.core.errors import JobcastError
from predictors.core.files import whole_file
from predictors.data.formats.swf import parse_swf
from tests.support.places import ROOT


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    out = tmp_path / "out.csv"
    out.write_text("old")
    with pytest.raises(ZeroDivisionError), whole_file(out) as part:
        part.write_text("half")
        raise ZeroDivisionError
    assert out.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_a_pipe_or_device_is_never_replaced(tmp_path):
    """Once, as root, writing to a device put a plain file in its place."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(JobcastError, match="device or a pipe"), whole_file(pipe) as part:
        part.write_text("x")
    assert pipe.is_fifo()


def test_a_link_is_followed(tmp_path):
    """Once a link was replaced by a file, and what it led to was left as it was."""
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with whole_file(tmp_path / "link") as part:
        part.write_text("new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"


def test_lines_that_end_in_cr_alone_are_refused():
    """Once such a file was one long comment: a log without jobs, and nothing said."""
    with pytest.raises(JobcastError, match="CR alone"):
        parse_swf(b"; MaxProcs: 4\r1 0 0 9 2 -1 -1 2 60 -1 1 7 1 -1 1 -1 -1 -1\r", "mac.swf")


def test_code_is_compiled_even_where_it_cannot_be_kept(monkeypatch):
    """Numba refuses a cache where neither the package nor the user's folder can be written."""
    from predictors.core import jit as compiled

    def refused(self, function):
        raise RuntimeError("cannot cache function 'f': no locator available for file 'f.py'")

    monkeypatch.setattr(compiled.KernelCache, "__init__", refused)
    with pytest.warns(UserWarning, match="NUMBA_CACHE_DIR"):
        twice = compiled.compiled(lambda x: 2 * x)
    assert twice(21) == 42


def test_a_writer_that_is_killed_outright_leaves_the_old_file_whole(tmp_path):
    (tmp_path / "out.csv").write_text("old")
    code = (
        "import time\nfrom predictors.core.files import whole_file\nwith whole_file('out.csv') as part:\n"
        "    part.write_text('half')\n    print('writing', flush=True)\n    time.sleep(60)\n"
    )
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=env, stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"writing\n"
        writer.kill()
    assert (tmp_path / "out.csv").read_text() == "old"
    assert writer.returncode == -signal.SIGKILL
