"""Where does the service listen, and for whom? An address, and who may use it."""

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from predictors.data.errors import JobcastError
from predictors.service.guard import Limits
from predictors.service.tokens import Token


@dataclass(frozen=True, kw_only=True)
class Listening:
    """Where, and for whom.

    Parameters
    ----------
    host, port
        Address; port 0 takes a free one.
    tokens : tuple of Token
        Who may do what; empty: everyone everything, on loopback only.
    limits : Limits
        How much a client may ask.
    certificate, key : Path or None
        For TLS.

    Raises
    ------
    JobcastError
        If there are no tokens though others than this machine can connect, or a key is missing.
    """

    host: str = "127.0.0.1"
    port: int = 8571
    tokens: tuple[Token, ...] = ()
    limits: Limits = field(default_factory=Limits)
    certificate: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        if not self.tokens and not is_loopback(self.host):
            raise JobcastError(
                f"{self.host} can be reached from elsewhere: give --token-file (see `jobcast token`), or listen on "
                "127.0.0.1."
            )
        if (self.certificate is None) != (self.key is None):
            raise JobcastError("TLS needs both --tls-certificate and --tls-key.")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to an address.

    Examples
    --------
    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "head-node")]
    [True, True, True, False, False]
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
