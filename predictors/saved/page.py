"""What does a run's page show? Figures, origin, and the commit of the code."""

import math
import subprocess
from collections.abc import Mapping
from pathlib import Path

from predictors.saved.folder import Origin


def numbers(figures: Mapping[str, object]) -> dict[str, float]:
    """Return the figures that are finite numbers.

    Examples
    --------
    >>> numbers({"mae_s": 3, "r2": float("nan"), "name": "forest", "capped": True})
    {'mae_s': 3.0}
    """
    found = {}
    for key, value in figures.items():
        if hasattr(value, "item"):
            value = value.item()
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            found[key] = float(value)
    return found


def page(origin: Origin, figures: Mapping[str, object], split: str) -> str:
    """Return the text of a predictor's run page, in Markdown.

    Examples
    --------
    >>> print(page(Origin(predictor="forest", log="kth", log_sha256="ab"), {"mae_s": 3151.25}, "first 80 % of jobs"))
    **forest** on **kth**: first 80 % of jobs
    <BLANKLINE>
    | figure | value |
    |---|--:|
    | mae_s | 3151.25 |
    """
    until = origin.trained_until_utc or (f"{origin.trained_until} s" if origin.trained_until is not None else "")
    head = f"**{origin.predictor}** on **{origin.log}**: {split}"
    return text(f"{head}; learnt from ends until {until}" if until else head, figures)


def text(head: str, figures: Mapping[str, object]) -> str:
    """Return a page of a first line and a table of figures, in Markdown."""
    rows = [f"| {key} | {value:.6g} |" for key, value in numbers(figures).items()]
    return "\n".join([head, "", "| figure | value |", "|---|--:|", *rows])


def code_tags(folder: Path = Path(__file__).parent) -> dict[str, str]:
    """Return the tag with the code's git commit, `-dirty` if changed since; nothing where git does not track it."""
    try:
        _git(folder, "ls-files", "--error-unmatch", Path(__file__).name)
        commit = _git(folder, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    except (OSError, subprocess.SubprocessError):
        return {}
    return {"mlflow.source.git.commit": commit}


def _git(folder: Path, *arguments: str) -> str:
    run = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=True)
    return run.stdout.strip()
