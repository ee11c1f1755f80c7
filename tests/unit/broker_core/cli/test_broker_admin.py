"""`streamlog broker list | unregister`, decided by a controller of ours: see fronted_cluster."""

import pytest
from support.controller.fronted_cluster import DESCRIBE_CLUSTER, FrontedCluster


@pytest.fixture
def cluster():
    with FrontedCluster(1, 2, 3) as fronted:
        fronted.small.create("t", (1, 2), (2, 3))
        yield fronted


@pytest.fixture
def broker(streamlog, cluster):
    return lambda *words: streamlog("broker", *words, "--bootstrap-server", cluster.address, with_path=False)


def test_brokers_are_listed_with_their_state_and_partitions(broker, cluster):
    cluster.small.start(4, rack="r")
    cluster.small.fence(3)
    rows = [line.split() for line in broker("list").out.decode().splitlines()[2:]]
    assert rows == [
        ["1", cluster.address, "-", "running", "1", "1", "0"],
        ["2", cluster.address, "-", "running", "1", "2", "0"],
        ["3", cluster.address, "-", "fenced", "0", "1", "1"],
        ["4", cluster.address, "r", "running", "0", "0", "0"],
    ]
    found = broker("list", "--json").json
    assert found[2] == {
        "broker_id": 3, "host": "127.0.0.1", "port": cluster.port, "rack": None, "state": "fenced",
        "led_partitions": 0, "held_partitions": 1, "out_of_sync_partitions": 1,
    }  # fmt: skip


def test_where_brokers_do_not_tell_of_fenced_ones_those_with_replicas_are_gone(broker, cluster):
    cluster.is_too_old_for(DESCRIBE_CLUSTER, newest=1)
    cluster.small.start(4)
    cluster.small.fence(3)
    cluster.small.fence(4)
    found = {each["broker_id"]: (each["state"], each["host"]) for each in broker("list", "--json").json}
    assert found == {1: ("running", "127.0.0.1"), 2: ("running", "127.0.0.1"), 3: ("gone", None)}
    assert ["3", "-", "-", "gone", "0", "1", "1"] in [line.split() for line in broker("list").out.decode().splitlines()]


def test_a_broker_is_unregistered_once(broker, cluster):
    cluster.small.fence(3)
    done = broker("unregister", "3")
    assert (done.status, done.err) == (0, "unregistered broker 3\n")
    assert sorted(cluster.small.image.registrations.brokers) == [1, 2]
    again = broker("unregister", "3")
    assert again.status == 1
    assert again.err == "streamlog: unregister broker 3: Broker ID 3 is not currently registered\n"


def test_usage_is_explained(streamlog, broker):
    assert "Missing argument" in broker("unregister").err
    assert "give --bootstrap-server HOST:PORT" in streamlog("broker", "list", with_path=False).err
    refused = streamlog("broker", "--port", "1", "list", with_path=False)
    assert (refused.status, "the options of streamlog broker serve a directory" in refused.err) == (2, True)
