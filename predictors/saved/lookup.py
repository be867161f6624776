"""Which model in the store does an address mean? Wrong names get the nearest right one."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from predictors.data.errors import JobcastError, unknown_name
from predictors.saved.records import LoggedRun
from predictors.saved.store import Store
from predictors.saved.uri import ModelUri

MOST_NAMES: Final = 1000


def find_version(client: Any, store: Store, where: ModelUri) -> Any:
    """Return MLflow's record of the registered version that `where` names.

    Parameters
    ----------
    client : mlflow.MlflowClient
        Of `store`.
    store : Store
        For the messages.
    where : ModelUri
        With a name, and an alias or a version.

    Raises
    ------
    JobcastError
        If the store has no such model, alias or version, with those that it has.
    """
    with _unless("RESOURCE_DOES_NOT_EXIST"):
        model = client.get_registered_model(where.name)
        return _version_of(client, model, where)
    known = sorted(model.name for model in client.search_registered_models(max_results=MOST_NAMES))
    if not known:
        raise JobcastError(f"No registered model {where.name!r}: {store} holds none yet.")
    raise unknown_name("registered model", str(where.name), known)


def _version_of(client: Any, model: Any, where: ModelUri) -> Any:
    number = where.version
    if where.alias is not None:
        if where.alias not in model.aliases:
            given = ", ".join(f"{alias} (version {at})" for alias, at in sorted(model.aliases.items())) or "none"
            raise JobcastError(f"Model {where.name!r} has no alias {where.alias!r}; it has: {given}.")
        number = int(model.aliases[where.alias])
    with _unless("RESOURCE_DOES_NOT_EXIST"):
        return client.get_model_version(where.name, str(number))
    newest = max((int(version.version) for version in model.latest_versions), default=0)
    raise JobcastError(f"Model {where.name!r} has no version {number}; the newest is {newest}.")


def model_of_run(client: Any, store: Store, run_id: str) -> Any:
    """Return MLflow's record of the model that a run logged.

    Raises
    ------
    JobcastError
        If there is no such run, or it logged none.
    """
    with _unless("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
        run = client.get_run(run_id)
        if run.outputs is None or not run.outputs.model_outputs:
            raise JobcastError(f"Run {run_id!r} in {store} logged no model.")
        return client.get_logged_model(run.outputs.model_outputs[-1].model_id)
    raise JobcastError(f"No run {run_id!r} in {store}.")


def experiment_id(client: Any, store: Store, name: str) -> str:
    """Return the id of an MLflow experiment whose files lie where the store wants them, made if it is not there.

    A store that was moved keeps the old place in its experiments; new runs then go to one that names the new.
    """
    place = None if store.artifacts is None else str(store.artifacts)
    found = client.get_experiment_by_name(name)
    if found is not None and place is not None and found.artifact_location != place:
        name = f"{name} in {place}"
        found = client.get_experiment_by_name(name)
    if found is None:
        with _unless("RESOURCE_ALREADY_EXISTS"):  # another process was first
            return str(client.create_experiment(name, place))
        found = client.get_experiment_by_name(name)
    return str(found.experiment_id)


def make_version(client: Any, run: LoggedRun, name: str) -> int:
    """Register a logged model, with its tags, as a new version of `name`; return the version's number."""
    with _unless("RESOURCE_ALREADY_EXISTS"):
        client.create_registered_model(name)
    model = client.get_logged_model(run.model_id)
    tags = {key: value for key, value in model.tags.items() if key.startswith("jobcast.")}
    made = client.create_model_version(name, f"models:/{run.model_id}", run.run_id, tags, model_id=run.model_id)
    return int(made.version)


@contextmanager
def _unless(*codes: str) -> Iterator[None]:
    """Go on behind the block if MLflow raises an error with one of `codes` in it."""
    try:
        yield
    except Exception as error:  # MLflow's own class, which only tracking may import
        if getattr(error, "error_code", None) not in codes:
            raise
