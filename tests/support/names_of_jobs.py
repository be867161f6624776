"""Names for the jobs of a synthetic log: with knowledge in them, or without any.

The truth is known: a synthetic log has an application behind each job. Names that carry knowledge are made of it, so
that their stems tell applications apart, which nothing else in the log does any more. Names without knowledge look the
same and are drawn at random: whoever reads them learns nothing.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from predictors.core.arrays import Ints
from predictors.data.joblog import UNKNOWN, JobLog

_SYLLABLES: Final = (
    "ba", "co", "di", "fen", "gra", "hel", "ir", "jo", "ka", "lum", "mo", "nep", "or", "pra", "qui", "ro", "sel", "tur",
    "ul", "ver", "wa", "xen", "yor", "zet",
)  # fmt: skip


def with_names(log: JobLog, seed: int, *, knowledge: bool = True) -> JobLog:
    """Return a log with job names, commands and directories in place of application codes.

    `knowledge` says whether names are made of the application; else each job has one of its user's names at random.
    """
    rng = np.random.Generator(np.random.PCG64([seed, 7]))
    user, app = log.filled("user"), log.filled("executable")
    if not knowledge:
        app = _shuffled(rng, user, app)
    distinct, place = np.unique(app, return_inverse=True)
    words = _words(rng, len(distinct))
    run = np.arange(1, len(log) + 1)
    texts = [words[k] for k in place.tolist()]
    names = tuple(f"{word}_{number:04d}" for word, number in zip(texts, run.tolist(), strict=True))
    commands = tuple(dict.fromkeys(f"sbatch {word}.sh" for word in words))
    folders = dict.fromkeys(f"/home/u{who}/{word}" for who, word in zip(user.tolist(), texts, strict=True))
    at = {text: code for code, text in enumerate(folders)}
    directory = [at[f"/home/u{who}/{word}"] for who, word in zip(user.tolist(), texts, strict=True)]
    columns = {
        "executable": np.arange(len(log)),
        "command": place.astype(np.int64),
        "directory": np.array(directory, dtype=np.int64),
    }
    named = log.replaced(columns)
    return replace(
        named,
        categories={**log.categories, "executable": names, "command": commands, "directory": tuple(folders)},
        header=(*log.header, ("Note", f"with_names(seed={seed}, knowledge={knowledge})")),
    )


def _shuffled(rng: np.random.Generator, user: Ints, app: Ints) -> Ints:
    """Return for each job one of its user's applications, drawn as often as they come, whatever the job runs."""
    drawn = np.full(len(app), UNKNOWN, dtype=np.int64)
    for who in np.unique(user).tolist():
        rows = np.flatnonzero(user == who)
        drawn[rows] = rng.permutation(app[rows])
    return drawn


def _words(rng: np.random.Generator, n: int) -> list[str]:
    """Return n different words of three syllables or more."""
    words: dict[str, None] = {}
    while len(words) < n:
        count = 3 + len(words) // 8000
        words["".join(_SYLLABLES[k] for k in rng.integers(0, len(_SYLLABLES), count).tolist())] = None
    return list(words)
