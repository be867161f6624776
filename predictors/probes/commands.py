"""Commands of other programs, run to their end: exit status, what they print, a bound on how long they take."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

PATIENCE: Final = 60.0
"""Longest time of a command [s]."""
TIMED_OUT: Final = 124
NOT_THERE: Final = 127


class Done(NamedTuple):
    """What a command did: its exit status, and what it printed on stdout and stderr."""

    code: int
    out: str
    problem: str


def run(
    command: Sequence[str],
    *,
    stdin: str | None = None,
    environment: Mapping[str, str] | None = None,
    patience: float = PATIENCE,
) -> Done:
    r"""Run a command; one that cannot run or takes too long has a status of its own, as from a shell.

    Parameters
    ----------
    command : sequence of str
        The program, looked up on the PATH, and its arguments.
    stdin : str, optional
        What it reads; nothing if absent.
    environment : mapping of str to str, optional
        Variables beside those of this process.
    patience : float
        Longest time [s]; then it is killed.

    Examples
    --------
    >>> run(["echo", "7 jobs"])
    Done(code=0, out='7 jobs\n', problem='')
    >>> run(["no-such-command"]).code
    127
    """
    try:
        done = subprocess.run(
            command,
            input="" if stdin is None else stdin,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=patience,
            env=None if environment is None else {**os.environ, **environment},
        )
    except subprocess.TimeoutExpired:
        return Done(TIMED_OUT, "", f"gave no answer within {patience:.0f} s")
    except OSError as error:
        return Done(NOT_THERE, "", str(error.strerror or error))
    return Done(done.returncode, done.stdout, done.stderr)
