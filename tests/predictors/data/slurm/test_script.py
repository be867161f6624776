"""Scripts of sacctmgr's commands, and lists of hosts made from names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobcast import JobcastError
from predictors.data.slurm.accounts import accounts_of
from predictors.data.slurm.hosts import host_list, hostnames

SCRIPT = """# a site's own
sacctmgr -i add cluster big Fairshare=1
add qos Name=high,low Priority=5
add account Name=phys Fairshare=10 Description="all of physics"
add account Name=lab Parent=phys
add user Name=ann,bob Account=phys,lab Fairshare=parent
add user cy DefaultAccount=lab MaxJobs=3
modify user name=ann set qos=low DefaultQOS=low where account=lab
modify user where name=bob set qos+=high,low
modify user name=bob set qos-=low
modify qos low set Priority=7 MaxJobsPerUser=2
modify account where name=lab set Fairshare=4
modify user cy set MaxJobs=-1
add user Name=eve Account=lab
delete user eve
add user Name=fay Account=phys,lab
delete user where name=fay account=lab
remove QOS where Name=high
list associations tree
add coordinator accounts=phys names=ann
"""


def test_commands_are_done_one_after_the_other():
    found = accounts_of({"s": SCRIPT})
    assert found.clusters == {"big": "s:2"} and list(found.qos) == ["low"]
    assert {key: one.value for key, one in found.qos["low"].items()} == {"priority": "7", "maxjobsperuser": "2"}
    rows = {(one.account, one.user): {key: s.value for key, s in one.settings.items()} for one in found.associations}
    assert {one.account: one.parent for one in found.associations if not one.user} == {
        "root": "", "phys": "root", "lab": "phys",
    }  # fmt: skip
    assert rows["lab", ""]["fairshare"] == "4" and rows["phys", ""]["fairshare"] == "10"
    assert rows["lab", "ann"]["defaultqos"] == "low" and "defaultqos" not in rows["phys", "ann"]
    assert rows["phys", "bob"]["qos"] == rows["lab", "bob"]["qos"] == "high"
    assert found.default_account == {"ann": "phys", "bob": "phys", "cy": "lab", "fay": "phys"}
    assert (
        "maxjobs" not in rows["lab", "cy"]
        and ("lab", "eve") not in rows
        and [key for key in rows if key[1] == "fay"] == [("phys", "fay")]
    )


def test_a_change_without_names_is_of_all_that_its_conditions_mean():
    more = """modify user where account=phys set MaxSubmitJobs=9
add user Name=gus Account=phys Partition=a,b
modify user where name=gus partition=b set MaxJobs=4
modify account where parent=phys set Fairshare=8
delete account lab
"""
    found = accounts_of({"s": SCRIPT + more}).associations
    told = {(one.account, one.user, one.partition): {key: s.value for key, s in one.settings.items()} for one in found}
    assert told["phys", "ann", ""]["maxsubmitjobs"] == told["phys", "bob", ""]["maxsubmitjobs"] == "9"
    assert "maxjobs" not in told["phys", "gus", "a"] and told["phys", "gus", "b"]["maxjobs"] == "4"
    assert "lab" not in {key[0] for key in told} and "maxsubmitjobs" not in told["phys", "", ""]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("frobnicate user ann", "is no command of sacctmgr"),
        ("add account Description='x", "is no command of sacctmgr"),
        ("add account Fairshare=3", "names no account to add"),
        ("delete user where account=phys", "names no user to delete"),
        ("modify user where adminlevel=none set MaxJobs=1", "adminlevel is no condition that is read"),
        ("add user Name=dan", "user dan has no account"),
        ("add account Name=phys", "account phys stands at s:4 already"),
    ],
)
def test_a_command_that_cannot_be_done_is_refused_with_its_line(line, words):
    with pytest.raises(JobcastError, match=r"^s:22: ") as error:
        accounts_of({"s": f"{SCRIPT}\n{line}\n"})
    assert words in str(error.value)


@given(st.lists(st.from_regex(r"[a-c]{0,2}[0-9]{0,4}[a-c]?[0-9]{0,3}", fullmatch=True).filter(bool), min_size=1))
def test_a_list_of_hosts_gives_the_names_in_their_order(names):
    assert hostnames(host_list(names)) == names
