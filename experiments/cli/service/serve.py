"""`jobcast serve` and `token`."""

import logging
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads of libraries would take turns with answers

from experiments.cli.options import service as options
from experiments.cli.options.shared import seconds_of
from experiments.console import say, working
from predictors.core.errors import JobcastError
from predictors.service.api.admission import Limits, add_token, read_tokens
from predictors.service.api.lifecycle import EarlyHangUps, Listening
from predictors.service.operation.logs import set_up_logs
from predictors.service.pseudonyms import Pseudonymiser


def serve(args: options.Serve) -> None:
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "5")  # a registry that hangs must not keep the service
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    early = EarlyHangUps()
    args.context.call_on_close(set_up_logs(args.log_format, args.log_level))
    listening = Listening(
        host=args.host, port=args.port, tokens=() if args.token_file is None else read_tokens(args.token_file),
        limits=Limits(body_bytes=args.most_bytes, rate=args.rate), certificate=args.tls_certificate, key=args.tls_key,
        token_file=args.token_file, audit_log=args.audit_log, early=early,
    )  # fmt: skip
    key = Pseudonymiser() if args.name_key is None else Pseudonymiser.read(args.name_key)
    if args.policy is not None and args.machine_procs is None:
        raise JobcastError("--policy is for forecasts of starts, which need the machine's size: --machine-procs N.")
    from experiments.runs.live_starts import LiveStarts
    from predictors.service.api.app import Api
    from predictors.service.api.server import serve as listen
    from predictors.service.settings import Settings
    from predictors.service.state.model import load
    from predictors.service.state.model_copies import ModelCopies, folder_beside
    from predictors.service.state.service import Service
    from predictors.service.state.variability import VariabilityState
    from predictors.tracking.client import load_classifier

    starts = None
    if args.machine_procs is not None:
        starts = LiveStarts(args.policy or "easy", args.machine_procs)

    settings = Settings(
        model=args.model, db=args.db, warm=args.warm, challenger=args.challenger, learn=args.learn, clock=args.clock,
        time_zone=args.time_zone, as_of=args.as_of, poll=args.poll, machine_procs=args.machine_procs, kills=args.kill,
        drift_alarms=args.drift_alarms,
        forget_after=None if args.forget_after is None else seconds_of(args.forget_after, "--forget-after"),
    )  # fmt: skip
    copies = args.model_copies or folder_beside(args.db)
    loader = load if copies is None else ModelCopies(copies).load
    with working(f"Loading {args.model}"):
        variability_state = None if args.classifier is None else VariabilityState(load_classifier(args.classifier))
        service = Service(settings, loader=loader, key=key)
    if args.name_key is None:
        logging.getLogger("jobcast.service").warning(
            "names are hashed without a key: whoever has the database can try likely names; give --name-key"
        )
    listen(Api(service, key, starts, variability_state), listening)


def token(args: options.Token) -> None:
    say(add_token(args.file, args.role, args.name))
