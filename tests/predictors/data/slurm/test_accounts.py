"""Files of sacctmgr: what a dump and tables say, in their real form, and files that are none."""

from pathlib import Path

import pytest

from predictors.core.errors import JobcastError
from predictors.data.slurm.accounts import Accounts, read_accounts, tres_of
from predictors.data.slurm.conf import Setting, seconds_of

DUMP = """# To edit this file start with a cluster line for the new cluster
# Account - 'cs':MaxJobs=4
QOS - 'normal':Description='Normal QOS default':Priority=10
QOS - 'high':Description='high: first':Flags='NoReserve,DenyOnLimit':MaxJobsPU=1:Priority=100
Cluster - 't':Fairshare=1:QOS='normal'
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'physics':Description='physics':Organization='physics':Fairshare=3:GrpTRES=cpu=16,gres/gpu:a100=4
Parent - 'physics'
Account - 'lab':Fairshare=parent
User - 'ann':DefaultAccount='physics':DefaultQOS='normal':Fairshare=5:MaxWallDurationPerJob=90
User - 'ann':Partition='urgent':Fairshare=1
"""
ASSOCIATIONS = """Cluster|Account|User|Partition|Share|Priority|GrpJobs|GrpTRES|MaxJobs|Def QOS
t|root||||||||
t|root|root||1|||||
t| physics|||3||2|cpu=16||
t|  lab|||parent|||||
t|  lab|ann||5||||1|normal
t| biology|||1|||||
"""
QOS = """Name|Priority|Flags|UsageFactor|GrpTRES|MaxTRESPU|MaxJobsPU|MaxWall
normal|10||1.000000||||
high|100|OverPartQOS|2.000000|cpu=8|gres/gpu=2|1|1-00:00:00
"""


def read(text, folder):
    """Return what a file with this text says."""
    (folder / "file").write_text(text)
    return read_accounts((str(folder / "file"),))


def test_a_dump_is_read(tmp_path):
    found = read(DUMP, tmp_path)
    assert [(one.name, one.parent, one.partition) for one in found.associations] == [
        ("account root", "", ""), ("user root of root", "root", ""), ("account physics", "root", ""),
        ("account lab", "physics", ""), ("user ann of physics", "physics", ""),
        ("user ann of physics", "physics", "urgent"),
    ]  # fmt: skip
    physics, lab, ann = found.associations[2:5]
    assert tres_of(physics.settings["grptres"]) == {"cpu": 16, "gres/gpu:a100": 4}
    assert lab.settings["fairshare"].value == "parent"
    assert seconds_of(ann.settings["maxwall"]) == 5400
    assert ann.place.endswith("file:11")
    assert found.qos["high"]["maxjobsperuser"].value == "1"
    assert found.qos["high"]["description"].value == "high: first"
    assert found.default_account == {"root": "root", "ann": "physics"}


def test_tables_are_read_as_a_tree(tmp_path):
    found = read(ASSOCIATIONS, tmp_path)
    assert [(one.name, one.parent) for one in found.associations] == [
        ("account root", ""), ("user root of root", "root"), ("account physics", "root"), ("account lab", "physics"),
        ("user ann of lab", "lab"), ("account biology", "root"),
    ]  # fmt: skip
    assert found.associations[2].settings.keys() >= {"fairshare", "grpjobs", "grptres"}
    assert "defaultqos" in found.associations[4].settings
    qos = read(QOS, tmp_path).qos
    assert seconds_of(qos["high"]["maxwall"]) == 86_400
    assert qos["high"]["maxtresperuser"].value == "gres/gpu=2"
    assert "grptres" not in qos["normal"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is neither a file of `sacctmgr dump` nor a table"),
        ("NodeName=n1 CPUs=4\n", "is neither a file"),
        ("a|b\n1|2\n", "file:1: a table of associations has the columns Account and User"),
        ("Account|User\nroot|\nroot\n", "file:3: has 1 columns, the header 2"),
        ("Account|User\n", "has no association"),
        ("Cluster - 't'\nnonsense\n", "file:2: 'nonsense' is no line of `sacctmgr dump`"),
        ("Account|User\nroot|\nphysics|\n", "file:3: account physics stands under no account: .* show assoc tree"),
        ("Account|User\n |\n", "file:2: an account has no name"),
        (DUMP + "Account - '':Fairshare=1\n", "file:13: an account has no name"),
        (DUMP + "User - 'ann':Fairshare=2\n", "file:13: user ann of physics stands at .*file:11 already"),
        (DUMP + "Cluster - 'u':Fairshare=1\n", "file:13: account root stands at .*file:5 already"),
        (DUMP + "User - 'bo", "file:13: .* is no line of `sacctmgr dump`"),
        (DUMP + "User - 'bob':Description='half", "file:13: .* is no line of `sacctmgr dump`"),
        ("Cluster - 't':Fairshare\n", "file:1: .* is no line of `sacctmgr dump`"),
    ],
)
def test_other_files_are_refused_with_the_place(text, says, tmp_path):
    with pytest.raises(JobcastError, match=says):
        read(text, tmp_path)


def test_bad_values_are_refused_with_the_place():
    for reads, value, says in (
        (tres_of, "cpu", "a:1: GrpTRES is a list such as cpu=64"),
        (tres_of, "mem=999999999999999T", "a:1: GrpTRES lets at most"),
        (seconds_of, "soon", "a:1: GrpTRES is a time"),
    ):
        with pytest.raises(JobcastError, match=says):
            reads(Setting("GrpTRES", value, "a:1"))
    assert Accounts().qos == {}


def test_memory_is_in_mb_whether_or_not_it_has_a_unit():
    written = "cpu=-1,mem=2G,bb/fast=1T,billing=2K"
    assert tres_of(Setting("GrpTRES", written, "a:1")) == {"mem": 2048, "bb/fast": 2**20, "billing": 2048}
    assert tres_of(Setting("GrpTRES", "mem=2048", "a:1")) == {"mem": 2048}


def test_a_table_of_qos_goes_before_a_dump_and_each_stands_once(tmp_path):
    places = [str(tmp_path / name) for name in ("t.dump", "qos.txt", "more.txt")]
    for place, text in zip(places, (DUMP, QOS.replace("high|100", "high|7"), QOS), strict=True):
        Path(place).write_text(text)
    for order in (places[:2], places[1::-1]):
        assert read_accounts(tuple(order)).qos["high"]["priority"].value == "7"
    with pytest.raises(JobcastError, match=r"more\.txt:2: QOS normal stands at .*qos\.txt:2 already; name each once"):
        read_accounts(tuple(places))
    with pytest.raises(JobcastError, match=r"file:4: QOS normal stands at .*file:2 already"):
        read("Name|Priority\nnormal|1\nhigh|2\nnormal|3\n", tmp_path)
