"""Names that installed packages add to ours, by entry points.

A package declares them in its pyproject.toml. Its code is imported when one of its names is first used.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Final, Generic, TypeVar

from predictors.core.errors import JobcastError, printable, unknown_name

T = TypeVar("T", covariant=True)

GROUPS: Final = MappingProxyType(  # the group of entry points of each kind of thing
    {"predictor": "jobcast.predictors", "policy": "jobcast.policies", "order": "jobcast.orders"}
)
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class Registry(Mapping[str, T], Generic[T]):
    """Things by name: our own, then those that installed packages add.

    >>> colours = Registry("order", {"red": 1}, lambda name, found: found, lambda name: False)
    >>> "red" in colours, colours.named("red"), list(colours)
    (True, 1, ['red'])
    >>> colours.named("rde")
    Traceback (most recent call last):
    predictors.core.errors.JobcastError: No order 'rde'; did you mean 'red'? Known: red.
    """

    def __init__(
        self,
        kind: str,  # what they are, one of `GROUPS`
        built_in: Mapping[str, T],  # our own
        # returns the thing of a name from what its entry point refers to, or raises a JobcastError that says what it
        # must be
        accept: Callable[[str, object], T],
        reserved: Callable[[str], bool],  # whether a name that is not built in is taken
    ) -> None:
        self.kind, self.built_in = kind, MappingProxyType(built_in)
        self._accept, self._reserved, self._loaded = accept, reserved, dict[str, T]()

    def named(self, name: str) -> T:
        """Return the thing of a name, or raise a JobcastError that names the nearest one."""
        if not isinstance(name, str) or name not in self:
            raise unknown_name(self.kind, name, self)
        return self[name]

    @cached_property
    def added(self) -> Mapping[str, tuple[EntryPoint, ...]]:
        """The entry points by name; a name of several packages has several."""
        found: dict[str, tuple[EntryPoint, ...]] = {}
        for entry in declared():
            if entry.group == GROUPS[self.kind]:
                found[entry.name] = (*found.get(entry.name, ()), entry)
        return found

    def __getitem__(self, name: str) -> T:
        if name not in self.added:
            return self.built_in[name]
        if name not in self._loaded:
            self._loaded[name] = self.loaded(self.added[name][0])
        return self._loaded[name]

    def loaded(self, entry: EntryPoint) -> T:
        """Return what an entry point adds; an error names the package and the entry point."""
        name = entry.name
        where = f"{self.kind.capitalize()} {printable(name)!r} of the package {package_of(entry)} ({entry.value})"
        others = sorted({package_of(one) for one in self.added[name]} - {package_of(entry)})
        if name in self.built_in or self._reserved(name):
            raise JobcastError(f"{where}: the name is taken already; rename the entry point in {entry.group}.")
        if others:
            raise JobcastError(f"{where}: {others[0]} uses this name as well; uninstall one of the two packages.")
        if not _NAME.fullmatch(name):
            raise JobcastError(f"{where}: a name is made of small letters, digits and hyphens, such as my-{self.kind}.")
        try:
            return self._accept(name, entry.load())
        except JobcastError as error:
            raise JobcastError(f"{where}: {error}") from error
        except (Exception, SystemExit) as error:
            said = " ".join(f"{type(error).__name__}: {error}".split())
            raise JobcastError(f"{where}: the entry point in {entry.group} cannot be loaded: {said}.") from error

    def __contains__(self, name: object) -> bool:
        return name in self.built_in or name in self.added

    def __iter__(self) -> Iterator[str]:
        yield from {**self.built_in, **self.added}

    def __len__(self) -> int:
        return len({**self.built_in, **self.added})


@cache
def declared() -> tuple[EntryPoint, ...]:
    """Return the entry points of all installed packages in our groups, sorted by package and name."""
    found = [entry for group in GROUPS.values() for entry in entry_points(group=group)]
    return tuple(sorted(found, key=lambda entry: (package_of(entry), entry.group, entry.name)))


def package_of(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else "an unknown package"
