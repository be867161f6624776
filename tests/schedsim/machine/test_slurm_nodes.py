"""Machines from the files of a Slurm: which nodes, of which kind, in which partitions and on which switches."""

import pytest

from jobcast import JobcastError
from predictors.data.slurm.site import Site, Source
from schedsim.machine.slurm_nodes import machine_of

NODE = """NodeName={} Arch=x86_64 CoresPerSocket=4
   CPUAlloc=0 CPUTot={} RealMemory={}
   AvailableFeatures=ib,fast Gres=gpu:a100:2(S:0-1) Weight=7
   State=IDLE Partitions={}
"""


def made(conf, **texts):
    kinds = {"gres": "gres.conf", "topology": "topology.conf", "nodes": "scontrol show node"}
    sources = [Source("slurm.conf", "slurm.conf", conf)] if conf else []
    return machine_of(Site("big", (*sources, *(Source(k, kinds[k], v) for k, v in texts.items()))), "big.site")


def words(found):
    return [group.words.partition(": ")[2].partition(", ")[2] for group in found.machine.nodes]


def test_what_slurm_keeps_for_itself_is_not_for_jobs_and_linear_gives_whole_nodes():
    found = made(
        "SelectType=select/linear\n"
        "NodeName=n[1-2] Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 CoreSpecCount=1 RealMemory=4096 "
        "MemSpecLimit=1024\nPartitionName=a Nodes=ALL"
    )
    assert words(found) == ["processors 14, memory_gb 3.0, partitions a, one_job"]


def test_node_sets_by_feature_future_nodes_and_nodes_of_no_partition():
    found = made(
        "NodeSet=fast Feature=ib\nNodeSet=both Feature=new Nodes=m2\nPriorityWeightTRES=CPU=9\n"
        "NodeName=n[1-3] CPUs=4 Features=ib,new\nNodeName=m[1-2] CPUs=4\n"
        "NodeName=f[1-9] CPUs=4 State=FUTURE\nNodeName=idle CPUs=4\n"
        "PartitionName=a Nodes=fast,m1\nPartitionName=b Nodes=m2\nPartitionName=c Nodes=both"
    )
    conf = Site("big", (Source("slurm.conf", "slurm.conf", "NodeSet=x Feature=f\nNodeName=n[1-3] CPUs=4 "
                               "Feature=f\nPartitionName=a Nodes=x"),)).conf  # fmt: skip
    assert conf.resources("a")["cpu"] == 12 and conf.hosts("a") == {"n1", "n2", "n3"}
    assert found.names == ("n1", "n2", "n3", "m1", "m2")
    assert words(found)[1:] == ["processors 4, partitions a", "processors 4, partitions b c"]
    assert found.notes == ("1 node in no partition, left out: idle",)


def test_scontrol_has_what_the_conf_lacks_and_nodes_that_it_does_not_name():
    found = made(
        "NodeName=n1\nPartitionName=a Nodes=n1",
        nodes=NODE.format("n1", 8, 2048, "a") + NODE.format("d1", 4, 1024, "a,x"),
    )
    gpus = "gpus 2, gpu_type a100"
    assert words(found) == [
        f"processors 8, {gpus}, memory_gb 2.0, partitions a, features ib fast, weight 7",
        f"processors 4, {gpus}, memory_gb 1.0, partitions a x, features ib fast, weight 7",
    ]
    assert words(made("", nodes=NODE.format("n1", 8, 2048, "a")))[0].startswith(f"processors 8, {gpus}")
    assert made("ClusterName=big") is None


def test_types_of_gpus_come_from_either_file():
    conf = "NodeName=g[1-2] CPUs=4 Gres={}\nPartitionName=a Nodes=ALL"
    assert "gpu_type v100" in words(made(conf.format("gpu:2"), gres="Name=gpu Type=v100 Count=2"))[0]
    assert "gpus 2, partitions" in words(made(conf.format("gpu:2"), gres="AutoDetect=nvml"))[0]
    mixed = made(conf.format("gpu:a:1,gpu:b:1"))
    assert "gpus 2, partitions" in words(mixed)[0] and "GPUs of several types" in mixed.notes[0]
    with pytest.raises(JobcastError, match="node g1 has 4 GPUs, and 2 by "):
        made(conf.format("gpu:2"), gres="NodeName=g1 Name=gpu File=/dev/nvidia[0-3]")


def test_a_tree_counts_where_the_plugin_is_tree_and_each_node_has_a_switch():
    conf = "TopologyPlugin={}\nNodeName=n[1-4] CPUs=4\nPartitionName=a Nodes=ALL"
    tree = "SwitchName=s[1-2] Nodes=n[1-2]\n"
    with pytest.raises(JobcastError, match="node n1 lies below s1 already"):
        made(conf.format("topology/tree"), topology=tree)
    with pytest.raises(JobcastError, match="topology:3: switch a lies below b already"):
        made(
            conf.format("topology/tree"),
            topology="SwitchName=a Nodes=ALL\nSwitchName=b Switches=a\nSwitchName=c Switches=a",
        )
    tree = (
        "SwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n[3-9]\nSwitchName=t Switches=s[1-3]\nSwitchName=s3 Nodes=x1\n"
    )
    found = made(conf.format("topology/tree"), topology=tree)
    assert [group.switch for group in found.machine.nodes] == ["s1", "s2"]
    assert [(one.name, one.parent) for one in found.machine.switches] == [("s1", "t"), ("s2", "t"), ("t", None)]
    for plugin, text, note in (
        ("topology/flat", tree, "as TopologyPlugin is not"),
        ("topology/tree", tree.replace("[3-9]", "3"), "as 1 node have no switch there: n4"),
    ):
        found = made(conf.format(plugin), topology=text)
        assert found.machine.tree is None and note in found.notes[0]
