"""A real Slurm of a few virtual nodes within a chroot, on loopback: processes that end with the test.

Versions are those of Debian's suites. `JOBCAST_SLURM_ROOTS` names the folder of the chroots; else they are built below
`build/slurm`. It needs root, mmdebstrap and a Debian mirror, and skips with the reason where one is missing. The
daemons are Debian's, unmodified; with `speed` they live in accelerated time, by Debian's libfaketime: limits are whole
minutes, which a test cannot wait for. Commands and the processes of jobs stay in real time.
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tests.support.slurm.accounting import Accounting
from tests.support.waiting import until

SUITES = {"26.05": "sid", "24.11": "trixie", "22.05": "bookworm"}
MIRROR = os.environ.get("JOBCAST_DEBIAN_MIRROR", "http://deb.debian.org/debian")
PACKAGES = "slurmctld,slurmd,slurm-client,slurm-wlm-basic-plugins,faketime"
ACCOUNTING = f"{PACKAGES},slurmdbd,slurm-wlm-mysql-plugin,mariadb-server"
SOFT = "time_min_as_soft_limit"
NODES = ("CPUs=8 RealMemory=4000",) * 4
_PATH = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"


def chroot_of(version, accounting=False):
    """Return the chroot that holds a version of Slurm, built if it is not there; skip where that cannot be had.

    One with slurmdbd and a database, 0.6 GB, is another one than that without.
    """
    if os.geteuid() != 0:
        pytest.skip("a chroot with Slurm needs root")
    suite = SUITES[version]
    root = Path(os.environ.get("JOBCAST_SLURM_ROOTS") or ROOT / "build" / "slurm")
    root /= f"{suite}-accounting" if accounting else suite
    if not os.path.lexists(root / "usr" / "sbin" / "slurmctld"):  # a link within the chroot
        _build(suite, root, ACCOUNTING if accounting else PACKAGES)
    command = ["chroot", str(root), "/usr/bin/env", "-i", _PATH, "dpkg-query", "-W", "-f", "${Version}", "slurmctld"]
    said = subprocess.run(command, capture_output=True, text=True)
    if not said.stdout.startswith(version):
        pytest.skip(f"{root} holds Slurm {said.stdout.strip() or said.stderr.strip()}, not {version}; remove it")
    return root


def _build(suite, root, packages):
    if shutil.which("mmdebstrap") is None:
        pytest.skip("mmdebstrap is not installed: apt-get install mmdebstrap")
    root.parent.mkdir(parents=True, exist_ok=True)
    part = root.with_name(root.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    command = ["mmdebstrap", "--mode=root", "--variant=minbase", '--aptopt=Acquire::Check-Valid-Until "false"']
    done = subprocess.run([*command, f"--include={packages}", suite, str(part), MIRROR], capture_output=True, text=True)
    if done.returncode != 0:
        shutil.rmtree(part, ignore_errors=True)
        pytest.skip(f"{suite} cannot be had from {MIRROR}: {done.stderr.strip().splitlines()[-1]}")
    part.rename(root)


def free_ports(n):
    """Return n ports that nobody listens on."""
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(socket.socket()) for _ in range(n)]
        for one in opened:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in opened]


class SlurmCluster:
    """Four nodes of eight processors, the first four of any in one partition p.

    Parameters
    ----------
    version : str
        A key of `SUITES`.
    folder : Path
        Where commands for the PATH are put.
    speed : int
        How many seconds of the cluster pass in one; 1: its clock is the machine's.
    parameters : str
        SchedulerParameters; by default with the option that makes soft limits soft.
    more : str
        Further lines of slurm.conf.
    accounting : bool
        Whether slurmdbd keeps accounts, users and ended jobs: see `sacctmgr`, `add_account` and `add_user`.
    nodes : sequence of str
        What slurm.conf says of each node.
    names : sequence of str, optional
        Names of the nodes; else n1, n2, ….
    """

    def __init__(self, version, folder, speed=1, parameters=None, more="", accounting=False, nodes=NODES, names=None):
        self.version, self.speed, self.nodes = version, speed, nodes
        self.names = names or [f"n{k}" for k in range(1, 1 + len(nodes))]
        self.root = chroot_of(version, accounting)
        self.place = f"/cluster.{os.getpid()}.{time.monotonic_ns()}"
        self.home = Path(str(self.root) + self.place)
        self.controller, *ports = free_ports(3 + len(nodes))
        self.node_ports = ports[2:]
        self.accounting = Accounting(self, ports[:2]) if accounting else None
        self._processes, self._clock = {}, []
        pace = (
            "bf_interval=10,bf_resolution=60,sched_interval=10"
            if speed > 1
            else "bf_interval=1,bf_resolution=1,sched_interval=1"
        )
        self.parameters = parameters if parameters is not None else f"{SOFT},{pace},batch_sched_delay=0"
        self.more = more
        for name in ("state", "spool", "log", "jobs"):
            (self.home / name).mkdir(parents=True)
        (self.home / "jobs").chmod(0o1777)
        self._add_user("alice")
        host = socket.gethostname().split(".")[0]
        hosts = self.root / "etc" / "hosts"
        if host not in (hosts.read_text() if hosts.exists() else ""):
            hosts.write_text(f"127.0.0.1 localhost {host}\n")
        self.configure()
        self.commands(folder)

    def configure(self, parameters=None):
        """Write slurm.conf; with other SchedulerParameters if they are given."""
        self.parameters = self.parameters if parameters is None else parameters
        host, place = socket.gethostname().split(".")[0], self.place
        slow = ""
        if self.speed > 1:  # what counts seconds of the cluster must not take a late answer for a lost one
            slow = "MessageTimeout=3600\nBatchStartTimeout=3600\nUnkillableStepTimeout=14400\n"
            slow += "SlurmdTimeout=0\nInactiveLimit=0"
        plugin = "cgroup/v1" if self.version == "22.05" else "disabled"  # 22.05 wants a file system, and uses none
        (self.home / "cgroup.conf").write_text(f"CgroupPlugin={plugin}\n")
        gpus = [(k, found[1]) for k, words in enumerate(self.nodes, 1) if (found := re.search(r"gpu:(\d+)", words))]
        for i in range(max((int(n) for _, n in gpus), default=0)):
            (self.home / f"gpu{i}").touch()  # Slurm takes no GPU without a file
        lines = [f"NodeName=n{k} Name=gpu File={self.place}/gpu[0-{int(n) - 1}]\n" for k, n in gpus]
        (self.home / "gres.conf").write_text("".join(lines))
        (self.home / "slurm.conf").write_text(
            f"""ClusterName=t
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
SlurmctldPort={self.controller}
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool/%n
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.%n.pid
SlurmctldLogFile={place}/log/slurmctld.log
SlurmdLogFile={place}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters={self.parameters}
PriorityType=priority/basic
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=5
{slow}
{self.accounting.lines if self.accounting else ""}
{self.more}
{
                "".join(
                    f"NodeName=n{k} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} {words}" + chr(10)
                    for k, (port, words) in enumerate(zip(self.node_ports, self.nodes, strict=True), 1)
                )
            }
PartitionName=p Nodes=n[1-4] Default=YES MaxTime=INFINITE State=UP
"""
        )
        if self.accounting:
            self.accounting.configure()

    def up(self):
        """Start what does not run, and wait until all nodes are ready."""
        if self.speed > 1 and not self._clock:
            self._start_clock()
        if self.accounting:
            self.accounting.up()
        self.start("slurmctld", "slurmctld", "-D")
        for name in self.names:
            (self.home / "spool" / name).mkdir(exist_ok=True)
            self.start(name, "slurmd", "-D", "-N", name)
        end, n = time.monotonic() + 30 + len(self.nodes), len(self.nodes)
        while time.monotonic() < end:
            if len({*self.run("sinfo", "-h", "-N", "-t", "idle,alloc,mix", "-o", "%N", check=False).split()}) == n:
                return self
            for name, one in self._processes.items():
                if one.poll() is not None:
                    raise AssertionError(
                        f"{name} ended: {self.log('slurmctld' if name == 'slurmctld' else 'slurmd.' + name)}"
                    )
            time.sleep(0.05)
        raise AssertionError(f"no {n} nodes within {30 + n} s: {self.log('slurmctld')}")

    def log(self, name):
        """Return the end of a daemon's log."""
        path = self.home / "log" / f"{name}.log"
        return path.read_text(errors="replace")[-3000:] if path.exists() else "(no log)"

    def said(self, name):
        """Return the end of what a daemon printed."""
        return (self.home / "log" / f"{name}.out").read_text(errors="replace")[-3000:]

    def start(self, name, *command, keeps_time=False):
        """Start a daemon that does not run, by the cluster's clock unless it keeps the machine's time."""
        if self.is_running(name):
            return
        words = ["chroot", str(self.root), "/usr/bin/env", "-i", _PATH, f"SLURM_CONF={self.place}/slurm.conf"]
        clock = () if keeps_time else self._clock
        inner = " ".join([*words, *(f"'{one}'" for one in clock), *command])
        mounts = f"mount -t proc proc {self.root}/proc"  # in a namespace that ends with the process
        if self.version == "22.05":
            mounts += f" && mount --rbind /sys {self.root}/sys"
        script = f"{mounts} && exec {inner}"
        with (self.home / "log" / f"{name}.out").open("ab") as out:
            self._processes[name] = subprocess.Popen(
                ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip

    def is_running(self, name):
        """Return whether a daemon that was started has not ended."""
        return name in self._processes and self._processes[name].poll() is None

    def stop_controller(self, how=signal.SIGTERM):
        """End slurmctld."""
        one = self._processes.pop("slurmctld")
        one.send_signal(how)
        one.wait(30)

    def down(self):
        """End all processes, those first that speak to others, and remove the cluster's files."""
        first = [one for name, one in self._processes.items() if name not in ("slurmdbd", "mariadbd")]
        last = [self._processes[name] for name in ("slurmdbd", "mariadbd") if name in self._processes]
        for one in first:
            one.terminate()
        for one in [*first, *last]:
            one.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.wait(10)
            if one.poll() is None:
                one.kill()
                one.wait()
        for process in self._own_processes():  # slurmstepd outlives slurmd
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        shutil.rmtree(self.home, ignore_errors=True)

    def run(self, *command, user="root", check=True, stdin=None):
        """Run a command in the chroot as a user; return what it printed on stdout, or on stderr where it failed."""
        words = ["chroot", f"--userspec={user}:{user}", str(self.root), "/usr/bin/env", "-i", _PATH]
        words += [f"HOME={self.place}/jobs", f"SLURM_CONF={self.place}/slurm.conf", "LC_ALL=C.UTF-8", *command]
        done = subprocess.run(words, capture_output=True, text=True, input=stdin, errors="replace")
        if check:
            assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip() if done.returncode == 0 else done.stderr.strip()

    def submit(self, *options, seconds=600.0, user="alice"):
        """Submit a job that sleeps so many real seconds; return its id."""
        jobs = f"{self.place}/jobs"
        words = ["sbatch", "--parsable", "-D", jobs, "-o", "/dev/null", *map(str, options)]
        return int(self.run(*words, "--wrap", f"exec sleep {seconds}", user=user))

    def sacctmgr(self, *words, user="root"):
        """Return what a command of sacctmgr prints; it asks nothing back."""
        return self.run("sacctmgr", "-i", "-n", "-P", *words, user=user)

    def add_account(self, name, *more):
        """Add an account, with further words such as `fairshare=10` or `parent=physics`."""
        self.sacctmgr("add", "account", name, "cluster=t", *more)

    def add_user(self, name, account, *more):
        """Add a user to an account and to the machine, with further words such as `adminlevel=Operator`."""
        self._add_user(name)
        self.sacctmgr("add", "user", name, f"account={account}", "cluster=t", *more)

    def show(self, job, *names):
        """Return fields of a job as `scontrol show job` has them; those after the first line with the id."""
        text = self.run("scontrol", "-o", "show", "job", str(job)).splitlines()[0]
        values = dict(word.split("=", 1) for word in text.split() if "=" in word)
        found = [values.get(name) for name in names]
        return found[0] if len(found) == 1 else found

    def shared_folder(self):
        """Return a folder that has the same path on this machine and within the chroot, for scripts with paths."""
        inside = self.root / str(self.root).lstrip("/")
        inside.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            inside.symlink_to("/")
        return self.home / "jobs"

    def wait_for(self, job, state, seconds=20.0):
        """Wait until a job has a state."""
        told = lambda: f"job {job} is {self.show(job, 'JobState', 'Reason')}, not {state}"  # noqa: E731
        until(lambda: self.show(job, "JobState") == state, seconds, told)

    def _start_clock(self):
        """Start a clock that all daemons share, from the beginning of a year."""
        told = self.home / "clock"
        part = f"{self.place}/clock.part"
        script = f"env > {part}; mv {part} {self.place}/clock; LD_PRELOAD= exec sleep 86400"
        words = ["chroot", str(self.root), "/usr/bin/env", "-i", _PATH, f"SLURM_CONF={self.place}/slurm.conf"]
        words += [
            "FAKETIME_DONT_RESET=1", "faketime", "-m", "-f", f"@2026-01-01 00:00:00 x{self.speed}", "sh", "-c", script,
        ]  # fmt: skip
        self._processes["clock"] = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        until(told.exists, 10, "no clock")
        self._clock = [line for line in told.read_text().splitlines() if line.startswith(("FAKETIME", "LD_PRELOAD"))]

    def commands(self, folder, user="root"):
        """Put Slurm's commands into a folder, as scripts that speak to this cluster, as a user."""
        folder.mkdir(exist_ok=True)
        for name in ("squeue", "scontrol", "sinfo", "sacct", "sbatch", "scancel", "sacctmgr", "srun"):
            script = folder / name
            script.write_text(
                f"#!/bin/sh\nexec chroot --userspec={user}:{user} {self.root} /usr/bin/env -i {_PATH} "
                f"SLURM_CONF={self.place}/slurm.conf "
                f'${{SLURM_TIME_FORMAT:+SLURM_TIME_FORMAT="$SLURM_TIME_FORMAT"}} LC_ALL=C.UTF-8 {name} "$@"\n'
            )
            script.chmod(0o755)

    def _own_processes(self):
        own = f"SLURM_CONF={self.place}/slurm.conf".encode()
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (path / "root").readlink() != self.root:
                    continue
                files = [one.readlink() for one in (path / "fd").iterdir()]  # slurmstepd shows no environment
                places = [(path / "cwd").readlink(), *files]
                if own in (path / "environ").read_bytes() or any(self.home in one.parents for one in places):
                    yield int(path.name)

    def _add_user(self, name):
        if f"{name}:" not in (self.root / "etc" / "passwd").read_text():
            subprocess.run(["chroot", str(self.root), "useradd", "-m", name], check=True, capture_output=True)
