"""How fast SWF and schedulers' own logs are read, compared with pandas reading the same text and its times.

Run: python tests/bench/bench_read_records.py [JOBS]
Makes an SWF file, ALCF's CSV, sacct's text and PBS accounting of JOBS jobs (200,000); CPU seconds, best of 3.
"""

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd

from jobcast import generate_log, read_log
from predictors.data.formats.swf import write_swf
from tests.bench.bench_read_tables import cpu

ALCF = (
    "JOB_NAME,COBALT_JOBID,MACHINE_NAME,QUEUED_TIMESTAMP,START_TIMESTAMP,END_TIMESTAMP,USERNAME_GENID,"
    "PROJECT_NAME_GENID,QUEUE_NAME,WALLTIME_SECONDS,RUNTIME_SECONDS,NODES_USED,NODES_REQUESTED,CORES_USED,LOCATION,"
    "EXIT_STATUS,ELIGIBLE_WAIT_SECONDS,REQUESTED_CORE_HOURS,USED_CORE_HOURS,MODE,IS_OVERBURN"
)
SACCT = (
    "JobIDRaw|JobID|User|Account|Partition|QOS|ReqNodes|AllocNodes|ReqCPUS|AllocCPUS|ReqMem|TimelimitRaw|Submit|"
    "Eligible|Start|End|ElapsedRaw|State|ExitCode|JobName|WorkDir|NodeList"
)


def clock(second: int, form: str) -> str:
    return datetime.fromtimestamp(second, UTC).strftime(form)


def write(folder: Path, n: int) -> dict[Path, tuple[str, tuple[str, ...]]]:
    """Write the files; return delimiter and time columns of those that pandas can read."""
    write_swf(generate_log(n, seed=1), folder / "log.swf")
    rng = np.random.default_rng(0)
    submit = 1_500_000_000 + np.cumsum(rng.exponential(100, n)).astype(int)
    start = submit + rng.exponential(9000, n).astype(int)
    end = start + rng.exponential(4000, n).astype(int) + 1
    nodes, user = 2 ** rng.integers(0, 8, n), rng.integers(0, 600, n)
    jobs = list(zip(submit.tolist(), start.tolist(), end.tolist(), nodes.tolist(), user.tolist(), strict=True))
    space, t, american = "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%m/%d/%Y %H:%M:%S"
    alcf, sacct, pbs = [ALCF], [SACCT], list[str]()
    for k, (q, s, e, p, u) in enumerate(jobs, 1):
        r = e - s
        whole = f"{r // 3600:02}:{r // 60 % 60:02}:{r % 60:02}"
        alcf.append(
            f"{k}.mira,{k},mira,{clock(q, space)},{clock(s, space)},{clock(e, space)},{u + 10**13},{u // 3 + 10**11},"
            f"prod-short,{2 * r},{r}.0,{p},{p},{16 * p},MIR-{u % 77:05d}-{p},0,{(s - q) / 2},{p * r / 300},"
            f"{p * r / 300},c{p},0"
        )
        sacct.append(
            f"{k}|{k}|user{u}|acc{u // 5}|batch|normal|1|1|{p}|{p}|{p}G|{r // 30 + 9}|{clock(q, t)}|{clock(q, t)}|"
            f"{clock(s, t)}|{clock(e, t)}|{r}|COMPLETED|0:0|job{k % 997}|/home/user{u}/run{k % 50}|n[{k % 100}-100]"
        )
        pbs.append(
            f"{clock(e, american)};E;{k}.srv;user=user{u} group=g jobname=job{k % 997} queue=workq ctime={q} qtime={q} "
            f"etime={q} start={s} exec_host=n{k % 100}/0*{p} Resource_List.ncpus={p} Resource_List.nodect=1 "
            f"Resource_List.walltime=12:00:00 session=1 end={e} Exit_status=0 resources_used.cput=00:10:00 "
            f"resources_used.mem=1000kb resources_used.walltime={whole}"
        )
    for name, lines in (("alcf.csv", alcf), ("sacct.txt", sacct), ("pbs", pbs)):
        (folder / name).write_text("\n".join(lines) + "\n")
    return {
        folder / "log.swf": (r"\s+", ()),
        folder / "alcf.csv": (",", ("QUEUED_TIMESTAMP", "START_TIMESTAMP", "END_TIMESTAMP")),
        folder / "sacct.txt": ("|", ("Submit", "Eligible", "Start", "End")),
        folder / "pbs": ("", ()),
    }


def by_pandas(path: Path, delimiter: str, times: tuple[str, ...]) -> None:
    plain = {"comment": ";", "header": None} if path.suffix == ".swf" else {}
    frame = pd.read_csv(path, sep=delimiter, **plain)
    for column in times:
        frame[column] = pd.to_datetime(frame[column])


if __name__ == "__main__":
    n_jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    with tempfile.TemporaryDirectory() as where:
        for file, (delimiter, times) in write(Path(where), n_jobs).items():
            ours = cpu(lambda file=file: read_log(file))  # type: ignore[misc]
            said = f"{file.name:9} {file.stat().st_size / 1e6:5.0f} MB {ours:6.2f} s {n_jobs / ours:9,.0f} jobs/s"
            if delimiter:
                theirs = cpu(lambda f=file, d=delimiter, t=times: by_pandas(f, d, t))  # type: ignore[misc]
                said += f"   pandas {theirs:5.2f} s, {ours / theirs:.1f} times"
            print(said)
