"""Parameters in the manner of scikit-learn: the constructor stores them, and they can be read, changed and cloned.

A parameter is a field of a dataclass. Its type says which values it may have (`rule_of`): `check` applies that.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import get_annotations, signature
from typing import Annotated, Any, ClassVar, Final, Literal, Self, Union, get_args, get_origin

import numpy as np

from predictors.core.errors import JobcastError, unknown_name

Rule = tuple[str, Callable[[Any], bool]]  # what a value must be, in words, and whether one is


def whole(least: int) -> Rule:
    """Return the rule of whole numbers from `least` on.

    >>> rule, holds = whole(1)
    >>> rule, holds(3), holds(0), holds(True), holds(2.0)
    ('a whole number, at least 1', True, False, False, False)
    """
    return f"a whole number, at least {least}", lambda v: isinstance(v, int) and not isinstance(v, bool) and v >= least


def number(words: str, holds: Callable[[float], bool]) -> Rule:
    """Return the rule of finite numbers for which something holds.

    >>> _, holds = ABOVE_0
    >>> holds(0.5), holds(0), holds(math.inf), holds("1")
    (True, False, False, False)
    """

    def is_one(value: Any) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and holds(value)

    return words, is_one


ABOVE_0: Final = number("a finite number above 0", lambda v: v > 0)
FROM_0: Final = number("a finite number, not below 0", lambda v: v >= 0)
SHARE: Final = number("a share above 0, at most 1", lambda v: 0 < v <= 1)
BETWEEN: Final = number("a share between 0 and 1", lambda v: 0 < v < 1)

Count = Annotated[int, whole(1)]
Seed = Annotated[int, whole(0)]
Positive = Annotated[float, ABOVE_0]
NotNegative = Annotated[float, FROM_0]
Share = Annotated[float, SHARE]
OpenShare = Annotated[float, BETWEEN]


def rule_of(kind: Any) -> Rule | None:
    """Return the rule in a parameter's type, None if it has none.

    `Annotated` carries a rule; `Literal` and `bool` are their own; with `| None`, None is allowed as well.

    >>> for kind in (Count, Count | None, Literal["mean", "median"], str):
    ...     rule = rule_of(kind)
    ...     print(rule and rule[0])
    a whole number, at least 1
    a whole number, at least 1, or None
    one of mean, median
    None
    """
    if kind is bool:
        return "True or False", lambda value: isinstance(value, (bool, np.bool_))
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}", lambda value: value in get_args(kind)
    if get_origin(kind) is Union and (rule := rule_of(get_args(kind)[0])) is not None:
        words, holds = rule
        return f"{words}, or None", lambda value: value is None or holds(value)
    found: Rule | None = next(iter(getattr(kind, "__metadata__", ())), None)
    return found


@dataclass(kw_only=True, eq=False, repr=False)
class Parameters:
    """Base of classes that store each keyword argument: the contract of `sklearn.base.clone`, without sklearn."""

    name: ClassVar[str]  # what the thing is called in its registry

    def check(self) -> None:
        """Raise a `JobcastError` that names the first parameter that cannot be used."""
        for parameter, rule in _parameters(type(self)).items():  # type: ignore[arg-type]  # mypy: "not hashable"
            value = getattr(self, parameter)
            if rule is not None and not rule[1](value):
                raise JobcastError(f"{self.name}: {parameter} must be {rule[0]}; got {value!r}.")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's parameters by name; `deep` changes nothing."""
        return self.stored()

    def named_params(self) -> dict[str, Any]:
        """Return the parameters as plain values: as a registry's `make_…` takes them and as saved models hold them."""
        return self.get_params()

    def stored(self) -> dict[str, Any]:
        """Return the constructor's arguments, as it stored them."""
        return {name: getattr(self, name) for name in _parameters(type(self))}  # type: ignore[arg-type]

    def changed(self) -> dict[str, Any]:
        """Return the parameters that are not as the constructor has them by default."""
        defaults = signature(type(self)).parameters
        return {name: value for name, value in self.get_params().items() if value != defaults[name].default}

    def set_params(self, **params: Any) -> Self:
        """Change parameters by name; what was fitted stays until the next `fit`."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise unknown_name(f"parameter of {self.name}", name, known)
            setattr(self, name, value)
        return self

    def clone(self, **params: Any) -> Self:
        """Return an unfitted copy with the same parameters, but for those given."""
        return type(self)(**self.stored()).set_params(**params)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.changed().items())})"


@cache
def _parameters(kind: type[Parameters]) -> Mapping[str, Rule | None]:
    """Return the rules of the constructor's parameters: of those that the class adds, then of those of its bases."""
    depth = {name: n for n, one in enumerate(kind.__mro__) for name in get_annotations(one)}
    types = {name: field.type for name, field in kind.__dataclass_fields__.items()}
    taken = signature(kind).parameters.values()
    names = [one.name for one in taken if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    names.sort(key=lambda name: depth.get(name, -1))
    return {name: rule_of(types.get(name)) for name in names}
