"""Damaged and strange job logs by a seed: what copies, editors, other systems and other people make of a good one."""

import gzip
import io
import json
import re
import tempfile
from copy import deepcopy
from functools import cache
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from jobcast import generate_log, write_log
from tests.support.named_logs import made_log, sacct_text
from tests.support.places import DATA

NUMBERS = (
    "-1", "0", "-0", "1e3", "1.5", "1e308", "1e400", "nan", "inf", "-inf", "0x10", "1_000", "٣", "", "x", "None", "+",
    *(str(sign * 2**power + off) for power in (31, 32, 53, 63, 64) for sign in (1, -1) for off in (-1, 0)),
    "9" * 40, "9" * 5000,
)  # fmt: skip
"""What stands in the place of a number: absurd, too large for its type, or no number."""
NAMES = ("\x1b[2J", "\u202e", "a" * 10_000, "'", '"', "a,b|c;d", "²", "\t", "null", "../../x", "{}", "=1+1", "\x85")
"""What stands in the place of a name."""
VALUES = (None, True, -1, 2**63, 2**70, -(2**63), 1.5, float("nan"), float("inf"), "", "x", [], {}, [1], {"set": True})
"""What stands in the place of a value of JSON."""
ALCF = (
    "JOB_NAME,COBALT_JOBID,QUEUED_TIMESTAMP,START_TIMESTAMP,END_TIMESTAMP,USERNAME_GENID,PROJECT_NAME_GENID,QUEUE_NAME,"
    "WALLTIME_SECONDS,RUNTIME_SECONDS,NODES_USED,NODES_REQUESTED,CORES_USED,LOCATION,EXIT_STATUS,ELIGIBLE_WAIT_SECONDS"
)


@cache
def good_logs() -> dict[str, bytes]:
    """Return a good log of each format."""
    log = generate_log(60, seed=4, procs=64, users=6)
    rows = [
        f"{k}.mira,{k},2016-11-05 10:{k:02}:00,2016-11-05 11:{k:02}:00.25,2016-11-05 12:{k:02}:00.75,{k % 5},{k % 3},"
        f"prod,7200,{3600 + k}.0,{512 * (1 + k % 2)},512,8192,MIR-00000-33331-512,0,1800.4"
        for k in range(1, 50)
    ]
    text = json.loads(gzip.decompress((DATA / "sacct.json.gz").read_bytes()))
    with tempfile.TemporaryDirectory() as folder:
        for ending in ("swf", "parquet"):
            write_log(log, Path(folder) / f"log.{ending}")
        written = {ending: (Path(folder) / f"log.{ending}").read_bytes() for ending in ("swf", "parquet")}
    return written | {
        "alcf": "\n".join((ALCF, *rows, "")).encode(),
        "sacct": sacct_text(made_log(60), range(50)).encode(),
        "sacct-unix": (DATA / "sacct_unix.txt").read_bytes(),
        "sacct-json": json.dumps(text | {"jobs": text["jobs"][:12]}, indent=1).encode(),
        "pbs": (DATA / "pbs_accounting.txt").read_bytes(),
    }


FORMATS = ("swf", "alcf", "sacct", "sacct-unix", "sacct-json", "pbs", "parquet")


def odd_log(form: str, number: int) -> bytes:
    """Return the log of a format that was damaged by one to three accidents; the number draws them."""
    random, data = Random(f"{form} {number}"), good_logs()[form]
    special = {"parquet": (PARQUET, 3), "sacct-json": (JSON, 2)}.get(form, (LINES, 3))
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        accident = random.choice(random.choice((*[special[0]] * special[1], BYTES)))
        data = accident(random, data)
    return random.choice(PACKED)(random, data) if random.random() < 0.15 else data


# Accidents of bytes ---------------------------------------------------------------------------------------------------


def cut(random: Random, data: bytes) -> bytes:
    """Stop a copy before its end."""
    return data[: random.randint(0, len(data))]


def lost(random: Random, data: bytes) -> bytes:
    """Lose a piece."""
    begin = random.randint(0, len(data))
    return data[:begin] + data[begin + random.choice((1, 10, 500)) :]


def repeated(random: Random, data: bytes) -> bytes:
    """Write a piece twice."""
    begin, size = random.randint(0, len(data)), random.choice((1, 10, 500))
    return data[: begin + size] + data[begin:]


def zeroed(random: Random, data: bytes) -> bytes:
    """Leave a block of zeros, as a file system does after a crash."""
    begin, size = random.randint(0, len(data)), random.choice((1, 8, 512))
    return data[:begin] + bytes(size) + data[begin + size :]


def flipped(random: Random, data: bytes) -> bytes:
    """Change some bytes."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 3, 30)) if data else 0):
        changed[random.randrange(len(data))] = random.randrange(256)
    return bytes(changed)


def between_others(random: Random, data: bytes) -> bytes:
    """Join two files of different formats."""
    other = good_logs()[random.choice(FORMATS)]
    return data + other if random.random() < 0.5 else other + data


def nothing(random: Random, data: bytes) -> bytes:
    """Leave nothing but blanks."""
    return random.choice((b"", b"\n", b" " * 50, b"\r\n\r\n", b"\0" * 100, b"\xef\xbb\xbf", b"\x1f\x8b", b"PAR1"))


BYTES = (cut, lost, repeated, zeroed, flipped, between_others, nothing)

# Accidents of lines ---------------------------------------------------------------------------------------------------


def other_ends(random: Random, data: bytes) -> bytes:
    """Use the line ends of another system."""
    ends = (b"\r", b"\r\n", b"\n\r", b"\n\n", b"\f", b"\x0b", b"\xe2\x80\xa8", b"\xc2\x85", b"\r\r\n", b" \n", b"\\\n")
    return data.replace(b"\n", random.choice(ends))


def other_encoding(random: Random, data: bytes) -> bytes:
    """Use another encoding, or a byte order mark."""
    text = data.decode("latin-1").replace("ana", "Åsa").replace("q1", "größe")
    codes = ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp500", "utf-7", "cp1252")
    return text.encode(random.choice(codes), "replace")


def _rows(random: Random, data: bytes) -> tuple[list[bytes], bytes]:
    """Return the lines of a log and what parts their fields."""
    part = max((b"|", b",", b"\t", b";", b" "), key=lambda one: data.count(one) * (1 + 9 * (one != b" ")))
    return data.split(b"\n"), part


def odd_number(random: Random, data: bytes) -> bytes:
    """Write something absurd in the place of a number."""
    found = list(re.finditer(rb"(?<![\w.])-?\d+", data))
    for place in sorted(random.sample(found, min(len(found), random.choice((1, 2, 20)))), key=lambda one: -one.start()):
        data = data[: place.start()] + random.choice(NUMBERS).encode() + data[place.end() :]
    return data


def odd_name(random: Random, data: bytes) -> bytes:
    """Write something strange in the place of a word."""
    found = list(re.finditer(rb"[A-Za-z_]{2,}", data))
    for place in sorted(random.sample(found, min(len(found), random.choice((1, 2, 20)))), key=lambda one: -one.start()):
        data = data[: place.start()] + random.choice(NAMES).encode() + data[place.end() :]
    return data


def swapped_columns(random: Random, data: bytes) -> bytes:
    """Swap two columns in each row, with or without the first line."""
    rows, part = _rows(random, data)
    first, second = random.randrange(18), random.randrange(18)
    for number in range(random.randint(0, 1), len(rows)):
        fields = rows[number].split(part)
        if max(first, second) < len(fields):
            fields[first], fields[second] = fields[second], fields[first]
            rows[number] = part.join(fields)
    return b"\n".join(rows)


def one_column(random: Random, data: bytes) -> bytes:
    """Put the same value into a column of each row, or lose the column."""
    rows, part = _rows(random, data)
    column, value = random.randrange(18), random.choice((*NUMBERS, "-1", "0", None, None)[:-1])
    for number in range(random.randint(0, 1), len(rows)):
        fields = rows[number].split(part)
        if column < len(fields):
            fields[column : column + 1] = [] if value is None else [value.encode()]
            rows[number] = part.join(fields)
    return b"\n".join(rows)


def other_parts(random: Random, data: bytes) -> bytes:
    """Part fields by another sign."""
    part = _rows(random, data)[1]
    return data.replace(part, random.choice((b"\t", b" ", b",", b";", b"|", b"||", b"  ", b"")))


def other_order(random: Random, data: bytes) -> bytes:
    """Sort, shuffle or repeat the rows."""
    rows = data.split(b"\n")
    head = random.randint(0, 1)
    body = rows[head:]
    random.choice((body.sort, body.reverse, lambda: random.shuffle(body), lambda: body.extend(body)))()
    return b"\n".join((*rows[:head], *body))


def without_head(random: Random, data: bytes) -> bytes:
    """Lose the first line, keep it alone, or write it again in the middle."""
    rows = data.split(b"\n")
    return b"\n".join(random.choice((rows[1:], rows[:1], [*rows[: len(rows) // 2], *rows])))


def same_ids(random: Random, data: bytes) -> bytes:
    """Give many jobs one number."""
    rows, part = _rows(random, data)
    first = next((row.split(part)[0] for row in rows[1:] if row and not row.startswith(b";")), b"1")
    share = random.random()
    changed = [part.join((first, *row.split(part)[1:])) if random.random() < share else row for row in rows]
    return b"\n".join(changed)


def long_line(random: Random, data: bytes) -> bytes:
    """Join all lines, or lengthen one."""
    if random.random() < 0.3:
        return data.replace(b"\n", random.choice((b" ", b"")))
    rows = data.split(b"\n")
    at = random.randrange(len(rows))
    rows[at] += random.choice((b" 1", b"|x", b",", b"; \x00", b"(")) * 20_000
    return b"\n".join(rows)


LINES = (other_ends, other_encoding, odd_number, odd_number, odd_name, swapped_columns, one_column, one_column,
         other_parts,         other_order, without_head, same_ids, long_line)  # fmt: skip

# Accidents of JSON ----------------------------------------------------------------------------------------------------


def _places(value) -> list[tuple[object, object]]:
    """Return each place of a document: what holds it, and its key there."""
    found: list[tuple[object, object]] = []
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        found += [(value, key), *_places(value[key])]
    return found


def odd_value(random: Random, data: bytes) -> bytes:
    """Write another value into a document, drop a key or misspell it."""
    try:
        document = json.loads(data)
    except ValueError:
        return flipped(random, data)
    for _ in range(random.choice((1, 1, 5, 50))):
        places = _places(document)
        if not places:
            break
        holder, key = random.choice(places)
        kind = random.random()
        if kind < 0.7 or isinstance(holder, list):
            holder[key] = deepcopy(random.choice(VALUES))
        else:
            value = holder.pop(key)
            if kind < 0.85:
                holder[f"{key}s"] = value
    return json.dumps(document, indent=random.choice((None, 1))).encode()


def every_job(random: Random, data: bytes) -> bytes:
    """Write one value into the same place of all jobs."""
    try:
        jobs = json.loads(data)["jobs"]
        holder, key = random.choice(_places(jobs[0]))
        value = deepcopy(random.choice(VALUES))
        for job in jobs:
            for other, name in _places(job):
                if name == key and type(other) is type(holder):
                    other[name] = value
    except (ValueError, KeyError, TypeError, IndexError):
        return lost(random, data)
    return json.dumps({"jobs": jobs}).encode()


def deep(random: Random, data: bytes) -> bytes:
    """Nest lists beyond what any reader follows."""
    begin = random.randint(0, len(data))
    return data[:begin] + b"[" * 100_000 + data[begin:]


JSON = (odd_value, odd_value, odd_value, every_job, every_job, odd_number, odd_name, deep, other_encoding, other_ends)

# Accidents of Parquet -------------------------------------------------------------------------------------------------


def _table(data: bytes) -> pa.Table | None:
    try:
        return pq.read_table(io.BytesIO(data))
    except (pa.ArrowException, OSError, ValueError):
        return None


def _bytes(table: pa.Table, **options) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


def other_column(random: Random, data: bytes) -> bytes:
    """Drop a column, rename it, swap it with another, or give it another type or other values."""
    table = _table(data)
    if table is None or not table.num_columns:
        return flipped(random, data)
    at, n = random.randrange(table.num_columns), table.num_rows
    name = table.column_names[at]
    kind = random.choice(("drop", "rename", "twice", "swap", "values", "values", "values"))
    if kind == "drop":
        table = table.drop_columns([name])
    elif kind == "rename":
        other = random.choice(("x", "", "submit", "job_id", name.upper(), "a" * 1000))
        table = table.rename_columns([other if k == at else one for k, one in enumerate(table.column_names)])
    elif kind == "twice":
        table = table.append_column(name, table.column(at))
    elif kind == "swap":
        other = random.randrange(table.num_columns)
        names = table.column_names
        names[at], names[other] = names[other], names[at]
        table = table.rename_columns(names)
    else:
        values = random.choice(
            (pa.nulls(n), pa.nulls(n, pa.int64()), pa.array([2**63 - 1] * n), pa.array([-(2**63)] * n),
             pa.array([0.5] * n), pa.array([float("nan")] * n), pa.array(["x"] * n), pa.array([b"\xff"] * n),
             pa.array([[1]] * n), pa.array([2**64 - 1] * n, pa.uint64()), pa.array([True] * n),
             pa.array([7] * n, pa.int8()), pa.array([7000] * n, pa.timestamp("ns", "UTC")),
             pa.array(["x"] * n).dictionary_encode())
        )  # fmt: skip
        table = table.set_column(at, name, values)
    return _bytes(table)


def other_rows(random: Random, data: bytes) -> bytes:
    """Repeat, reverse or drop rows."""
    table = _table(data)
    if table is None:
        return cut(random, data)
    rows = list(range(table.num_rows))
    rows = random.choice((rows[:0], rows[:1], rows[::-1], rows * 2, random.sample(rows, len(rows))))
    return _bytes(table.take(pa.array(rows, pa.int64())), row_group_size=random.choice((1, 7, 1000)))


def other_metadata(random: Random, data: bytes) -> bytes:
    """Change what the file says about itself."""
    table = _table(data)
    if table is None:
        return zeroed(random, data)
    about = dict(table.schema.metadata or {})
    told = about.get(b"jobcast", b"{}")
    about[b"jobcast"] = random.choice((odd_value, odd_value, odd_value, odd_number, flipped, cut))(random, told)
    return _bytes(table.replace_schema_metadata(random.choice((about, about, about, None))))


def other_writing(random: Random, data: bytes) -> bytes:
    """Write the same table as other programs do."""
    table = _table(data)
    if table is None:
        return repeated(random, data)
    return _bytes(table, compression=random.choice(("zstd", "none", "brotli")))


PARQUET = (other_column, other_column, other_rows, other_metadata, other_metadata, other_writing)

# Accidents of packing -------------------------------------------------------------------------------------------------


def packed(random: Random, data: bytes) -> bytes:
    """Pack the file, once or twice."""
    data = gzip.compress(data, mtime=0)
    return gzip.compress(data, mtime=0) if random.random() < 0.2 else data


def packed_and_damaged(random: Random, data: bytes) -> bytes:
    """Damage the packed file."""
    return random.choice((cut, lost, flipped, zeroed, repeated))(random, gzip.compress(data, mtime=0))


def packed_with_more(random: Random, data: bytes) -> bytes:
    """Leave something behind the packed file: another member, blanks, zeros."""
    tail = random.choice((gzip.compress(data, mtime=0), bytes(100), b"\n", b"text", b"\x1f\x8b"))
    return gzip.compress(data, mtime=0) + tail


PACKED = (packed, packed_and_damaged, packed_with_more)
