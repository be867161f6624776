"""Attack a service: `python -m tests.predictors.service.hostile URL [--token-file FILE] [--pid PID]`.

Prints a line an attack: seconds, the service's memory before it and at most, its CPU seconds, and the wait of a
well-behaved client that one in a hundred exceeds. Ends with status 1 if the service gave an answer that is not due,
took more memory, or kept the client waiting.
"""

import argparse
import sys
from pathlib import Path

from tests.predictors.service.hostile.attacks import ATTACKS, Target, measured


def main() -> None:
    """Run the attacks that are named, or all."""
    options = argparse.ArgumentParser(prog="python -m tests.predictors.service.hostile", description=__doc__)
    options.add_argument("url", help="address of the service, such as http://127.0.0.1:8571")
    options.add_argument("names", nargs="*", help="attacks, such as 'huge heads'; default: all")
    options.add_argument("--token-file", type=Path, help="file that holds a bearer token")
    options.add_argument("--pid", type=int, help="process of the service on this machine, to watch its memory")
    options.add_argument("--certificates", help="PEM file that the service's certificate is checked against")
    options.add_argument("--most-mib", type=float, default=50.0, help="memory that an attack may add (50)")
    options.add_argument("--most-ms", type=float, default=500.0, help="p99 of the well-behaved client (500)")
    given = options.parse_intermixed_args()
    if unknown := sorted(set(given.names) - set(ATTACKS)):
        options.error(f"no attack {unknown[0]!r}; there are: {', '.join(ATTACKS)}")
    token = None if given.token_file is None else given.token_file.read_text(encoding="utf-8").strip()
    target = Target(given.url, token, given.pid, given.certificates)
    failed = 0
    for name in given.names or ATTACKS:
        try:
            found = measured(name, target)
        except AssertionError as error:
            print(f"{name:36} FAILED: {error}", flush=True)
            failed += 1
            continue
        beyond = found.most - found.before > given.most_mib or found.p99() > given.most_ms
        print(found.line() + "  FAILED" * beyond, flush=True)
        failed += beyond
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
