"""What a job is called, as knowledge: stems of names, and signatures of their letters.

A stem is a name without what changes from run to run: digits, dates, ids. Jobs of one stem tend to be one program. A
signature is 104 bits of the hashed groups of three letters of all names of a job: the fewer bits of two of them differ,
the more the names have in common (Charikar, Similarity Estimation Techniques from Rounding Algorithms, STOC 2002,
doi 10.1145/509907.509965). Both are hashes: the history and the models hold no name. The signature of a job's
vector stands in the place of that of its names; the two are never compared.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Ints
from predictors.core.jit import compiled
from predictors.data.joblog import SIGNATURE_BITS, UNKNOWN, JobLog

NAMED: Final = ("executable", "command", "directory")
"""Columns with names that show what a job is, the most certain first."""
BITS: Final = SIGNATURE_BITS  # bits of each of the two words of a signature, and of a stem's code: exact in a float64
PSEUDONYM: Final = re.compile(r"(~[0-9a-f]{14})")  # a keyed hash in the place of a name
NO_STEM: Final = "~" + "0" * 14  # stands before the hash of a name that has no stem
_ID: Final = re.compile(
    r"(?<![a-z0-9])(?=[0-9a-f]*[0-9])(?:[0-9a-f]{8,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![a-z0-9])"
)
_REST: Final = re.compile(r"[\W\d_]+")


def stem(text: str) -> str:
    """Return a name without digits, dates, ids and the marks between its words; "" if nothing is left.

    A keyed hash in the place of a name is its own stem; of one that is made of a stem's hash and a name's, the stem's
    counts, and `NO_STEM` there says that the name has none.

    >>> stem("relax_0012-2025-04-01.sh"), stem("/scratch/ana/run7/case_b"), stem("job-3f9a77c1"), stem("2025-04-01")
    ('relax sh', 'scratch ana run case b', 'job', '')
    >>> stem("~170331c6c2bf7d~0a1b2c3d4e5f60")
    '~170331c6c2bf7d'
    >>> stem(NO_STEM + "~0a1b2c3d4e5f60")
    ''
    """
    hashed = PSEUDONYM.match(text)
    if hashed:
        return "" if hashed[1] == NO_STEM else hashed[1]
    return _REST.sub(" ", _ID.sub(" ", text.lower())).strip()


class Called(NamedTuple):
    """What a job is called, as codes; -1 where it has no name."""

    stems: int = UNKNOWN  # code of the stems of all its names
    stem: int = UNKNOWN  # code of the stem of the first name given
    signature: int = UNKNOWN  # first 52 bits of the signature of all its names
    signature_2: int = UNKNOWN  # the other 52 bits


NAMELESS: Final = Called()  # a job without any name


def called(executable: str = "", command: str = "", directory: str = "") -> Called:
    """Return what a job of these names is called.

    >>> called("relax_1").stem == called("relax_2").stem != called("md_1").stem
    True
    >>> called() == Called()
    True
    """
    texts = (executable, command, directory)
    stems = tuple(stem(text) for text in texts)
    if not any(texts):
        return NAMELESS
    first, second = signatures(["\n".join(texts)])[0].tolist()
    surest = next((one for one in stems if one), "")
    return Called(_code("\n".join(stems)) if surest else UNKNOWN, _code(surest) if surest else UNKNOWN, first, second)


def with_procs(stems: Ints, procs: Ints) -> Ints:
    """Return codes of stems together with numbers of processors, -1 where either is unknown.

    >>> one, other, none = with_procs(np.array([7, 7, -1]), np.array([4, 8, 4])).tolist()
    >>> one != other, none
    (True, -1)
    """
    mixed = (stems.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ procs.astype(np.uint64)) * np.uint64(0xBF58476D1CE4E5B9)
    codes = (mixed >> np.uint64(64 - BITS)).astype(np.int64)
    return np.where((stems < 0) | (procs < 0), UNKNOWN, codes)


@lru_cache(1 << 16)
def _code(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") >> (64 - BITS)


def called_in(log: JobLog) -> Ints:
    """Return what each job of a log is called, int64 of shape (n_jobs, 4), the columns those of `Called`.

    The signatures of a job with a vector are the vector's, whatever other jobs have: nothing hangs on later ones.

    >>> log = JobLog.from_columns({"job_id": [1, 2, 3], "submit": [0, 1, 2], "executable": [0, 1, 2]}, {},
    ...                           categories={"executable": ("md_1", "md_2", "7")})
    >>> found = called_in(log)
    >>> bool(found[0, 1] == found[1, 1]), found[2, :2].tolist()
    (True, [-1, -1])
    """
    result = _by_names(log)
    has = log.known("signature") & log.known("signature_2")
    result[has, 2], result[has, 3] = log.filled("signature")[has], log.filled("signature_2")[has]
    return result


def _by_names(log: JobLog) -> Ints:
    result = np.full((len(log), 4), UNKNOWN, dtype=np.int64)
    columns = [column for column in NAMED if column in log.values and any(log.names(column))]
    if not columns:
        return result
    codes = np.full((len(log), len(NAMED)), UNKNOWN, dtype=np.int64)
    for place, column in enumerate(NAMED):
        if column in columns:
            own = log.filled(column)
            codes[:, place] = np.where(own < len(log.names(column)), own, UNKNOWN)
    distinct, number = np.unique(codes, axis=0, return_inverse=True)
    rows = []
    for row in distinct.tolist():
        texts = (log.names(column)[code] if code >= 0 else "" for column, code in zip(NAMED, row, strict=True))
        rows.append(tuple(texts))
    found = [_stems(texts) for texts in rows]
    has = np.array([any(texts) for texts in rows], dtype=np.bool_)
    table = np.full((len(rows), 4), UNKNOWN, dtype=np.int64)
    table[:, :2] = found
    if has.any():
        table[has, 2:] = signatures(["\n".join(texts) for texts in rows if any(texts)])
    result[:] = table[number.reshape(-1)]
    return result


def _stems(texts: Sequence[str]) -> tuple[int, int]:
    stems = tuple(stem(text) for text in texts)
    surest = next((one for one in stems if one), "")
    return (_code("\n".join(stems)), _code(surest)) if surest else (UNKNOWN, UNKNOWN)


def signatures(texts: Sequence[str]) -> Ints:
    """Return the signatures of texts, int64 of shape (n, 2), each word of 52 bits.

    >>> near, far = signatures(["relax_011", "relax_012", "molecular"])[:, 0].tolist()[1:]
    >>> own = signatures(["relax_011"])[0, 0].item()
    >>> (own ^ near).bit_count() < (own ^ far).bit_count()
    True
    """
    encoded = [text.lower().encode("utf-8", "surrogatepass") for text in texts]
    ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    out = np.zeros((len(texts), 2), dtype=np.int64)
    sign(np.frombuffer(b"".join(encoded) or b" ", dtype=np.uint8), np.concatenate([[0], ends]).astype(np.int64), out)
    return out


@compiled
def sign(data: npt.NDArray[np.uint8], bounds: Ints, out: Ints) -> None:
    """Write the signature of each text: bit b is set where most groups of three letters have it in their hash."""
    votes = np.zeros(2 * BITS, dtype=np.int64)
    for k in range(len(bounds) - 1):
        votes[:] = 0
        first, end = bounds[k], bounds[k + 1]
        one, two = np.uint64(1), np.uint64(1)
        for i in range(first, end + 2):
            letter = np.uint64(data[i]) + np.uint64(2) if i < end else np.uint64(1)
            gram = (one << np.uint64(20)) | (two << np.uint64(10)) | letter
            one, two = two, letter
            for word in range(2):
                hashed = (gram + np.uint64(word + 1)) * np.uint64(0x9E3779B97F4A7C15)
                hashed = (hashed ^ (hashed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                hashed = (hashed ^ (hashed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                hashed = hashed ^ (hashed >> np.uint64(31))
                for bit in range(BITS):
                    votes[word * BITS + bit] += 1 if (hashed >> np.uint64(bit)) & np.uint64(1) else -1
        for word in range(2):
            bits = 0
            for bit in range(BITS):
                if votes[word * BITS + bit] > 0:
                    bits |= 1 << bit
            out[k, word] = bits
