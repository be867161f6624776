"""How long the first `jobcast simulate` takes, which compiles, and how long a later one.

    python tests/bench/bench_first_run.py [--policies easy,cobalt] [--later 5]

Needs JOBCAST_TRACES. CPU seconds of the whole command on KTH-SP2, first with an empty cache of compiled code, a cache
for each policy; then the median of later runs, in CPU and in wall seconds. Python's own compiled files are kept.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMAND = "import sys; from experiments.cli.main import main; sys.argv = ['jobcast', *sys.argv[1:]]; main()"
LOG = Path(os.environ.get("JOBCAST_TRACES", "")) / "KTH-SP2-1996-2.1-cln.swf.gz"
POLICIES = "easy,easy+ceil,cobalt,careful,hybrid-3,conservative-compress,knapsack"


def run(policy: str, cache: str) -> tuple[float, float]:
    """Return the CPU and the wall seconds of a run."""
    estimates = ["--estimates", "careful"] if policy == "careful" else []
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env |= {"NUMBA_CACHE_DIR": cache, "PYTHONPYCACHEPREFIX": f"{cache}/pyc"}
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", COMMAND, "simulate", str(LOG), "--policy", policy, *estimates],
        env=env, stdout=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.perf_counter() - begin


def main() -> None:
    """Print a line for each policy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--policies", default=POLICIES, help="policies, with commas")
    parser.add_argument("--later", type=int, default=5, help="later runs of each")
    arguments = parser.parse_args()
    if not LOG.is_file():
        print(f"{LOG.name} is not in JOBCAST_TRACES={os.environ.get('JOBCAST_TRACES')}")
        return
    print(f"{'policy':22} {'first, CPU s':>12} {'later, CPU s':>12} {'later, wall s':>13}")
    for policy in arguments.policies.split(","):
        with tempfile.TemporaryDirectory() as cache:
            first, _ = run(policy, cache)
            later = [run(policy, cache) for _ in range(arguments.later)]
        cpu, wall = (statistics.median(column) for column in zip(*later, strict=True))
        print(f"{policy:22} {first:12.1f} {cpu:12.2f} {wall:13.2f}", flush=True)


if __name__ == "__main__":
    main()
