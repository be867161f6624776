"""A PostgreSQL of the tests' own: Debian's package, run as its own user on this machine, in a folder of its own."""

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest


def programs() -> Path:
    """Return the folder of PostgreSQL's programs; skip if it is not installed."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    for folder in reversed(folders):
        if (folder / "initdb").exists():
            return folder
    found = shutil.which("initdb")
    if found is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    return Path(found).parent


class Postgres:
    """A server that can be stopped and started again."""

    def __init__(self) -> None:
        self._programs = programs()
        self._as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        self.folder = Path(tempfile.mkdtemp(prefix="jobcast-pg-", dir="/tmp"))
        if self._as_user:
            shutil.chown(self.folder, "postgres")
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        self._run("initdb", "--auth=trust", "--username=jobcast", "--encoding=UTF8", "--no-instructions")
        self.start()

    def url(self, name: str) -> str:
        """Return the address of a new, empty database."""
        self._run("createdb", "--host=127.0.0.1", f"--port={self.port}", "--username=jobcast", name, data=False)
        return f"postgresql+psycopg://jobcast@127.0.0.1:{self.port}/{name}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        about = f"-c listen_addresses=127.0.0.1 -p {self.port} -c unix_socket_directories={self.folder}"
        self._run("pg_ctl", "start", "--wait", f"--log={self.folder}/log", f"--options={about}")

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._run("pg_ctl", "stop", "--mode=immediate")

    def remove(self) -> None:
        """End it for good."""
        self._run("pg_ctl", "stop", "--mode=immediate", check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str, data: bool = True, check: bool = True) -> None:
        where = [f"--pgdata={self.folder}/data"] if data else []
        command = [*self._as_user, str(self._programs / program), *where, *arguments]
        done = subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd="/tmp", timeout=90
        )
        assert not check or done.returncode == 0, done.stderr.decode()
