"""Names as knowledge: stems, signatures, groups of one stem, nearest neighbours; and what models hold of them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobcast import JobcastError, JobHistory, JobLog, generate_log, make_predictor, replay, save
from predictors.history.history import Job
from predictors.history.names import BITS, NAMELESS, called, called_in, signatures, stem
from predictors.service.pseudonyms import Pseudonymiser, anonymous
from predictors.service.state.feature_mapping import FeatureMapping
from tests.support.names_of_jobs import with_names

KEY = Pseudonymiser(b"0123456789abcdef")


@pytest.fixture(scope="module")
def named() -> JobLog:
    return with_names(generate_log(400, seed=3, users=8), seed=3)


def log_of(*jobs: tuple[str, int, int, int], **more: list[int]) -> JobLog:
    """Jobs of one user, one after another: name, processors, requested time, run time."""
    names = tuple(dict.fromkeys(job[0] for job in jobs))
    procs, asked, run = (np.array([job[k] for job in jobs]) for k in (1, 2, 3))
    values = {
        "job_id": np.arange(1, len(jobs) + 1),
        "submit": 10_000 * np.arange(len(jobs)),
        "wait": np.zeros(len(jobs), np.int64),
        "run_time": run,
        "requested_time": asked,
        "requested_procs": procs,
        "user": np.zeros(len(jobs), np.int64),
        "executable": np.array([names.index(job[0]) for job in jobs]),
        **{name: np.array(column) for name, column in more.items()},
    }
    return JobLog.from_columns(values, {}, categories={"executable": names})


def test_the_group_of_the_stem_comes_first() -> None:
    log = log_of(("md_1", 4, 600, 100), ("fit_2", 4, 600, 500), ("md_3", 4, 600, 120), ("fit_9", 4, 600, 0))
    assert make_predictor("similar-names").predict(log).tolist() == [600, 100, 100, 500]
    assert make_predictor("similar").predict(log).tolist() == [600, 100, 300, 120]
    assert replay(log, ["named_rank"])[:, 0].tolist()[2:] == [0, 0]  # the second has only the user's group of this size
    other_size = log_of(("md_1", 4, 600, 100), ("fit_2", 4, 600, 500), ("md_3", 8, 900, 1))
    assert replay(other_size, ["named_rank", "named_median"])[2].tolist() == [3, 100]
    same_request = log_of(("md_1", 4, 600, 100), ("fit_2", 4, 600, 500), ("md_3", 8, 600, 1))
    assert replay(same_request, ["named_rank", "named_median"])[2].tolist() == [2, 300]


def test_neighbours_are_near_by_name() -> None:
    jobs = [(f"md_{k}", 4, 600, 100 + k) for k in range(6)] + [(f"fit_{k}", 4, 600, 500) for k in range(6)]
    found = make_predictor("knn-text").predict(log_of(*jobs, ("md_77", 4, 600, 1)))
    assert found[-1] == pytest.approx(np.mean([101, 102, 103, 104, 105]), abs=1.1)  # the names of md, none of fit


def test_without_names_nothing_moves() -> None:
    plain = generate_log(300, seed=5, users=6)
    for one, other in (("similar-names", "similar"), ("similar-names-mean", "similar-mean")):
        assert (make_predictor(one).predict(plain) == make_predictor(other).predict(plain)).all()
    assert (called_in(plain) == -1).all()


def test_an_event_at_a_time_is_the_same(named: JobLog) -> None:
    features = ["named_median", "named_rank", "near_text", "soft_walltime"]
    rows = replay(named, features)
    history = JobHistory(features)
    texts = [named.names(column) for column in ("executable", "command", "directory")]
    jobs = []
    for k in range(len(named)):
        codes = [int(named.filled(column)[k]) for column in ("executable", "command", "directory")]
        of = {c: int(named.filled(c)[k]) for c in ("requested_time", "user", "group", "queue", "partition")}
        own = called(*(names[code] for names, code in zip(texts, codes, strict=True)))
        jobs.append(Job(k, int(named["submit"][k]), procs=int(named.procs[k]), executable=codes[0], called=own, **of))
    start = named.filled("submit") + named.filled("wait")
    events = [(int(start[k] + named["run_time"][k]), 0, k) for k in range(len(named))]
    events += [(job.submit, 1, job.job_id) for job in jobs] + [(int(start[k]), 2, k) for k in range(len(named))]
    for time, kind, k in sorted(events):
        if kind == 1:
            np.testing.assert_array_equal(history.submitted(jobs[k], time), rows[k])
        elif kind == 2:
            history.started(k, time)
        else:
            history.ended(k, time)
    again = JobHistory.restore(history.snapshot())
    np.testing.assert_array_equal(again.row(jobs[0], 10**9), history.row(jobs[0], 10**9))


def test_what_the_system_predicted_itself() -> None:
    log = log_of(("a", 4, 600, 100), ("a", 4, 600, 100), ("a", 4, 600, 100), soft_walltime=[90, 0, 900])
    assert make_predictor("logged").predict(log).tolist() == [90, 600, 600]  # unknown; capped


def test_models_of_an_anonymous_log_hold_no_name(named: JobLog, tmp_path) -> None:
    hidden, account = anonymous(named, KEY)
    told = {}
    for kind, log in (("open", named), ("hidden", hidden)):
        folder = tmp_path / kind
        folder.mkdir()
        save(make_predictor("similar-names").fit(log), folder)
        told[kind] = "".join(path.read_text() for path in sorted(folder.rglob("*.json")))
    word = named.names("executable")[0].split("_")[0]
    assert word in told["open"] and word not in told["hidden"] and account.count("name-hashed") > 0
    assert "/home/" not in told["open"]  # commands and directories are hashes in any model


def test_an_anonymous_log_predicts_the_same(named: JobLog) -> None:
    bare = ("2025-04-01", "7", "~0a1b2c3d4e5f60", "~170331c6c2bf7d~0a1b2c3d4e5f60")  # without stems, and hashed before
    few = tuple(bare[k % 8] if k % 8 < 4 else name for k, name in enumerate(named.names("executable")))
    named = replace(named, categories={**named.categories, "executable": few})
    hidden, _ = anonymous(named, KEY)
    assert set(hidden.names("user")) & set(named.names("user")) <= {""} and hidden.header != named.header
    for name in ("similar-names", "similar", "last-two"):
        assert (make_predictor(name).predict(hidden) == make_predictor(name).predict(named)).all()
    assert (hidden["submit"] == named["submit"]).all() and (named.epoch - hidden.epoch) % (7 * 86_400) == 0
    other, _ = anonymous(named, Pseudonymiser(b"fedcba9876543210"))
    assert set(other.names("executable")).isdisjoint(hidden.names("executable"))


def test_an_anonymous_log_tells_no_number_and_no_word_of_people(named: JobLog) -> None:
    """Numbers of people are new; of states only words of schedulers stay; a hash is hashed again."""
    states = (
        "CANCELLED by 104217", "CANCELLED by 7", "Beendet von meier", "meier", "Fertig", "node_fail", "CANCELLED+",
    )  # fmt: skip
    codes = {
        "user": [104217, 7, 104217, 0, 9, 9, 9],
        "group": [1, 1, 2, 2, 0, 0, 0],
        "queue": [4] * 7,
        "state": [0, 1, 2, 3, 4, 5, 6],
        "project": [0] * 7,
    }
    log = log_of(*[("md_1", 4, 600, 100)] * 7, **codes)
    names = {"state": states, "group": ("", "b", "c"), "project": ("~0a1b2c3d4e5f60",)}
    told = (("Map", "[status]"), ("Map", '"Fertig" = "completed"'), ("Map", '"Beendet von meier" = "failed"'))
    log = replace(log, categories={**log.categories, **names}, header=told)
    hidden, account = anonymous(log, KEY)
    assert hidden["user"].tolist() == [1, 2, 1, 3, 4, 4, 4] and hidden["queue"].tolist() == [4] * 7
    assert hidden["group"].tolist() == [0, 0, 1, 1, 2, 2, 2]
    assert hidden.names("group") == (KEY.pseudonym("b"), KEY.pseudonym("c"), "")
    words = [hidden.names("state")[code] for code in hidden.filled("state")]
    assert words == ["CANCELLED"] * 2 + [KEY.pseudonym(one) for one in states[2:4]] + [
        "Fertig",
        "node_fail",
        "CANCELLED",
    ]
    assert hidden.names("project")[0] not in ("~0a1b2c3d4e5f60", "") and account.count("renumbered") == 14
    other, _ = anonymous(log, Pseudonymiser(b"fedcba9876543210"))
    assert other.names("project") != hidden.names("project")


@given(st.text(max_size=40))
def test_any_text_has_a_stem_without_digits_and_a_signature(text: str) -> None:
    found = stem(text)
    assert found.startswith("~") or not any(letter.isdigit() and letter.isascii() for letter in found)
    assert stem(found) == found or found.startswith("~")
    words = signatures([text, text])
    assert (words[0] == words[1]).all() and (words >= 0).all() and (words < 1 << BITS).all()
    assert called(text) == (NAMELESS if not text else called(text))


@pytest.mark.filterwarnings("ignore::predictors.models.warnings.TrainingDataWarning")
def test_the_service_refuses_what_it_is_not_told(named: JobLog) -> None:
    for name in ("similar-names", "knn-text", "logged"):
        with pytest.raises(JobcastError, match=f"{name}: reads .* the service does not receive; serve another"):
            FeatureMapping.of(make_predictor(name).fit(named), KEY)
