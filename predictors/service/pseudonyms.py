"""Pseudonyms: names as keyed hashes.

Users, groups and jobs may be named; the service never keeps the name.

Numbers pass as they are, below 2^52. A name becomes a number in [2^52, 2^53) by a keyed hash as soon as it arrives, so
that no table of names exists that could leak, and nothing has to be looked up: the same name is the same number on
every machine that has the same key. Two of n names share a number with a chance of about n² / 2^53: one in 450,000 for
100,000 names. Every number is exact as a float64, which is what feature rows hold.
"""

import os
import re
import tomllib
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Final

import numpy as np

from predictors.core.arrays import Ints
from predictors.core.errors import JobcastError
from predictors.data.formats.slurm import STATES, state_of
from predictors.data.formats.tables.known import LUMOS_WORDS
from predictors.data.joblog import UNKNOWN, JobLog
from predictors.data.report import Finding, ReadingReport
from predictors.history.names import NAMED, NO_STEM, PSEUDONYM, stem

FIRST_NAME: Final = 1 << 52  # numbers from here on stand for names; those that clients give must lie below
_LEAST_KEY: Final = 16
_MOST_READ: Final = 4096  # bytes of a key's file, blanks around the key included
_PERSONAL: Final = ("user", "group", "project", "executable", "directory", "command", "reservation")


@dataclass(frozen=True)
class Pseudonymiser:
    """Turns names into keyed hashes.

    >>> plain, secret = Pseudonymiser(), Pseudonymiser(b"k" * 16)
    >>> plain.code("alice") == Pseudonymiser().code("alice"), plain.code("alice") == secret.code("alice")
    (True, False)
    >>> plain.code(7), plain.code(None)
    (7, -1)
    """

    secret: bytes = b""  # at most 64 bytes; empty: anyone who has the database can try out likely names.

    def __post_init__(self) -> None:
        if len(self.secret) > 64:
            raise JobcastError(f"A key for names has at most 64 bytes; got {len(self.secret)}.")

    @classmethod
    def read(cls, path: Path) -> "Pseudonymiser":
        """Return the key in a file, of 16 to 64 bytes without blanks around it, that only owner and group may use."""
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & 0o007:
                raise JobcastError(f"{path}: others may read or change this secret key; chmod o-rwx it.")
            secret = file.read(_MOST_READ + 1)
        if len(secret) > _MOST_READ:
            raise JobcastError(f"{path}: a key for names has {_LEAST_KEY} to 64 bytes; this file has far more.")
        secret = secret.strip()
        if not _LEAST_KEY <= len(secret) <= 64:
            raise JobcastError(f"{path}: a key for names has {_LEAST_KEY} to 64 bytes; got {len(secret)}.")
        return cls(secret)

    def code(self, value: int | str | None) -> int:
        """Return the number of a name, a number itself, or -1 for what is unknown."""
        if value is None:
            return -1
        if isinstance(value, int):
            return value
        if value.startswith("~") and PSEUDONYM.fullmatch(value):
            return FIRST_NAME | (int(value[1:], 16) & (FIRST_NAME - 1))
        digest = blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8, key=self.secret).digest()
        return FIRST_NAME | (int.from_bytes(digest, "big") & (FIRST_NAME - 1))

    def job(self, job_id: int | str, cluster: int | str | None = None, submission: int | None = None) -> int:
        """Return the number of a job, by its id alone, or by cluster, id and second of submission.

        >>> key = Pseudonymiser()
        >>> key.job(7), key.job(7, submission=50) == key.job(7, submission=60)
        (7, False)
        """
        if cluster is None and submission is None:
            return self.code(job_id)
        return self.code(f"\x1f{cluster!r}\x1f{job_id!r}\x1f{submission}")

    @property
    def fingerprint(self) -> str:
        """What tells one key from another, and nothing of the key; empty without one."""
        return blake2b(b"jobcast's key", digest_size=16, key=self.secret).hexdigest() if self.secret else ""

    def pseudonym(self, name: str) -> str:
        """Return what may stand in a file for a name: its number, as text with the same number.

        >>> key = Pseudonymiser(b"k" * 16)
        >>> key.pseudonym("alice"), key.code(key.pseudonym("alice")) == key.code("alice")
        ('~170331c6c2bf7d', True)
        """
        return f"~{self.code(name):014x}"


def is_number(text: str) -> bool:
    """Return whether a text is a number as clients may give it, without leading zeros."""
    return text.isascii() and text.isdigit() and len(text) <= 16 and text == str(int(text)) and int(text) < FIRST_NAME


def pseudonymous(log: JobLog, key: Pseudonymiser) -> tuple[JobLog, ReadingReport]:
    """Return a log with keyed hashes in the place of the names that tell of people, and how many names those were.

    These are users, groups, projects, executables, directories, command lines and reservations.

    >>> log = JobLog.from_columns({"job_id": [1], "submit": [0], "user": [0]}, {}, categories={"user": ("alice",)})
    >>> hidden, account = pseudonymous(log, Pseudonymiser(b"k" * 16))
    >>> hidden.names("user"), account.count("name-hashed")
    (('~170331c6c2bf7d',), 1)
    """
    hashed: dict[str, tuple[str, ...]] = {}
    findings = []
    for column in _PERSONAL:
        if names := log.categories.get(column):
            hashed[column] = tuple(key.pseudonym(name) if name else "" for name in names)
            text = "a keyed hash stands for the name"
            findings.append(Finding("name-hashed", "noted", text, len(names), column=column))
    log, gone = without_vectors(log)
    if not findings and not gone:
        text = "the log tells no names of people or programs to be hashed; its numbers stay as they are"
        findings.append(Finding("no-names", "noted", text))
    findings += gone
    return replace(log, categories={**log.categories, **hashed}), ReadingReport(log.name, tuple(findings))


_SIGNATURES: Final = ("signature", "signature_2")


def without_vectors(log: JobLog) -> tuple[JobLog, list[Finding]]:
    """Return a log without the signatures of its vectors, and what was left out: who has the model can test names."""
    if not log.known(_SIGNATURES[0]).any():
        return log, []
    kept = {column: array for column, array in log.values.items() if column not in _SIGNATURES}
    count = int(log.known(_SIGNATURES[0]).sum())
    text = "of vectors of names, by which names can be tested"
    left = replace(log, values=kept, unknown={column: log.unknown[column] for column in kept})
    return left, [Finding("left-out", "changed", text, count, column=_SIGNATURES[0])]


_WORDS: Final = ("state", "mode")  # columns of words of the scheduler: those that are known to be such are kept
_KNOWN_WORDS: Final = frozenset((*(state.lower() for state in STATES), *LUMOS_WORDS, "script", "interactive"))
_MODE: Final = re.compile(r"c\d{1,3}")  # how many ranks a node had, as ALCF writes a mode
_NUMBERED: Final = ("user", "group", "executable", "project")  # columns of numbers that reveal people and programs
_GONE: Final = ("label", "parents")  # columns of the scheduler's own ids
_MOST_WEEKS: Final = 520
_WEEK: Final = 7 * 86_400


def anonymous(log: JobLog, key: Pseudonymiser) -> tuple[JobLog, ReadingReport]:
    """Return a log without names, and what was done to it.

    * All names but known words for states and modes are keyed hashes; one that is a hash already is hashed again. Of
      job names, commands and directories the stem (`predictors.history.names.stem`) has a hash of its own before that
      of the name, so that `similar-names` predicts as before.
    * Users, groups, executables and projects without names get new numbers, in the order of their first jobs.
    * Dates are shifted back by the same number of whole weeks of UTC, 1 to 520 by the key: intervals stay, and local
      weekdays and hours but where the clocks are changed.
    * Jobs and arrays get new numbers; the scheduler's ids, the header and the log's name are left out.

    docs/how-to/log-formats.md says what can still be inferred.

    >>> log = JobLog.from_columns({"job_id": [71, 72], "submit": [5, 9], "user": [0, 0], "executable": [0, 1]}, {},
    ...     epoch=1_700_000_000, categories={"user": ("alice",), "executable": ("relax_1", "relax_2")})
    >>> hidden, account = anonymous(log, Pseudonymiser(b"k" * 16))
    >>> one, two = hidden.names("executable")
    >>> one[:15] == two[:15], one[15:] == two[15:], hidden["job_id"].tolist(), (log.epoch - hidden.epoch) % (7 * 86_400)
    (True, False, [1, 2], 0)
    """
    log, findings = without_vectors(log)
    hashed: dict[str, tuple[str, ...]] = {}
    worded: dict[str, Ints] = {}
    for column, names in log.categories.items():
        if column in _GONE:
            continue
        if column in _WORDS:
            worded[column], hashed[column] = _words(key, log, column)
            count = sum(word.startswith("~") for word in hashed[column])
        else:
            hide = _with_stem if column in NAMED else _hashed
            hashed[column] = tuple(hide(key, name) if name else "" for name in names)
            count = sum(map(bool, names))
        if count:
            text = "a keyed hash stands for the name"
            findings.append(Finding("name-hashed", "noted", text, count, column=column))
    new = np.arange(1, len(log) + 1)
    columns = {
        **{column: array for column, array in log.values.items() if column not in _GONE},
        **worded,
        "job_id": new,
    }
    unknown = {column: log.unknown[column] for column in columns}
    unknown |= {column: codes == UNKNOWN for column, codes in worded.items()}
    columns["preceding_job"] = _renumbered(log.filled("preceding_job"), log.filled("job_id"), new)
    unknown["preceding_job"] = columns["preceding_job"] == UNKNOWN
    if "array" in columns:
        arrays = np.unique(log.filled("array")[log.known("array")])
        columns["array"] = _renumbered(log.filled("array"), arrays, np.arange(1, len(arrays) + 1))
    findings.append(Finding("renumbered", "noted", "jobs and arrays have new numbers, by submission", len(log)))
    for column in _NUMBERED:
        if column in columns and (found := _numbered(log, column)) is not None:
            columns[column], order = found
            names = hashed.get(column, ())
            hashed[column] = tuple(names[code] if code < len(names) else "" for code in order) if any(names) else ()
            text = "new numbers, in the order of their first jobs"
            findings.append(Finding("renumbered", "noted", text, len(order), column=column))
    for column in _GONE:
        if log.known(column).any():
            count = int(log.known(column).sum())
            findings.append(Finding("left-out", "changed", "the scheduler's own ids", count, column=column))
    epoch = None
    if log.epoch is not None:
        weeks = 1 + key.code("\x1fweeks") % _MOST_WEEKS
        epoch = log.epoch - weeks * _WEEK
        findings.append(Finding("shifted", "noted", "all dates lie the same number of whole weeks earlier", len(log)))
    header = (("Note", "anonymised: names are keyed hashes, dates are shifted, numbers are new"),)
    hidden = JobLog(
        columns, unknown, epoch=epoch, time_zone=log.time_zone, max_procs=log.max_procs, max_nodes=log.max_nodes,
        max_gpus=log.max_gpus, header=header, categories=hashed, name="anonymous",
    )  # fmt: skip
    return hidden, ReadingReport(log.name, tuple(findings))


def _hashed(key: Pseudonymiser, name: str) -> str:
    """Return the hash of a name; of one that is a hash already another, so that two receivers' logs differ."""
    return key.pseudonym(f"\x1f{name}" if name.startswith("~") else name)


def _with_stem(key: Pseudonymiser, name: str) -> str:
    """Return the hash of a name's stem before that of the name; `NO_STEM` before it if it has none."""
    found = stem(name)
    return (_hashed(key, found) if found else NO_STEM) + _hashed(key, name)


def _words(key: Pseudonymiser, log: JobLog, column: str) -> tuple[Ints, tuple[str, ...]]:
    """Return codes and words of a column of words: known ones as they are, without what follows them; else hashes."""
    known = _KNOWN_WORDS | _words_of_map(log.header)
    names = log.categories[column]
    words = [text and _word(key, text, known) for text in names]
    distinct = tuple(dict.fromkeys(words))
    table = np.array([distinct.index(word) for word in words], dtype=np.int64)
    codes = log.filled(column)
    named = (codes >= 0) & (codes < len(names))
    return np.where(named, table[np.where(named, codes, 0)], UNKNOWN), distinct


def _word(key: Pseudonymiser, text: str, known: frozenset[str]) -> str:
    if text.strip().lower() in known or _MODE.fullmatch(text):
        return text.strip()
    bare = state_of(text.strip())
    return bare if bare in STATES else _hashed(key, text)


def _words_of_map(header: tuple[tuple[str, str], ...]) -> frozenset[str]:
    """Return the plain words for states in the map that a log was read by, in small letters."""
    try:
        told = tomllib.loads("\n".join(line for label, line in header if label == "Map")).get("status", {})
    except tomllib.TOMLDecodeError:
        return frozenset()
    return frozenset(word.strip().lower() for word in told if re.fullmatch(r"[^\W\d]+", word.strip()))


def _numbered(log: JobLog, column: str) -> tuple[Ints, tuple[int, ...]] | None:
    """Return new codes by first use, and the old code of each; None if every code in use has a name."""
    values, names = log.filled(column), log.names(column)
    used, first = np.unique(values[log.known(column)], return_index=True)
    if all(code < len(names) and names[code] for code in used.tolist()):
        return None
    old = used[np.argsort(first)]
    begin = 0 if any(names) else 1  # places in a table of names, or numbers as SWF has them
    return _renumbered(values, old, np.arange(begin, begin + len(old))), tuple(old.tolist())


def _renumbered(values: Ints, old: Ints, new: Ints) -> Ints:
    order = np.argsort(old, kind="stable")
    if not len(order):
        return np.full(len(values), UNKNOWN, dtype=np.int64)
    place = order[np.minimum(np.searchsorted(old, values, sorter=order), len(order) - 1)]
    return np.where(old[place] == values, new[place], UNKNOWN)
