"""`mpirun -n 16 python -m predictors.probes --out probes.csv`: run both probes and write one row.

A job runs this on its nodes, so it loads little more than NumPy, pydantic and MPI.
"""

import argparse
import os
import sys
import traceback
from typing import Any

from predictors.core.declarations import declared
from predictors.core.errors import JobcastError, missing
from predictors.probes.benchmark import measure
from predictors.probes.measurements import RINGS, Settings, row_text, write_row


def world() -> Any:
    try:
        from mpi4py import MPI
    except ImportError as error:  # also of an mpi4py that is there, and broken
        raise JobcastError(missing(ImportError(name="mpi4py"))) from error
    except RuntimeError as error:
        raise JobcastError(
            f"Probes need an MPI library ({str(error).splitlines()[0]}); on Debian: apt-get install openmpi-bin."
        ) from error
    return MPI.COMM_WORLD


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return 0, or 2 with one line on stderr. One rank that fails ends them all, so none waits."""
    given = _parser().parse_args(arguments)
    try:
        settings = declared(Settings, {name: getattr(given, name) for name in Settings.model_fields}, "options")
        comm = world()
    except JobcastError as error:
        sys.stderr.write(f"probes: {error}\n")
        return 2
    try:
        row = measure(comm, settings, given.job)
        if row is not None and given.out:
            write_row(row, given.out)
        elif row is not None:
            sys.stdout.write(row_text(row))
    except JobcastError as error:
        sys.stderr.write(f"probes: {error}\n")
        return _give_up(comm)
    except Exception:
        traceback.print_exc()
        return _give_up(comm)
    return 0


def _give_up(comm: Any) -> int:
    sys.stderr.flush()
    if comm.Get_size() > 1:
        comm.Abort(2)
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m predictors.probes", description=__doc__.splitlines()[0])
    start = Settings()
    parser.add_argument("--out", metavar="FILE", help="FILE.json gets one row, FILE.csv one row more; else stdout")
    parser.add_argument("--job", default=_job(), help="what to call the job that this is part of")
    parser.add_argument("--ring", default=start.ring, choices=list(RINGS), help="pattern of the ring")
    for name, what in (("ring", "a ring message"), ("allreduce", "an all-reduce")):
        size, turns = f"{name}_bytes", f"{name}_iterations"
        parser.add_argument(f"--{name}-bytes", type=int, default=getattr(start, size), help=f"size of {what}")
        parser.add_argument(f"--{name}-iterations", type=int, default=getattr(start, turns), help="how often")
    return parser


def _job() -> str:
    return os.environ.get("SLURM_JOB_ID") or os.environ.get("LSB_JOBID") or ""


if __name__ == "__main__":
    sys.exit(main())
