"""`jobcast forget` and `correct`."""

from datetime import UTC, datetime

from experiments.cli.options import service as options
from experiments.cli.options.shared import seconds_of
from experiments.console import print_json, say
from predictors.core.errors import JobcastError
from predictors.service.client import Client
from predictors.service.pseudonyms import Pseudonymiser
from predictors.service.state import corrections
from predictors.service.storage.database import StorageError, is_new_file, shown
from predictors.service.storage.store import Store


def forget(args: options.Forget) -> None:
    seconds = seconds_of(args.older_than, "--older-than")
    with Client(args.url, args.token, timeout=120.0) as client:
        found = client.forget(seconds, dry_run=args.dry_run)
    if args.as_json:
        print_json(found)
    else:
        done = "were given up" if found["forgotten"] else "would be given up"
        say(
            f"{found['jobs']:,} of {found['live']:,} live jobs {done}: nothing was heard of them for {args.older_than}."
        )


def correct(args: options.Correct) -> None:
    if sum(one is not None for one in (args.withdraw, args.erase_user, args.let_go_before)) != 1:
        raise JobcastError("A correction is one of --withdraw N, --erase-user NAME and --let-go-before DATE.")
    if not args.why.strip():
        raise JobcastError("--why is empty; say in a few words why this is corrected.")
    before = None if args.let_go_before is None else _second_of(args.let_go_before)
    key = Pseudonymiser() if args.name_key is None else Pseudonymiser.read(args.name_key)
    if is_new_file(args.db):
        raise JobcastError(f"{shown(args.db)}: is not there; give the --db of the service.")
    store = Store(args.db)
    live = 0
    try:
        if args.withdraw is not None:
            events, done = len(corrections.withdraw(store, sorted(set(args.withdraw)), args.why)), "withdrawn"
        elif args.erase_user is not None:
            (events, live), done = corrections.erase_user(store, key, args.erase_user, args.why), "made anonymous"
        else:
            assert before is not None
            events, done = corrections.let_go(store, before, args.why), "let go"
    except StorageError as error:
        raise JobcastError(
            f"{shown(args.db)}: cannot be read or written now ({error}); nothing was changed."
        ) from error
    finally:
        store.close()
    if args.as_json:
        print_json({"events": events, "live_jobs": live, "done": done})
        return
    say(
        f"{events:,} events were {done}." + (f" {live:,} jobs are not over: erase again when they are." if live else "")
    )


def _second_of(date: str) -> int:
    """Return the first second of a date, `2024-01-31` or `20240131` (UTC by default), or a number of seconds itself.

    >>> _second_of("1970-01-02"), _second_of("1970-01-02T00:00+02:00"), _second_of("86400")
    (86400, 79200, 86400)
    >>> _second_of("19700102")
    86400
    """
    if date.isascii() and date.isdigit() and len(date) < 13 and len(date) != 8:
        return int(date)
    try:
        found = datetime.fromisoformat(date)
        return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())
    except ValueError:
        raise JobcastError(f"--let-go-before is a date such as 2024-12-31, or a second; got {date!r}.") from None
