"""A cluster made of a JSON file, with Slurm's commands on the PATH; who answers for predictions is a table."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from predictors.core.errors import JobcastError
from predictors.probes.commands import Done
from predictors.schedulers.adapter import Adapter
from predictors.schedulers.journal import Journal, read_journal
from predictors.schedulers.slurm import Slurm
from predictors.schedulers.soft_limit import SiteRules
from predictors.service.client import Runtime
from tests.support.places import ROOT
from tests.support.slurm.fake import answer

CONFIG = {
    "SLURM_VERSION": "26.05.5", "SchedulerParameters": "bf_interval=30,time_min_as_soft_limit", "ClusterName": "t",
    "SchedulerType": "sched/backfill", "MinJobAge": "300 sec",
}  # fmt: skip


class Cluster:
    """The cluster's file, and the commands that read it."""

    def __init__(self, folder: Path) -> None:
        self.file, self.folder = folder / "cluster.json", folder
        self.file.write_text(
            json.dumps({"now": 10_000, "jobs": {}, "ended": None, "reservations": [], "partitions": {"p": ["n1", "n2"]},
                        "config": CONFIG, "faults": {}})
        )  # fmt: skip

    def change(self, **parts):
        """Replace parts of the cluster."""
        found = json.loads(self.file.read_text())
        found.update(parts)
        self.file.write_text(json.dumps(found))

    def job(self, number, **fields):
        """Add a job, or replace fields of it."""
        jobs = json.loads(self.file.read_text())["jobs"]
        jobs.setdefault(str(number), {}).update(fields)
        self.change(jobs=jobs)

    def time_min(self, number):
        """Return a job's TimeMin as squeue shows it."""
        return json.loads(self.file.read_text())["jobs"][str(number)].get("MinTime", "0:00")

    def calls(self, name):
        """Return the lines of the commands of a name that were run."""
        path = self.folder / "calls"
        return [line for line in path.read_text().splitlines() if line.split()[0] == name] if path.exists() else []


class Forecasts:
    """Answers P90 by the job's name, and keeps the events that it is told."""

    def __init__(self, seconds=600.0, **by_name):
        self.seconds, self.by_name, self.events, self.asked = seconds, by_name, [], 0
        self.trouble = ""

    def send(self, events):
        """Keep events."""
        self._check()
        self.events += events
        return [{"sequence": n, "status": "applied"} for n, _ in enumerate(events)]

    def runtime(self, jobs):
        """Answer."""
        self._check()
        self.asked += len(jobs)
        found = [self.by_name.get(job.get("executable"), self.seconds) for job in jobs]
        return [
            Runtime(3600.0, fallback=True, why="nothing learnt yet", model="m")
            if p90 is None
            else Runtime(p90 / 2, p10=1.0, p50=p90 / 2, p90=p90, answered_by="forest", model="m", version=3)
            for p90 in found
        ]

    def close(self):
        """Do nothing."""

    def _check(self):
        if self.trouble:
            raise JobcastError(self.trouble)


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A cluster of two nodes without jobs; commands are answered within this process, which is quick."""
    found = Cluster(tmp_path)

    def run(command, *, stdin=None, **_):
        code, out, problem = answer(found.file, command[0], command[1:], stdin or "")
        return Done(code, out.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), problem)

    monkeypatch.setattr("predictors.schedulers.slurm.run", run)
    return found


@pytest.fixture
def cluster_on_path(tmp_path, monkeypatch):
    """The same with commands on the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("squeue", "scontrol", "sacct", "sinfo"):
        (folder / name).symlink_to(ROOT / "tests" / "support" / "slurm" / "fake.py")
    found = Cluster(tmp_path)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_SLURM", str(found.file))
    return found


@pytest.fixture
def adapter(cluster, tmp_path):
    """Makes adapters beside the cluster, each with the journal to itself."""
    opened = []

    def make(mode="write", forecasts=None, rules=None, folder="journal", mark="none", **options):
        for one in opened:
            one.close()
        opened[:] = [Journal(tmp_path / folder)]
        found = Adapter(Slurm(5.0, mark), forecasts or Forecasts(), opened[0], rules or SiteRules(), mode, **options)
        found.journal = opened[0]
        return found

    yield make
    for one in opened:
        one.close()


@pytest.fixture
def records(tmp_path):
    """Returns the journal's records of some kinds."""

    def read(*kinds, folder="journal"):
        return [one for one in read_journal(tmp_path / folder) if not kinds or one["what"] in kinds]

    return read


def endless_adapter(journal, answers="Forecasts()", rules="SiteRules()", most=3, between="pass"):
    """Start a process that writes soft limits cycle after cycle, until it is killed; its first cycle has begun."""
    script = (
        "import sys; sys.path.insert(0, '.')\n"
        "from pathlib import Path\n"
        "from tests.predictors.schedulers.conftest import Adapter, Forecasts, Journal, SiteRules, Slurm\n"
        f"answers, journal = {answers}, Journal(Path(sys.argv[1]))\n"
        f"one = Adapter(Slurm(), answers, journal, {rules}, 'write', most_changes={most})\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    one.cycle()\n"
        f"    {between}\n"
    )
    words = [sys.executable, "-c", script, str(journal)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True)
    process.stdout.readline()
    return process
