"""PBS hook (queuejob, runjob): sets soft_walltime from the table of soft limits, by the decision that jobcast takes.

It reads local files only, and accepts every job whatever happens. Its configuration is a JSON file beside the hook:

    {"table": "/var/lib/jobcast/soft-limits", "cluster": "NAME in the table", "library": "/etc/jobcast/hook",
     "soft_limits": {"pad_minutes": 15}}

`library` is a folder with copies of predictors/schedulers/soft_limit.py and table.py, which only root may change. It
needs Python 3.8. docs/how-to/slurm.md says more.
"""

import importlib.util
import json
import sys
import time
from pathlib import Path

import pbs

SOFT = "soft_walltime"
MARK = "JOBCAST_SOFT_WALLTIME"  # variable of a job: the soft limit that this hook has set [min]


def loaded(folder, name):
    """Return a module of the library."""
    spec = importlib.util.spec_from_file_location("jobcast_" + name, str(Path(folder) / (name + ".py")))
    module = importlib.util.module_from_spec(spec)
    sys.modules["jobcast_" + name] = module  # where dataclasses look for their module
    spec.loader.exec_module(module)
    return module


def seconds_of(duration):
    """Return a resource such as walltime in seconds; None where it is not set."""
    if duration is None or str(duration) == "":
        return None
    parts = [int(float(part)) for part in str(duration).split(":")]
    found = 0
    for part in parts:
        found = 60 * found + part
    return found


def procs_of(resources):
    """Return the processors asked for: those of select, else ncpus."""
    select = resources["select"]
    if select is None:
        return int(resources["ncpus"] or 1)
    total = 0
    for chunk in str(select).split("+"):
        words = chunk.split(":")
        count = int(words[0]) if words[0].isdigit() else 1
        each = [word.split("=")[1] for word in words if word.startswith("ncpus=")]
        total += count * int(each[0] if each else 1)
    return total


def set_soft_walltime(event):
    """Set, clear or leave the soft limit of the event's job; return what was done and why."""
    config = json.loads(Path(pbs.hook_config_filename).read_text(encoding="utf-8"))
    soft_limit, table = loaded(config["library"], "soft_limit"), loaded(config["library"], "table")
    now, job = int(time.time()), event.job
    resources = job.Resource_List
    if resources["min_walltime"] is not None or resources["max_walltime"] is not None:
        return "leave: it can be shrunk to fit"
    known = table.parse(Path(config["table"]).read_text(encoding="utf-8"), config["cluster"], now)
    if not known.sets:
        return "leave: the table is for advice only"
    limit, soft = seconds_of(resources["walltime"]), seconds_of(resources[SOFT])
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in config["soft_limits"].items()}
    rules = soft_limit.SiteRules(**given)
    user = str(event.requestor if event.type == pbs.QUEUEJOB else job.Job_Owner).split("@")[0]
    queue, procs = str(job.queue or ""), procs_of(resources)
    row = None
    if limit is not None:
        row = known.find(user, queue, procs, limit // 60, str(job.Job_Name or ""))
    bound = soft_limit.Bound(float(row.seconds), row.model) if row else soft_limit.Bound(None, why="no such job yet")
    # One that has begun counts, too: the table knows the first only, and a second may follow.
    near = limit is not None and known.reaches_reservation(now, limit)
    ahead = [soft_limit.Reservation("of the table", now, now)] if near else []
    queued = soft_limit.QueuedJob(
        0,
        limit=limit,
        soft=soft,
        user=user,
        partition=queue,
        procs=procs,
        name=str(job.Job_Name or ""),
        reservation=str(job.resv or "") if hasattr(job, "resv") else "",
    )
    # Managers may set a soft_walltime, too, at any time: ours is what the job's mark says, and no other is touched.
    marked = "" if event.type == pbs.QUEUEJOB else str(job.Variable_List[MARK] or "")
    ours = frozenset([int(marked)] if marked.isdigit() else [])
    one = soft_limit.decide(queued, bound, soft_limit.SiteState(now, ahead), rules, ours)
    if one.action == soft_limit.SET:
        resources[SOFT] = pbs.duration(60 * one.minutes)
        job.Variable_List[MARK] = str(one.minutes)
    elif one.action == soft_limit.CLEAR:
        resources[SOFT] = None
    return one.action + ": " + one.why


event = pbs.event()
try:
    pbs.logmsg(pbs.LOG_DEBUG, "jobcast: " + set_soft_walltime(event))
except Exception as error:
    pbs.logmsg(pbs.LOG_DEBUG, "jobcast: the job is as it was: " + repr(error))
event.accept()
