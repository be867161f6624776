"""MLflow: log a run, register and load a model. No other module imports it.

mlflow is imported inside functions, because the import takes more than a second.
"""

import json
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from predictors.core.errors import JobcastError, missing
from predictors.data.joblog import JobLog
from predictors.evaluation.monitoring import refuse_worse
from predictors.models.base import Predictor
from predictors.models.baselines import LastTwo
from predictors.tracking.describe import (
    MODEL,
    LoadedClassifier,
    LoadedModel,
    Loggable,
    LoggedData,
    LoggedRun,
    Registered,
    code_tags,
    numbers,
    text,
)
from predictors.tracking.model_folder import open_classifier, open_model, sha256
from predictors.tracking.pyfunc import NUMBER, requirements
from predictors.tracking.store import (
    NOTE,
    Store,
    as_default,
    experiment_id,
    fetched,
    find_version,
    make_version,
    model_of_run,
    silence,
)
from predictors.tracking.uri import ModelUri, checked_alias, checked_name
from predictors.variability.classifiers.base import Classifier
from predictors.variability.dataset import Dataset
from predictors.variability.labels import Labels

EXPERIMENT: Final = "jobcast"  # the MLflow experiment under which runs are logged

_HASH: Final = "jobcast.sha256"
_DEFAULTS: Final = {
    "MLFLOW_DISABLE_TELEMETRY": "true",  # no network unless the user asked for it
    "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
    "MLFLOW_UV_AUTO_DETECT": "false",  # else the current folder's uv.lock is copied into every model
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",  # so a server that is down shows in seconds, not in minutes
}


def open_store() -> Store:
    """Return the store in use, ready to be written; it is made if it is not there."""
    store = Store.current()
    with _client(store) as client:
        experiment_id(client, store, EXPERIMENT)
    return store


def log_run(
    predictor: Predictor,  # fitted
    log: JobLog,  # what it learnt from
    # the evaluation's figures, units in their names; those that are finite numbers become the run's metrics
    figures: Mapping[str, object],
    *,
    split: str,  # how the figures were made and on which rows the model was trained, in words
    seed: int | None = None,  # seed of everything drawn by chance
    trained_until: int | None = None,  # last end that the model learnt from [s since the log's first submission]
    parent: str | None = None,  # id of the run that this one is a part of
    begin: float | None = None,  # when the work began [Unix s], so that the run lasts as long as it did; now, if absent
    files: Sequence[Path] = (),  # pictures and tables that the run keeps, under `figures` and `tables`
    source: str | None = None,  # path of the log
) -> LoggedRun:
    """Log one run: what learnt from what, how good it is, and the model, which must come back as it went in."""
    loggable = Loggable.of_predictor(predictor, log, figures, split, seed, trained_until, source)
    return _log(loggable, figures, parent, begin, files)


def log_classifier(
    classifier: Classifier,  # fitted on the labelled rows of `dataset`
    dataset: Dataset,  # what it learnt from
    labels: Labels,  # of the dataset's rows
    figures: Mapping[str, object],  # figures, split, seed, begin, files: as in `log_run`
    *,
    split: str,
    name: str,  # what to call the dataset: its file's name
    seed: int | None = None,
    begin: float | None = None,
    files: Sequence[Path] = (),
) -> LoggedRun:
    """Write down one run of a classifier of variability: what learnt from what, how good it is, and the model."""
    loggable = Loggable.of_classifier(classifier, dataset, labels, figures, split, seed, name)
    return _log(loggable, figures, None, begin, files)


AGENT: Final = "agent"  # name of the folder, and the beginning of the file's name, of a scheduling agent in the store


def log_agent(
    title: str,  # what to call the run
    file: Path,  # the agent file, `.npz` or `.json`; it is kept as it is
    params: Mapping[str, object],  # its frame and its origin
    figures: Mapping[str, object],  # of its training and test; those that are finite numbers become the run's metrics
    log: JobLog,  # what it was tuned on
    *,
    page: Sequence[str] = (),  # sentences of the run's page
    begin: float | None = None,  # begin, files: as in `log_run`
    files: Sequence[Path] = (),
) -> LoggedRun:
    """Write down one run of tuning: the agent file, where it comes from, and what its test showed."""
    began, store = _milliseconds(time.time() if begin is None else begin), Store.current()
    digest, data = sha256(file), LoggedData.of_log(log)
    tags = {"jobcast.kind": AGENT, "jobcast.log": log.name, "jobcast.log_sha256": log.digest(), _HASH: digest}
    shown = {NOTE: text("\n\n".join([f"**{title}**", *page]), figures), "mlflow.source.name": "jobcast", **code_tags()}
    with tempfile.TemporaryDirectory(prefix="jobcast-") as scratch, _client(store) as client:
        from mlflow.entities import LoggedModelOutput

        copy = Path(scratch, f"{AGENT}{file.suffix}")
        copy.write_bytes(file.read_bytes())
        run = client.create_run(experiment_id(client, store, EXPERIMENT), began, tags | shown, title)
        run_id = run.info.run_id
        with _finished(client, run_id):
            told = {key: str(value)[:MOST_TEXT] for key, value in params.items()}
            logged = client.create_logged_model(run.info.experiment_id, AGENT, run_id, dict(tags), told)
            client.log_model_artifacts(logged.model_id, scratch)
            client.log_outputs(run_id, [LoggedModelOutput(logged.model_id, step=0)])
            client.finalize_logged_model(logged.model_id, "READY")
            _log_data(client, run_id, data)
            _log_numbers(client, run_id, params, [(0, figures)], str(logged.model_id), data)
            _log_files(client, run_id, files)
        return LoggedRun(run_id, str(logged.model_id), digest, str(store))


@contextmanager
def stored_agent(uri: str) -> Iterator[Path]:
    """Yield the agent file at `models:/NAME@ALIAS`, `models:/NAME/VERSION` or `runs:/RUN_ID`; nothing is unpickled."""
    with _located(uri) as (folder, expected, _):
        found = [path for path in sorted(folder.rglob(f"{AGENT}.*")) if path.suffix in (".npz", ".json")]
        if len(found) != 1:
            raise JobcastError(f"{uri}: holds no agent; name one that jobcast tune registered.")
        if expected is not None and sha256(found[0]) != expected:
            raise JobcastError(f"{uri}: the agent file was changed since it was logged; it is not loaded.")
        yield found[0]


def register(
    run: LoggedRun,
    name: str,  # registered name; there it becomes a new version
    alias: str | None = None,  # {"champion", "challenger", "shadow"}: taken from the version that had it
) -> Registered:
    """Give a logged model a name, and the version so made an alias."""
    checked_name(name)
    if alias is not None:
        checked_alias(alias)
    store = Store.current()
    with _client(store) as client, as_default(store):
        number = make_version(client, run, name)
        if alias is not None:
            client.set_registered_model_alias(name, alias, str(number))
        return Registered(name, number, alias)


def version_of(uri: str) -> int | None:
    """Return the version that an address of the registry means now, without loading it; None for other addresses."""
    where = ModelUri.parse(uri)
    if where.name is None:
        return None
    store = Store.current()
    store.require()
    with _client(store) as client:
        return int(find_version(client, store, where).version)


def promote(
    uri: str,  # `models:/NAME/VERSION` or `models:/NAME@ALIAS`
    alias: str,  # {"champion", "challenger", "shadow"}: taken from the version that had it
    why: str,  # the user who asked for it, and the reason
    *,
    even_if_worse: bool = False,  # give the alias also to a predictor that does not beat last-two
) -> Registered:
    """Give an alias to a registered version, and write down on it when that was and why.

    Every promotion stays as a tag of its version, `jobcast.promoted.TIME`: nothing is overwritten. A predictor gets no
    alias unless its run records a squared error below that of last-two.
    """
    checked_alias(alias)
    where = ModelUri.parse(uri)
    if where.name is None:
        raise JobcastError(f"{uri}: only registered versions get an alias; give models:/NAME/VERSION.")
    store = Store.current()
    store.require()
    with _client(store) as client:
        found = find_version(client, store, where)
        predictor = found.tags.get("jobcast.predictor", LastTwo.name)
        if not even_if_worse and predictor != LastTwo.name:
            metrics = client.get_run(found.run_id).data.metrics if found.run_id else {}  # finite ones alone
            version = f"models:/{found.name}/{found.version}, {predictor}"
            if "sse_ratio_to_last_two" not in metrics and "n_train" not in metrics:
                raise JobcastError(
                    f"{version}: its run holds no squared error relative to last-two's, so the model does not get the "
                    f"alias {alias!r}. Train it with `jobcast train`, which measures that, or give --even-if-worse."
                )
            told = metrics.get("sse_ratio_to_last_two", math.inf)  # scored, and last-two made no error
            refuse_worse(f"{version}, on the jobs of its figures", told, alias)
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S.%fZ")
        client.set_model_version_tag(found.name, found.version, f"jobcast.promoted.{stamp}", f"{alias}: {why}")
        client.set_registered_model_alias(found.name, alias, found.version)
        return Registered(str(found.name), int(found.version), alias)


def load_model(uri: str, copy_to: Path | None = None) -> LoadedModel:
    """Return the predictor at `models:/NAME@ALIAS`, `models:/NAME/VERSION`, `runs:/RUN_ID`, or in a folder.

    Nothing is ever unpickled: a model that holds any file but those that our own predictors write is refused, and so is
    one with files other than those that were logged. Its files are copied to a new folder, `copy_to`, if that is given.
    """
    with _located(uri) as (folder, expected, found):
        saved = open_model(folder, expected)
        if copy_to is not None:
            shutil.copytree(folder, copy_to)
        return LoadedModel(predictor=saved.model, origin=saved.origin, sha256=saved.sha256, uri=uri, **found)


def load_classifier(uri: str) -> LoadedClassifier:
    """Return the classifier of variability at an address; forms, checks and errors are those of `load_model`."""
    with _located(uri) as (folder, expected, found):
        saved = open_classifier(folder, expected)
        return LoadedClassifier(classifier=saved.model, origin=saved.origin, sha256=saved.sha256, uri=uri, **found)


@contextmanager
def _located(uri: str) -> Iterator[tuple[Path, str | None, dict[str, Any]]]:
    """Yield a model's folder, the hash that the store has of it, and its name, version, alias and run."""
    where = ModelUri.parse(uri)
    if where.folder is not None:
        yield where.folder, None, {}
        return
    store = Store.current()
    store.require()
    with _client(store) as client:
        if where.run_id is not None:
            model = model_of_run(client, store, where.run_id)
            with _files(store, model.artifact_location) as folder:
                yield folder, model.tags.get(_HASH), {"run_id": where.run_id}
            return
        version = find_version(client, store, where)
        found = {"name": version.name, "version": int(version.version), "alias": where.alias, "run_id": version.run_id}
        with _files(store, client.get_model_version_download_uri(version.name, version.version)) as folder:
            yield folder, version.tags.get(_HASH), found


@dataclass(frozen=True)
class Child:
    """A part of a sweep: what it is, its figures by seed, and how long it took [s]."""

    title: str
    params: Mapping[str, object]
    steps: Sequence[tuple[int, Mapping[str, object]]]
    seconds: float = 0.0


@dataclass(frozen=True)
class SweepRun:
    """A run that has others as its parts; `new` unless this very sweep was written down before."""

    run_id: str
    new: bool
    add: Callable[[Child], None]


@contextmanager
def sweep_run(
    title: str,
    # `jobcast.sweep` identifies one sweep: one that is there and finished is not written again
    tags: Mapping[str, str],
    params: Mapping[str, object],  # what was run
    files: Sequence[Path],  # its results, pictures and tables, kept as files of the run
    seconds: float = 0.0,  # how long it took
) -> Iterator[SweepRun]:
    """Yield a run for a whole sweep, to which its parts are added; finished when the block ends well."""
    store = Store.current()
    with _client(store) as client:
        place = experiment_id(client, store, EXPERIMENT)
        which = f"tags.`jobcast.sweep` = '{tags['jobcast.sweep']}' and attributes.status = 'FINISHED'"
        if there := client.search_runs([place], which, max_results=1):
            yield SweepRun(there[0].info.run_id, False, lambda child: None)
            return
        shown = {"mlflow.source.name": "jobcast", **code_tags()}
        began = _milliseconds(time.time() - seconds)
        run_id = client.create_run(place, began, {**tags, **shown}, title).info.run_id

        def add(child: Child) -> None:
            own = {"mlflow.parentRunId": run_id, **shown}
            part = client.create_run(place, began, own, child.title).info.run_id  # when in the sweep is not known
            _log_numbers(client, part, child.params, child.steps)
            client.set_terminated(part, end_time=began + _milliseconds(child.seconds))

        with _finished(client, run_id):
            _log_numbers(client, run_id, params, [])
            _log_files(client, run_id, files)
            yield SweepRun(run_id, True, add)


@contextmanager
def _finished(client: Any, run_id: str) -> Iterator[None]:
    """Mark a run as finished behind the block, as failed if that fails."""
    try:
        yield
    except BaseException:
        client.set_terminated(run_id, "FAILED")
        raise
    client.set_terminated(run_id)


MOST_METRICS: Final = 1000  # in one batch: what MLflow takes
MOST_TEXT: Final = 6000  # characters of a parameter: what MLflow takes


def _log_numbers(
    client: Any,
    run_id: str,
    params: Mapping[str, object],
    steps: Sequence[tuple[int, Mapping[str, object]]],
    model_id: str | None = None,
    data: LoggedData | None = None,
) -> None:
    """Write down parameters, and figures by step, of a run, of its model and of what that learnt from."""
    from mlflow.entities import Metric, Param

    of = {} if data is None else {"dataset_name": data.name, "dataset_digest": data.digest}

    now = int(time.time() * 1000)
    found = [(key, value, step) for step, row in steps for key, value in numbers(row).items()]
    metrics = [Metric(key, value, now, step, model_id=model_id, **of) for key, value, step in found]
    client.log_batch(run_id, params=[Param(key, str(value)[:MOST_TEXT]) for key, value in params.items()])
    for first in range(0, len(metrics), MOST_METRICS):
        client.log_batch(run_id, metrics=metrics[first : first + MOST_METRICS])


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)


def _log_data(client: Any, run_id: str, data: LoggedData) -> None:
    from mlflow.entities import Dataset as DataEntity
    from mlflow.entities import DatasetInput, InputTag

    source = json.dumps({"uri": data.source})
    entity = DataEntity(data.name, data.digest, "local", source, data.schema(), data.profile())
    client.log_inputs(run_id, [DatasetInput(entity, [InputTag("mlflow.data.context", "training")])])


def _log_files(client: Any, run_id: str, files: Sequence[Path]) -> None:
    """Keep pictures and tables with a run, each kind in a folder of its own."""
    for path in files:
        kind = {".png": "figures", ".svg": "figures", ".csv": "tables"}.get(path.suffix)
        client.log_artifact(run_id, str(path), kind)


def _log(
    loggable: Loggable,
    figures: Mapping[str, object],
    parent: str | None = None,
    begin: float | None = None,
    files: Sequence[Path] = (),
) -> LoggedRun:
    began = _milliseconds(time.time() if begin is None else begin)
    store = Store.current()
    with tempfile.TemporaryDirectory(prefix="jobcast-") as scratch, _client(store) as client:
        data = Path(scratch, "predictor")
        data.mkdir()
        sha256 = loggable.save(data)
        tags = {**loggable.tags, _HASH: sha256}
        shown = {NOTE: loggable.note, "mlflow.source.name": "jobcast", **code_tags()}
        shown |= {} if parent is None else {"mlflow.parentRunId": parent}
        place = experiment_id(client, store, EXPERIMENT)
        run = client.create_run(place, began, tags | shown, loggable.title)
        run_id = run.info.run_id
        with _finished(client, run_id):
            model_id = _log_model(client, run, loggable, data, tags)
            _log_data(client, run_id, loggable.data)
            _log_numbers(client, run_id, loggable.params, [(0, figures)], model_id, loggable.data)
            _log_files(client, run_id, files)
            _round_trip(client, store, model_id, loggable)
        return LoggedRun(run_id, model_id, sha256, str(store))


def _log_model(client: Any, run: Any, loggable: Loggable, data: Path, tags: Mapping[str, str]) -> str:
    """Put the saved model into the store as the run's, readable by any MLflow; return its id."""
    import mlflow.pyfunc
    from mlflow.entities import LoggedModelOutput
    from mlflow.models import Model, ModelSignature
    from mlflow.types import ColSpec, Schema
    from mlflow.types.schema import AnyType

    # Written from the schema, never inferred from data: a column of whole numbers would be called an integer, and then
    # refuse the first missing value; one of doubles refuses whole numbers.
    kinds = {NUMBER: AnyType()}
    inputs = Schema(
        [ColSpec(kinds.get(kind, kind), name, required=needed) for name, (kind, needed) in loggable.inputs.items()]
    )
    signature = ModelSignature(inputs, Schema([ColSpec(kind, name) for name, kind in loggable.outputs.items()]))
    run_id = run.info.run_id
    params = {key: str(value) for key, value in loggable.params.items()}
    logged = client.create_logged_model(run.info.experiment_id, MODEL, run_id, dict(tags), params)
    folder = data.with_name(MODEL)
    mlflow.pyfunc.save_model(
        folder,
        loader_module=loggable.loader,
        data_path=data,
        mlflow_model=Model(
            artifact_path=logged.artifact_location, model_uuid=logged.model_id, run_id=run_id, model_id=logged.model_id
        ),
        metadata=dict(tags),
        signature=signature,
        input_example=loggable.example,
        pip_requirements=requirements(),
    )
    client.log_model_artifacts(logged.model_id, str(folder))
    client.log_outputs(run_id, [LoggedModelOutput(logged.model_id, step=0)])
    client.finalize_logged_model(logged.model_id, "READY")
    return str(logged.model_id)


def _round_trip(client: Any, store: Store, model_id: str, loggable: Loggable) -> None:
    """Raise unless the model that comes back has its signature and predicts the same for its own example."""
    import mlflow.pyfunc

    with _files(store, client.get_logged_model(model_id).artifact_location) as folder:
        stored = mlflow.pyfunc.load_model(str(folder), suppress_warnings=True)
        rows = stored.input_example
        if stored.metadata.signature is None or rows is None:
            raise JobcastError(f"Model {model_id} came back from {store} without its signature or example.")
        there, here = stored.predict(rows), loggable.predict(rows)
    if not there.equals(here):
        answers = {name: list(table.iloc[:, 0]) for name, table in (("it", there), ("the original", here))}
        raise JobcastError(
            f"Model {model_id} came back changed: for its example it predicts {answers['it']}, the original "
            f"{answers['the original']}."
        )


def _files(store: Store, location: str) -> AbstractContextManager[Path]:
    def download(uri: str, folder: str) -> str:
        import mlflow.artifacts

        return str(mlflow.artifacts.download_artifacts(uri, dst_path=folder, tracking_uri=store.uri))

    return fetched(store, location, download)


def _create_database(uri: str) -> None:
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    store = SqlAlchemyStore(uri, str(Store.current().artifacts or "./mlruns"))
    store.engine.dispose()


@contextmanager
def _client(store: Store) -> Iterator[Any]:
    """Yield an MLflow client of `store`, silent, its failures raised as one line; the store is made if missing."""
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    try:
        import mlflow.exceptions
        from mlflow import MlflowClient
        from sqlalchemy.exc import SQLAlchemyError
    except ImportError as error:
        raise JobcastError(missing(error)) from error
    with silence():  # only now: the import sets the levels of MLflow's loggers
        try:
            store.ensure(_create_database)
            yield MlflowClient(store.uri)
        except (mlflow.exceptions.MlflowException, SQLAlchemyError) as error:
            reason = str(error).strip().partition("\n")[0]
            if "Max retries exceeded" in reason:
                reason = "the server does not answer; check MLFLOW_TRACKING_URI and that it runs."
            raise JobcastError(f"Model store {store}: {reason}") from error
        except ModuleNotFoundError as error:
            raise JobcastError(f"Model store {store}: {missing(error)}") from error
