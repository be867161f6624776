"""Classifier: the base of classifiers of variability.

* Inputs are known by name. A table that lacks one of those that a model learnt from is refused, and so is an array of
  another width; what a table has beyond them is ignored.
* A missing input is NaN. The median of the training part stands in for it, and the answer counts for how many. An input
  of which the training part knows nothing is left out of the model: there is nothing to stand in for it.
* Where too much is missing the classifier abstains: it answers class 0, with the reason
  (`predictors.variability.verdict`).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Protocol, Self

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError, unknown_name
from predictors.core.model_files import damage_as_error, read_about, read_arrays, write_about, write_arrays
from predictors.core.params import Parameters, number
from predictors.data.runs import TRUTH, Words
from predictors.variability.features import Table, check_classes, chosen, kinds, named
from predictors.variability.labels import SCHEMES, Scheme, check_scheme
from predictors.variability.verdict import NONE, Verdict, Verdicts

FORMAT: Final = 1
ABOUT: Final = "classifier.json"
MEDIANS: Final = "medians.npz"


def between(above: Sequence[Floats]) -> Floats:
    """Return the probabilities of ordered classes from those of lying above each limit between them, made to fall.

    >>> between([np.array([0.5]), np.array([0.75])]).tolist()
    [[0.5, 0.0, 0.5]]
    """
    falling = np.minimum.accumulate(np.column_stack([np.ones_like(above[0]), *above]), axis=1)
    return np.column_stack([falling[:, :-1] - falling[:, 1:], falling[:, -1]])


class Voter(Protocol):
    """A learnt model: an immutable map from complete rows to probabilities, safe to call from threads."""

    def probabilities(self, rows: Floats) -> Floats:
        """Return shape (n_rows, n_classes), each row summing to 1, for rows (n_rows, n_inputs) without NaN."""
        ...


@dataclass(kw_only=True, eq=False, repr=False)
class Classifier(Parameters, ABC):
    """Base of all classifiers, in the manner of scikit-learn: the constructor stores, `fit` sets what ends in `_`.

    These are the inputs that it learnt from (`features_`), those known for no run of the training part (`ignored_`),
    the classes that it tells apart (`scheme_`), the applications learnt from (`applications_`, sorted, perhaps none),
    the medians of the training part (`medians_`), and what was learnt (`voter_`).
    """

    # predict variation where its probability is at least this; None: predict the most probable class
    threshold: Annotated[float, number("a probability above 0, at most 1", lambda v: 0 < v <= 1)] | None = None
    # abstain where a larger share of the inputs is missing
    most_missing: Annotated[float, number("a share from 0 to 1", lambda v: 0 <= v <= 1)] = 0.5
    # abstain for applications that were not learnt from. By default they are judged by the machine's state alone
    seen_only: bool = False

    # --- learning -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def learn(self, rows: Floats, classes: Ints, n_classes: int) -> Voter:
        """Return what is learnt from complete rows (n, n_inputs) and their classes, 0 … n_classes - 1."""

    def importances(self) -> Floats | None:
        """Return how much each input matters, shape (n_features,), summing to 1; None if the model has none."""
        return None

    def fit(
        self,
        # shape (n, n_inputs); inputs by name, or an array with columns named by `features`; NaN = missing
        table: Table,
        # shape (n,); numbers of the classes of `scheme`; runs without a label must be left out before
        classes: npt.ArrayLike,
        *,
        # columns of a table to learn from (absent: all), or names of an array's columns
        features: Sequence[str] | None = None,
        scheme: Scheme = "binary",  # {"binary", "three"}: which classes
        applications: npt.ArrayLike | None = None,  # shape (n,); the application of each run, to be remembered
    ) -> Self:
        self.check()
        check_scheme(scheme)
        names, rows = named(table, features)
        if any(name.startswith(TRUTH) for name in names):
            raise JobcastError(f"{self.name}: inputs named {TRUTH}… are a simulated world's truth; leave them out.")
        found = np.asarray(classes, dtype=np.int64)
        check_classes(self.name, found, len(rows), SCHEMES[scheme])
        if np.isinf(rows).any():
            raise JobcastError(f"{self.name}: inputs must be finite, or NaN where missing.")
        known = np.asarray(~np.isnan(rows).all(axis=0))
        if not known.any():
            raise JobcastError(f"{self.name}: no input is known for any run; there is nothing to learn from.")
        kept, medians = rows[:, known], np.nanmedian(rows[:, known], axis=0)
        voter = self.learn(np.where(np.isnan(kept), medians, kept), found, len(SCHEMES[scheme]))
        self.features_ = tuple(name for name, is_known in zip(names, known, strict=True) if is_known)
        self.ignored_ = tuple(name for name, is_known in zip(names, known, strict=True) if not is_known)
        names = () if applications is None else np.unique(np.asarray(applications, dtype=np.str_)).tolist()
        self.applications_ = tuple(names)
        self.scheme_, self.medians_, self.voter_ = scheme, medians, voter
        return self

    @property
    def fitted(self) -> bool:
        return hasattr(self, "voter_")

    @property
    def class_names(self) -> tuple[str, ...]:
        return SCHEMES[self.scheme_]

    # --- judging ------------------------------------------------------------------------------------------------------

    def judge(
        self,
        # shape (n, n_inputs); inputs by name; or an array with columns named by `features`, or by `features_` if that
        # is absent
        table: Table,
        *,
        features: Sequence[str] | None = None,  # names of an array's columns
        applications: npt.ArrayLike | None = None,  # shape (n,); what is to be started; only used with `seen_only`
    ) -> Verdicts:
        self.require_fit()
        rows = chosen(self.name, table, features, self.features_)
        missing = np.isnan(rows)
        why = self._abstentions(missing, applications)
        probabilities = np.full((len(rows), len(self.class_names)), np.nan)
        judged = why == ""
        if judged.any():
            probabilities[judged] = self.voter_.probabilities(np.where(missing, self.medians_, rows)[judged])
        classes = np.full(len(rows), NONE, dtype=np.int64)
        classes[judged] = self._decide(probabilities[judged])
        return Verdicts(classes, probabilities, why, missing.sum(axis=1))

    def judge_one(self, row: Floats, *, features: Sequence[str] | None = None, application: str = "") -> Verdict:
        """Return the verdict on one start: its inputs, shape (n_inputs,)."""
        found = self.judge(np.asarray(row, dtype=np.float64)[None], features=features, applications=[application])
        class_, why = int(found.classes[0]), str(found.why[0])
        probability = float(found.probabilities[0, -1])
        return Verdict(
            class_, self.class_names[class_], probability, bool(why), why, int(found.filled[0]), model=self.name
        )

    def predict(self, table: Table, **about: Any) -> Ints:
        """Return classes, shape (n,); 0 where it abstains. `about` is as in `judge`."""
        return self.judge(table, **about).classes

    def predict_proba(self, table: Table, **about: Any) -> Floats:
        """Return probabilities, shape (n, n_classes); NaN where it abstains. `about` is as in `judge`."""
        return self.judge(table, **about).probabilities

    def _decide(self, probabilities: Floats) -> Ints:
        if self.threshold is None:
            return np.asarray(probabilities.argmax(axis=1), dtype=np.int64)
        last = probabilities.shape[1] - 1
        others = probabilities[:, :last].argmax(axis=1)
        return np.asarray(np.where(probabilities[:, last] >= self.threshold, last, others), dtype=np.int64)

    def _abstentions(self, missing: npt.NDArray[np.bool_], applications: npt.ArrayLike | None) -> Words:
        """Return why each row cannot be judged, the first reason that holds; empty where it can."""
        of_workload, of_window = kinds(self.features_)
        why = np.full(len(missing), "", dtype="<U8")
        if self.seen_only:
            if applications is None:
                raise JobcastError(f"{self.name}: with seen_only the applications to be started must be given.")
            why[~np.isin(np.asarray(applications, dtype=np.str_), self.applications_)] = "unseen"
        why[missing.mean(axis=1) > self.most_missing] = "missing"
        why[missing[:, of_workload].any(axis=1)] = "workload"
        if of_window.any():
            why[missing[:, of_window].all(axis=1)] = "window"
        return why

    def require_fit(self) -> None:
        if not self.fitted:
            raise JobcastError(f"This {self.name} has not been fitted: call fit(table, classes) first.")

    # --- saving -------------------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Write everything into a folder, for `registry.load`: JSON, arrays, skops, XGBoost's own; no pickle."""
        place = Path(folder)
        if not place.is_dir():
            raise JobcastError(f"{place}: is not a folder; make it before saving a model there.")
        self.require_fit()
        about = {
            "format": FORMAT, "name": self.name, "params": self.get_params(), "scheme": self.scheme_,
            "features": list(self.features_), "ignored": list(self.ignored_), "applications": list(self.applications_),
        }  # fmt: skip
        self.save_voter(place)
        write_arrays(place / MEDIANS, {"medians": self.medians_})
        write_about(place / ABOUT, about)

    @abstractmethod
    def save_voter(self, folder: Path) -> None:
        """Write what was learnt."""

    @abstractmethod
    def load_voter(self, folder: Path) -> Voter:
        """Return what `save_voter` wrote, after checking it."""


def make(classifiers: Mapping[str, type[Classifier]], name: str, params: Mapping[str, Any]) -> Classifier:
    """Return a fresh, unfitted classifier of one of these kinds by its name."""
    if name not in classifiers:
        raise unknown_name("classifier", name, classifiers)
    return classifiers[name]().set_params(**params)


def read(classifiers: Mapping[str, type[Classifier]], folder: Path) -> Classifier:
    """Return the classifier of one of these kinds that `Classifier.save` wrote: it judges the same, to the last bit."""
    with damage_as_error(folder / ABOUT):
        about = read_about(folder / ABOUT, FORMAT)
        name, params, scheme = str(about["name"]), dict(about["params"]), about["scheme"]
        features, ignored = tuple(map(str, about["features"])), tuple(map(str, about["ignored"]))
        applications = tuple(map(str, about["applications"]))
    classifier = make(classifiers, name, params)
    classifier.check()
    check_scheme(scheme)
    medians = read_arrays(folder / MEDIANS).get("medians", np.empty(0))
    if medians.shape != (len(features),) or medians.dtype != np.float64 or not np.isfinite(medians).all():
        raise JobcastError(f"{folder / MEDIANS}: does not fit the model's {len(features)} inputs; train it again.")
    classifier.features_, classifier.ignored_, classifier.applications_ = features, ignored, applications
    classifier.scheme_, classifier.medians_ = scheme, medians
    classifier.voter_ = classifier.load_voter(folder)
    return classifier
