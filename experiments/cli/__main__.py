"""`jobcast`, and `python -m experiments.cli`: the command, which can be interrupted while it is still being loaded.

Most of a short command is spent on imports. Before the first of them Ctrl-C is given a handler that ends the process at
once: there is nothing to clean up yet, and an exception within an import would end in a traceback. Only the
interpreter's own start remains. So this module, and the packages around it, import nothing on their own; `_signal` is
the part of `signal` that needs no other module.
"""

import _signal  # type: ignore[import-not-found]
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType


def _leave(number: int, frame: "FrameType | None") -> None:
    os._exit(130)


def _end_at_once() -> bool:
    """Let Ctrl-C end the process at once; return whether it would have raised KeyboardInterrupt."""
    if _signal.getsignal(_signal.SIGINT) not in (_signal.default_int_handler, _leave):
        return False  # ignored: a shell has put the command into the background
    try:
        _signal.signal(_signal.SIGINT, _leave)
    except ValueError:  # in another thread than the main one
        return False
    return True


if sys.argv[0].endswith(("jobcast", "__main__.py", "-m")):  # else a program has imported it
    _end_at_once()


def main() -> None:
    """Run the command line; Ctrl-C ends it with status 130, never with a traceback."""
    ends_at_once = _end_at_once()
    from experiments.cli.main import main as run

    try:
        if ends_at_once:
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        run()
    except KeyboardInterrupt:
        sys.exit(130)
    finally:  # all is done: what comes while the interpreter ends finds nothing left to stop
        if ends_at_once:
            _signal.signal(_signal.SIGINT, _signal.SIG_IGN)


if __name__ == "__main__":
    main()
