"""The directory of a cluster on this machine."""

import socket

import pytest

from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.model.exceptions import DirectoryFormatError, InvalidConfigError
from broker_core.model.properties import parse_properties
from broker_core.server.cluster.cluster_process import is_of_cluster
from broker_core.server.cluster.replica_limits import parse_replica_limits
from broker_core.server.local.cluster_layout import MAX_NODES, free_ports, open_layout
from broker_core.server.quorum.quorum_settings import parse_quorum_settings


def settings_of(layout):
    return [parse_properties(node.properties_path.read_text()) for node in layout.nodes]


def test_a_new_cluster_has_three_nodes_with_a_folder_and_two_ports_each(tmp_path):
    layout = open_layout(tmp_path / "c")
    assert [node.node_id for node in layout.nodes] == [1, 2, 3]
    assert [node.folder for node in layout.nodes] == [tmp_path / "c" / f"node-{number}" for number in (1, 2, 3)]
    ports = [port for node in layout.nodes for port in (node.port, node.controller_port)]
    assert len(set(ports)) == 6
    assert layout.bootstrap_servers == ",".join(f"127.0.0.1:{node.port}" for node in layout.nodes)


def test_the_next_start_finds_the_same_ports_and_the_same_cluster(tmp_path):
    assert open_layout(tmp_path, node_count=2) == open_layout(tmp_path) == open_layout(tmp_path, node_count=2)


@pytest.mark.parametrize("node_count", range(1, MAX_NODES + 1))
def test_a_node_takes_all_of_its_settings(tmp_path, node_count):
    layout = open_layout(tmp_path, node_count=node_count, is_port_random=True)
    voters = {node.node_id: node.controller_port for node in layout.nodes}
    for node, given in zip(layout.nodes, settings_of(layout), strict=True):
        assert is_of_cluster(given)
        config = parse_broker_config(given)
        assert (config.node_id, config.log_dir) == (node.node_id, str(node.data_path))
        assert config.listeners[0].port == node.port
        quorum = parse_quorum_settings(given, is_broker=True)
        assert {each: address.port for each, address in quorum.voters.items()} == voters
        limits, factor = parse_replica_limits(given), min(3, node_count)
        assert (limits.offsets_factor, limits.transactions_factor) == (factor, factor)
        assert quorum.defaults.replication_factor == factor
        assert quorum.defaults.min_insync_replicas == (2 if factor == 3 else 1)


def test_given_settings_override_those_of_a_new_cluster(tmp_path):
    layout = open_layout(tmp_path, settings={"num.partitions": "7", "broker.session.timeout.ms": "9000"})
    for given in settings_of(layout):
        assert (given["num.partitions"], given["broker.session.timeout.ms"]) == ("7", "9000")


def test_the_brokers_listen_on_the_given_port_and_those_after_it(tmp_path):
    first = free_ports(20)[0]
    layout = open_layout(tmp_path, port=first)
    assert [node.port for node in layout.nodes] == [first, first + 1, first + 2]
    assert {node.controller_port for node in layout.nodes}.isdisjoint({first, first + 1, first + 2})


def test_a_port_in_use_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        with pytest.raises(InvalidConfigError, match=f"127.0.0.1:{taken} is in use"):
            open_layout(tmp_path, port=taken)
        assert taken not in free_ports(3, first=taken)


@pytest.mark.parametrize("node_count", [0, MAX_NODES + 1])
def test_no_nodes_and_too_many_are_refused(tmp_path, node_count):
    with pytest.raises(InvalidConfigError, match="a local cluster has 1 to 9"):
        open_layout(tmp_path, node_count=node_count or -1)


def test_another_count_or_port_than_that_of_the_cluster_is_refused(tmp_path):
    layout = open_layout(tmp_path)
    with pytest.raises(InvalidConfigError, match="a cluster of 3 nodes, and its voters are fixed: for 5"):
        open_layout(tmp_path, node_count=5)
    with pytest.raises(InvalidConfigError, match=f"whose first broker listens on {layout.nodes[0].port}"):
        open_layout(tmp_path, port=1)


def test_a_directory_with_something_else_is_refused_and_left_alone(tmp_path):
    (tmp_path / "meta.properties").write_text("of a log")
    with pytest.raises(DirectoryFormatError, match=r"is no local cluster: it has meta\.properties"):
        open_layout(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["meta.properties"]


def test_a_cluster_that_was_made_only_in_part_is_made_again(tmp_path):
    half = open_layout(tmp_path)
    (tmp_path / "cluster.properties").unlink()
    whole = open_layout(tmp_path)
    assert half.cluster_id != whole.cluster_id
    assert whole == open_layout(tmp_path)


def test_a_directory_that_was_moved_says_which_setting_to_change(tmp_path):
    open_layout(tmp_path / "old")
    (tmp_path / "old").rename(tmp_path / "new")
    with pytest.raises(InvalidConfigError, match=f"log.dirs={tmp_path}/old/node-1/data: it must be {tmp_path}/new"):
        open_layout(tmp_path / "new")


def test_a_comma_in_the_path_is_refused_as_log_dirs_is_a_list(tmp_path):
    with pytest.raises(InvalidConfigError, match="has a comma"):
        open_layout(tmp_path / "a,b")


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("node-2/server.properties", "listeners=PLAINTEXT", "listeners=OTHER", "needs PLAINTEXT and CONTROLLER"),
        ("node-2/server.properties", "node.id=2", "node.id=two", "node.id"),
        ("cluster.properties", "node.ids", "nodes", "needs cluster.id and node.ids"),
    ],
)
def test_a_file_that_was_edited_wrongly_is_named(tmp_path, file, old, new, message):
    open_layout(tmp_path)
    path = tmp_path / file
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises((InvalidConfigError, DirectoryFormatError), match=message):
        open_layout(tmp_path)
