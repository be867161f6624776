"""Is this folder a saved model, whole, unchanged, and free of anything that runs code? File kinds, sizes, hashes."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from predictors.data.errors import JobcastError

SUFFIXES: Final = (".json", ".npy", ".npz", ".skops", ".ubj")
"""Formats that our predictors write. None of them can carry code; pickles are not among them."""

BESIDE: Final = (
    "MLmodel",
    "conda.yaml",
    "python_env.yaml",
    "requirements.txt",
    "input_example.json",
    "serving_input_example.json",
    "registered_model_meta",
)
"""What MLflow itself puts beside our files; it is text, and we load none of it but `MLmodel`."""

MOST_BYTES: Final = 100_000_000
"""A saved model must be smaller than this [bytes]."""


def hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below `folder`, by relative path, checking each file's kind.

    Raises
    ------
    JobcastError
        If a file is of a format that we do not write, or a link, or the folder is empty.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "state.json").write_text("{}")
    >>> hashes(folder)
    {'state.json': '44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a'}
    >>> _ = (folder / "model.pkl").write_bytes(b"")
    >>> hashes(folder)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    predictors.data.errors.JobcastError: .../model.pkl: not a file of a jobcast model ...
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or (path.is_file() and path.suffix not in SUFFIXES):
            raise JobcastError(
                f"{path}: not a file of a jobcast model ({', '.join(SUFFIXES)}), so the model is not loaded. "
                "Models in other formats can run code; train one with `jobcast train`."
            )
        if path.is_file():
            found[path.relative_to(folder).as_posix()] = sha256(path)
    if not found:
        raise JobcastError(f"{folder}: holds no model files.")
    return found


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_unchanged(folder: Path, expected: Mapping[str, str], besides: str) -> None:
    """Raise unless the files below `folder`, `besides` left out, are exactly those whose hashes were written down.

    Raises
    ------
    JobcastError
        Naming the first file that is missing, new or different.
    """
    found = {name: value for name, value in hashes(folder).items() if name != besides}
    for name in sorted({*found, *expected}):
        if found.get(name) != expected.get(name):
            what = "is missing" if name not in found else "was added" if name not in expected else "was changed"
            raise JobcastError(
                f"{folder / name}: {what} since the model was saved (SHA-256 differs), so the model is not loaded. "
                "Train it again, or restore the file."
            )


def check_beside(folder: Path, data: str) -> None:
    """Raise if an MLflow model's folder holds, beside the data folder `data`, anything that MLflow did not write.

    Raises
    ------
    JobcastError
        Naming the file.
    """
    inside = folder / data
    for path in sorted(folder.rglob("*")):
        known = path.name in BESIDE and path.parent == folder
        if path.is_symlink() or (path.is_file() and not known and inside not in path.parents):
            raise JobcastError(f"{path}: not a file of a jobcast model, so the model is not loaded.")


def check_size(folder: Path) -> None:
    """Raise if the files below `folder` reach `MOST_BYTES`.

    Raises
    ------
    JobcastError
        With the largest file and the way out.
    """
    sizes = {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    if sum(sizes.values()) >= MOST_BYTES:
        largest = max(sizes, key=lambda path: sizes[path])
        raise JobcastError(
            f"The model takes {sum(sizes.values()) / 1e6:.0f} MB ({largest.name}: {sizes[largest] / 1e6:.0f} MB); it "
            f"must stay under {MOST_BYTES / 1e6:.0f} MB. Bound it: fewer or smaller trees, or fewer training rows."
        )
