"""Parameters in the manner of scikit-learn: the constructor stores them, and they can be read, changed and cloned."""

import inspect
from typing import Any, ClassVar, Self

from predictors.data.errors import unknown_name


class Parameters:
    """Base of classes whose constructor takes keyword arguments and stores each, unchanged, under its name.

    It keeps `sklearn.base.clone`'s contract without importing scikit-learn, which takes a second.
    """

    name: ClassVar[str]
    """What the thing is called in its registry."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's parameters by name; `deep` changes nothing."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

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
        return type(self)(**self.get_params()).set_params(**params)

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        changed = {k: v for k, v in self.get_params().items() if v != defaults[k].default}
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in changed.items())})"
