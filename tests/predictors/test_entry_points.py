"""Names of installed packages work where our own do, are loaded when they are used, and errors name the package."""

import re
import sys

import numpy as np
import pytest

from experiments.package_checks import check_package
from experiments.reports.provenance import versions
from experiments.runs.policies import NamedPolicy
from experiments.runs.simulate import BY_ROLE, GIVEN, check_names
from jobcast import Easy, JobcastError, Policy, evaluate, generate_log, make_policy, make_predictor
from predictors.models.similar_jobs import ALIASES, REVISED_ESTIMATES
from predictors.registry import PREDICTORS, TAKEN
from schedsim.policies import orders
from schedsim.policies.orders import ORDERS, LookAhead
from schedsim.policies.policy import ALIASES as OLDER_POLICIES
from schedsim.policies.policy import NAMED, POLICIES, known
from tests.support.installed import install

SOURCE = """
import json

import numpy as np

from jobcast import Easy, Order, Policy, Predictor


class Share:
    def __init__(self, share):
        self.share = share

    def predict(self, rows):
        return self.share * rows[:, 0]

    def predict_one(self, row):
        return self.share * float(row[0])


class MedianShare(Predictor):
    \"\"\"The request times a share.\"\"\"

    name = "median-share"
    features = ("requested_time",)

    def learn(self, rows, seconds):
        return Share(float(np.nanmedian(seconds / rows[:, 0])))

    def save_estimator(self, folder):
        (folder / "share.json").write_text(json.dumps(self.estimator_.share))

    def load_estimator(self, folder):
        self.estimator_ = Share(json.loads((folder / "share.json").read_text()))


class Forgets(MedianShare):
    name = "forgets"
    save_estimator = load_estimator = lambda self, folder: None


class Needs(MedianShare):
    name = "needs"

    def __init__(self, share):
        self.share = share


class Nameless(MedianShare):
    pass


def smallest(waiting):
    return waiting.procs * waiting.estimate


def by_place(waiting):
    return np.arange(len(waiting.procs))


def broken(waiting):
    return waiting.nodes


SMALLEST = Policy(Order.by(smallest), Easy())
"""


@pytest.fixture
def my_site(site):
    install(
        site, "my-site", SOURCE, predictor={"median-share": "MedianShare"}, policy={"mine": "SMALLEST"},
        order={"smallest": "smallest"},
    )  # fmt: skip
    return site


def test_an_added_name_works_where_our_own_do(my_site):
    log = generate_log(300, seed=1, users=6)
    assert {"median-share", "last-two"} <= {*PREDICTORS} and len(PREDICTORS) == len(PREDICTORS.built_in) + 1
    predictor = make_predictor("median-share", cap=False)
    assert type(predictor).__name__ == "MedianShare" and make_predictor("chain", predictor="median-share")
    assert {score.name for score in evaluate(log, {"mine": predictor}).scores} == {"last-two", "mine"}
    check_names(NamedPolicy.of("smallest-easy"), "median-share")
    check_names(NamedPolicy.of("mine+promise"), "running=median-share", budget=None)
    assert {"mine", "smallest", "smallest-easy"} <= {*known()}
    assert make_policy("mine") is POLICIES["mine"] and make_policy("mine+promise").promise is not None
    assert make_policy("smallest") == Policy(ORDERS["smallest"])
    assert make_policy("smallest-easy") == Policy(ORDERS["smallest"], Easy())


def test_nothing_is_imported_before_its_name_is_used(my_site):
    assert "median-share" in PREDICTORS and make_predictor("last-two") and make_policy("easy")
    with pytest.raises(JobcastError, match="did you mean 'median-share'"):
        make_predictor("median-shar")
    with pytest.raises(JobcastError, match=r"did you mean 'smallest-easy'"):
        make_policy("smalest-easy")
    assert "my_site" not in sys.modules
    make_predictor("median-share")
    assert "my_site" in sys.modules


def test_results_hold_the_version_and_the_source_of_the_package(my_site):
    before = versions()["my-site"]
    (my_site / "my_site.py").write_text(SOURCE + "\n")
    assert before.startswith("1.0 ") and versions()["my-site"] != before and "my_site" not in sys.modules


BAD = {
    "not there": ({"predictor": {"x": "Nothing"}}, "x", r"cannot be loaded: AttributeError: module 'my_site' has no"),
    "no class": ({"predictor": {"x": "smallest"}}, "x", "must be a class derived from jobcast.Predictor"),
    "other name": ({"predictor": {"x": "MedianShare"}}, "x", "`name` must be 'x', too; got 'median-share'"),
    "arguments": ({"predictor": {"needs": "Needs"}}, "needs", "cannot be loaded: TypeError"),
    "taken": ({"predictor": {"last-two": "MedianShare"}}, "last-two", "the name is taken already"),
    "of estimates": ({"predictor": {"careful": "MedianShare"}}, "careful", "the name is taken already"),
    "odd": ({"predictor": {"My Rule": "MedianShare"}}, "My Rule", "small letters, digits and hyphens"),
    "no policy": ({"policy": {"x": "smallest"}}, "x", "must be a jobcast.Policy"),
    "taken policy": ({"policy": {"easy": "SMALLEST"}}, "easy", "the name is taken already"),
    "a setting": ({"policy": {"balanced": "SMALLEST"}}, "balanced", "the name is taken already"),
    "a family": ({"policy": {"hybrid-3": "SMALLEST"}}, "hybrid-3", "the name is taken already"),
    "of an order": (
        {"policy": {"o-easy": "SMALLEST"}, "order": {"o": "smallest"}},
        "o-easy",
        "the name is taken already",
    ),
    "no order": ({"order": {"x": "SMALLEST"}}, "x", "must be a function of the waiting jobs"),
    "taken order": ({"order": {"sjf": "smallest"}}, "sjf", "the name is taken already"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_used_is_one_line_that_names_the_package(case, site):
    names, name, rule = BAD[case]
    install(site, "my-site", SOURCE, **names)
    kind = next(iter(names))
    registry = {"predictor": PREDICTORS, "policy": POLICIES, "order": ORDERS}[kind]
    with pytest.raises(JobcastError, match=rule) as told:
        registry.named(name)
    assert f"'{name}' of the package my-site (my_site:" in str(told.value) and "\n" not in str(told.value)
    rows = [row for row in check_package("my-site") if row.name == name]
    assert len(rows) == 1 and rows[0].counterexample == str(told.value)


def test_a_name_of_two_packages_is_refused_and_names_both(my_site):
    install(my_site, "other", SOURCE, predictor={"median-share": "MedianShare"})
    with pytest.raises(JobcastError, match=r"of the package my-site .*: other uses this name as well; uninstall one"):
        make_predictor("median-share")
    assert "my_site" not in sys.modules


def test_every_name_with_a_meaning_of_its_own_is_taken():
    assert {*GIVEN, *BY_ROLE, *REVISED_ESTIMATES, *ALIASES} <= {*PREDICTORS.built_in, *TAKEN}
    others = {*NAMED, *OLDER_POLICIES, *POLICIES.built_in} - {*ORDERS.built_in}
    assert {name for name in others if not name.endswith("-easy")} <= {*orders.TAKEN, "easy-sjbf"}


def test_a_look_ahead_tries_our_own_orders(my_site):
    with pytest.raises(JobcastError, match="No order of a look-ahead 'smallest'"):
        LookAhead(("fcfs", "smallest"))


def test_the_checks_pass_on_what_keeps_the_contract(my_site, command):
    status, out, err = command("check my-site")
    assert (status, err) == (0, "") and "failed" not in out
    assert len(out.splitlines()) > 25 and "no prediction looks ahead" in out and "as smallest-easy: laws" in out


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ({"predictor": {"forgets": "Forgets"}}, "saved and loaded is the same failed: loaded and saved give"),
        ({"order": {"by-place": "by_place"}}, "keys follow the jobs failed: in turn, and reversed the keys differ"),
        ({"order": {"broken": "broken"}}, "keys are numbers failed: Order 'broken' failed at 600 s: AttributeError"),
    ],
)
def test_a_check_that_fails_shows_the_first_counterexample(names, told, site, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    install(site, "my-site", SOURCE, **names)
    status, out, _ = command("check my-site")
    assert status == 1 and told in re.sub(" +", " ", out)


def test_what_adds_nothing_or_is_not_installed_is_refused(site, command):
    install(site, "my-site")
    assert command("check my-site")[0] == 2 and "adds nothing: its pyproject.toml has no" in command("check my-site")[2]
    assert "No installed package 'my-sit'" in command("check my-sit")[2]


def test_an_added_order_ranks_the_queue(my_site):
    from schedsim.engine.simulation import simulate
    from schedsim.validate.checks import busy_workload

    jobs = busy_workload(100)
    ours, own = (simulate(jobs, make_policy(name)).start for name in ("saf-easy", "smallest-easy"))
    assert np.array_equal(ours, own)
