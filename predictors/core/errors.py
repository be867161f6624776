"""Errors that a user can act on: the thing, the rule, the value, the place, the way out."""

import difflib
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import Final

LONGEST_NAME = 80  # letters of an unknown name that a message shows


class JobcastError(ValueError):
    """An input cannot be used; the message says what, where and what to do.

    The command line prints it as one line and exits with status 2.
    """


def printable(text: str) -> str:
    r"""Return text that is safe to print: without line breaks and control characters.

    >>> ascii(printable("a\x1b[2Jb\nc")), printable("KTH, übung")
    ("'a\\ufffd[2Jb\\ufffdc'", 'KTH, übung')
    """
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def counted(number: int, thing: str) -> str:
    """Return a number of things in words.

    >>> counted(1, "job"), counted(2000, "job")
    ('1 job', '2,000 jobs')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def percent(share: float, digits: int = 0) -> str:
    """Return a share as a percentage in words.

    >>> percent(1), percent(0.7823, 1)
    ('100 %', '78.2 %')
    """
    return f"{share:.{digits}%}".replace("%", " %")


def unknown_name(kind: str, name: object, known: Iterable[str]) -> JobcastError:
    """Return the error for what is no registered name, with the nearest one that is.

    >>> print(unknown_name("policy", "eazy", ["easy", "fcfs"]))
    No policy 'eazy'; did you mean 'easy'? Known: easy, fcfs.
    >>> print(unknown_name("column", "procs", ["project", "requested_procs"]))
    No column 'procs'; did you mean 'requested_procs'? Known: project, requested_procs.
    >>> print(unknown_name("policy", 7, ["easy", "fcfs"]))
    A policy is given by its name, a text; got an object of type int. Known: easy, fcfs.
    """
    names = list(dict.fromkeys(known))
    if not isinstance(name, str):
        article, got = "An" if kind[0] in "aeiou" else "A", f"an object of type {type(name).__name__}"
        return JobcastError(f"{article} {kind} is given by its name, a text; got {got}. Known: {', '.join(names)}.")
    shown = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    near = difflib.get_close_matches(shown, names, n=1, cutoff=0.85)
    near = near or [one for one in names if shown in one.split("_")] or difflib.get_close_matches(shown, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return JobcastError(f"No {kind} {shown!r}{hint} Known: {', '.join(names)}.")


EXTRAS: Final[Mapping[str, str]] = MappingProxyType(  # the extra that brings a package, by the package's name in Python
    {
        **dict.fromkeys(("sklearn", "skops", "xgboost", "polars"), "models"),
        **dict.fromkeys(("matplotlib",), "plots"),
        **dict.fromkeys(
            ("starlette", "msgspec", "uvicorn", "uvloop", "httptools", "sqlalchemy", "alembic", "prometheus_client"),
            "service",
        ),
        **dict.fromkeys(("mlflow", "cryptography"), "tracking"),
        **dict.fromkeys(("river",), "online"),
        **dict.fromkeys(("distributed", "dask", "dask_jobqueue"), "cluster"),
        **dict.fromkeys(("cma", "gymnasium"), "rl"),
        **dict.fromkeys(("psycopg",), "postgres"),
        **dict.fromkeys(("opentelemetry",), "traces"),
        **dict.fromkeys(("mpi4py",), "probes"),
    }
)


def require(*packages: str) -> None:
    """Raise a ModuleNotFoundError for the first package that is not installed; none is imported.

    >>> require("numpy", "no_such_package")
    Traceback (most recent call last):
    ModuleNotFoundError: No module named 'no_such_package'
    """
    for name in packages:
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def missing(error: ImportError) -> str:
    """Return what to install for a package that is missing.

    >>> missing(ModuleNotFoundError(name="sklearn.ensemble"))
    "This needs the package sklearn, which is missing: pip install 'jobcast[models]'."
    """
    name = (error.name or str(error)).partition(".")[0]
    what = f"'jobcast[{EXTRAS[name]}]'" if name in EXTRAS else name
    return f"This needs the package {name}, which is missing: pip install {what}."
