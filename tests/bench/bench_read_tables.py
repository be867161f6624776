"""How fast tables of jobs are read by a map, and SWF of 21 fields, beside polars' scan of the same file.

Run: python tests/bench/bench_read_tables.py [JOBS]
Makes the files with JOBS jobs (200,000) in a temporary folder; CPU seconds of one thread of ours, best of 3. polars
reads all columns as text and collects them; it knows no job log.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
from pyarrow import parquet

from predictors.data.formats.detect import detect, read_log
from predictors.data.formats.tables.propose import propose
from predictors.data.formats.tables.read import parse_table
from predictors.data.formats.tables.table_map import TableMap, read_map


def write(folder: Path, n: int) -> dict[str, Path]:
    """Write one file of each form and return them by name."""
    rng = np.random.default_rng(0)
    submit = 1_500_000_000 + np.cumsum(rng.exponential(100, n)).astype(int)
    start = submit + rng.exponential(9000, n).astype(int)
    end = start + rng.exponential(4000, n).astype(int) + 1
    user, cpus, gpus = rng.integers(0, 600, n), 2 ** rng.integers(0, 8, n), rng.integers(0, 5, n)
    text = [np.datetime_as_string(times.astype("datetime64[s]")) for times in (submit, start, end)]
    stamps = [np.char.replace(times, "T", " ") for times in text]
    number, limit = np.arange(n), 2 * (end - start) // 60 + 5
    jobs = list(
        zip(*(c.tolist() for c in (number, user, gpus, cpus, *stamps, end - start, start - submit)), strict=True)
    )
    helios = [f"{k},u{u},v{u % 9},{g},{c},1,COMPLETED,{q},{s},{e},{r},{w}" for k, u, g, c, q, s, e, r, w in jobs]
    head = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"
    (folder / "helios").write_text("\n".join((head, *helios)) + "\n")
    rows = zip(
        *(c.tolist() for c in (number, submit, start - submit, end - start, cpus, user, limit, gpus)), strict=True
    )
    plain = [(k, q, w, r, c, u, x, g) for k, q, w, r, c, u, x, g in rows]
    soft = [f"{k} {q} {w} {r} {c} 1073741824 u{u} q{u % 9} {60 * x} {30 * x}" for k, q, w, r, c, u, x, g in plain]
    (folder / "softwall").write_text("\n".join(soft) + "\n")
    swf = [f"{k} {q - 15 * 10**8} {w} {r} {c} -1 -1 {c} {60 * x} -1 1 {u} -1 -1 -1 -1 -1 -1 {g} {30 * x} m:excl:{c}x8"
           for k, q, w, r, c, u, x, g in plain]  # fmt: skip
    (folder / "swf21").write_text("; UnixStartTime: 1500000000\n" + "\n".join(swf) + "\n")
    own = [f"{k};u{u};{q};{q + w};{q + w + r};{x};{c}" for k, q, w, r, c, u, x, g in plain]
    (folder / "map").write_text("\n".join(("Id;Owner;Submit;Start;End;Limit_min;Cores", *own)) + "\n")
    philly = [{"status": "Pass", "vc": "v", "jobid": f"a_{k}", "submitted_time": q, "user": f"u{u}",
               "attempts": [{"start_time": s, "end_time": e, "detail": [{"ip": "m", "gpus": ["g"] * g}]}]}
              for k, u, g, c, q, s, e, r, w in jobs]  # fmt: skip
    (folder / "philly").write_text(json.dumps(philly))
    typed = {"job_id": number, "user_id": user, "partition": user % 3, "num_cores_req": cpus, "num_cores_alloc": cpus,
             "num_nodes_req": cpus // 32 + 1, "num_nodes_alloc": cpus // 32 + 1, "num_gpus_req": gpus,
             "num_gpus_alloc": gpus, "time_limit": limit, "run_time": end - start,
             "job_state": np.full(n, "COMPLETED"),
             **{name: pa.array(times.astype("datetime64[s]")).cast(pa.timestamp("us", "UTC"))
                for name, times in (("submit_time", submit), ("start_time", start), ("end_time", end))}}  # fmt: skip
    parquet.write_table(pa.table(typed), folder / "pm100")
    return {name: folder / name for name in ("map", "helios", "pm100", "softwall", "swf21", "philly")}


def cpu(work: Callable[[], object]) -> float:
    """Return the least CPU seconds of three runs."""
    seconds = []
    for _ in range(3):
        begun = time.process_time()
        work()
        seconds.append(time.process_time() - begun)
    return min(seconds)


def by_polars(name: str, path: Path) -> Callable[[], object] | None:
    """Return a scan by polars, None where it has none for the form."""
    if name == "pm100":
        return lambda: pl.scan_parquet(path).collect()
    if name in ("map", "helios"):
        letter = ";" if name == "map" else ","
        return lambda: pl.scan_csv(path, infer_schema=False, separator=letter).collect()
    return None


def own_map(path: Path) -> TableMap:
    """Return the map that is proposed for a table."""
    import tomllib

    return read_map(tomllib.loads(propose(path.read_bytes(), str(path))), "the proposal")


def main(n: int = 200_000) -> None:
    """Print rows a second of each form."""
    with tempfile.TemporaryDirectory() as folder:
        for name, path in write(Path(folder), n).items():
            if name == "map":
                table_map, data = own_map(path), path.read_bytes()
                ours = cpu(lambda data=data, about=table_map: parse_table(data, "jobs.csv", about))
            else:
                assert detect(path.read_bytes(), name) in (name, "swf")
                ours = cpu(lambda path=path: read_log(path))
            scan = by_polars(name, path)
            beside = f"polars' scan {n / cpu(scan):12,.0f} rows/s" if scan else ""
            print(f"{name:10} {n / ours:12,.0f} rows/s   {beside}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
