"""Commands by name, each loaded when it is reached, and its work only when it runs.

`experiments.cli.options` declares the options of every command in a dataclass, and imports nothing heavy: help and
completion need no more. The work stands in a module of its own, in a function of the command's name.
"""

import re
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from inspect import Parameter, Signature, get_annotations, getdoc
from typing import Any, get_type_hints

import typer
from typer.core import TyperGroup
from typer.main import get_command

from experiments import console
from experiments.cli.outputs import CheckedCommand


class Commands(UserDict[str, Any]):
    """The commands of a group by name, each made when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        home = self.data[name]
        if isinstance(home, str | typer.Typer):
            self.data[name] = get_command(_alone(name, home) if isinstance(home, str) else home)
        return self.data[name]


def group(name: str, about: str, homes: Mapping[str, "str | typer.Typer"], **more: Any) -> typer.Typer:
    """Return a group of commands by name: a module below `experiments.cli`, with `:function`, or a group."""

    class LazyGroup(TyperGroup):
        def __init__(self, **given: Any) -> None:
            super().__init__(**given | {"commands": Commands(homes)})

        def list_commands(self, ctx: Any) -> list[str]:
            return list(self.commands)

    made = typer.Typer(name=name, cls=LazyGroup, no_args_is_help=True, help=about, **{"add_completion": False} | more)
    made.callback()(lambda: None)
    return made


def options_of(name: str, home: str) -> type:
    """Return the options of a command: a class of its name in the module of its folder or of its work."""
    options = import_module(f"experiments.cli.options.{re.split('[.:]', home)[0]}")
    kind: type = getattr(options, name.title().replace("-", ""))
    return kind


def work_of(name: str, home: str) -> Callable[[Any], None]:
    """Return what does the work of a command; it takes the command's options."""
    module, _, function = home.partition(":")
    work: Callable[[Any], None] = getattr(import_module(f"experiments.cli.{module}"), function or name)
    return work


def _alone(name: str, home: str) -> typer.Typer:
    kind = options_of(name, home)

    def run(**given: Any) -> None:
        args = _filled(kind, given)
        console.set_loudness(quiet=args.quiet, verbose=args.verbose)
        work_of(name, home)(args)

    run.__doc__ = getdoc(kind)
    parameters = list(_parameters(kind))
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    made = typer.Typer(add_completion=False)
    made.command(name, cls=CheckedCommand)(run)
    return made


def _parameters(kind: type) -> Iterator[Parameter]:
    """Yield a parameter for each field, those of bases last; a field that is a dataclass stands for its own fields.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Size:
    ...     width: int = 1
    >>> @dataclass
    ... class Draw:
    ...     name: str
    ...     size: Size
    >>> [parameter.name for parameter in _parameters(Draw)]
    ['name', 'width']
    >>> _filled(Draw, {"name": "box", "width": 3})
    Draw(name='box', size=Size(width=3))
    """
    hints, known = get_type_hints(kind, include_extras=True), {field.name: field for field in fields(kind)}
    for name in (name for base in kind.__mro__ for name in get_annotations(base)):
        of = hints[name]
        if is_dataclass(of) and isinstance(of, type):
            yield from _parameters(of)
        else:
            default = Parameter.empty if known[name].default is MISSING else known[name].default
            yield Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=of)


def _filled(kind: type, given: Mapping[str, Any]) -> Any:
    """Return a dataclass with the values of its fields, and of those of its fields' fields."""
    hints = get_type_hints(kind)
    return kind(
        **{
            field.name: _filled(hints[field.name], given) if is_dataclass(hints[field.name]) else given[field.name]
            for field in fields(kind)
        }
    )
