"""What others see is as pinned: help, the web API, columns of files, keys of JSON documents, registered names.

Kept as text, so that a difference can be read; see `tests.digests.pins` on how to store anew.
"""

import json
import re
import shutil

import numpy as np
import pytest
from pyarrow.parquet import read_schema
from typer.main import get_command
from typer.testing import CliRunner

from experiments.cli.main import app
from experiments.registry import EXPERIMENTS, MANY
from jobcast import Workload, clean, generate_log, make_policy, make_predictor, simulate, write_log
from predictors.data.runs import write_runs
from predictors.data.telemetry.counters import COUNTERS
from predictors.data.telemetry.samples import Telemetry, write_rates
from predictors.evaluation.evaluate import PROTOCOLS
from predictors.history.features import FEATURES
from predictors.history.history import AS_OF_RULES
from predictors.models.similar_jobs import REVISED_ESTIMATES
from predictors.probes.__main__ import _parser as probes_parser
from predictors.registry import PREDICTORS
from predictors.tracking.uri import ALIASES
from predictors.variability.classifiers.registry import CLASSIFIERS, make_classifier
from predictors.variability.dataset import write_dataset
from predictors.variability.features import FEATURES as INPUTS
from schedsim.contention.applications import APPS
from schedsim.kernels.corrections import CORRECTIONS
from schedsim.machine.allocators import ALLOCATORS, make_allocator
from schedsim.machine.topology import Topology
from schedsim.policies.orders import ORDERS
from schedsim.policies.policy import POLICIES
from schedsim.results.exports import schedule_writer
from schedsim.results.schedule import STARTED_BY
from tests.digests.pins import pinned
from tests.support.commands import invoke
from tests.support.installed import install
from tests.support.service_in_thread import running
from tests.support.slurm.site_folder import site_folder
from tests.support.variability_data import dataset, write_machine

PLAIN = {"COLUMNS": "110", "TERMINAL_WIDTH": "110", "NO_COLOR": "1", "TERM": "dumb", "FORCE_COLOR": None, "CI": None}
PLAIN |= {"GITHUB_ACTIONS": None, "PY_COLORS": None, "JOBCAST_TOKEN": None}


def commands(group=None, path=()):
    """Return the words of every command and group of commands."""
    group = get_command(app) if group is None else group
    yield path
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*path, name))


EVERY_COMMAND = [" ".join(path) for path in commands()]


def shape(value):
    """Return a document's keys with the kinds of their values; of a list what its entries are, without repetition."""
    if isinstance(value, dict):
        return {re.sub(r"^-?\d+$", "<number>", key): shape(entry) for key, entry in value.items()}
    if isinstance(value, list):
        found = [shape(entry) for entry in value]
        return [one for number, one in enumerate(found) if one not in found[:number]]
    return {bool: "bool", int: "number", float: "number", str: "text"}.get(type(value), "null")


def columns_of(path):
    """Return names and types of a Parquet file's columns, and the names of what it says about itself."""
    schema = read_schema(path)
    about = sorted(key.decode() for key in schema.metadata or {} if not key.startswith((b"pandas", b"ARROW")))
    return {"columns": [f"{field.name}: {field.type}" for field in schema], "about": about}


# --- help, API, names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", EVERY_COMMAND)
def test_help(command):
    found = CliRunner().invoke(app, [*command.split(), "--help"], prog_name="jobcast", env=PLAIN)
    assert found.exit_code == 0
    pinned("help", f"jobcast {command}".strip(), [line.rstrip() for line in found.stdout.splitlines()])


def test_help_of_the_probes(monkeypatch):
    monkeypatch.setenv("COLUMNS", "110")
    pinned("help", "python -m predictors.probes", probes_parser().format_help().splitlines())


def test_the_web_api(tmp_path):
    with running(tmp_path) as one, one.client() as client:
        pinned("openapi", "document", client.ask("GET", "/openapi.json"))


def test_parameters():
    made = {name: make_predictor(name) for name in PREDICTORS} | {name: make_classifier(name) for name in CLASSIFIERS}
    pinned("names", "parameters", {name: repr(sorted(one.named_params().items())) for name, one in made.items()})


def test_registered_names():
    registered = {
        "predictors": PREDICTORS,
        "classifiers": CLASSIFIERS,
        "policies": POLICIES,
        "orders": ORDERS,
        "corrections": CORRECTIONS,
        "outlooks": REVISED_ESTIMATES,
        "allocators": ALLOCATORS,
        "experiments": EXPERIMENTS,
        "experiments of many runs": MANY,
        "protocols": PROTOCOLS,
        "as-of rules": AS_OF_RULES,
        "features": FEATURES,
        "inputs of classifiers": INPUTS,
        "counters": [counter.name for counter in COUNTERS],
        "aliases": ALIASES,
        "applications": APPS,
        "how started": STARTED_BY,
    }
    pinned("names", "registered", {what: list(names) for what, names in registered.items()})


# --- files -----------------------------------------------------------------------------------------------------------


def test_columns_of_files(tmp_path):
    log = clean(generate_log(60, seed=1, procs=64))[0]
    write_log(log, tmp_path / "log.parquet")
    data = dataset(40)
    write_runs(data.runs, tmp_path / "runs.parquet")
    write_dataset(data, tmp_path / "dataset.parquet")
    write_rates(Telemetry(np.array([1.0, 2.0]), np.array([3]), np.ones((2, 1, 90), np.float32)), tmp_path / "rates")
    allocator = make_allocator("first-fit", Topology(8, 8))
    schedule = simulate(Workload.from_log(log), make_policy("easy"), allocator=allocator)
    texts = {}
    for name in ("schedule.parquet", "schedule.csv", "schedule.jobs.csv"):
        schedule_writer(tmp_path / name)(schedule, log, tmp_path / name)
        if name.endswith("csv"):
            texts[name] = (tmp_path / name).read_text().splitlines()[0]
    found = {str(path.relative_to(tmp_path)): columns_of(path) for path in sorted(tmp_path.rglob("*.parquet"))}
    pinned("files", "written by functions", found | texts)


# --- documents of commands -------------------------------------------------------------------------------------------

LINES = {
    "log generate": "log generate made.swf --jobs 120 --seed 4 --procs 64 --json",
    "log info": "log info log.swf --json",
    "log convert": "log convert log.swf out.parquet --json",
    "log join": "log join joined.swf log.swf made.swf --json",
    "simulate": "simulate log.swf --by user --explain 50 --paranoid --schedule s.parquet --json",
    "simulate, ceil": "simulate log.swf --policy ceil --postponable 0.3 --dilation start --by size --no-kill --json",
    "simulate, cobalt": "simulate log.swf --policy cobalt --by queue --allocator first-fit --shake 3 --json",
    "simulate, default": "simulate log.swf --policy default --estimates default --by run-time --json",
    "simulate, budget": "simulate log.swf --policy easy-sjbf --estimates similar --budget 0.1 --by start --json",
    "evaluate": "evaluate log.swf --predictors requested,user-mean --json",
    "evaluate, details": "evaluate log.swf --predictors requested --details --prequential --json",
    "train": "train log.swf --predictor last-two --register runtime --json",
    "predict": "predict models:/runtime/1 log.swf --out p.csv --json",
    "promote": "promote models:/runtime/1 --alias champion --why wanted --json",
    "site import": "site import big --json",
    "site grade": "site grade big.site --json",
    "site whatif": "site whatif big.site --set bf_interval=60 --ungraded --shakes 5 --json",
    "sweep": "sweep log.swf --policies fcfs,easy --seeds 2 --by size --out swept --json",
}
SLOW_LINES = {
    "variability dataset": "variability dataset runs.csv --telemetry ldms --scope job --out job.parquet --json",
    "variability train": "variability train job.parquet --classifier extra-trees --quick --json",
    "variability predict": "variability predict models:/variability/1 --telemetry ldms --job LBANN --nodes 0-1 "
    "--workload io --now 5000 --json",
    "sweep, evaluate": "sweep log.swf --kind evaluate --predictors requested,last-two --seeds 2 --out evaluated --json",
    "sweep, train": "sweep log.swf --kind train --predictors last-two --seeds 1 --out trained --no-track --json",
    "variability select": "variability select job.parquet --models extra-trees,knn --quick --keep-all --json",
    "advise": "advise log.swf --seeds 5 --procs 64 --out advised --json",
    "experiment reis": "experiment reis --log log.swf --quick --out reports --json",
    "experiment backfilling": "experiment backfilling --log log.swf --quick --out reports --json",
    "report": "report reports/reis --json",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory, empty_store):
    """A folder with a log, telemetry and runs, in which commands are run one after the other."""
    folder = tmp_path_factory.mktemp("place")
    shutil.copytree(empty_store, folder / "mlruns")
    write_log(generate_log(200, seed=1, procs=64, users=8), folder / "log.swf")
    site_folder(folder / "big")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("JOBCAST_HOME", str(folder))
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield folder


def document(line):
    """Return the shape of what a command prints."""
    found = invoke(line, env=PLAIN)
    assert found.exit_code == 0, f"{line}: {found.output} {found.exception}"
    return shape(json.loads(found.stdout)) if "--json" in line else "text"


def documents_of(lines):
    """Return the shapes of all documents, each a line of text: what a difference is read from."""
    return {name: document(line) for name, line in lines.items()}


def test_documents_of_commands(place):
    """In one test: they need what those before them made."""
    found = documents_of(LINES)
    for path in ("out.parquet", "s.parquet", "swept/groups.parquet", "swept/results.parquet"):
        pinned("documents", f"columns of {path}", columns_of(place / path))
    pinned("documents", "first lines", {"p.csv": (place / "p.csv").read_text().splitlines()[0]})
    for name, keys in found.items():
        pinned("documents", name, keys)


def test_documents_of_a_service(place, tmp_path):
    log = generate_log(200, seed=1, procs=64, users=8)
    with running(tmp_path, time_zone=log.time_zone, machine_procs=log.max_procs) as one, one.client() as client:
        found = document(f"replay log.swf --url {one.url} --batch 50 --check last-two --out r.csv --json")
        pinned("documents", "replay", found)
        for path in ("/v1/models", "/v1/jobs/1", "/healthz", "/readyz"):
            pinned("documents", f"GET {path}", shape(client.ask("GET", path)))
        asked = {"jobs": [{"procs": 1, "requested_time": 600, "user": "x"}]}
        pinned("documents", "POST runtime", shape(client.ask("POST", "/v1/predictions/runtime", asked)))


def test_the_document_of_checks(site):
    install(site, "my-site", "def smallest(waiting):\n    return waiting.procs\n", order={"smallest": "smallest"})
    pinned("documents", "check", document("check my-site --json"))


@pytest.mark.slow
def test_documents_of_longer_commands(place):
    write_machine(place, nodes=4)
    for name, keys in documents_of(SLOW_LINES).items():
        pinned("documents", name, keys)
    for path in ("job.parquet", *(f"{folder}/{name}.parquet" for folder in ("evaluated", "trained")
                                  for name in ("groups", "results"))):  # fmt: skip
        pinned("documents", f"columns of {path}", columns_of(place / path))
