"""How fast is the simulator? Jobs per CPU second on KTH-SP2 and CEA-Curie under every policy, beside stored figures.

    python tests/bench/bench_engine.py [--store] [--only easy,easy-sjbf] [--logs KTH-SP2,CEA-Curie]

Needs JOBCAST_TRACES. CPU seconds, the best of three runs, of one where it takes over ten seconds; without compiling.
`--store` writes the figures to figures.json beside this file; keep them for a machine that does nothing else.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

from jobcast import JobLog, Simulation, Workload, clean, forecast, make_policy, make_predictor, read_log
from schedsim.policies.policy import POLICIES
from schedsim.workload.deadlines import drawn, with_deadlines
from schedsim.workload.estimates import Estimates, clairvoyant

STORED = Path(__file__).with_name("figures.json")
LOGS = {"KTH-SP2": ("KTH-SP2-1996-2.1-cln", None), "CEA-Curie": ("CEA-Curie-2011-2.1-cln", 80_640)}
NAMES = (*POLICIES, "hybrid-2", "hybrid-10", "easy+promise", "easy-sjbf+promise", "ceil", "easy+ceil")
POSTPONABLE = 0.3
"""Share of the jobs that may be postponed, under CEIL."""
IN_LOOP = ("last-two", "tsafrir")


def load(name: str) -> JobLog | None:
    """Return a cleaned log, or None if the folder of logs does not hold it."""
    stem, procs = LOGS[name]
    path = Path(os.environ.get("JOBCAST_TRACES", "")) / f"{stem}.swf.gz"
    return clean(read_log(path)[0], procs=procs)[0] if path.is_file() else None


def jobs_per_second(log: JobLog, policy: str, estimates: str) -> float:
    """Return the speed of a simulation, at its best."""
    workload, best = Workload.from_log(log), float("inf")
    if make_policy(policy).postpone is not None:
        workload = with_deadlines(workload, drawn(workload, POSTPONABLE))
    for _ in range(3):
        given: Estimates = workload.requested
        if estimates == "clairvoyant":
            given = clairvoyant(workload)
        elif estimates != "requested":
            given = forecast(make_predictor(estimates), log)
        simulation = Simulation(workload, make_policy(policy), given)
        begin = time.process_time()
        simulation.run()
        best = min(best, time.process_time() - begin)
        if best > 10:
            break
    return len(workload) / best


def main() -> None:
    """Print a line for each log, policy and source of estimates."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", action="store_true", help="keep the figures in figures.json")
    parser.add_argument("--only", default=",".join(NAMES), help="policies, with commas")
    parser.add_argument("--logs", default=",".join(LOGS), help="logs, with commas")
    arguments = parser.parse_args()
    stored = json.loads(STORED.read_text()) if STORED.is_file() else {}
    print(f"{'log':10} {'policy':22} {'estimates':12} {'jobs/s':>12} {'stored':>12} {'ratio':>6}")
    for name in arguments.logs.split(","):
        log = load(name)
        if log is None:
            print(f"{name:10} is not in JOBCAST_TRACES={os.environ.get('JOBCAST_TRACES')}", file=sys.stderr)
            continue
        cases = [(policy, "requested") for policy in arguments.only.split(",")]
        cases += [(policy, "clairvoyant") for policy in ("easy", "easy-sjbf") if policy in arguments.only.split(",")]
        cases += [("easy", predictor) for predictor in IN_LOOP if "easy" in arguments.only.split(",")]
        for policy, estimates in cases:
            jobs_per_second(log.select(slice(0, 200)), policy, estimates)  # compile
            speed, key = jobs_per_second(log, policy, estimates), f"{name} {policy} {estimates}"
            ratio = f"{speed / stored[key]:.2f}" if key in stored else ""
            print(
                f"{name:10} {policy:22} {estimates:12} {speed:12,.0f} {stored.get(key, 0):12,.0f} {ratio:>6}",
                flush=True,
            )
            if arguments.store:
                stored[key] = round(speed)
                STORED.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
