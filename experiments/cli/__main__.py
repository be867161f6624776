"""`jobcast`, and `python -m experiments.cli`: the command, which can be interrupted while it is still being loaded."""

import signal
import sys


def main() -> None:
    """Run the command line; Ctrl-C ends it with status 130, never with a traceback."""
    try:
        from experiments.cli.main import main as run

        run()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one finds nothing left to stop
        sys.exit(130)


if __name__ == "__main__":
    main()
