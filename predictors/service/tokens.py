"""Who may do what? Bearer tokens by role, of which only hashes are kept."""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from predictors.data.errors import JobcastError

READ: Final = "read"
WRITE: Final = "write"
ROLES: Final = (READ, WRITE)
"""`read` asks; `write` also sends events and reloads models."""
_BYTES: Final = 32


@dataclass(frozen=True)
class Token:
    """A line of the file of tokens: role, SHA-256 of the token, name.

    The tokens are 256 random bits, so a plain hash cannot be turned back: there is nothing to guess.
    """

    role: str
    digest: str
    name: str

    def allows(self, needed: str) -> bool:
        """Return whether it stands for a role, or for one that includes it."""
        return self.role == WRITE or needed == READ


def new_token(role: str, name: str) -> tuple[str, str]:
    """Return a fresh token, to be shown once, and its line for the file.

    Examples
    --------
    >>> token, line = new_token("read", "dashboard")
    >>> line.split()[0], line.split()[2], token in line
    ('read', 'dashboard', False)
    """
    if role not in ROLES or not re.fullmatch(r"[\w.-]{1,40}", name):
        raise JobcastError(f"A token has a role ({' or '.join(ROLES)}) and a name of letters, digits and . _ -.")
    token = secrets.token_urlsafe(_BYTES)
    return token, f"{role} {_digest(token.encode())} {name}"


def read_tokens(path: Path) -> "tuple[Token, ...]":
    """Return the tokens of a file; blank lines and those that begin with # do not count.

    Raises
    ------
    JobcastError
        If a line cannot be read, the file holds none, or others than its owner may write it.
    """
    if path.stat().st_mode & 0o022:
        raise JobcastError(f"{path}: others may write to this file of tokens; chmod go-w it.")
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(rf"({'|'.join(ROLES)})\s+([0-9a-f]{{64}})\s+([\w.-]{{1,40}})\s*", line)
        if match is None:
            raise JobcastError(f"{path}:{number}: not ROLE SHA256 NAME; make tokens with `jobcast token`.")
        found.append(Token(match[1], match[2], match[3]))
    if not found:
        raise JobcastError(f"{path}: holds no token; make one with `jobcast token`.")
    return tuple(found)


def who(tokens: tuple[Token, ...], presented: bytes) -> Token | None:
    """Return the token that was presented; every one is compared, each in constant time."""
    digest, found = _digest(presented), None
    for token in tokens:
        if hmac.compare_digest(token.digest, digest):
            found = token
    return found


def _digest(token: bytes) -> str:
    return hashlib.sha256(token).hexdigest()
