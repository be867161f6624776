"""Addresses of models: models:/NAME@ALIAS, runs:/ID, folders.

`models:/NAME@ALIAS`, `models:/NAME/VERSION`, `runs:/RUN_ID`, or a folder.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from predictors.core.errors import JobcastError, unknown_name

ALIASES: Final = ("champion", "challenger", "shadow")  # of a version: in production, compared with it, or watched

FORMS: Final = "models:/NAME@ALIAS, models:/NAME/VERSION, runs:/RUN_ID or a model's folder"
_STAGES: Final = ("none", "staging", "production", "archived", "latest")


@dataclass(frozen=True)
class ModelUri:
    """The parts of a model's address; exactly one of `name`, `run_id` and `folder` is set."""

    name: str | None = None  # registered name, with either `alias` or `version`
    alias: str | None = None  # one of `ALIASES`
    version: int | None = None  # number of the version, from 1
    run_id: str | None = None  # the run that logged the model
    folder: Path | None = None  # a folder that holds the model's files

    @classmethod
    def parse(cls, text: str) -> "ModelUri":
        """Read a model's address, or path; stages are refused, and aliases that we do not use.

        >>> ModelUri.parse("models:/runtime@champion").alias
        'champion'
        >>> ModelUri.parse("models:/runtime/3").version
        3
        >>> ModelUri.parse("models:/runtime/Production")
        Traceback (most recent call last):
            ...
        predictors.core.errors.JobcastError: models:/runtime/Production: 'Production' is a stage, and stages are gone
        from MLflow; give an alias (models:/runtime@champion) or a version (models:/runtime/1).
        """
        if text.startswith("models:"):
            return cls._registered(text)
        if text.startswith("runs:"):
            return cls._run(text)
        if (folder := Path(text.removeprefix("file://"))).is_dir():
            return cls(folder=folder)
        if folder.is_file():
            raise JobcastError(f"{text}: is a file; a model is a folder. Give {FORMS}.")
        hint = f" Did you mean models:/{text}@champion?" if re.fullmatch(r"[\w.-]+", text) else ""
        raise JobcastError(f"No model {text!r}: not a folder, nor of the form {FORMS}.{hint}")

    @classmethod
    def _registered(cls, text: str) -> "ModelUri":
        rest = text.removeprefix("models:").strip("/")
        if match := re.fullmatch(r"([^@/:]+)@([^@/]+)", rest):
            return cls(name=match[1], alias=checked_alias(match[2]))
        if match := re.fullmatch(r"([^@/:]+)/([1-9][0-9]{0,17})", rest):
            return cls(name=match[1], version=int(match[2]))
        if (match := re.fullmatch(r"([^@/:]+)/([^/]+)", rest)) and match[2].lower() in _STAGES:
            raise JobcastError(
                f"{text}: {match[2]!r} is a stage, and stages are gone from MLflow; give an alias "
                f"(models:/{match[1]}@champion) or a version (models:/{match[1]}/1)."
            )
        raise JobcastError(
            f"{text!r} does not name a registered model; write models:/NAME@ALIAS or models:/NAME/VERSION."
        )

    @classmethod
    def _run(cls, text: str) -> "ModelUri":
        match = re.fullmatch(r"runs:/+([0-9A-Za-z_-]+)(?:/model)?/?", text)
        if not match:
            raise JobcastError(f"{text!r} does not name a run's model; write runs:/RUN_ID or runs:/RUN_ID/model.")
        return cls(run_id=match[1])


def checked_alias(alias: str) -> str:
    """Return `alias` if it is one of `ALIASES`.

    >>> checked_alias("champoin")
    Traceback (most recent call last):
        ...
    predictors.core.errors.JobcastError: No alias 'champoin'; did you mean 'champion'?
    Known: champion, challenger, shadow.
    """
    if alias not in ALIASES:
        raise unknown_name("alias", alias, ALIASES)
    return alias


def checked_name(name: str) -> str:
    """Return `name` if a model can be registered under it.

    >>> checked_name("run/time")
    Traceback (most recent call last):
        ...
    predictors.core.errors.JobcastError: A model's name may hold letters, digits and . _ - (at most 100, the first a
    letter or digit); got 'run/time'.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise JobcastError(
            "A model's name may hold letters, digits and . _ - (at most 100, the first a letter or digit); "
            f"got {name!r}."
        )
    return name
