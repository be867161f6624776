#!/usr/bin/env python3
"""A stand-in for squeue, scontrol, sacct and sinfo, by the name it is called by; the cluster is a JSON file.

`FAKE_SLURM` names the file: `now`, `jobs` (fields of squeue by id), `ended` (rows of sacct), `reservations`,
`partitions`, `config`, and `faults`, such as {"scontrol": "lies"}. scontrol changes TimeMin and comments of jobs that
are pending.
"""

import json
import os
import re
import sys
import time
from pathlib import Path


def answer(file, name, given, stdin):
    """Return exit status, stdout and stderr of a command."""
    cluster = json.loads(file.read_text())
    fault = cluster.get("faults", {}).get(name, "")
    with file.with_name("calls").open("a") as calls:
        calls.write(name + " " + " ".join(given) + "\n")
    if fault == "fails":
        return 1, "", f"{name}: error: Unable to contact slurm controller (connect failure)"
    if fault == "hangs":
        time.sleep(60)
    if name == "scontrol" and not given:
        return updated(file, cluster, stdin, fault)
    if name == "sacct" and cluster.get("ended") is None:
        return 1, "", "Slurm accounting storage is disabled"
    out = {"squeue": squeue, "scontrol": scontrol, "sacct": sacct, "sinfo": sinfo}[name](cluster, given)
    return 0, out[: len(out) * 2 // 3] if fault == "cut" else out, ""


def rows(jobs, fields):
    return "".join("".join(str(job.get(name, "(null)")) + mark for name, mark in fields) + "\n" for job in jobs)


def squeue(cluster, given):
    fields = [tuple(one.split(":", 1)) for one in given[given.index("-O") + 1].split(",")]
    found = []
    for job, own in cluster["jobs"].items():
        usual = {
            "JobID": job, "ArrayJobID": job, "ArrayTaskID": "N/A", "HetJobID": "N/A", "UserName": "eve",
            "Account": "(null)", "Partition": "p", "QOS": "normal", "State": "PENDING", "SubmitTime": "1000",
            "EligibleTime": "1000", "StartTime": "N/A", "EndTime": "N/A", "TimeLimit": "4:00:00", "MinTime": "0:00",
            "NumCPUs": "8", "NumNodes": "1", "Deadline": "N/A", "Reservation": "(null)", "RestartCnt": "0",
            "admin_comment": "(null)", "Comment": "(null)", "Name": "fit",
        }  # fmt: skip
        found.append(usual | own)
    return rows(found, fields)


def sacct(cluster, given):
    value = dict(one.split("=", 1) for one in given if "=" in one)
    return rows(cluster["ended"], [(one, value["--delimiter"]) for one in value["--format"].split(",")])


def sinfo(cluster, given):
    if given[-1] == "%P %C":  # eight processors a node; the first partition is the default one
        counts = [(name, 8 * len(nodes)) for name, nodes in cluster["partitions"].items()]
        return "".join(f"{name}{'' if n else '*'} 0/{c}/0/{c}\n" for n, (name, c) in enumerate(counts))
    return "".join(f"{name} {node}\n" for name, nodes in cluster["partitions"].items() for node in nodes)


def scontrol(cluster, given):
    if given[-1] == "reservation":
        return "\n".join(cluster["reservations"]) or "No reservations in the system\n"
    lines = [f"Configuration data as of {cluster['now']}"]
    return "\n".join([*lines, *(f"{key:<23} = {value}" for key, value in cluster["config"].items()), ""])


def named(cluster, text):
    """Return the jobs that one of scontrol's names stands for: 7, an array's waiting tasks by 5, and 5_3 for one."""
    array, _, task = text.partition("_")
    return [
        one
        for job, one in cluster["jobs"].items()
        if (task and (str(one.get("ArrayJobID")), str(one.get("ArrayTaskID"))) == (array, task))
        or (not task and array in (job, str(one.get("ArrayJobID"))))
    ]


def updated(file, cluster, stdin, fault):
    problems = []
    for line in stdin.splitlines():
        found = re.fullmatch(r"update JobId=([0-9][^ ]*) (?:TimeMin=(\d+)|(.*Comment=.*))", line)
        if found is None or fault == "lies":
            continue
        for name in re.split(r",(?=\d+_|\d+$)", found[1]):
            touched = named(cluster, name)
            if not touched:
                problems.append(f"Invalid job id specified for job {name}")
            for job in touched:
                if job.get("State", "PENDING") not in ("PENDING", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"):
                    continue
                if fault == "refuses" or (fault == "refuses-comments" and found[3]):
                    problems.append(f"Access/permission denied for job {name}")
                    continue
                if found[2]:
                    job["MinTime"] = f"{int(found[2])}:00"
                for word in (found[3] or "").split():
                    which, _, text = word.partition("=")
                    job[{"AdminComment": "admin_comment"}.get(which, which)] = text
    for job in cluster.get("starts_while_written", ()):
        cluster["jobs"][job] |= {"State": "RUNNING", "StartTime": str(cluster["now"]), "MinTime": "0:00"}
    for job in cluster.get("starts_with_it", ()):
        cluster["jobs"][job] |= {"State": "RUNNING", "StartTime": str(cluster["now"])}
    part = file.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps(cluster))
    part.replace(file)
    return int(bool(problems)), "", "\n".join(problems)


if __name__ == "__main__":
    name, given = Path(sys.argv[0]).name, sys.argv[1:]
    stdin = "" if given else sys.stdin.read()
    code, out, problem = answer(Path(os.environ["FAKE_SLURM"]), name, given, stdin)
    sys.stdout.buffer.write(out.encode("utf-8", "surrogateescape"))
    sys.exit(problem if problem and code == 1 else code)
