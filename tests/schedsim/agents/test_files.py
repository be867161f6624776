"""Agent files: what is written comes back bit for bit, and no other file is taken for one."""

import json
import os
import zipfile
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobcast import JobcastError, make_policy, simulate
from schedsim.agents.files import FORMAT, KINDS, SHIPPED, NamedAgent, _sha256, agent_of_file, read_agent, write_agent
from schedsim.agents.learning import DrasSettings, policy_of
from schedsim.agents.pooled_gradients import first_pooled
from schedsim.kernels.agents.picks import FEATURES
from schedsim.policies.agents import RESERVES, Linear, RandomPicks
from schedsim.policies.networks import Dras, Shape, Shared
from schedsim.validate.checks import busy_workload

TUNED = NamedAgent(
    Linear(tuple(np.linspace(-1.25, 3.0 / 7, len(FEATURES)))), "again", 31, "easy+promise", "last-two",
    {"log": "a log", "seed": 3, "share": 0.5, "until": None},
)  # fmt: skip


@pytest.fixture(params=[".npz", ".json"])
def file(request, tmp_path):
    """Return the place of an agent file, of either form."""
    return tmp_path / f"agent{request.param}"


def test_an_agent_comes_back_as_it_was(file):
    write_agent(TUNED, file)
    found = read_agent(file)
    assert found == TUNED
    assert found.origin == TUNED.origin
    assert found.policy == replace(make_policy("easy+promise"), agent=TUNED.agent, reserve="again", window=31), (
        "the policy is the agent in its frame"
    )
    write_agent(NamedAgent(RandomPicks(2**63 - 1), "oldest"), file)
    assert read_agent(file).agent.seed == 2**63 - 1


def test_both_forms_have_one_digest(tmp_path):
    for suffix in (".npz", ".json"):
        write_agent(TUNED, tmp_path / f"a{suffix}")
    assert read_agent(tmp_path / "a.npz").digest == read_agent(tmp_path / "a.json").digest
    assert replace(TUNED, origin={}).digest == TUNED.digest, "where it comes from decides no pick"
    others = [replace(TUNED, reserve="kept"), replace(TUNED, window=30), replace(TUNED, estimates="requested"),
              replace(TUNED, base="easy"), replace(TUNED, agent=Linear((1.0,) * len(FEATURES)))]  # fmt: skip
    assert len({TUNED.digest, *(other.digest for other in others)}) == 1 + len(others)


def test_the_policy_of_a_file_schedules_as_its_agent_does(tmp_path):
    jobs = busy_workload()
    write_agent(TUNED, tmp_path / "a.npz")
    by_file = simulate(jobs, agent_of_file(str(tmp_path / "a.npz")).policy)
    assert np.array_equal(by_file.start, simulate(jobs, TUNED.policy).start)
    assert not np.array_equal(by_file.start, simulate(jobs, make_policy("easy")).start)
    assert np.array_equal(simulate(jobs, agent_of_file("oldest-first").policy).start, simulate(jobs, EASY).start)
    assert {SHIPPED[f"random-{reserve}"].reserve for reserve in RESERVES} == set(RESERVES)


EASY = make_policy("easy")
SHAPE = Shape(8, "dql", window=6, dense=(5, 4))
DRAS = Dras(SHAPE, np.linspace(-1, 1, SHAPE.parameters), 2**62, explore=0.125, raw=True, permuted=True)
SHARED = Shared(np.linspace(-1, 1, Shared.count((4, 3))), (4, 3), "tanh")


def edited(path, **changes):
    """Change fields of a JSON agent file."""
    about = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in (about | changes).items() if value is not ...}))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": FORMAT + 1}, "upgrade it"),
        ({"format": "1"}, "it has no format"),
        ({"features": ["wait"]}, "other features"),
        ({"kind": "linaer"}, "did you mean 'linear'"),
        ({"kind": "random"}, "other features"),
        ({"window": 57}, "checksum"),
        ({"reserve": "oldest"}, "checksum"),
        ({"arrays": {"weights": [0.0] * len(FEATURES)}}, "checksum"),
        ({"arrays": {"weights": ["a"]}}, "damaged"),
        ({"arrays": {"weights": [[1.0], [1.0, 2.0]]}}, "damaged"),
        ({"arrays": {}}, "has the arrays weights"),
        ({"estimates": None}, "texts"),
        ({"origin": ...}, "lacks origin"),
        ({"more": 1}, "holds more"),
    ],
)
def test_a_file_that_is_changed_is_refused(tmp_path, changes, said):
    path = tmp_path / "agent.json"
    write_agent(TUNED, path)
    edited(path, **changes)
    with pytest.raises(JobcastError, match=said) as error:
        read_agent(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@given(place=st.integers(0, 10**6), flip=st.integers(1, 255))
def test_no_flipped_byte_goes_unseen(tmp_path_factory, place, flip):
    """A changed byte gives the same agent (unused bytes of the form) or one clear line; never another agent."""
    folder = tmp_path_factory.mktemp("flip")
    for suffix in (".npz", ".json"):
        path = folder / f"agent{suffix}"
        write_agent(TUNED, path)
        data = bytearray(path.read_bytes())
        data[place % len(data)] ^= flip
        path.write_bytes(data)
        try:
            assert read_agent(path) == TUNED
        except JobcastError as error:
            assert str(path) in str(error)


def test_a_file_cut_short_is_refused(file):
    write_agent(TUNED, file)
    data = file.read_bytes()
    for length in (0, 1, 2, 100, len(data) // 2, len(data) - 2):
        file.write_bytes(data[:length])
        with pytest.raises(JobcastError, match="agent file"):
            read_agent(file)


def test_nothing_is_unpickled(tmp_path):
    path = tmp_path / "agent.npz"
    np.savez(path, about=np.array([object()], dtype=object), weights=np.zeros(12))
    with pytest.raises(JobcastError, match="no agent file"):
        read_agent(path)


def test_a_small_file_cannot_fill_the_memory(tmp_path):
    good, path = tmp_path / "good.npz", tmp_path / "agent.npz"
    write_agent(TUNED, good)
    with zipfile.ZipFile(good) as parts:
        held = {name: parts.read(name) for name in parts.namelist()}
    endless = BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (1 << 45,)}
    np.lib.format.write_array_header_1_0(endless, header)
    for how, weights in ((zipfile.ZIP_DEFLATED, held["weights.npy"]), (zipfile.ZIP_STORED, endless.getvalue())):
        with zipfile.ZipFile(path, "w", how) as parts:
            for name, data in (held | {"weights.npy": weights}).items():
                parts.writestr(name, data)
        with pytest.raises(JobcastError, match="no agent file"):
            read_agent(path)
    locked = bytearray(good.read_bytes())
    for begin, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        locked[locked.find(begin) + flags] |= 1
    path.write_bytes(locked)
    with pytest.raises(JobcastError, match="compressed or encrypted"):
        read_agent(path)


def test_pipes_devices_and_impossible_names_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.npz")
    (tmp_path / "endless.npz").symlink_to("/dev/zero")
    for name, said in (
        (tmp_path / "pipe.npz", "a device or a pipe"), (tmp_path / "endless.npz", "a device or a pipe"),
        (f"{tmp_path}/a\0b.npz", "cannot be read"), (tmp_path, "Is a directory"),
    ):  # fmt: skip
        with pytest.raises(JobcastError, match=said):
            read_agent(name)
    with pytest.raises(JobcastError, match="No agent"):
        agent_of_file("a" * 5000)


@pytest.mark.parametrize(
    ("changes", "values", "said"),
    [
        ({"format": 0}, [1.0] * 12, "the first is 1"),
        ({"format": 10**4000}, [1.0] * 12, "upgrade it"),
        ({"kind": "random", "features": []}, float("inf"), "infinity"),
        ({"window": 10**4000}, [1.0] * 12, "1 to 56"),
    ],
)
def test_what_is_wrong_under_a_right_checksum_is_one_short_line(tmp_path, changes, values, said):
    name = "seed" if "kind" in changes else "weights"
    about = {**TUNED._about(), **changes}
    about |= {"sha256": _sha256(about, {name: np.array(values)}), "arrays": {name: values}}
    path = tmp_path / "agent.json"
    path.write_text(json.dumps(about))
    with pytest.raises(JobcastError, match=said) as refused:
        read_agent(path)
    assert len(str(refused.value)) < 900


def test_a_frame_that_cannot_be_is_refused():
    for wrong, said in (
        ({"window": 57}, "1 to 56"), ({"window": True}, "whole number"), ({"reserve": "never"}, "kept, oldest, again"),
        ({"base": "eazy"}, "did you mean 'easy'"), ({"base": "conservative-replan"}, "a plan of several jobs"),
        ({"agent": None}, "one of linear"),
    ):  # fmt: skip
        with pytest.raises(JobcastError, match=said):
            replace(TUNED, **wrong)


def test_another_window_than_the_caller_has_is_refused(file):
    write_agent(TUNED, file)
    assert read_agent(file, window=31) == TUNED
    with pytest.raises(JobcastError, match="window of 31 jobs; here it is 50"):
        read_agent(file, window=50)


def test_a_name_without_a_file_is_refused(tmp_path):
    for name, said in (
        ("random-kpet", "did you mean 'random-kept'"), (str(tmp_path / "no.npz"), "No such file"),
        (str(tmp_path), "agent"), ("", "No agent"),
    ):  # fmt: skip
        with pytest.raises(JobcastError, match=said):
            agent_of_file(name)
    with pytest.raises(JobcastError, match="ends in"):
        write_agent(TUNED, tmp_path / "agent.pkl")


def test_every_kind_is_written_and_read(file):
    jobs = busy_workload(60)
    values = {
        "linear": TUNED.agent, "random": RandomPicks(7), "shared": SHARED, "pooled": first_pooled(2), "dras": DRAS,
    }  # fmt: skip
    assert set(values) == set(KINDS)
    for kind, value in values.items():
        named = NamedAgent(value, window=6)
        write_agent(named, file)
        found = agent_of_file(str(file))
        assert (found.kind, found, found.digest) == (kind, named, named.digest)
        assert np.array_equal(simulate(jobs, found.policy).start, simulate(jobs, named.policy).start)


def test_decima_picks_without_a_reservation(file):
    agent = replace(DRAS, seed=3)
    write_agent(NamedAgent(agent, window=6, base="greedy"), file)
    policy = agent_of_file(str(file)).policy
    assert policy == policy_of(DrasSettings("decima", 8, window=6, dense=DRAS.shape.dense), agent)
    assert (simulate(busy_workload(60), policy).started_by == 0).all()
    with pytest.raises(JobcastError, match="no job is reserved"):
        NamedAgent(agent, "oldest", window=6, base="greedy")


def test_a_network_for_another_machine_or_window_is_refused(file):
    with pytest.raises(JobcastError, match="sees a window of 6 jobs, and the policy's has 50"):
        NamedAgent(DRAS)
    write_agent(NamedAgent(DRAS, window=6), file)
    with pytest.raises(JobcastError, match="machine of 8 nodes, and this one has 9 processors"):
        simulate(replace(busy_workload(60), machine_procs=9), agent_of_file(str(file)).policy)


@pytest.mark.parametrize(
    ("agent", "change"),
    [
        (SHARED, {"activation": np.array(2)}), (SHARED, {"activation": np.array([0])}),
        (SHARED, {"hidden": np.array(3)}),
        (SHARED, {"hidden": np.array([4.0, 3.0])}), (DRAS, {"kind": np.array(-1)}), (DRAS, {"sizes": np.array([8, 6])}),
        (DRAS, {"flags": np.array(1)}), (DRAS, {"seed": np.array([1, 2])}), (DRAS, {"weights": DRAS.weights[1:]}),
    ],
)  # fmt: skip
def test_arrays_of_no_network_are_refused(tmp_path, monkeypatch, agent, change):
    """With a checksum that is right, so that the arrays themselves are looked at."""
    arrays = agent.arrays() | change
    monkeypatch.setattr(NamedAgent, "_arrays", lambda _: arrays)
    write_agent(NamedAgent(agent, window=6), tmp_path / "agent.npz")
    with pytest.raises(JobcastError, match=r"agent\.npz: "):
        read_agent(tmp_path / "agent.npz")
