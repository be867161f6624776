"""`jobcast site import`, and `--site`: what a site's folder becomes, and what it gives to other commands."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from experiments.cli.reading import with_site
from jobcast import JobcastError
from predictors.data.slurm.folder import clusters_of
from predictors.data.slurm.site import read_site
from schedsim.machine.outage_files import read_outages
from schedsim.machine.slurm_nodes import machine_of
from tests.support.commands import invoke, printed
from tests.support.slurm.site_folder import BEGIN, CONF, DUMP, NODES, QOS, RESERVATIONS, SHOWN, sacct, site_folder

MACHINE = """[[nodes]]
name = "n"
count = 8
processors = 8
memory_gb = 16
partitions = ["batch"]
weight = 10
switch = "s1"
[[nodes]]
name = "g"
count = 2
processors = 8
gpus = 2
gpu_type = "v100"
memory_gb = 16
partitions = ["batch", "gpu"]
features = ["v100"]
weight = 20
switch = "s2"
[[switches]]
name = "s1"
parent = "top"
[[switches]]
name = "s2"
parent = "top"
[[switches]]
name = "top"
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    site_folder(tmp_path / "big")
    return tmp_path


def imported(*options):
    return json.loads(printed("site", "import", "big", "--json", *options))


def figures(*words):
    """Return a simulation's figures, without times of computing."""
    found = json.loads(printed("simulate", *words, "--json"))
    return {
        name: value for name, value in found.items() if name.startswith(("mean", "max", "p99", "makespan", "n_jobs"))
    }


def test_an_import_tells_what_it_understood_what_is_not_simulated_and_what_is_missing(place):
    found = imported()
    assert [(row["nodes"], row["count"], row["gpus"], row["gpu_type"]) for row in found["nodes"]] == [
        ("n[1-8]", 8, 0, None), ("g[1-2]", 2, 2, "v100"),
    ]  # fmt: skip
    assert [(row["partition"], row["nodes"]) for row in found["partitions"]] == [("batch", 10), ("gpu", 2)]
    assert (found["qos"], found["accounts"], found["users"]) == (["normal"], 2, 3)
    assert found["reservations"][0]["from"] == "2026-01-01T08:00:00Z" and found["jobs"]["jobs"] == 80
    gaps = {one["setting"]: one for one in found["not_simulated"]}
    assert gaps["bf_busy_nodes"]["place"] == "slurm.conf:7" and "State=DRAIN of gpu" in gaps
    assert "State of n1" in gaps and gaps["nodes"]["text"].endswith("spare")
    assert "max_script_size=1000" not in gaps and found["missing"] == []
    text = printed("site import big")
    assert "bf_busy_nodes" in text and "Wrote big.site" in text


def test_what_is_missing_is_named_with_the_command_that_gets_it(place):
    for name in ("site.dump", "qos.txt", "nodes.txt", "reservations.txt", "jobs.txt", "topology.conf"):
        (place / "big" / name).unlink()
    told = {one["command"].split(" >")[0] for one in imported()["missing"]}
    assert "sacctmgr dump big file=site.dump" in told and "sacctmgr -P show qos" in told
    assert "scontrol show node" in told and "SLURM_TIME_FORMAT=%s scontrol show res" in told
    assert any("sacct -a -X" in one for one in told) and "cp /etc/slurm/topology.conf ." in told


def test_the_folder_may_go_but_the_log(place):
    imported()
    shutil.move(place / "big" / "jobs.txt", place / "jobs.txt")
    before = figures("jobs.txt", "--site", "big.site")
    shutil.rmtree(place / "big")
    assert figures("jobs.txt", "--site", "big.site") == before
    found = invoke("simulate --site big.site")
    assert isinstance(found.exception, JobcastError) and "is not there any more" in str(found.exception)
    assert "secret" not in (place / "big.site").read_text()


def test_a_site_gives_what_its_files_and_a_machine_file_by_hand_give(place):
    imported()
    (place / "machine.toml").write_text(MACHINE)
    (place / "outages.csv").write_text(
        "time,until,kind,nodes\n2026-01-01T08:00:00Z,2026-01-01T10:00:00Z,maintenance,0-7\n"
    )
    by_hand = figures(
        "big/jobs.txt", "--policy", "slurm:big/slurm.conf,big/site.dump,big/qos.txt", "--machine", "machine.toml",
        "--outages", "outages.csv",
    )  # fmt: skip
    assert figures("--site", "big.site") == by_hand
    without = figures("--site", "big.site", "--machine", "machine.toml")
    assert without != by_hand, "the reservation counts, and an explicit machine has no names of nodes"
    assert figures("--site", "big.site", "--policy", "easy") != by_hand


def test_under_another_policy_jobs_ask_by_the_sites_rules(place):
    """Jobs of half a node's processors: with all of its memory one runs on each of ten nodes, else two."""
    for memory, wait in (("4096", 600.0), ("1024", 0.0)):
        conf = CONF.replace("DefMemPerCPU=1024", f"DefMemPerCPU={memory}")
        site_folder(place / "big", [{"procs": 4, "run": 1200} for _ in range(20)], slurm_conf=conf)
        imported()
        assert figures("--site", "big.site", "--policy", "easy")["mean_wait_s"] == wait
    assert read_outages(place / "big.site", 0, BEGIN).reservations[0].start == 8 * 3600


def test_what_is_named_wins_and_other_commands_take_what_they_know(place):
    imported()
    site, log = Path("big.site"), Path("big/jobs.txt")

    def made(named=(), **given):
        return with_site({"site": site} | given, lambda name: name in named)

    own = f"slurm:{site}"
    found = made(log=None, policy="easy", machine=None, outages=None, procs=None, commands=None)
    assert (found["log"], found["policy"], found["machine"], found["outages"]) == (log, own, site, site)
    assert found["site"] is None and found["procs"] is None
    assert made(("policy",), log=None, policy="fcfs")["policy"] == "fcfs"
    assert made(("log",), log=Path("x"), policy="easy") == {"site": site, "log": Path("x"), "policy": own}
    placed = made(("allocator",), log=None, policy="easy", machine=None, procs=None, allocator="first-fit")
    assert placed["machine"] is None and placed["procs"] == 80
    by_count = made(("procs",), log=None, policy="easy", machine=None, procs=7)
    assert by_count["machine"] is None and by_count["procs"] == 7
    assert made(log=None, policy="easy", procs=None)["procs"] == 80, "backtest knows no nodes"
    assert made(log=None, current="easy", machine=None, procs=None)["current"] == own
    swept = made(files=None, policies=None, machine=None, kind=None, procs=None)
    assert swept["files"] == [log] and swept["policies"] == own and swept["machine"] == site
    assert "policies" not in made(files=None, kind="evaluate", predictors="last-two") and made(past=None)["past"] == log
    with pytest.raises(JobcastError, match="leave --site out"):
        made(("files",), files=[Path("sweep.toml")], policies=None)


def test_a_sweep_runs_on_a_site(place):
    imported()
    found = json.loads(printed("sweep --site big.site --seeds 1 --no-track --json --out swept --policies easy,fcfs"))
    assert found["about"]["logs"][0]["machine"]["asks"], "the site's rules are part of what results depend on"
    assert found["runs"] == 4


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("simulate", "Name a LOG, or a --site by"),
        ("simulate --site big/jobs.txt --policy easy", "jobs.txt is none"),
        ("advise --site big/slurm.conf", "big/slurm.conf: is no site's file; write it again: jobcast site import"),
        ("site grade big", "big: is no site's file"),
        ("evaluate --site nowhere", "no such file"),
    ],
)
def test_a_site_that_is_none_is_refused_in_a_line(place, command, words):
    error = invoke(command).exception
    assert isinstance(error, JobcastError) and words in str(error)


BAD = {
    "missing": ({"nodes_conf": None}, "nodes.conf: cannot be read (no such file)"),
    "circle": ({"nodes_conf": NODES + "Include slurm.conf\n"}, "is included in a circle"),
    "partition twice": ({"slurm_conf": CONF + "PartitionName=gpu Nodes=n1\n"}, "is named twice, first at"),
    "no such node": ({"slurm_conf": CONF + "PartitionName=x Nodes=z9\n"}, "names 'z9', for which slurm.conf has no"),
    "two confs": ({"other_conf": CONF.replace("big", "old")}, "are both slurm.conf, and differ"),
    "two topologies": ({"old_conf": "SwitchName=s1 Nodes=n1\n"}, "are both topology.conf, and differ"),
    "gres": ({"gres_conf": "NodeName=g1 Name=gpu Count=4\n"}, "node g1 has 4 GPUs, and 2 by"),
    "nodes": ({"nodes_txt": SHOWN.replace("CPUTot=8", "CPUTot=12")}, "n1 has 12 processors, and 8 by nodes.conf:3"),
    "cluster": ({"jobs_txt": sacct([{}], "old")}, "jobs.txt: is of the cluster 'old', and slurm.conf:1 of 'big'"),
    "dump's cluster": ({"site_dump": DUMP.replace("'big'", "'old'")}, "is of the cluster 'old'"),
    "JSON's cluster": ({"jobs_txt": '{"jobs": [{"job_id": 1, "cluster": "old"}]}'}, "is of the cluster 'old'"),
    "others": ({"slurm_conf": "SlurmUser=a\n", "topology_conf": None, "site_dump": DUMP.replace("big", "old")},
               "jobs.txt: is of the cluster 'big', and site.dump:2 of 'old'"),
    "dump's version": ({"site_dump": DUMP + "Coordinator = ann\n"}, "is no line of `sacctmgr dump`"),
    "QOS twice": ({"more_txt": QOS.replace("8", "9")}, "QOS normal stands at"),
    "two logs": ({"older_txt": sacct([{}])}, "has 2 job logs, and a site has one; join them"),
    "reservation": ({"reservations_txt": RESERVATIONS.replace("T10:", "T07:")}, "not after its begin"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_folders_are_refused_in_a_line(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    texts, words = BAD[name]
    site_folder(tmp_path / "big", **texts)
    error = invoke("site import big").exception
    assert isinstance(error, JobcastError) and words in str(error) and "\n" not in str(error)
    assert not (tmp_path / "big.site").exists()


def test_what_a_folder_has_beside_is_told_and_passwords_stay_there(place):
    conf = CONF.replace("JobCompPass=secret", 'DebugFlags=x StoragePass = "secret 1" JobCompPass=secret Licenses=a:1')
    conf = conf.replace("SlurmctldHost=head", "SlurmctldHost=head # the state of g1")
    nodes = NODES.replace("Weight=20", "Weight=20 State=DRAIN")
    away = RESERVATIONS.replace("n[1-8]", "x[1-8]").replace("maint", "away")
    site_folder(place / "big", slurm_conf=conf, nodes_conf=nodes, copy_conf=conf, junk_bin="\0\1", none_txt="",
                reservations_txt=RESERVATIONS + away)  # fmt: skip
    found = imported()
    left = {row["file"]: row["is"] for row in found["files"] if row["is"].startswith("not used")}
    unused = "not used: nothing that a simulation uses"
    assert left == {"junk.bin": unused, "none.txt": unused, "slurm.conf": "not used: a copy of copy.conf"}
    gaps = {(one["setting"], one["text"]) for one in found["not_simulated"]}
    assert ("State=DRAIN of g[1-2]", "they count as up") in gaps and ("Licenses=a:1", "") in gaps
    assert ("ReservationName=away", "the machine has none of its nodes") in gaps
    assert "secret" not in (place / "big.site").read_text()


def test_a_log_of_jobs_on_another_machine_than_that_which_wrote_it_is_of_theirs():
    text = '{"meta": {"slurm": {"cluster": "here"}}, "jobs": [{"job_id": 1, "cluster": "Big"}, 7]}'
    assert clusters_of(text.encode()) == {"big"}


def test_a_file_of_another_version_or_kind_is_refused(place):
    imported()
    text = (place / "big.site").read_text()
    for old, new, words in (
        ("version = 1", "version = 9", "is of version 9, and this jobcast reads 1"),
        ('kind = "sacctmgr"', 'kind = "other"', "is of no known kind"),
    ):
        (place / "big.site").write_text(text.replace(old, new, 1))
        with pytest.raises(JobcastError, match=words):
            read_site(place / "big.site")
    (place / "big.site").write_text(f"\ufeff{text.replace(chr(10), chr(13) + chr(10))}")
    assert read_site("big.site").conf.nodes == 11, "as editors of other systems write it"
    (place / "big" / "jobs.txt").write_text(sacct([{}]))
    assert "has changed since (SHA-256)" in str(invoke("simulate --site big.site").exception)


def test_included_files_by_their_whole_path_and_copies_of_them_are_found(place):
    conf = CONF.replace("Include nodes.conf", "Include /etc/of/elsewhere/nodes.conf")
    site_folder(place / "big", slurm_conf=conf)
    assert [one["count"] for one in imported()["nodes"]] == [8, 2]
    assert read_site("big.site").conf.nodes == 11


def test_a_folder_with_a_log_alone_or_without_one_is_a_site_too(place):
    shutil.rmtree(place / "big")
    (place / "big").mkdir()
    (place / "big" / "jobs.txt").write_text(sacct([{"submit": 60 * number} for number in range(9)]))
    assert imported()["missing"][0]["what"] == "slurm.conf"
    assert figures("--site", "big.site", "--procs", "16")["n_jobs"] == 9
    site_folder(place / "big", jobs_txt=None)
    (place / "big" / "jobs.txt").unlink()
    imported()
    assert "names no job log" in str(invoke("simulate --site big.site").exception)


@pytest.mark.skipif("JOBCAST_TRACES" not in os.environ, reason="JOBCAST_TRACES names no folder of real logs")
def test_a_real_site_is_read_whole_and_its_twin_runs_within_a_minute(tmp_path, monkeypatch):
    folder = Path(os.environ["JOBCAST_TRACES"], "modern", "ub-slurm")
    if not folder.is_dir():
        pytest.skip("JOBCAST_TRACES has no modern/ub-slurm")
    monkeypatch.chdir(tmp_path)
    found = json.loads(printed("site", "import", folder, "--json"))
    assert [(row["nodes"], row["count"], row["processors"], row["gpus"]) for row in found["nodes"]] == [
        ("n[001-087]", 87, 32, 0), ("gn[001-002]", 2, 32, 2), ("g[001-008]", 8, 40, 2), ("m[001-096]", 96, 40, 0),
        ("b[001-024]", 24, 40, 0),
    ]  # fmt: skip
    assert (found["accounts"], found["users"], len(found["qos"]), found["not_simulated"]) == (62, 96, 5, [])
    assert [found["jobs"][key] for key in ("jobs", "ask_for_gpus", "ask_for_features", "exclusive")] == [
        5000, 44, 1210, 99,
    ]  # fmt: skip
    machine = machine_of(read_site("ub-slurm.site"), "ub-slurm.site").machine
    assert machine.procs == 7968 and machine.tree.parent_of.tolist() == [3, 3, 3, -1]
    begin = time.process_time()
    shown = json.loads(printed("simulate --site ub-slurm.site --json"))
    assert shown["n_jobs"] == 4975 and shown["killed"] == 126, "25 jobs that ran 0 s are left out"
    assert time.process_time() - begin < 60
