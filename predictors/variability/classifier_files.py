"""A fitted classifier as files that cannot carry code: JSON, arrays without objects, skops, XGBoost's own format."""

import json
from pathlib import Path
from typing import Final

import numpy as np

from predictors.data.errors import JobcastError
from predictors.data.files import whole_file
from predictors.saving import read_about, read_arrays, telling_damage, write_arrays
from predictors.variability.classifier import Classifier
from predictors.variability.labels import check_scheme

FORMAT: Final = 1
ABOUT: Final = "classifier.json"
MEDIANS: Final = "medians.npz"


def save(classifier: Classifier, folder: Path) -> None:
    """Write a fitted classifier into an existing folder.

    Raises
    ------
    JobcastError
        If it is not fitted, or the folder is not there or cannot be written.
    """
    if not folder.is_dir():
        raise JobcastError(f"{folder}: is not a folder; make it before saving a model there.")
    classifier.require_fit()
    about = {
        "format": FORMAT,
        "name": classifier.name,
        "params": classifier.get_params(),
        "scheme": classifier.scheme_,
        "features": list(classifier.features_),
        "ignored": list(classifier.ignored_),
        "applications": list(classifier.applications_),
    }
    classifier.save_voter(folder)
    write_arrays(folder / MEDIANS, {"medians": classifier.medians_})
    with whole_file(folder / ABOUT) as part:
        part.write_text(json.dumps(about, indent=1))


def load(folder: Path) -> Classifier:
    """Return the classifier that `save` wrote.

    Raises
    ------
    JobcastError
        If a file is missing, damaged or not ours.
    """
    from predictors.variability.registry import make_classifier

    with telling_damage(folder / ABOUT):
        about = read_about(folder / ABOUT, FORMAT)
        name, params, scheme = str(about["name"]), dict(about["params"]), about["scheme"]
        features, ignored = tuple(map(str, about["features"])), tuple(map(str, about["ignored"]))
        applications = tuple(map(str, about["applications"]))
    classifier = make_classifier(name, **params)
    classifier.check()
    check_scheme(scheme)
    medians = read_arrays(folder / MEDIANS).get("medians", np.empty(0))
    if medians.shape != (len(features),) or medians.dtype != np.float64 or not np.isfinite(medians).all():
        raise JobcastError(f"{folder / MEDIANS}: does not fit the model's {len(features)} inputs; train it again.")
    classifier.features_, classifier.ignored_, classifier.applications_ = features, ignored, applications
    classifier.scheme_, classifier.medians_ = scheme, medians
    classifier.voter_ = classifier.load_voter(folder)
    return classifier
