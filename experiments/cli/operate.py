"""`jobcast forget`: what an operator does to a service's record of jobs."""

import re
from typing import Annotated, Final

import typer

from experiments.cli.options import Json
from experiments.console import say
from predictors.core.errors import JobcastError

Url = Annotated[str, typer.Option("--url", help="The service's address.")]
TokenOption = Annotated[str | None, typer.Option("--token", help="Bearer token.", envvar="JOBCAST_TOKEN")]
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds_of(text: str, what: str) -> int:
    """Return a length of time such as 90d, 12h or 3600 in seconds.

    Examples
    --------
    >>> seconds_of("30d", "--older-than"), seconds_of("3600", "--older-than")
    (2592000, 3600)
    """
    found = re.fullmatch(r"([0-9]{1,9})([smhd]?)", text.strip())
    if found is None:
        raise JobcastError(f"{what} is a length of time such as 30d, 12h or 3600 (seconds); got {text!r}.")
    return int(found[1]) * _UNITS[found[2] or "s"]


def forget(
    older_than: Annotated[str, typer.Option(help="Give up jobs after so long a silence, such as 30d.", metavar="TIME")],
    url: Url = "http://127.0.0.1:8571",
    token: TokenOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them.")] = False,
    as_json: Json = False,
) -> None:
    """Make a service give up the live jobs whose ends were lost: nothing is learnt from them.

    Silence counts from a waiting job's submission, and from a running job's requested end.
    """
    from experiments.console import print_json
    from predictors.service.client import Client

    seconds = seconds_of(older_than, "--older-than")
    with Client(url, token, timeout=120.0) as client:
        found = client.forget(seconds, dry_run=dry_run)
    if as_json:
        print_json(found)
    else:
        done = "were given up" if found["forgotten"] else "would be given up"
        say(f"{found['jobs']:,} of {found['live']:,} live jobs {done}: nothing was heard of them for {older_than}.")
