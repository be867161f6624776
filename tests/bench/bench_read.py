"""How fast jobs are read: a table by a map, next to polars' scan of the same file, sacct's text and PBS accounting.

Run: python tests/bench/bench_read.py [JOBS]
Makes the files with JOBS jobs (200,000) in a temporary folder; CPU seconds of one thread, best of 3. polars reads all
columns as text and collects them; it knows no job log.
"""

import sys
import tempfile
import time
import tomllib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl

from jobcast import read_log
from predictors.data.formats.tables.propose import propose
from predictors.data.formats.tables.read import parse_table
from predictors.data.formats.tables.table_map import read_map

SACCT = (
    "JobIDRaw|JobID|User|Account|Partition|QOS|ReqNodes|AllocNodes|ReqCPUS|AllocCPUS|ReqMem|TimelimitRaw|Submit|"
    "Eligible|Start|End|ElapsedRaw|State|ExitCode|JobName|WorkDir|NodeList"
)


def clock(second: int, form: str = "%Y-%m-%dT%H:%M:%S") -> str:
    return datetime.fromtimestamp(second, UTC).strftime(form)


def write(folder: Path, n: int) -> None:
    """Write a file of each form."""
    rng = np.random.default_rng(0)
    submit = 1_500_000_000 + np.cumsum(rng.exponential(100, n)).astype(int)
    start = submit + rng.exponential(9000, n).astype(int)
    end = start + rng.exponential(4000, n).astype(int) + 1
    columns = submit, start, end, 2 ** rng.integers(0, 8, n), rng.integers(0, 600, n)
    table, sacct, pbs = ["Id;Owner;Submit;Start;End;Limit_min;Cores"], [SACCT], list[str]()
    for k, (q, s, e, p, u) in enumerate(zip(*(column.tolist() for column in columns), strict=True), 1):
        r = e - s
        table.append(f"{k};u{u};{q};{s};{e};{2 * r // 60 + 5};{p}")
        sacct.append(
            f"{k}|{k}|user{u}|acc{u // 5}|batch|normal|1|1|{p}|{p}|{p}G|{r // 30 + 9}|{clock(q)}|{clock(q)}|"
            f"{clock(s)}|{clock(e)}|{r}|COMPLETED|0:0|job{k % 997}|/home/user{u}/run{k % 50}|n[{k % 100}-100]"
        )
        pbs.append(
            f"{clock(e, '%m/%d/%Y %H:%M:%S')};E;{k}.srv;user=user{u} group=g jobname=job{k % 997} queue=workq "
            f"ctime={q} qtime={q} etime={q} start={s} exec_host=n{k % 100}/0*{p} Resource_List.ncpus={p} "
            f"Resource_List.nodect=1 Resource_List.walltime=12:00:00 session=1 end={e} Exit_status=0 "
            f"resources_used.mem=1000kb resources_used.walltime={r // 3600:02}:{r // 60 % 60:02}:{r % 60:02}"
        )
    for name, lines in (("table", table), ("sacct", sacct), ("pbs", pbs)):
        (folder / name).write_text("\n".join(lines) + "\n")


def cpu(work: Callable[[], object]) -> float:
    """Return the least CPU seconds of three runs."""
    seconds = []
    for _ in range(3):
        begun = time.process_time()
        work()
        seconds.append(time.process_time() - begun)
    return min(seconds)


def main(n: int = 200_000) -> None:
    """Print jobs a second of each form."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, n)
        data = (folder / "table").read_bytes()
        about = read_map(tomllib.loads(propose(data, "table")), "the proposal")
        works = {
            "table": lambda: parse_table(data, "table", about),
            "polars' scan": lambda: pl.scan_csv(folder / "table", infer_schema=False, separator=";").collect(),
            "sacct": lambda: read_log(folder / "sacct"),
            "pbs": lambda: read_log(folder / "pbs"),
        }
        for what, work in works.items():
            print(f"{what:12} {n / cpu(work):12,.0f} jobs/s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
