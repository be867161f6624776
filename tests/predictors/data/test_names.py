"""Files number their names anew: a log is read in the codes of the model, by name, and never by chance."""

import json
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobcast import JobcastError, JobLog, forecast, load, make_predictor, replay, save
from predictors.data import names as naming
from predictors.data.names import Codes, codes_of, renumbered
from predictors.history.features import codes_read
from predictors.history.replay import log_events
from predictors.registry import PREDICTORS
from tests.support.named_logs import HEADER, in_two, made_log, read_text, sacct_text
from tests.support.small_models import SMALL

COLUMNS = ("user", "group", "executable", "queue")


def named(codes, names, column="user", unknown=()):
    """A log whose jobs have these codes in one column, and the names behind them."""
    n = len(codes)
    values = {"job_id": np.arange(n), "submit": np.arange(n), column: np.array(codes, dtype=np.int64)}
    mask = np.isin(np.arange(n), list(unknown))
    return JobLog.from_columns(values, {column: mask}, categories={column: tuple(names)} if names else {})


@pytest.fixture(scope="module")
def files():
    """Two files of one machine, the second in another order, and one that holds both: what sacct would have written."""
    log = made_log()
    first, second = in_two(log, 150)
    text = sacct_text(log, first), sacct_text(log, second, shuffle=5)
    both = read_text(text[0] + text[1].removeprefix(HEADER))
    return read_text(text[0]), read_text(text[1]), both.select(slice(len(first))), both.select(slice(len(first), None))


@pytest.mark.filterwarnings("ignore::predictors.models.warnings.TrainingDataWarning")
@pytest.mark.parametrize("name", PREDICTORS)
def test_two_files_predict_what_one_file_of_both_does_to_the_last_bit(name, files, tmp_path):
    """Warm and cold, at once and in the loop, after a save and a load."""
    march, april, first, second = files
    save(make_predictor(name, **SMALL.get(name, {})).fit(march), tmp_path)
    model, whole = load(tmp_path), make_predictor(name, **SMALL.get(name, {})).fit(first)
    assert march.epoch == first.epoch and april["job_id"].tolist() == second["job_id"].tolist()
    for warm in (True, False):
        expected, found = whole.predict(second, warm=warm), np.empty(len(april))
        np.testing.assert_array_equal(model.predict(april, warm=warm), expected)
        forecast(model, april, warm=warm).advance(log_events(april), found)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["last-two", "forest", "boosted", "online-linear"])
def test_by_the_second_files_own_codes_they_would_be_others(name, files):
    """Users mistaken for others: this is what would be said without the names."""
    march, april, _, _ = files
    model = make_predictor(name, **SMALL.get(name, {})).fit(march)
    mistaken = model.predict_rows(replay(april, model.features, after=model.history_))
    assert (mistaken != model.predict(april, warm=True)).any()


@st.composite
def two_named_logs(draw):
    """Two logs of few names each, of which they share some; some of the second's users unknown."""
    people = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8)
    one, two = draw(people), draw(people)
    logs = []
    for names in (one, two):
        order = tuple(draw(st.permutations(sorted(set(names)))))
        logs.append((names, named([order.index(who) for who in names], order)))
    unknown = draw(st.sets(st.integers(0, len(two) - 1)))
    codes = logs[1][1].filled("user").tolist()
    return one, logs[0][1], two, named(codes, logs[1][1].names("user"), unknown=unknown)


@given(two_named_logs())
def test_everyone_keeps_their_name_and_gets_the_code_that_it_has_there(case):
    """Names stay, known ones have the other's codes, new ones codes of their own; to do it twice changes nothing."""
    _, first, people, second = case
    known = codes_of(first, ["user"])
    both = renumbered(second, known)
    there, names = both["user"], both.names("user")
    assert there.mask.tolist() == second["user"].mask.tolist() and both["job_id"].tolist() == second["job_id"].tolist()
    for code, who in zip(there.tolist(), people, strict=True):
        assert code is None or (names[code] == who and known["user"].names.get(who, code) == code)
    new = {code for code in there.compressed().tolist() if names[code] not in known["user"].names}
    assert all(code >= known["user"].free for code in new)
    again = renumbered(both, codes_of(both, ["user"]))
    assert again.digest() == both.digest() and dict(again.categories) == dict(both.categories)
    assert renumbered(both, known).digest() == both.digest()


def test_numbers_stay_as_they_are_and_slices_of_one_log_keep_their_codes():
    swf = named([7, 3, 9], ())
    assert renumbered(swf, {"user": Codes(free=8)}) is swf
    log = named([2, 0, 1, 2], ("ana", "ben", "cem"))
    late = log.select(slice(2, None))
    assert renumbered(late, codes_of(log.select(slice(2)), ["user"])).digest() == late.digest()


def test_queues_with_and_without_a_name_in_one_header_go_by_name_and_by_number():
    """SWF names some of its queues; 7 has no name, and so is the number 7."""
    header = ("", "batch", "debug", "", "", "", "", "")
    first, later = named([1, 7, 2], header, "queue"), named([7, 2, 1], header, "queue")
    assert renumbered(later, codes_of(first, ["queue"]))["queue"].tolist() == [7, 2, 1]
    swapped = named([7, 2, 1, 3], ("", "debug", "batch", "long", "", "", "", ""), "queue")
    assert renumbered(swapped, codes_of(first, ["queue"]))["queue"].tolist() == [7, 1, 2, 8]
    twice = named([1, 2], ("", "batch", "batch"), "queue")
    assert renumbered(twice, codes_of(twice, ["queue"]))["queue"].tolist() == [1, 2]


def test_a_number_is_not_taken_for_somebody_whose_name_was_forgotten(monkeypatch):
    """Where names were left out, any code in use may be somebody's."""
    monkeypatch.setattr(naming, "MOST_NAMES", 2)
    known = {"user": Codes.of(named([0, 1, 2], ("ana", "ben", "cem")), "user").newest(named([0, 1, 2], ()), "user", 2)}
    assert known["user"].names == {"ben": 1, "cem": 2} and known["user"].forgot
    for number in (0, 1):
        with pytest.raises(JobcastError, match="has numbers for its users"):
            renumbered(named([2, number], ("", "", "ben")), known)
    assert renumbered(named([2, 7], ("", "", "ben")), known)["user"].tolist() == [1, 7]
    monkeypatch.setattr(naming, "MOST_NAMES", 3)
    assert not known["user"].forgot


def test_names_and_numbers_cannot_be_told_apart():
    names, numbers = named([0, 1], ("ana", "ben")), named([0, 1], ())
    with pytest.raises(JobcastError, match="has names for its users where the model goes by numbers"):
        renumbered(names, codes_of(numbers, ["user"]))
    with pytest.raises(JobcastError, match="has numbers for its users where the model goes by names"):
        renumbered(numbers, codes_of(names, ["user"]))
    with pytest.raises(JobcastError, match="has numbers for its users"):  # one of its numbers is somebody there
        renumbered(named([1, 2], ("", "", "ana")), codes_of(names, ["user"]))
    unknown = named([0, 0], (), unknown=(0, 1))
    assert renumbered(unknown, codes_of(names, ["user"])) is unknown
    assert renumbered(names, codes_of(unknown, ["user"])) is names


@pytest.mark.parametrize(("name", "cold"), [("forest", True), ("last-two", False), ("requested", None)])
def test_a_model_of_names_refuses_numbers_wherever_it_reads_codes(name, cold, files):
    """The forest's trees know users by their codes, last-two's history does; the request needs nobody's name."""
    march, april, _, _ = files
    model = make_predictor(name, **SMALL.get(name, {})).fit(march)
    numbers = JobLog(april.values, april.unknown, epoch=april.epoch, name="numbers.swf")
    for warm in (False, True):
        if cold is None or (not cold and not warm):
            model.predict(numbers, warm=warm)
            continue
        for ask in (model.predict, partial(forecast, model)):
            with pytest.raises(
                JobcastError, match=rf"numbers.swf: has numbers for its users where this {name} goes by names"
            ):
                ask(numbers, warm=warm)


def test_what_is_kept_is_what_is_read_and_the_newest_names_only(files):
    march, _, _, _ = files
    kept = {name: set(make_predictor(name, **SMALL.get(name, {})).fit(march).codes_) for name in ("last-two", "forest")}
    assert kept == {"last-two": {"user"}, "forest": {"user", "group"}} and not codes_read(["requested_time"], past=True)
    log = named([0, 1, 2, 1, 0, 3], ("ana", "ben", "cem", "dan"))
    assert Codes.of(log, "user").newest(log, "user", most=2) == Codes({"ana": 0, "dan": 3}, 4)


def test_a_model_saved_before_names_were_kept_refuses_names(files, tmp_path):
    """Nobody knows any more whether its codes were names; and what is damaged is said to be."""
    march, april, _, _ = files
    save(make_predictor("last-two").fit(march), tmp_path)
    (tmp_path / "codes.json").write_text('{"user": {"names": {"ana": 5}, "free": 2}}')
    with pytest.raises(JobcastError, match="each its own, below the first free one"):
        load(tmp_path)
    (tmp_path / "codes.json").write_text("{}")
    with pytest.raises(JobcastError, match=r"codes.json: cannot be read .*train the model again"):
        load(tmp_path)
    (tmp_path / "codes.json").unlink()
    about = json.loads((tmp_path / "predictor.json").read_text())
    del about["codes"]
    (tmp_path / "predictor.json").write_text(json.dumps(about))
    old = load(tmp_path)
    assert old.predict(april).shape == (len(april),)
    with pytest.raises(JobcastError, match="has names for its users"):
        old.predict(april, warm=True)
