"""Declarations: values that a user writes as tables of TOML, checked by pydantic, with one way to say what is wrong.

A declaration is a `Declaration`, or a frozen dataclass where it is built in Python too. Both are checked strictly: no
text is taken for a number, no 1 for true.
"""

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, cast, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from predictors.core.compressed import read_text
from predictors.core.errors import LONGEST_NAME, JobcastError, printable, unknown_name

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)


class _Checked(ModelMetaclass):
    """What makes a declaration in Python refuse values as one in a file does, with a JobcastError."""

    def __call__(cls, *args: Any, **given: Any) -> Any:
        try:
            return super().__call__(*args, **given)
        except ValidationError as error:
            raise JobcastError(f"{cls.__name__}: {_first(error, cls, given)}") from error


class Declaration(BaseModel, metaclass=_Checked):
    """Base of declarations: immutable, no conversion of types, no unknown keys.

    >>> class Job(Declaration):
    ...     nodes: int = 1
    >>> Job(nodes="4")
    Traceback (most recent call last):
    predictors.core.errors.JobcastError: Job: nodes must be a whole number; got '4'.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


Texts = Annotated[tuple[str, ...], Field(strict=False)]  # a list of texts
Text = Annotated[str, Field(min_length=1)]  # a text that is not empty

STRICT: Final = {"extra": "forbid", "arbitrary_types_allowed": True}  # `__pydantic_config__` of a declaration

D = TypeVar("D")

_RULES: Final[Mapping[str, str]] = MappingProxyType(  # what a value must be, by pydantic's type of the error
    {
        "string_type": "a text",
        "string_too_short": "a text that is not empty",
        "literal_error": "{expected}",
        "path_type": "a text",
        "is_instance_of": "a text",
        "int_type": "a whole number",
        "int_from_float": "a whole number",
        "int_parsing": "a whole number",
        "multiple_of": "a multiple of {multiple_of}",
        "float_parsing": "a number",
        "float_type": "a number",
        "finite_number": "a finite number",
        "bool_type": "true or false",
        "tuple_type": "a list",
        "list_type": "a list",
        "too_short": "a list of {min_length} or more",
        "too_long": "a list of at most {max_length}",
        "dict_type": "a table",
        "dataclass_type": "a table",
        "model_type": "a table",
        "greater_than_equal": "at least {ge}",
        "greater_than": "above {gt}",
        "less_than_equal": "at most {le}",
        "less_than": "below {lt}",
    }
)


def read_toml(path: str | os.PathLike[str], what: str) -> dict[str, Any]:
    return parse_toml(read_text(path, what), os.fspath(path))


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """Return the document in a text; `where` names its place in messages."""
    try:
        document = tomllib.loads(text)
        repr(document)  # fails as a message with such a number would
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise JobcastError(f"{where}: is no TOML file ({error}).") from error
    except ValueError as error:
        raise JobcastError(f"{where}: holds a number of more than 4,300 digits.") from error
    return document


def known_keys(table: Any, known: tuple[str, ...], where: str) -> Mapping[str, Any]:
    if not isinstance(table, Mapping):
        raise JobcastError(f"{where} must be a table; got {table!r}.")
    for key in table:
        if key not in known:
            raise JobcastError(f"{where}: {unknown_name('key', str(key), known)}")
    return table


def declared(
    # what it declares: a Declaration, or a dataclass with fields that may be further ones and tuples of them. Dates are
    # text to a dataclass.
    kind: type[D],
    table: Any,
    where: str,
    *,
    # values of fields that are not in the table; the table may not have their keys
    hidden: Mapping[str, Any] = MappingProxyType({}),
    strict: bool = True,  # whether a text for a number is refused; the cells of a CSV file are texts
) -> D:
    """Return the declaration that a table describes.

    >>> class Job(Declaration):
    ...     nodes: int = 1
    >>> declared(Job, {"nodes": 4}, "[job]").nodes
    4
    >>> declared(Job, {"nodes": "4"}, "[job]")
    Traceback (most recent call last):
    predictors.core.errors.JobcastError: [job]: nodes must be a whole number; got '4'.
    >>> declared(Job, {"node": 4}, "[job]")
    Traceback (most recent call last):
    predictors.core.errors.JobcastError: [job]: No key 'node'; did you mean 'nodes'? Known: nodes.
    """
    try:
        if is_dataclass(kind):
            known_keys(table, tuple(one.name for one in fields(kind)), where)
            made: D = _adapter(cast("Any", kind)).validate_json(json.dumps(table, default=str), strict=True)
            return made
        known = cast("type[Declaration]", kind).model_fields
        known_keys(table, tuple(name for name in known if name not in hidden), where)
        return cast(
            "D", cast("type[Declaration]", kind).model_validate({**table, **hidden}, strict=None if strict else False)
        )
    except ValidationError as error:
        raise JobcastError(f"{where}: {_first(error, kind, table)}") from error


def check_fields(made: Any, what: str) -> None:
    """Refuse a dataclass built in Python with values of other types than its fields declare."""
    kind: Any = type(made)
    for name, adapter in _adapters(kind).items():
        try:
            adapter.validate_python(getattr(made, name), strict=True)
        except ValidationError as error:
            raise JobcastError(f"{what}: {_first(error, kind, {}, (name,))}") from error


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


@cache
def _adapters(kind: Any) -> dict[str, TypeAdapter[Any]]:
    hints, config = get_type_hints(kind, include_extras=True), ConfigDict(arbitrary_types_allowed=True)
    return {
        one.name: TypeAdapter(hints[one.name], config=None if is_dataclass(hints[one.name]) else config)
        for one in fields(kind)
    }


def _first(error: ValidationError, kind: Any, table: Any, at: tuple[str, ...] = ()) -> str:
    """Return the first error of a validation as text; a misspelt key comes before a missing one."""
    errors = error.errors(include_url=False)
    first = next((one for one in errors if one["type"] in _UNKNOWN), errors[0])
    context, loc = first.get("ctx", {}), (*at, *first["loc"])
    key = _path(loc, table)
    if first["type"] in _UNKNOWN:
        inside = f"{_path(loc[:-1], table)}: " if loc[:-1] else ""
        return f"{inside}{unknown_name('key', str(loc[-1]), _keys_at(kind, loc[:-1]))}"
    if first["type"] == "missing" and isinstance(loc[-1], int):
        return f"{_path(loc[:-1], table)} must have {loc[-1] + 1} values or more; got {_brief(first['input'])}."
    if first["type"] == "missing":
        inside = f"{_path(loc[:-1], table)}: " if loc[:-1] else ""
        return f"{inside}{str(loc[-1])!r} is missing."
    if first["type"] in ("tuple_type", "list_type") and isinstance(first["input"], Mapping):
        return f"{key} must be a list of tables; write each as [[{loc[-1]}]]."
    if first["type"] == "dataclass_type" and isinstance(first["input"], list | tuple) and isinstance(loc[-1], str):
        return f"{key} must be one table; write [{loc[-1]}]."
    if first["type"] == "value_error":
        key = _path(loc)  # the value's own message says its name
        return f"{key}: {context['error']}" if key and is_dataclass(kind) else str(context["error"])
    choices = getattr(kind, "model_fields", {}).get(key)
    if first["type"] == "literal_error" and isinstance(first["input"], str) and choices:
        return str(unknown_name(key, first["input"], map(str, get_args(choices.annotation))))
    if first["type"] not in _RULES:
        return f"{key}: {first['msg']}; got {_brief(first['input'])}."
    same = [one for one in errors if _path((*at, *one["loc"]), table) == key and one["type"] in _RULES]
    rules = dict.fromkeys(_RULES[one["type"]].format(**one.get("ctx", {})) for one in same)
    return f"{key} must be {' or '.join(rules)}; got {_brief(first['input'])}."


_UNKNOWN: Final = ("unexpected_keyword_argument", "extra_forbidden")  # pydantic's errors of a key that is too much
_KINDS: Final = ("int", "str", "float", "bool")  # parts of a place that only say as which kind a value was tried


def _path(loc: Sequence[Any], table: Any = None) -> str:
    """Return the place of a value as text: entries of lists counted from 1, with their names if they have any.

    >>> _path(["queue", 0, "share"], {"queue": [{"name": "prod-long", "share": "x"}]})
    'queue 1 ("prod-long"): share'
    """
    words = ""
    for part in (one for one in loc if one not in _KINDS):
        try:
            table = table[part]
        except (TypeError, LookupError):
            table = None
        if isinstance(part, int):
            name = table.get("name") if isinstance(table, Mapping) else None
            words += f' {part + 1} ("{printable(name)[:LONGEST_NAME]}")' if isinstance(name, str) else f" {part + 1}"
        else:
            words += f": {part}" if words else part
    return words


def _brief(value: Any) -> str:
    """Return a value as a message shows it, cut at 80 letters."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _keys_at(kind: Any, path: Sequence[Any]) -> list[str]:
    for part in path:
        if isinstance(part, int):
            kind = get_args(kind)[0]
        elif is_dataclass(kind):
            kind = get_type_hints(kind)[part]
        elif part in getattr(kind, "model_fields", {}):
            kind = kind.model_fields[part].annotation
        else:  # the branch of a union that a value was tried as
            kind = next((one for one in get_args(kind) if getattr(one, "__name__", "") == part), kind)
    return [one.name for one in fields(kind)] if is_dataclass(kind) else list(getattr(kind, "model_fields", ()))
