"""The command: `jobcast`, and `python -m jobcast`. It can name a file that hides one of our packages."""

import sys

from jobcast import hidden


def main() -> None:
    """Run the command line, or say in one line which file hides one of our packages."""
    try:
        from experiments.cli.__main__ import main as run

        run()
    except ImportError as error:
        hiding = hidden()
        if not hiding:
            raise
        print(f"jobcast: {error}: {hiding}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
