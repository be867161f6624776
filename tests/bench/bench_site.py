"""The twin of a whole university site next to a real Slurm of its configuration, a quarter of its size.

    python -m tests.bench.bench_site --out FOLDER [--runs N] [--speed N] [--jobs N]

The site is `modern/ub-slurm` in the folder that JOBCAST_TRACES names: five kinds of nodes with memory and GPUs,
features, fair-share, QOS, a topology. A quarter of each kind of node (54 slurmd) takes every fourth of the site's
first 2,500 jobs by the commands that its workload holds. The partition `debug` also has eight nodes of
`general-compute`, whose jobs it may requeue; two limits on processors are added. Each run's own `sacct` then goes the
way of a user: `jobcast site import`, and `jobcast simulate --site`. FOLDER gets a folder a run, and `compared.json`:
each run's starts next to those of the twin, and the runs next to one another. Forty minutes a run at the usual speed;
it needs what the tests with the mark `slurm` need.

`REFUSED` names the keys of the site that a Slurm of today refuses: they are left out for it.
"""

import argparse
import csv
import gzip
import itertools
import json
import os
import re
import socket
import sys
import time
from pathlib import Path

import numpy as np

from experiments.site.inventory.inventory import SACCT
from jobcast import read_log
from predictors.data.slurm.hosts import hostnames
from tests.bench.bench_priorities import compared
from tests.support.commands import invoke
from tests.support.slurm.cluster import SlurmCluster

REFUSED = ("ControlMachine", "ControlAddr", "FrontendName", "Waittime", "UsePAM", "SwitchType")
OWN = (
    "ClusterName", "AuthType", "SlurmUser", "SlurmdUser", "ReturnToService", "MessageTimeout", "StateSaveLocation",
    "SlurmdParameters", "ProctrackType", "TaskPlugin", "SlurmSchedLogFile", "SlurmSchedLogLevel", "SlurmctldLogFile",
    "SlurmdLogFile", "SlurmdSpoolDir", "JobCompType", "JobCompLoc", "JobAcctGatherType", "JobAcctGatherFrequency",
    "JobAcctGatherParams", "AccountingStorageType", "AccountingStorageHost", "SlurmdTimeout", "InactiveLimit",
    "DebugFlags", "KillWait", "ResumeTimeout", "SlurmctldTimeout", "AcctGatherEnergyType", "AcctGatherNodeFreq",
)  # fmt: skip
"""Keys of the site that say where and how its daemons run: the cluster of the test has its own."""
QUARTER = {
    "gn[001-002]": "gn001", "n[001-087]": "n[001-021]", "n[001-100]": "n[001-021]", "m[001-096]": "m[001-024]",
    "m[001-100]": "m[001-024]", "b[001-024]": "b[001-006]", "g[001-008]": "g[001-002]",
}  # fmt: skip
LIMITS = """
modify QOS general-compute set MaxTRESPerUser=cpu=600
modify QOS priority-supporters set GrpTRES=cpu=500
"""


def site_folder(source, folder):
    """Write the quarter of the site, as its administrator would keep it."""
    folder.mkdir(parents=True)
    for name in ("slurm.conf", "gres.conf", "topology.conf", "sacctmgr.script"):
        text = (source / name).read_text(errors="replace")
        for whole, part in QUARTER.items():
            text = re.sub(rf"(?<![a-z]){re.escape(whole)}", part, text)
        (folder / name).write_text(text)
    conf = (folder / "slurm.conf").read_text().replace("JobRequeue=0", "JobRequeue=1")
    conf = conf.replace("PartitionName=debug Nodes=gn001", "PartitionName=debug Nodes=gn001,m[001-008]")
    (folder / "slurm.conf").write_text(conf)
    with (folder / "sacctmgr.script").open("a") as out:
        out.write(LIMITS)


class SiteCluster(SlurmCluster):
    """A cluster by the files of a site.

    Parameters
    ----------
    site : Path
        The folder of the site's files.
    folder : Path
        Where commands for the PATH are put.
    speed : int
        How many seconds of the cluster pass in one.
    """

    def __init__(self, site, folder, speed):
        self.site = site
        self.kinds, names = {}, []
        for line in (site / "slurm.conf").read_text().splitlines():
            if line.startswith("NodeName=") and not line.startswith("NodeName=DEFAULT"):
                self.kinds[line] = hostnames(line.split()[0].removeprefix("NodeName="))
                names += self.kinds[line]
        super().__init__("26.05", folder, speed=speed, accounting=True, nodes=("",) * len(names), names=names)

    def configure(self, parameters=None):
        """Write the files of the site, with what the daemons of a test need."""
        host, place = socket.gethostname().split(".")[0], self.place
        port = dict(zip(self.names, self.node_ports, strict=True))
        super().configure(parameters)
        own = (self.home / "slurm.conf").read_text().partition("SelectType=")[0]
        own += self.accounting.lines + "SlurmdParameters=config_overrides\nReturnToService=2\nKillWait=5\n"
        own += (
            "MessageTimeout=3600\nBatchStartTimeout=3600\nUnkillableStepTimeout=14400\nSlurmdTimeout=0\nTreeWidth=64\n"
        )
        lines = [own.replace("ClusterName=t", "ClusterName=ubhpc"), "MaxJobCount=10000", "InactiveLimit=0"]
        for line in (self.site / "slurm.conf").read_text().splitlines():
            if line in self.kinds:
                words = " ".join(line.split()[1:])
                lines += [f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port[name]} {words}"
                          for name in self.kinds[line]]  # fmt: skip
            elif line.split("=")[0].strip() not in REFUSED + OWN:
                lines.append(line)
        (self.home / "slurm.conf").write_text("\n".join(lines) + "\n")
        gres = []
        for line, names in self.kinds.items():
            if found := re.search(r"Gres=gpu:([^:]+):(\d+)", line):
                gres += [
                    f"NodeName={name} Name=gpu Type={found[1]} File={place}/gpu[0-{int(found[2]) - 1}]"
                    for name in names
                ]
                for i in range(int(found[2])):
                    (self.home / f"gpu{i}").touch()
        (self.home / "gres.conf").write_text("\n".join(gres) + "\n")
        (self.home / "topology.conf").write_text((self.site / "topology.conf").read_text())

    def up(self):
        """Start all, after the site's accounts are in the database."""
        self._start_clock()
        self.accounting.up()
        script = (self.site / "sacctmgr.script").read_text()
        for name in sorted(set(re.findall(r"add user name=(\w+)", script, re.IGNORECASE)) - {"admin"}):
            self._add_user(name)
        self.run("sacctmgr", "-i", stdin=script, check=False)
        return super().up()


def played(site, folder, commands, speed):
    """Run the workload on a cluster; return its `sacct`, and why each job was seen to wait."""
    cluster = SiteCluster(site, folder / "bin", speed)
    reasons = set()
    try:
        cluster.up()
        (folder / "real.conf").write_text((cluster.home / "slurm.conf").read_text())
        begin = looked = time.monotonic()
        late = 0.0

        def look():
            lines = cluster.run("squeue", "-h", "-t", "PD", "-o", "%i|%r").splitlines()
            reasons.update((job, why) for job, why in (line.split("|", 1) for line in lines))

        for at, seconds, user, words in commands:
            while time.monotonic() < begin + at / speed:
                if time.monotonic() > looked + 3:
                    look()
                    looked = time.monotonic()
                time.sleep(max(0.0, min(0.5, begin + at / speed - time.monotonic())))
            late = max(late, time.monotonic() - begin - at / speed)
            cluster.submit(*words, seconds=seconds / speed, user=user)
        while cluster.run("squeue", "-h", "-o", "%i"):
            look()
            time.sleep(3)
        time.sleep(5)
        text = cluster.run("env", "SLURM_TIME_FORMAT=%s", *SACCT.partition("%s ")[2].split(" > ")[0]
                           .replace("-S now-180days -E now", "-S 2025-12-31 -E 2026-12-31").split())  # fmt: skip
        for name in (cluster.home / "log").glob("slurmctld*"):
            (folder / name.name).write_bytes(name.read_bytes())
    finally:
        cluster.down()
    sys.stdout.write(f"{len(commands)} jobs, each at most {late:.1f} s of the machine late\n")
    (folder / "reasons.json").write_text(json.dumps(sorted(reasons)))
    return text + "\n"


def commands_of(path, every, first):
    """Return when each job of a workload is submitted [s], how long it runs [s], its user, and the words of sbatch."""
    found = []
    for line in gzip.decompress(path.read_bytes()).decode().splitlines()[:first:every]:
        at, words = float(line.split()[1]), line.split("|")[1].split()[:-1]
        seconds = float(words[words.index("-sim-walltime") + 1])
        user = next(word for word in words if word.startswith("--uid=")).removeprefix("--uid=")
        drop = {words.index("-sim-walltime"), words.index("-sim-walltime") + 1, words.index(f"--uid={user}")}
        found.append((at, seconds, user, [word for i, word in enumerate(words) if i not in drop]))
    return found


def twin_of(site, folder):
    """Write what the twin of a run does, as a user would ask for it: `run.site` and `twin.csv`."""
    for path in site.iterdir():
        (folder / "site" / path.name).write_bytes(path.read_bytes())
    file, out = folder / "run.site", folder / "twin.csv"
    for words in (
        f"site import {folder / 'site'} --out {file} --json",
        f"simulate --site {file} --schedule {out} --json",
    ):
        done = invoke(words)
        assert done.exit_code == 0, f"{words}: {done.output} {done.exception}"
        (folder / f"{words.split()[0]}.json").write_text(done.stdout)


def starts_of(folder):
    """Return when each job of a run was submitted and started, and when its twin starts it [s], by job id."""
    log, _ = read_log(folder / "site" / "jobs.txt")
    rows = np.flatnonzero(log.known("wait"))
    names = ("job_id", "submit", "wait")
    real = {job: (at, at + wait) for job, at, wait in zip(*(log.values[n][rows].tolist() for n in names), strict=True)}
    with (folder / "twin.csv").open() as file:
        waits = {int(row["job_id"]): int(row["wait"]) for row in csv.DictReader(file)}
    return {job: (*real[job], real[job][0] + waits[job]) for job in sorted(real.keys() & waits.keys())}


def figures_of(runs):
    """Return each run next to its twin, and each pair of runs next to one another."""
    found = {}
    for name, jobs in runs.items():
        submit, start, twin = np.array(list(jobs.values())).T
        found[name] = {"real_mean_wait_s": float((start - submit).mean())} | compared(start, twin, submit)
    for (one, jobs), (two, other) in itertools.combinations(runs.items(), 2):
        both = sorted(jobs.keys() & other.keys())
        submit, start = np.array([jobs[job][:2] for job in both]).T
        moved = np.array([other[job][1] - other[job][0] for job in both]) + submit
        found[f"{one}, {two}"] = compared(start, moved, submit)
    return found


def main():
    """Play the site, then hold the twin next to it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--speed", type=int, default=240)
    parser.add_argument("--jobs", type=int, default=2500)
    given = parser.parse_args()
    if given.out is None:
        sys.stdout.write("Left out: forty minutes of a real Slurm a run. Name --out FOLDER.\n")
        return
    source = Path(os.environ["JOBCAST_TRACES"], "modern", "ub-slurm")
    if not (given.out / "site").exists():
        site_folder(source, given.out / "site")
    commands = commands_of(source / "workload_5k.events.gz", 4, given.jobs)
    runs = {}
    for number in range(1, given.runs + 1):
        folder = given.out / f"run{number}"
        if not (folder / "site" / "jobs.txt").exists():
            (folder / "site").mkdir(parents=True, exist_ok=True)
            text = played(given.out / "site", folder, commands, given.speed)
            (folder / "site" / "jobs.txt").write_text(text)
        twin_of(given.out / "site", folder)
        runs[folder.name] = starts_of(folder)
    text = json.dumps(figures_of(runs), indent=1)
    (given.out / "compared.json").write_text(text)
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main()
