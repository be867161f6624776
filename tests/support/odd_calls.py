"""Strange calls of every command by a seed, made from the commands' own parameters; what each call must keep."""

import gzip
import hashlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import traceback
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple, get_args

import numpy as np
import pandas as pd
from typer.main import get_command

from experiments.cli.main import STUDIES, app, main
from experiments.reports.page import write_report
from experiments.reports.report import Report
from predictors.data.formats.detect import read_log
from predictors.data.formats.swf import write_swf
from predictors.data.runs import Runs, write_runs
from predictors.data.slurm.folder import read_folder
from predictors.data.synthetic.generate import generate_log
from predictors.data.telemetry.counters import COUNTERS
from predictors.probes.measurements import ProbeRow, write_row
from predictors.registry import PREDICTORS
from predictors.variability.classifiers.registry import CLASSIFIERS
from predictors.variability.dataset import write_dataset
from schedsim.kernels.corrections import CORRECTIONS
from schedsim.machine.allocators import ALLOCATORS
from schedsim.policies.policy import POLICIES
from tests.support.ldms_writer import write_ldms
from tests.support.places import DATA, ROOT
from tests.support.slurm.site_folder import site_folder
from tests.support.variability_data import dataset

INTS = ("-1", "0", "1", "7", "2147483648", "4294967296", "9223372036854775807", "9223372036854775808", "1" + "0" * 30,
        "-9223372036854775809", "1.5", "1e3", "0x10", "1_0", "٣", "nan", "", " ", "x", "9" * 5000)  # fmt: skip
FLOATS = ("-1", "0", "-0.0", "0.5", "1", "1.0000001", "100", "1e-320", "1e308", "1e309", "nan", "inf", "-inf", "", "x",
          "0,5", "1e")  # fmt: skip
TEXTS = ("", " ", ",", ",,", "x", "nonsense", "-1", "0", "nan", "1e400", "²", "\udcff", "\x1b[2J", "a\nb", "%s%n", "{}",
         "../..", "models:/", "models:/x@y", "models:/runtime@champion", "runs:/x", "http://[::1", "http://127.0.0.1:9",
         "sqlite:///new.db", "sqlite:////nowhere/x.db", "log.swf", "model", "2020-01-01", "9999-12-31", "10**9", "0-7",
         "0-99999999999", "a" * 5000, "🙂", "last-two,last-two", "user", "queue", "run-time")  # fmt: skip
NAMES = (*PREDICTORS, *POLICIES, *CORRECTIONS, *ALLOCATORS, *CLASSIFIERS, "easy-wfp", "hybrid-3", "hybrid-0", "strict",
         "reis", "mira", "none", "requeue", "unix", "log", "read", "write", "champion", "live", "absent", "all", "job",
         "mean_wait_s", "sse_s2", "three", "binary", "clairvoyant", "requested", "default")  # fmt: skip
PATHS = ("nowhere", "nowhere/x.csv", ".", "..", "/dev/zero", "/dev/null", "/dev/full", "/proc/self/mem", "empty",
         "binary", "cut.swf.gz", "log.swf", "./log.swf", "log.swf/x", "link.swf", "dangling", "loop", "a" * 300, "",
         " ", "-", "~", "ü²🙂.swf", "a\nb.csv", "\x1b[2J.csv", "\udcff.csv", "model", "model/MLmodel", "model/x.csv",
         "classifier", "new.csv", "new.swf", "new.SWF.GZ", "new.parquet", "new.toml", "old.csv", "old.csv",
         "runs.csv", "data.parquet", "ldms", "control.toml", "site.toml", "outages.csv", "key", "rows.json",
         "sweep.toml", "queue.json", "journal", "site", "site/slurm.conf", "big.site",
         "n\udcff/log.swf", "n\udcff/new.csv", "n\udcff/new.swf", "j\u20ac.swf")  # fmt: skip
"""Files of the folder in which the calls are made, and others that are none."""

SIZES = ("-1", "0", "9223372036854775808", "1" + "0" * 30, "1.5", "x", "", "nan")
"""Values of what says how much work there is: none that is merely much."""
MUCH = {"jobs": SIZES, "users": SIZES, "seeds": SIZES, "workers": SIZES, "days": ("-1", "nan", "x", ""),
        "scheduler": ("", "nonsense", "tcp://[::1", "http://x"), "url": ("", "x", "http://[::1", "ftp://x"),
        "base_url": ("", "x", "http://[::1", "file:///", "http://127.0.0.1:9"),
        "host": ("", "x y", "999.1.1.1"), "generations": SIZES, "shakes": SIZES, "draws": SIZES, "cycles": SIZES,
        "every": ("-1", "nan", "x", "")}  # fmt: skip
"""Parameters with values of their own: much work, or a wait for somebody else."""

BASE = {
    "demo": "--jobs 100 --out reports", "check": "numpy", "evaluate": "log.swf --predictors last-two",
    "train": "log.swf --predictor last-two", "predict": "model log.swf --out new.csv", "simulate": "log.swf",
    "sweep": "log.swf --policies easy --seeds 1 --no-track --out reports/sweep",
    "site import": "site --out new.toml", "site grade": "big.site --out reports",
    "site whatif": "big.site --set bf_interval=60 --ungraded --shakes 5 --out reports",
    "site start": "big.site 7 --queue queue.json",
    "experiment logstudy": "--log log.swf --quick --out reports", "report": "experiment",
    "advise": "log.swf --seeds 5 --out reports", "serve": "last-two --db sqlite:///new.db",
    "replay": "log.swf --url http://127.0.0.1:9", "promote": "models:/runtime/1 --why better",
    "token": "slurmctld --file tokens", "log info": "log.swf", "log convert": "log.swf new.parquet",
    "log join": "new.swf log.swf later.swf", "log generate": "new.swf --jobs 100", "log import": "log.swf new.parquet",
    "log anonymise": "log.swf new.swf --name-key key", "log fetch": "KTH --base-url http://127.0.0.1:9",
    "probes control": "control.toml --once", "probes collect": "control.toml",
    "probes last": "rows.json", "tune": "log.swf --generations 1 --seeds 5 --out new.npz --report reports",
    "backtest": "log.swf --predictor last-two --seeds 5 --out reports", "start": "7 --queue queue.json",
    "why": "7 --queue queue.json", "correct": "--why mended --db sqlite:///new.db",
    "forget": "--older-than 30 --url http://127.0.0.1:9",
    "slurm shadow": "--model last-two --db sqlite:///new.db --journal journal --cycles 1",
    "slurm watch": "--model last-two --db sqlite:///new.db --journal journal --cycles 1",
    "slurm write": "--model last-two --db sqlite:///new.db --journal journal --cycles 1 --all",
    "slurm table": "log.swf --model last-two --db sqlite:///new.db --out new.csv --cluster big",
    "slurm check": "--journal journal", "slurm clear": "--journal journal",
    "variability dataset": "runs.csv --telemetry ldms --out new.parquet",
    "variability select": "data.parquet --models knn --quick --keep-all --out reports",
    "variability train": "data.parquet --classifier knn --quick",
    "variability predict": "classifier --telemetry ldms --job AMG --nodes 0-1 --now newest",
}  # fmt: skip
"""A call of each command that works, or nearly."""
WITHOUT_END = ("ui",)
"""Commands that start another program, and end with it."""
LONG = tuple(f"experiment {name}" for name in STUDIES if name != "logstudy")
"""Commands that work for minutes, with the options of logstudy and few of their own."""
DOCUMENTED = {"replay": (1,), "slurm check": (1,)}
"""Statuses beside 0 and 2: predictions that differ from those of the check; journal and Slurm that differ."""
ROW: Final = ProbeRow(time=50.0, waits=tuple(k / 10 for k in range(1, 10)), hosts=("n3", "n4"), ranks=2)
_UNFINISHED: Final = re.compile(r"\..+\.[a-z0-9_]{8}(\.[^.]*)?")
"""Names of files that are not finished."""


@cache
def commands() -> dict[str, Any]:
    """Return every command by its words."""

    def below(group: Any, words: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from below(command, (*words, name))
            else:
                yield " ".join((*words, name)), command

    return dict(below(get_command(app), ()))


def made_place(folder: Path) -> Path:
    """Fill a folder with a small input of each kind, and with files that are none; return it."""
    log = generate_log(80, seed=1, procs=64, users=5)
    write_swf(log.select(slice(0, 60)), folder / "log.swf")
    write_swf(log, folder / "later.swf")
    (folder / "n\udcff").mkdir()
    for name in ("n\udcff/log.swf", "j\u20ac.swf"):
        shutil.copy(folder / "log.swf", folder / name)
    data = (folder / "log.swf").read_bytes()
    (folder / "empty").touch()
    (folder / "binary").write_bytes(bytes(range(256)) * 8)
    (folder / "cut.swf.gz").write_bytes(gzip.compress(data)[:200])
    (folder / "old.csv").write_text("what was there before\n")
    (folder / "key").write_bytes(b"k" * 20)
    (folder / "key").chmod(0o600)
    for name, target in (("link.swf", "log.swf"), ("dangling", "nowhere"), ("loop", "loop")):
        (folder / name).symlink_to(target)
    for name, text in TABLES.items():
        (folder / name).write_text(text)
    write_row(ROW, folder / "rows.json")
    for archive, name in (("predictors/last-two", "model"), ("classifiers/knn", "classifier")):
        with tarfile.open(DATA / "models" / f"{archive}.tar.gz") as packed:
            packed.extractall(folder / ".unpacked", filter="data")
        (folder / ".unpacked" / "model").rename(folder / name)
        shutil.rmtree(folder / ".unpacked")
    write_dataset(dataset(60), folder / "data.parquet")
    start = 400.0 + 100.0 * np.arange(8)
    about = {"job_id": range(8), "application": ["AMG"] * 8, "nodes": [[0, 1]] * 8, "workload": ["compute"] * 8}
    runs = Runs.of(**about, start=start, end=start + 50.0)
    write_runs(runs, folder / "runs.csv")
    site_folder(folder / "site")
    read_folder(folder / "site", folder / "big.site", read_log).site.write(folder / "big.site")
    counters = np.random.default_rng(0).uniform(1, 2, (2, len(COUNTERS)))
    write_ldms(folder / "ldms", range(2), ((50.0 * k, counters) for k in range(24)), period=50.0)
    report = Report(experiment="logstudy", log="a log", seeds=(0,), seconds=1.0, question="What?",
                    tables={"a": pd.DataFrame({"b": [1.0]})}, figures=())  # fmt: skip
    (folder / "experiment").mkdir()
    write_report(folder / "experiment", report)
    return folder


TABLES = {
    "site.toml": 'queues = "mira"\n',
    "outages.csv": "time,kind,count,nodes\n5000,fail,8,\n9000,repair,8,\n",
    "sweep.toml": 'logs = ["log.swf"]\npolicies = ["easy"]\nseeds = [1]\n',
    "control.toml": (
        '[control]\nruns = "control.csv"\nfolder = "control"\nscheduler = "this-machine.toml"\npoll = 0.01\n\n'
        '[[application]]\nname = "AMG"\ncommand = "echo 1"\nnodes = 1\nworkload = "network"\n'
    ),
    "this-machine.toml": (ROOT / "docs" / "examples" / "this-machine.toml").read_text(),
}


class Call(NamedTuple):
    """A command and its words."""

    command: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return shlex.join(("jobcast", *self.command.split(), *self.words)).encode("unicode_escape").decode()[:400]


def odd_call(command: str, number: int) -> Call:
    """Return the call of a command with one to three strange words; the number draws them."""
    random, parameters = Random(f"{command} {number}"), commands()[command].params
    words = shlex.split(BASE[command])
    for _ in range(random.choice((1, 1, 2, 3))):
        kind = random.random()
        places = [at for at, word in enumerate(words) if not word.startswith("--")]
        if kind < 0.75:
            words = _with_option(random, words, parameters)
        elif kind < 0.85 and places:
            words[random.choice(places)] = random.choice((*PATHS, *TEXTS))
        elif kind < 0.9 and words:
            words.pop(random.randrange(len(words)))
        else:
            words.insert(
                random.randint(0, len(words)), random.choice(("--nonsense", "-x", "--", "x", "--json=1", "--help"))
            )
    if command == "probes control" and not any(word.startswith(("--once", "--days", "--help")) for word in words):
        words += ["--days", "0"]  # else it goes on without end
    if command in ("slurm shadow", "slurm watch", "slurm write"):
        cycles = parsed(Call(command, tuple(words))).get("cycles")
        if (cycles is not None and cycles > 1) or not any(word.startswith("--cycles") for word in words):
            words += ["--cycles", "1"]  # the same
    return Call(command, tuple(words))


def _with_option(random: Random, words: list[str], parameters: list) -> list[str]:
    """Return the words of a call with a strange value for one option."""
    parameter = random.choice([one for one in parameters if one.param_type_name == "option"])
    name = random.choice((*parameter.opts, *parameter.secondary_opts))
    kind = parameter.type_descriptor.annotation
    kind = get_args(kind)[0] if get_args(kind) else kind
    if kind is bool:
        return [*words, name]
    usual = {int: INTS, float: FLOATS, str: (*TEXTS, *NAMES), Path: PATHS}[kind]
    value = random.choice(MUCH.get(parameter.name, usual if random.random() < 0.9 else (*TEXTS, *PATHS)))
    if name in words and random.random() < 0.9:
        at = words.index(name)
        return [*words[: at + 1], value, *words[at + 2 :]]
    return [*words, f"{name}={value}"] if random.random() < 0.2 else [*words, name, value]


class Ended(NamedTuple):
    """How a call ended, and what it printed."""

    status: int
    out: str
    err: str


LONGEST: Final = 300
"""Seconds after which a call counts as one that hangs."""


def run(call: Call) -> Ended:
    """Make a call within this process; an exception that would have reached the user, and a hang, are status -1."""
    before, out, err = sys.argv, _Stream(), _Stream()
    handler = signal.signal(signal.SIGALRM, _hangs)
    signal.alarm(LONGEST)
    sys.argv = ["jobcast", *call.command.split(), *call.words]
    status = -1
    try:
        with redirect_stdout(out), redirect_stderr(err):
            try:
                main()
            except SystemExit as left:
                status = left.code if isinstance(left.code, int) else int(left.code is not None)
            except BaseException:
                err.write(traceback.format_exc())
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
        sys.argv = before
    return Ended(status, out.text(), err.text())


def run_as_process(call: Call, **more: str) -> Ended:
    """Make a call as a process of its own, with more variables of the environment; a hang is status -1."""
    command = [sys.executable, "-m", "experiments.cli", *call.command.split(), *call.words]
    env = os.environ | {"PYTHONPATH": str(ROOT)} | more
    if any("\0" in word for word in command):
        return Ended(2, "", "no such call")
    try:
        done = subprocess.run(command, env=env, capture_output=True, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return Ended(-1, "", f"no end after {LONGEST} s")
    return Ended(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


class _Hang(BaseException):
    """No error that a command could take for one of its own, as a TimeoutError is an OSError."""


def _hangs(number: int, frame: Any) -> None:
    raise _Hang(f"no end after {LONGEST} s")


class _Stream(io.TextIOWrapper):
    """A stream that takes what a terminal of UTF-8 takes."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def text(self) -> str:
        return self.buffer.getvalue().decode()


def contents(folder: Path) -> dict[str, str]:
    """Return every file, folder and link below a folder, with a hash of what it holds."""
    found = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"link to {path.readlink()}"
        else:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
    return found


def faults(call: Call, ended: Ended, before: dict[str, str], after: dict[str, str]) -> Iterator[str]:
    """Yield what a call has done that no call may do."""
    status, out, err = ended
    if status not in (0, 2, *DOCUMENTED.get(call.command, ())):
        yield f"status {status}"
    if "Traceback" in out + err:
        yield "a traceback"
    if status == 2 and not err:
        yield "no word on stderr"
    lines = [line for line in err.splitlines() if not line.startswith("jobcast: note ")]
    verbose = {"-v", "--verbose"} & {*call.words}
    if err.startswith("jobcast: ") and len(lines) != 1 and not verbose:
        yield "several lines on stderr"
    if "Warning" in err:
        yield "a warning of a library"
    if any(not letter.isprintable() and letter != "\n" for letter in out + err):
        yield "control characters"
    given = parsed(call)
    if status == 0 and given.get("as_json") and "--help" not in call.words:
        try:
            json.loads(out, parse_constant=_no_constant)
        except ValueError as error:
            yield f"no JSON document on stdout ({error})"
    outputs = written(call.command, given)
    for name in sorted(one for one in before.keys() | after.keys() if before.get(one) != after.get(one)):
        if _UNFINISHED.fullmatch(Path(name).name):
            yield f"{name!r} is left unfinished"
        elif status == 2 and not name.startswith(_state(given)):
            yield f"{name!r} is {'changed' if name in before else 'left'} by a call that was refused"
        elif name in before and name not in outputs:
            yield f"{name!r} is changed, which is no output"


def parsed(call: Call) -> dict[str, Any]:
    """Return the values of a call's parameters."""
    found: dict[str, Any] = (
        commands()[call.command].make_context("jobcast", list(call.words), resilient_parsing=True).params
    )
    return found


def _state(given: dict[str, Any]) -> tuple[str, ...]:
    """Return what the adapter of Slurm claims before it asks Slurm anything; its metrics count failures, too."""
    if "journal" not in given:
        return ()
    names = [str(given[name]).removeprefix("sqlite:///") for name in ("journal", "db", "metrics") if given.get(name)]
    targets = [os.path.relpath(Path(name).resolve()) for name in names if "\0" not in name]  # of links
    return (*names, *targets, *(Path(name).parts[0] for name in names if Path(name).parts))


def written(command: str, given: dict[str, Any]) -> set[str]:
    """Return the files that a command with such parameters writes."""
    names = {one.name for one in commands()[command].params if one.type_descriptor.parameter_info.writable}
    names |= {"file"} if command == "token" else set()
    return {os.path.relpath(os.path.realpath(given[name])) for name in names if given.get(name) is not None}


def _no_constant(name: str) -> None:
    raise ValueError(f"it holds {name}")
