"""What the store says about a model: the run that logged it, its version, its origin."""

from dataclasses import asdict, dataclass, field
from typing import Final

from predictors.base import Predictor
from predictors.saved.classifier_folder import ClassifierOrigin
from predictors.saved.folder import Origin
from predictors.variability.classifier import Classifier

MODEL: Final = "model"
"""What a run calls the model that it logs."""


@dataclass(frozen=True)
class LoggedRun:
    """A run in the store: one predictor, one log, one split, one seed.

    Attributes
    ----------
    run_id : str
        The run.
    model_id : str
        The model that it logged.
    sha256 : str
        Hash of the whole model.
    store : str
        The store's URI, its password left out.
    """

    run_id: str
    model_id: str
    sha256: str
    store: str

    @property
    def uri(self) -> str:
        """Address of the model."""
        return f"runs:/{self.run_id}/{MODEL}"


@dataclass(frozen=True)
class Registered:
    """A version of a registered model.

    Attributes
    ----------
    name : str
        Registered name.
    version : int
        Its number, from 1.
    alias : str or None
        The alias that now points to it.
    """

    name: str
    version: int
    alias: str | None = None

    @property
    def uri(self) -> str:
        """Address of the model: by alias where it has one.

        Examples
        --------
        >>> Registered("runtime", 3, "champion").uri, Registered("runtime", 3).uri
        ('models:/runtime@champion', 'models:/runtime/3')
        """
        return f"models:/{self.name}@{self.alias}" if self.alias else f"models:/{self.name}/{self.version}"


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A model from the store, and which one it is.

    Attributes
    ----------
    sha256 : str
        Hash of the whole model.
    uri : str
        The address that was asked for.
    name, version, alias : str, int, str or None
        Registered name and version, and the alias asked for; None where the address was not a registered one.
    run_id : str or None
        The run that logged it.
    """

    sha256: str
    uri: str
    name: str | None = None
    version: int | None = None
    alias: str | None = None
    run_id: str | None = None

    def told(self) -> dict[str, object]:
        """Return where it is from, as plain values for JSON."""
        return {name: getattr(self, name) for name in Loaded.__dataclass_fields__}


@dataclass(frozen=True, kw_only=True)
class LoadedModel(Loaded):
    """A predictor from the store, and which one it is.

    Attributes
    ----------
    predictor : Predictor
        The very predictor that was logged.
    origin : Origin
        Which predictor it is, what log it learnt from, and until when.
    """

    predictor: Predictor = field(repr=False)
    origin: Origin

    @property
    def trained_until(self) -> int | None:
        """Last end that it learnt from [s since its log's first submission]."""
        return self.origin.trained_until

    def about(self) -> dict[str, object]:
        """Return everything but the predictor, as plain values for JSON."""
        return self.told() | asdict(self.origin)


@dataclass(frozen=True, kw_only=True)
class LoadedClassifier(Loaded):
    """A classifier of variability from the store, and which one it is.

    Attributes
    ----------
    classifier : Classifier
        The very classifier that was logged.
    origin : ClassifierOrigin
        Which classifier it is, what it learnt from, whose counters its windows pool.
    """

    classifier: Classifier = field(repr=False)
    origin: ClassifierOrigin

    def about(self) -> dict[str, object]:
        """Return everything but the classifier and its norms, as plain values for JSON."""
        return self.told() | self.origin.brief()
