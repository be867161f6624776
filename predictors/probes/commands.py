"""Commands of other programs, run to their end: exit status, what they print, a bound on how long they take."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

PATIENCE: Final = 60.0  # longest time of a command [s]
TIMED_OUT: Final = 124
NOT_THERE: Final = 127


class Done(NamedTuple):
    """What a command did: its exit status, and what it printed on stdout and stderr."""

    code: int
    out: str
    problem: str


def run(
    command: Sequence[str],  # the program, looked up on the PATH, and its arguments
    *,
    stdin: str | None = None,  # what it reads; nothing if absent
    environment: Mapping[str, str] | None = None,  # variables in addition to those of this process
    without: tuple[str, ...] = (),  # beginnings of names: variables of this process that the command does not get
    patience: float = PATIENCE,  # longest time [s]; then it is killed
) -> Done:
    r"""Run a command; one that cannot run or takes too long has a status of its own, as from a shell.

    >>> run(["echo", "7 jobs"])
    Done(code=0, out='7 jobs\n', problem='')
    >>> run(["no-such-command"]).code
    127
    >>> run(["sh", "-c", "echo $A_B$B"], environment={"B": "2"}, without=("A_",)).out
    '2\n'
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(without)}
    try:
        done = subprocess.run(
            command, input="" if stdin is None else stdin, capture_output=True, encoding="utf-8", errors="replace",
            timeout=patience, env={**kept, **(environment or {})},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Done(TIMED_OUT, "", f"gave no answer within {patience:.0f} s")
    except OSError as error:
        return Done(NOT_THERE, "", str(error.strerror or error))
    return Done(done.returncode, done.stdout, done.stderr)
