"""Parameters in the manner of scikit-learn: the constructor stores them, and they can be read, changed and cloned.

Rules, each a text and a function, state which values a parameter may have; `check` applies them.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self

from predictors.core.errors import JobcastError, unknown_name

Rule = tuple[str, Callable[[Any], bool]]
"""What a value must be, in words, and whether one is."""


def whole(least: int) -> Rule:
    """Return the rule of whole numbers from `least` on.

    Examples
    --------
    >>> rule, holds = whole(1)
    >>> rule, holds(3), holds(0), holds(True), holds(2.0)
    ('a whole number, at least 1', True, False, False, False)
    """
    return f"a whole number, at least {least}", lambda v: isinstance(v, int) and not isinstance(v, bool) and v >= least


def number(words: str, holds: Callable[[float], bool]) -> Rule:
    """Return the rule of finite numbers for which something holds.

    Examples
    --------
    >>> _, holds = ABOVE_0
    >>> holds(0.5), holds(0), holds(math.inf), holds("1")
    (True, False, False, False)
    """

    def is_one(value: Any) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and holds(value)

    return words, is_one


def one_of(*known: Any) -> Rule:
    """Return the rule of a few known values."""
    return f"one of {', '.join(str(v) for v in known)}", lambda value: value in known


def or_none(rule: Rule) -> Rule:
    """Return a rule that None fulfils as well."""
    words, holds = rule
    return f"{words}, or None", lambda value: value is None or holds(value)


ABOVE_0: Final = number("a finite number above 0", lambda v: v > 0)
FROM_0: Final = number("a finite number, not below 0", lambda v: v >= 0)
SHARE: Final = number("a share above 0, at most 1", lambda v: 0 < v <= 1)
BOOLEAN: Final[Rule] = ("True or False", lambda value: isinstance(value, bool))
BETWEEN: Final = number("a share between 0 and 1", lambda v: 0 < v < 1)


class Parameters:
    """Base of classes whose constructor takes keyword arguments and stores each, unchanged, under its name.

    It keeps `sklearn.base.clone`'s contract without importing scikit-learn, which takes a second.
    """

    name: ClassVar[str]
    """What the thing is called in its registry."""
    rules: ClassVar[Mapping[str, Rule]] = MappingProxyType({})
    """The rules of the parameters that this class adds to those of its bases."""

    def check(self) -> None:
        """Raise a `JobcastError` that names the first parameter that cannot be used."""
        for kind in type(self).__mro__:
            for parameter, (words, holds) in vars(kind).get("rules", {}).items():
                value = getattr(self, parameter)
                if not holds(value):
                    raise JobcastError(f"{self.name}: {parameter} must be {words}; got {value!r}.")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's parameters by name; `deep` changes nothing."""
        return self.stored()

    def stored(self) -> dict[str, Any]:
        """Return the constructor's arguments, as it stored them."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def changed(self) -> dict[str, Any]:
        """Return the parameters that are not as the constructor has them by default."""
        defaults = inspect.signature(type(self)).parameters
        return {name: value for name, value in self.get_params().items() if value != defaults[name].default}

    def set_params(self, **params: Any) -> Self:
        """Change parameters by name; what was fitted stays until the next `fit`.

        Raises
        ------
        JobcastError
            If there is no such parameter.
        """
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
