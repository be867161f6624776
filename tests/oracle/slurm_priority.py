"""Slurm's multifactor priority of one job, part by part (see slurm-priorities.md)."""

import math


def priority(site, job, now, fair_share=0.0):
    """Return the priority of a job at a second; `site` and `job` are mappings of what the files and the log say."""
    weight, flags = site["weights"], set(site["flags"])
    if "NO_NORMAL_ALL" in flags:
        flags |= {f"NO_NORMAL_{one}" for one in ("ASSOC", "PART", "QOS", "TRES")}
    waited = max(0, now // site["period"] * site["period"] - job["submit"])
    whole = weight["Age"] * min(1.0, waited / site["max_age"])
    whole += weight["Assoc"] * shared(site["associations"], job["user"], "NO_NORMAL_ASSOC" in flags)
    whole += weight["Fairshare"] * fair_share
    whole += weight["JobSize"] * size(site, job, "SMALL_RELATIVE_TO_TIME" in flags)
    factors = {name: partition["factor"] for name, partition in site["partitions"].items()}
    whole += weight["Partition"] * shared(factors, job["partition"], "NO_NORMAL_PART" in flags)
    whole += weight["QOS"] * shared(site["qos"], job["qos"], "NO_NORMAL_QOS" in flags)
    has = site["partitions"][job["partition"]]["has"]
    tres = 0.0
    for name, amount in job["tres"].items():
        if "NO_NORMAL_TRES" in flags:
            tres += amount * site["tres"].get(name, 0.0)
        elif has.get(name):
            tres += amount / has[name] * site["tres"].get(name, 0.0)
    whole += tres
    whole = whole + job["site"] - job["nice"]
    return min(max(1, math.floor(whole)), 2**32 - 1)


def shared(values, own, plain):
    """Return one's own value, or its part of the greatest one."""
    return values[own] if plain else values[own] / max(1, *values.values())


def size(site, job, by_time):
    """Return the factor of the size."""
    procs, nodes = job["procs"] / site["procs"], job["nodes"] / site["nodes"]
    if by_time:
        factor = max(procs, nodes) / max(1, math.ceil(job["requested"] / 60))
        factor = 1 - factor if site["small"] else factor
    elif site["small"]:
        factor = (max(0.0, 1 - nodes) + (1 - procs)) / 2
    else:
        factor = (nodes + procs) / 2
    return min(1.0, max(0.0, factor))
