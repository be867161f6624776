"""Accounts beside the cluster of a test: a database, and a slurmdbd that keeps accounts, users and ended jobs in it.

The database is MariaDB, in real time. It is made once a chroot, and copied for each cluster. slurmdbd lives by the
cluster's clock. It listens on loopback, and takes whoever speaks to it for whom the kernel says that he is.
"""

import contextlib
import fcntl
import shutil
import socket
import subprocess
import time

_MADE = "/var/lib/jobcast-database"
_SERVER = ("mariadbd", "--no-defaults", "--user=root", "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M",
           "--innodb-flush-log-at-trx-commit=0", "--innodb-lock-wait-timeout=900",
           "--innodb-snapshot-isolation=OFF", "--skip-name-resolve")  # fmt: skip
_GRANT = (
    "create database slurm_acct_db; create user 'slurm'@'127.0.0.1' identified by 'x'; "
    "grant all on slurm_acct_db.* to 'slurm'@'127.0.0.1';"
)


class Accounting:
    """MariaDB and slurmdbd of one cluster.

    Parameters
    ----------
    cluster : SlurmCluster
        Whose daemons they stand beside.
    ports : sequence of int
        Of the database, and of slurmdbd.
    """

    def __init__(self, cluster, ports):
        self.cluster = cluster
        self.database, self.port = ports

    @property
    def lines(self):
        """Lines of slurm.conf that name slurmdbd."""
        return (
            "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=127.0.0.1\n"
            f"AccountingStoragePort={self.port}\n"
        )

    def configure(self):
        """Write slurmdbd.conf, which slurmdbd takes from its owner alone."""
        place, path = self.cluster.place, self.cluster.home / "slurmdbd.conf"
        host = socket.gethostname().split(".")[0]
        path.write_text(
            f"AuthType=auth/none\nDbdHost={host}\nDbdAddr=127.0.0.1\nDbdPort={self.port}\nSlurmUser=root\n"
            f"StorageType=accounting_storage/mysql\nStorageHost=127.0.0.1\nStoragePort={self.database}\n"
            "StorageUser=slurm\nStoragePass=x\nStorageLoc=slurm_acct_db\n"
            f"PidFile={place}/slurmdbd.pid\nLogFile={place}/log/slurmdbd.log\n"
        )
        path.chmod(0o600)

    def up(self):
        """Start both, and wait until slurmdbd answers."""
        place, own = self.cluster.place, self.cluster.home / "database"
        if not own.exists():
            _make(self.cluster.root)
            shutil.copytree(f"{self.cluster.root}{_MADE}", own, symlinks=True)
        server = [*_SERVER, f"--datadir={place}/database", f"--socket={place}/database.socket"]
        server += ["--bind-address=127.0.0.1", f"--port={self.database}"]
        self.cluster.start("mariadbd", *server, keeps_time=True)
        _wait_for(self.database, lambda: self.cluster.said("mariadbd"))
        self.cluster.start("slurmdbd", "slurmdbd", "-D")
        _wait_for(self.port, lambda: self.cluster.log("slurmdbd"))


def _make(root):
    """Make the database of a chroot, if it is not there: its files are copied for each cluster."""
    made = root / _MADE[1:]
    with (root / "var" / "lib" / "jobcast-database.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if made.exists():
            return
        part = f"{_MADE}.part"
        shutil.rmtree(f"{root}{part}", ignore_errors=True)
        inside = ["chroot", str(root), "/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]
        install = ["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={part}", "--skip-test-db"]
        _run([*inside, *install, "--innodb-log-file-size=8M"])
        server = [*_SERVER, f"--datadir={part}", "--bootstrap"]
        _run([*inside, *server], stdin=f"flush privileges; {_GRANT}".replace("; ", ";\n"))
        (root / part[1:]).rename(made)


def _run(words, stdin=None):
    done = subprocess.run(words, capture_output=True, text=True, input=stdin)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"


def _wait_for(port, told):
    """Wait until somebody listens on a port."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise AssertionError(f"nobody listens on port {port}: {told()}")
