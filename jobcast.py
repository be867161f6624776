"""The command, also as `python -m jobcast`. It stands alone, so that it can name a folder that hides our packages."""

import sys


def main() -> None:
    """Run the command line, or say in one line which folder hides one of our packages."""
    try:
        from experiments.cli.__main__ import main as run

        run()
    except ModuleNotFoundError as error:
        hiding = _hiding()
        if not hiding:
            raise
        print(f"jobcast: {error}: {hiding}", file=sys.stderr)
        sys.exit(2)


def _hiding() -> str:
    from importlib.util import find_spec
    from pathlib import Path

    own = Path(__file__).resolve().parent
    for name in ("experiments", "schedsim", "predictors"):
        found = find_spec(name)
        place = own / name if found is None or not found.origin else Path(found.origin).resolve().parent
        if place != own / name:
            return f"{str(place)!r} hides the package {name} of {str(own)!r}; take it off PYTHONPATH, or rename it."
    return ""


if __name__ == "__main__":
    main()
