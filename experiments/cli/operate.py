"""`jobcast forget` and `correct`: what an operator does to a service's record of jobs."""

import re
from datetime import datetime, timezone
from pathlib import Path
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


def correct(
    why: Annotated[str, typer.Option(help="Why; kept in the database, beside the time.")],
    db: Annotated[
        str, typer.Option(help="Database of a stopped service.", envvar="JOBCAST_DB")
    ] = "sqlite:///jobcast-service.db",
    withdraw: Annotated[
        list[int] | None, typer.Option(help="Number of an event that was wrong; may be repeated.", min=1, metavar="N")
    ] = None,
    erase_user: Annotated[
        str | None, typer.Option(help="Name of a user whose events shall be nobody's; digits are a number.")
    ] = None,
    let_go_before: Annotated[
        str | None, typer.Option(help="Delete events of jobs that were over before a date, such as 2024-12-31.")
    ] = None,
    name_key: Annotated[Path | None, typer.Option(help="The service's key for the hashes of names.")] = None,
    as_json: Json = False,
) -> None:
    """Withdraw wrong events, erase a user, or let old events go, in the database of a stopped service.

    The next start learns again from the events that are left; of events that were let go, the state stays. Send the
    right event after the start. Copies and backups of the database hold what was removed.
    """
    from experiments.console import print_json
    from predictors.service.pseudonyms import Pseudonymiser
    from predictors.service.state import corrections
    from predictors.service.storage.store import Store

    if sum(one is not None for one in (withdraw, erase_user, let_go_before)) != 1:
        raise JobcastError("A correction is one of --withdraw N, --erase-user NAME and --let-go-before DATE.")
    if not why.strip():
        raise JobcastError("--why is empty; say in a few words why this is corrected.")
    before = None if let_go_before is None else _second_of(let_go_before)
    key = Pseudonymiser() if name_key is None else Pseudonymiser.read(name_key)
    store = Store(db)
    live = 0
    try:
        if withdraw is not None:
            events, done = len(corrections.withdraw(store, sorted(set(withdraw)), why)), "withdrawn"
        elif erase_user is not None:
            who = int(erase_user) if erase_user.isascii() and erase_user.isdigit() else erase_user
            (events, live), done = corrections.erase_user(store, key, who, why), "made nobody's"
        else:
            assert before is not None
            events, done = corrections.let_go(store, before, why), "let go"
    finally:
        store.close()
    if as_json:
        print_json({"events": events, "live_jobs": live, "done": done})
        return
    say(
        f"{events:,} events were {done}." + (f" {live:,} jobs are not over: erase again when they are." if live else "")
    )


def _second_of(date: str) -> int:
    """Return the first second of a date (UTC), or a number of seconds itself."""
    if date.isascii() and date.isdigit() and len(date) < 13:
        return int(date)
    try:
        return int(datetime.fromisoformat(date).replace(tzinfo=timezone.utc).timestamp())  # noqa: UP017
    except ValueError:
        raise JobcastError(f"--let-go-before is a date such as 2024-12-31, or a second; got {date!r}.") from None
