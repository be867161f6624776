"""The entry of a reader's process: it watches its owner before it loads what a reader is made of.

Loading takes seconds, in which an owner that is killed would be outlived. So this module imports nothing heavy.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from typing import Any


def packed(work: "Callable[[Connection[Any, Any]], None]") -> bytes:
    """Return work for `begin`, as multiprocessing itself packs what it hands to a process."""
    return bytes(ForkingPickler.dumps(work))


def begin(work: bytes, line: "Connection[Any, Any]") -> None:
    """Do the owner's work, and end at once when the owner is gone, also while what the work needs is loaded.

    Parameters
    ----------
    work : bytes
        Made by the owner with `packed`; to unpack it is to load what it needs.
    line : Connection
        To the owner; the work is called with it.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the owner reads files anew, and begins readers anew
    for one in (signal.SIGTERM, signal.SIGINT):  # the server's own come while it runs, and these again at its end
        signal.signal(one, lambda *_: sys.exit(0))
    if (owner := multiprocessing.parent_process()) is not None:
        threading.Thread(target=partial(_end_with, owner.sentinel), name="owner's life", daemon=True).start()
    ForkingPickler.loads(work)(line)


def _end_with(life: int) -> None:
    wait([life])
    os._exit(1)
