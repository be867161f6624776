"""`jobcast promote` and `ui`."""

import getpass
import sys

import typer

from experiments.cli.options import service as options
from experiments.console import print_json, say, working
from predictors.core.errors import JobcastError
from predictors.tracking.client import promote as give
from predictors.tracking.store import Store, serve_pages


def promote(args: options.Promote) -> None:
    if not args.why.strip():
        raise JobcastError("--why is empty; say in a few words why this version gets the alias.")
    try:
        who = getpass.getuser()
    except (KeyError, OSError):
        who = "unknown"
    with working(f"Promoting {args.model}"):
        found = give(args.model, args.alias, f"{args.why} ({who})", even_if_worse=args.even_if_worse)
    if args.as_json:
        print_json({"name": found.name, "version": found.version, "alias": found.alias, "why": args.why, "by": who})
    else:
        say(f"{found.uri} is now version {found.version}: {args.why} ({who})")


def ui(args: options.Ui) -> None:
    def ready(address: str) -> None:
        say(f"{store}: open {address} in a browser; Ctrl-C ends it.")
        sys.stdout.flush()

    store = Store.current()
    typer.echo(f"Starting MLflow's pages on {store}.", err=True)  # it takes a while
    serve_pages(store, args.host, args.port, ready)
    say("Ended.")
