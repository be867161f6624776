"""The command `jobcast`: one place that mounts every subcommand and turns errors into one clear line."""

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Annotated, Any, Final, NoReturn

import typer

from experiments.cli.commands import group
from experiments.console import tell_what_is_compiled
from predictors.core.errors import EXTRAS, JobcastError, missing, printable

STUDIES: Final = (  # the names of `experiments.registry.EXPERIMENTS`, which is not loaded for help
    "reis", "runtime", "backfilling", "stress", "start-times", "live", "logstudy", "rush", "rush-dose", "repeated-runs",
    "ceil", "cobalt", "dras",
)  # fmt: skip

UsageError: Final[Any] = typer.BadParameter.__mro__[1]
"""Click's error for options that cannot be used, which typer does not export."""

app = group(
    "jobcast",
    "Job run-time and variability prediction for HPC centres, proved in a fast scheduling simulator.",
    {
        "demo": "demo",
        "evaluate": "evaluate",
        "train": "evaluate",
        "predict": "evaluate",
        "simulate": "simulate",
        "sweep": "sweep",
        "experiment": group(
            "experiment",
            "Make tables and figures of a paper or a study, PNG, SVG and CSV each. Those with --workers go on where "
            "they were when they are started again.",
            dict.fromkeys(STUDIES, "experiment:experiment"),
        ),
        "report": "experiment",
        "advise": "advise",
        "tune": "advise",
        "backtest": "live.backtest",
        "start": "live.start",
        "why": "live.start",
        "serve": "service.serve",
        "replay": "service.replay",
        "promote": "service.models",
        "ui": "service.models",
        "token": "service.serve",
        "forget": "service.corrections",
        "correct": "service.corrections",
        "check": "packages.check",
        "log": group(
            "log",
            "Look at job logs, convert, make and download them.",
            dict.fromkeys(("info", "convert", "anonymise", "join", "generate", "fetch"), "log")
            | {"import": "log:import_table"},
        ),
        "probes": group(
            "probes",
            "Keep control jobs going, with probes of the network; the probes themselves: python -m predictors.probes.",
            dict.fromkeys(("control", "collect", "last"), "probes"),
        ),
        "site": group(
            "site",
            "A site under Slurm as one file: its folder is read once, then named by --site.",
            {"import": "site:import_folder", "grade": "site", "whatif": "site", "start": "site"},
        ),
        "slurm": group(
            "slurm",
            "Soft limits (TimeMin) on a real Slurm: check the site, watch, shadow, write, clear.",
            dict.fromkeys(("watch", "shadow", "write", "clear", "table", "check"), "live.slurm"),
        ),
        "variability": group(
            "variability",
            "Will a job be slowed down if it starts now?",
            dict.fromkeys(("dataset", "select", "train", "predict"), "variability"),
        ),
    },
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=True,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"jobcast {version('jobcast')}")
        raise typer.Exit


@app.callback()
def jobcast(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Predict how long jobs will run, and prove in simulation what a scheduler gains from it."""


ENDINGS: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""How others end a command: a batch system at its walltime, `timeout`, a terminal that goes away."""


class Ended(SystemExit):
    """Somebody else ended the command: an exception, so that nothing half done is left behind."""


def _end(number: int, frame: Any) -> NoReturn:
    raise Ended(128 + number)


def _number_of(ending: BaseException | None) -> int:
    if isinstance(ending, KeyboardInterrupt):
        return int(signal.SIGINT)
    return int(ending.code or 0) - 128 if isinstance(ending, Ended) else 0


_dropped: list[int] = []  # signals with exceptions that Python has dropped


def _end_again(usual: Callable[[Any], object], lost: Any) -> None:
    """Repeat a signal after Python dropped its exception in a finaliser or a weak reference's callback."""
    if issubclass(lost.exc_type, (KeyboardInterrupt, Ended)):
        number = _number_of(lost.exc_value) or int(signal.SIGINT)  # the value may be lost, too
        _dropped.append(number)
        with suppress(RuntimeError):  # no thread can be started: the interpreter is ending anyway
            threading.Timer(0.05, os.kill, (os.getpid(), number)).start()
    else:
        usual(lost)


def main() -> None:
    """Run the command line; bad input ends with one line on stderr and status 2, never with a traceback."""
    for ending in ENDINGS:
        if signal.getsignal(ending) == signal.SIG_DFL:  # else somebody has it ignored: nohup
            signal.signal(ending, _end)
    if getattr(sys.unraisablehook, "func", None) is not _end_again:
        sys.unraisablehook = partial(_end_again, sys.unraisablehook)
    for stream in ("stdout", "stderr"):
        if getattr(sys, stream) is None:  # closed by the shell, `jobcast … >&-`: output fails as on a full disk
            mode = os.O_RDONLY if stream == "stdout" else os.O_WRONLY
            setattr(sys, stream, os.fdopen(os.open(os.devnull, mode), "w", encoding="utf-8"))
        elif getattr(sys, stream).errors in ("strict", "surrogateescape"):
            getattr(sys, stream).reconfigure(errors="replace")  # a terminal that knows no ² shows ? in its place
    for name in ("write", "flush"):
        setattr(sys.stdout, name, partial(_named, getattr(sys.stdout, name)))
    tell_what_is_compiled()
    try:
        try:
            with plain_warnings():
                status = app(prog_name="jobcast", standalone_mode=False)
        finally:
            sys.stdout.flush()  # a full disk shows here, where it can still be reported, not when the interpreter ends
        sys.exit(status if isinstance(status, int) else 0)
    except JobcastError as error:
        _fail(str(error))
    except UsageError as error:
        _fail_usage(error)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRAS:
            raise
        _fail(missing(error))
    except MemoryError:
        _fail("Not enough memory for this input; try a part of the log (jobcast log convert) or a larger machine.")
    except BrokenPipeError:
        _leave_pipe()
    except Ended as ended:
        _end_by(_number_of(ended))
    except SystemExit as left:
        if isinstance(left.__context__, BrokenPipeError):  # typer has seen it first, and would end with 1
            _leave_pipe()
        raise
    except OSError as error:
        _drop_output()
        place = f"{error.filename}: " if error.filename else ""
        _fail(f"{place}{error.strerror or error}.")
    except Exception as error:
        # the code in which it was dropped has failed of that: numba's cache; or a class has wrapped it: __set_name__
        number = _dropped[0] if _dropped else _number_of(error.__cause__)
        if not number:
            raise
        _end_by(number)


def _named(method: Callable[..., Any], *about: Any) -> Any:
    """Write to standard output, or let the error name it."""
    try:
        return method(*about)
    except OSError as error:
        error.filename = "standard output"
        raise


def _end_by(number: int) -> None:
    """End as by a signal, so that who waits for this process sees how it ended."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Tell within the block what is odd about the jobs learnt from in one line on stderr, each oddity once."""
    usual, shown = warnings.showwarning, set()

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        from predictors.models.warnings import TrainingDataWarning

        if not isinstance(message, TrainingDataWarning):
            usual(message, category, *place, **more)
        elif message.message not in shown:
            shown.add(message.message)
            sys.stderr.write(f"jobcast: note on the jobs learnt from: {message.message}\n")

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = usual


BROKEN_PIPE: Final = 141
"""The status if the reader of the output stops early, as in `jobcast … | head`: that of a program SIGPIPE ends."""


def _leave_pipe() -> NoReturn:
    if sys.__stdout__ is not None:
        sys.stdout = sys.__stdout__  # what typer has put in its place
    _drop_output()
    sys.exit(BROKEN_PIPE)


def _drop_output() -> None:
    """Discard what standard output cannot take, so that the interpreter does not try again when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _fail_usage(error: Any) -> None:
    """Say in one line what is wrong with the options, and which help lists them."""
    if type(error).__name__ == "NoArgsIsHelpError":  # the help has been printed
        sys.exit(error.exit_code)
    text = error.format_message()
    help_of = f" See `{error.ctx.command_path} --help`." if error.ctx else ""
    _fail(f"{text}{'' if text.endswith(('.', '?')) else '.'}{help_of}")


def _fail(message: str) -> None:
    sys.stderr.write(f"jobcast: {printable(' '.join(message.split()))}\n")
    sys.exit(2)
