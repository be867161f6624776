"""Base of predictors around another one, which they hold as `base_` once they have learnt."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Self

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Ints
from predictors.core.errors import JobcastError
from predictors.core.model_files import part
from predictors.history.history import Outcome, Outcomes
from predictors.models.base import Predictor

INSIDE = "inside_"  # prefix of the arrays of the predictor inside among those of `get_state`


INNER: Final = "predictor__"  # prefix of the parameters of the predictor inside, as scikit-learn has it


def settings_of(params: dict[str, Any]) -> dict[str, Any]:
    """Take the parameters of the predictor inside out of those of a wrapper."""
    settings = params.pop("settings", None)
    if settings is not None and not isinstance(settings, Mapping):
        raise JobcastError(f"settings must be a mapping of names to values; got {settings!r}.")
    return dict(settings or {})


@dataclass(frozen=True, eq=False)
class ChosenColumns:
    """Outcomes with some columns of their rows only: those of `running(now)`, or given ones."""

    chosen: Ints
    running: Callable[[int], Outcomes] | None = None

    def of(self, outcomes: Outcomes) -> Outcomes:
        return replace(outcomes, rows=outcomes.rows[:, self.chosen])

    def __call__(self, now: int) -> Outcomes:
        """Return those of the jobs that run at a second."""
        assert self.running is not None
        return self.of(self.running(now))


@dataclass(kw_only=True, eq=False, repr=False)
class Wrapper(Predictor):
    """A predictor around another one.

    `predictors.registry.make_predictor` makes the one inside from its registered name and settings; `named_params` and
    saved models name it by these. `get_params` and `set_params` are scikit-learn's: `predictor__NAME` is the parameter
    NAME of the predictor inside.
    `base_` is the predictor inside that has learnt; absent before.
    """

    default: ClassVar[type[Predictor]]

    # what to have inside, as a pattern: clones of it learn, with this one's `cap` and `as_of`. None: `default`
    predictor: Predictor | None = None

    # --- parameters ---------------------------------------------------------------------------------------------------

    @property
    def pattern(self) -> Predictor:
        """An unfitted predictor like the one inside."""
        if self.predictor is not None and not isinstance(self.predictor, Predictor):
            raise JobcastError(
                f"{self.name}: the predictor inside must be a Predictor, got {self.predictor!r}; "
                f"make_predictor({self.name!r}, predictor=...) takes names."
            )
        return self.default() if self.predictor is None else self.predictor

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's parameters by name; `deep`: also those of the predictor inside."""
        inside = self.pattern.get_params() if deep else {}
        return self.stored() | {f"{INNER}{name}": value for name, value in inside.items()}

    def named_params(self) -> dict[str, Any]:
        """Return the parameters as plain values: the one inside by its registered name and its own `settings`."""
        pattern = self.pattern
        settings = {name: value for name, value in pattern.changed().items() if name not in ("cap", "as_of")}
        own = {name: value for name, value in self.stored().items() if name != "predictor"}
        return {"predictor": pattern.name, "settings": settings or None, **own}

    def set_params(self, **params: Any) -> Self:
        """Change parameters by name; `settings` and those that begin with `predictor__` are of the predictor inside."""
        settings = settings_of(params)
        settings |= {name.removeprefix(INNER): params.pop(name) for name in list(params) if name.startswith(INNER)}
        super().set_params(**params)
        if settings:
            self.predictor = self.pattern.clone(**settings)
        return self

    def changed(self) -> dict[str, Any]:
        defaults = type(self)().named_params()
        return {name: value for name, value in self.named_params().items() if value != defaults[name]}

    def check(self) -> None:
        super().check()
        if self.pattern.name == self.name:
            raise JobcastError(f"{self.name}: the predictor inside cannot be {self.name} itself.")
        self.made().check()

    # --- the predictor inside -----------------------------------------------------------------------------------------

    def made(self) -> Predictor:
        """Return a new predictor to be the one inside."""
        return self.pattern.clone(cap=self.cap, as_of=self.as_of)

    @property
    def inside_features(self) -> tuple[str, ...]:
        return (self.default if self.predictor is None else self.pattern).features

    @property
    def inside_columns(self) -> Ints:
        """The columns of a row that the predictor inside reads: the first ones."""
        return np.arange(len(self.inside_features), dtype=np.int64)

    @property
    def learns_from_running(self) -> bool:
        return self.pattern.learns_from_running

    def watch(self, running: Callable[[int], Outcomes]) -> None:
        self._running = running
        if "base_" in vars(self):
            self.watching(self.base_)

    def watching(self, inside: Predictor) -> Predictor:
        """Return a predictor inside after handing it the function of `watch`, if there is one."""
        running: Callable[[int], Outcomes] | None = vars(self).get("_running")
        if running is not None:
            inside.watch(ChosenColumns(self.inside_columns, running))
        return inside

    def taught(self, outcome: Outcome) -> None:
        if "base_" not in vars(self):
            self.base_ = self.watching(self.made())
        self.base_.learn_one(outcome._replace(row=outcome.row[self.inside_columns]))

    # --- state --------------------------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, npt.NDArray[Any]] | None:
        found = self.base_.get_state() if "base_" in vars(self) else None
        return None if found is None else {f"{INSIDE}{name}": array for name, array in found.items()}

    def set_state(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        if arrays:
            inside = copy.copy(self.base_) if "base_" in vars(self) else self.made()
            inside.set_state(part(arrays, INSIDE))
            self.base_ = self.watching(inside)
