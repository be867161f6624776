"""Vectors of jobs: read from lists and texts, kept as signatures, compared by angle, and left out where names hide."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from jobcast import JobLog, load, make_predictor, read_log, save
from predictors.data.formats.detect import FORMATS, detect, writer_for
from predictors.data.formats.tables.read import parse_table
from predictors.data.formats.tables.table_map import TableMap
from predictors.data.formats.tables.vectors import MOST_NUMBERS, signatures
from predictors.data.joblog import SIGNATURE_BITS
from predictors.history._features import apart
from predictors.history.names import called, called_in
from predictors.service.pseudonyms import Pseudonymiser, anonymous, pseudonymous
from tests.predictors.data.formats.test_tables import F_DATA
from tests.support.commands import invoke

KEY = Pseudonymiser(b"0123456789abcdef")
MAP = TableMap(columns={"id": "job_id", "at": "submit", "from": "start", "to": "end", "user": "user", "v": "vector"})
VECTORS = [[1.0, 0.0, 0.2, 0.1], [0.9, 0.1, 0.2, 0.0], [-1.0, 0.3, 0.0, 0.5]]


def bits_apart(one, other):
    """Of two signatures: how many of the 104 signs differ."""
    return sum((int(a) ^ int(b)).bit_count() for a, b in zip(one, other, strict=True))


def parquet_of(vectors, kind=None, **more):
    """The bytes of a Parquet file of jobs with vectors."""
    n = len(vectors)
    table = {"id": range(1, n + 1), "at": range(0, 100 * n, 100), "from": range(0, 100 * n, 100)}
    table |= {"to": range(50, 100 * n + 50, 100), "user": ["ana"] * n, **more}
    sink = pa.BufferOutputStream()
    columns = {name: pa.array(values) for name, values in table.items()}
    parquet.write_table(pa.table({**columns, "v": pa.array(vectors, kind)}), sink)
    return sink.getvalue().to_pybytes()


def signed(log):
    """The signatures of a log's jobs."""
    return np.stack([log.filled("signature"), log.filled("signature_2")], axis=1).tolist()


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.list_(pa.float64()), pa.list_(pa.float32(), 4)])
def test_lists_of_any_kind_and_texts_have_the_same_signatures(kind):
    log, account = parse_table(parquet_of(VECTORS, kind), "a.parquet", MAP)
    assert account.changed == account.dropped == 0
    rows = [f'{k},{100 * k},{100 * k},{100 * k + 50},ana,"{v}"' for k, v in enumerate(VECTORS, 1)]
    texts, _ = parse_table("\n".join(["id,at,from,to,user,v", *rows]).encode(), "a.csv", MAP)
    assert signed(log) == signed(texts) == signatures(np.array(VECTORS)).tolist()
    assert "of each vector of 4 numbers in v 104 signs are kept" in str(account)


@given(st.integers(0, 1 << 32), st.floats(0.0, np.pi), st.sampled_from([8, 64, 384]))
def test_the_share_of_signs_that_differ_is_the_angle(seed, angle, size):
    one, other = np.linalg.qr(np.random.default_rng(seed).normal(size=(size, 2)))[0].T
    found = signatures(np.array([one, 7.0 * (np.cos(angle) * one + np.sin(angle) * other)]))
    share = angle / np.pi
    assert abs(bits_apart(*found) / 104 - share) < 6 * np.sqrt(max(share * (1 - share), 0.01) / 104)


def test_vectors_that_are_none_are_unknown_and_counted():
    odd = [*VECTORS, [1.0, 2.0], [np.nan, 1.0, 0.0, 0.0], [0.0] * 4, None, [], [None, 1.0, 0.0, 0.0], [3e38] * 4]
    log, account = parse_table(parquet_of(odd, pa.list_(pa.float64())), "a.parquet", MAP)
    assert log.known("signature").tolist() == [True] * 3 + [False] * 6 + [True]
    assert account.count("not-a-vector") == 4  # what is not there is not counted


def test_texts_that_are_no_vectors_take_none_from_the_others():
    rows = [f'{k},{100 * k},{100 * k},{100 * k + 50},ana,"{v}"' for k, v in enumerate(["nan"] * 5 + VECTORS)]
    log, account = parse_table("\n".join(["id,at,from,to,user,v", *rows]).encode(), "a.csv", MAP)
    assert signed(log)[5:] == signatures(np.array(VECTORS)).tolist() and account.count("not-a-vector") == 5
    texts = parquet_of(["-1", "-1", "-1", "[1, 2]"])
    log, account = parse_table(texts, "a.parquet", TableMap(columns=dict(MAP.columns), unknown=("-1",)))
    assert log.known("signature").tolist() == [False] * 3 + [True] and account.changed == 0


def test_numbers_and_vectors_that_are_too_large():
    log, account = parse_table(parquet_of([[1 << 62 | 1, 3], [4, 3]], pa.list_(pa.int64())), "a.parquet", MAP)
    assert log.known("signature").all() and account.changed == 0
    log, account = parse_table(parquet_of([[1.0] * (MOST_NUMBERS + 1)] * 2 + [[1.0, 2.0]]), "a.parquet", MAP)
    assert log.known("signature").tolist() == [False, False, True] and account.count("not-a-vector") == 2


def test_signatures_outlive_parquet_and_say_what_swf_loses(tmp_path):
    log, _ = parse_table(parquet_of(VECTORS), "a.parquet", MAP)
    writer_for(tmp_path / "log.parquet")(log, tmp_path / "log.parquet")
    again, _ = read_log(tmp_path / "log.parquet")
    assert signed(again) == signed(log) and again.digest() == log.digest()
    assert "signature" in str(writer_for(tmp_path / "log.swf")(log, tmp_path / "log.swf"))


def log_with_vectors(n=120, seed=1, vectors=True):
    """Jobs of one user and request whose vectors alone tell which of three programs they run."""
    random = np.random.default_rng(seed)
    program = random.integers(0, 3, n)
    centres = np.linalg.qr(np.random.default_rng(0).normal(size=(48, 3)))[0].T
    run = np.array([60, 600, 3000])[program] + random.integers(0, 20, n)
    columns = {
        "job_id": np.arange(n), "submit": 4000 * np.arange(n), "wait": np.zeros(n, dtype=int), "run_time": run,
        "requested_time": np.full(n, 3600), "requested_procs": np.full(n, 4), "user": np.zeros(n, dtype=int),
        "executable": np.arange(n),
    }  # fmt: skip
    if vectors:
        noisy = centres[program] + 0.05 * random.normal(size=(n, 48))
        words = signatures(noisy)
        columns |= {"signature": words[:, 0], "signature_2": words[:, 1]}
    names = tuple(f"{k:x}" for k in random.permutation(n) + 4096)
    return JobLog.from_columns(columns, {}, categories={"executable": names})


def test_knn_text_goes_by_the_vectors_and_so_does_its_saved_model(tmp_path):
    log = log_with_vectors()
    run_time, late = log.filled("run_time"), slice(40, None)
    error = lambda one: np.abs(make_predictor("knn-text").predict(one) - run_time)[late].mean()  # noqa: E731
    assert error(log) < 20 < 300 < error(log_with_vectors(vectors=False))
    (tmp_path / "model").mkdir()
    save(make_predictor("knn-text").fit(log), tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.predict(log).tolist() == make_predictor("knn-text").predict(log).tolist()


def test_the_embeddings_of_f_data_are_read():
    sink = pa.BufferOutputStream()
    parquet.write_table(F_DATA, sink)
    data = sink.getvalue().to_pybytes()
    assert detect(data, "a") == "f-data"
    log, account = FORMATS["f-data"].parse(data, "a", False)
    assert log.known("signature").all() and len(np.unique(log.filled("signature"))) == 2
    assert "embedding" not in "".join(f.text for f in account.findings if f.rule == "unused")


def test_vectors_and_names_are_never_compared():
    vector, name = signatures(np.array(VECTORS))[0].tolist(), called("relax_1")
    assert apart(vector[0], name.signature) == apart(vector[0], -1) == 26
    assert apart(vector[0], vector[0]) == 0 and vector[0] >> SIGNATURE_BITS == 1 and vector[0] < 1 << 53
    log = log_with_vectors(6)
    some = log.select(slice(None))
    gone = {**some.unknown, "signature": np.arange(6) == 2, "signature_2": np.arange(6) == 2}
    some = JobLog(some.values, gone, categories=some.categories)
    name = some.categories["executable"][2]
    assert called_in(some)[2, 2:].tolist() == [called(name).signature, called(name).signature_2]


def test_what_a_job_is_called_hangs_on_no_later_job():
    log, gone = log_with_vectors(40), np.arange(40) < 20
    late = JobLog(log.values, {**log.unknown, "signature": gone, "signature_2": gone}, categories=log.categories)
    assert called_in(late)[:20].tolist() == called_in(late.select(slice(20))).tolist()


@pytest.mark.parametrize("hide", [pseudonymous, anonymous])
def test_where_names_are_hidden_vectors_are_left_out_and_counted(hide):
    hidden, account = hide(log_with_vectors(9), KEY)
    assert not hidden.known("signature").any() and not hidden.known("signature_2").any()
    assert account.count("left-out") == 9


def test_a_column_of_vectors_is_proposed_and_imported(tmp_path):
    file, table_map, out = tmp_path / "jobs.parquet", tmp_path / "map.toml", tmp_path / "log.parquet"
    file.write_bytes(parquet_of(VECTORS, pa.list_(pa.float32())))
    renamed = parquet.read_table(file).rename_columns(["jobid", "submit", "start", "end", "user", "embedding"])
    parquet.write_table(renamed, file)
    proposed = invoke("log", "import", file, "--propose").stdout
    assert '"embedding" = "vector"' in proposed
    table_map.write_text(proposed)
    done = invoke("log", "import", file, out, "--map", table_map, "--json")
    assert done.exit_code == 0 and json.loads(done.stdout), done.output
    assert signed(read_log(out)[0]) == signatures(np.array(VECTORS)).tolist()
