"""systemd's notifications: ready, reloading, stopping, the watchdog. A datagram to the socket that it names.

Outside of systemd (no `NOTIFY_SOCKET`) every function does nothing. The protocol is that of sd_notify(3).
"""

import os
import socket
import time
from typing import Final

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
ALIVE: Final = "WATCHDOG=1"


def notify(*lines: str) -> bool:
    """Send lines to systemd; return whether it received them.

    >>> "NOTIFY_SOCKET" in os.environ or notify(READY)
    False
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address[:1] not in ("/", "@"):
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as one:
            one.settimeout(1.0)
            one.sendto("\n".join(lines).encode(), "\0" + address[1:] if address[0] == "@" else address)
    except OSError:
        return False
    return True


def notify_reloading() -> bool:
    """Tell systemd that the configuration is being read again; `READY` must follow."""
    return notify("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")


def notify_starting(status: str, seconds: float) -> bool:
    """Tell how far the start is, and that it may take so many more seconds."""
    return notify(f"STATUS={status}", f"EXTEND_TIMEOUT_USEC={round(seconds * 1e6)}")


def watchdog_seconds() -> float | None:
    """Return within how many seconds systemd wants to hear of this process again; None: it has no watchdog.

    >>> os.environ.get("WATCHDOG_USEC") or watchdog_seconds()
    """
    given, process = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not given.isdigit() or int(given) == 0 or (process and process != str(os.getpid())):
        return None
    return int(given) / 1e6
