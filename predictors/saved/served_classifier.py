"""The loader of classifiers that were stored when it lay here."""

from predictors.tracking.pyfunc_classifier import _load_pyfunc

__all__ = ["_load_pyfunc"]
