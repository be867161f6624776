"""Where does the service get a model from? The registry, a folder, or a predictor's name, to begin untrained."""

from collections.abc import Callable

from predictors.base import Predictor
from predictors.registry import PREDICTORS, make_predictor
from predictors.service.model import Identity

Load = Callable[[str], tuple[Identity, Predictor]]
"""Brings a model; raises a `JobcastError` if it cannot."""


def load(uri: str) -> tuple[Identity, Predictor]:
    """Return a model and who it is.

    Every file of a saved model is checked against the hash that the registry has, and nothing is unpickled
    (`predictors.tracking`). It brings the history that it was saved with.

    Parameters
    ----------
    uri : str
        `models:/NAME@ALIAS`, `models:/NAME/VERSION`, `runs:/RUN_ID`, a folder; or a registered predictor's name.

    Raises
    ------
    JobcastError
        If there is no such model, or it is damaged or foreign.

    Examples
    --------
    >>> load("last-two")[0].predictor
    'last-two'
    """
    if uri in PREDICTORS:
        return Identity(uri, uri, None, uri), make_predictor(uri)
    from predictors.tracking import load_model

    found = load_model(uri)
    name = found.name or found.predictor.name
    about = found.origin
    until = None if about.trained_until is None else f"{about.trained_until} s of {about.log}"
    until = about.trained_until_utc or until
    return Identity(uri, name, found.version, found.predictor.name, found.sha256, until), found.predictor


def version_now(uri: str) -> int | None:
    """Return the version that an address means now; None if it is not one of the registry."""
    if not uri.startswith("models:"):
        return None
    from predictors.tracking import version_of

    return version_of(uri)
