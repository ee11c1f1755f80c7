"""The settings files in conf/cluster and conf/secured_cluster."""

import contextlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.brokers.reachable_broker import PEMS, free_ports

from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.client.cluster_client import open_remote
from broker_core.model.client_settings import parse_client_settings
from broker_core.model.properties import parse_properties
from broker_core.server.cluster.cluster_process import is_of_cluster
from broker_core.server.cluster.replica_limits import parse_replica_limits
from broker_core.server.quorum.observer_settings import parse_observer_settings
from broker_core.server.quorum.quorum_settings import parse_quorum_settings

CONF = Path(__file__).parents[2] / "conf"
FOLDER = CONF / "cluster"
SECURED = [CONF / "secured_cluster" / f"node-{number}.properties" for number in (1, 2, 3)]
BROKER = FOLDER / "broker-4.properties"
FILES = [FOLDER / f"node-{number}.properties" for number in (1, 2, 3)]
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"


def test_each_is_valid_and_they_differ_only_in_what_is_a_nodes_own():
    given = [parse_properties(path.read_text()) for path in FILES]
    assert sorted(FOLDER.iterdir()) == [BROKER, *FILES]
    for number, settings in enumerate(given, 1):
        assert is_of_cluster(settings)
        quorum = parse_quorum_settings(settings, is_broker=True)
        config = parse_broker_config(settings)
        parse_replica_limits(settings)
        assert (quorum.node_id, config.node_id, len(quorum.voters)) == (number, number, 3)
        assert [one.port for one in config.listeners] == [9091 + number]
        assert quorum.address.port == 9191 + number
    own = {"node.id", "listeners", "log.dirs"}
    first, *others = [{name: value for name, value in each.items() if name not in own} for each in given]
    assert others == [first, first]
    assert all(len({each[name] for each in given}) == 3 for name in own)


def test_the_broker_without_a_vote_is_one_of_their_cluster():
    given, of_first = (parse_properties(path.read_text()) for path in (BROKER, FILES[0]))
    assert is_of_cluster(given)
    quorum, config = parse_observer_settings(given), parse_broker_config(given)
    assert (quorum.node_id, config.node_id, [one.port for one in config.listeners]) == (4, 4, [9095])
    assert {each.port for each in quorum.controllers} == {9192, 9193, 9194}
    assert parse_replica_limits(given) == parse_replica_limits(of_first)


def test_the_secured_ones_are_valid_and_differ_only_in_what_is_a_nodes_own():
    given = [parse_properties(path.read_text()) for path in SECURED]
    assert sorted(SECURED[0].parent.iterdir()) == SECURED
    for number, settings in enumerate(given, 1):
        quorum = parse_quorum_settings(settings, is_broker=True)
        config, links = parse_broker_config(settings), parse_replica_limits(settings).links
        assert (quorum.node_id, config.node_id, quorum.address.port) == (number, number, 9191 + number)
        assert [(one.port, one.protocol) for one in config.listeners] == [(9091 + number, "SASL_SSL")]
        for link in (links, quorum.links):
            assert (link.sasl.username, link.tls.key_path) == ("node", f"/tmp/streamlog-secured/node-{number}.pem")
        assert config.access == quorum.access
        assert config.access.super_users == {"User:node", "User:admin"}
    own = {"node.id", "listeners", "log.dirs", "ssl.keystore.location"}
    first, *others = [{name: value for name, value in each.items() if name not in own} for each in given]
    assert others == [first, first]


@contextlib.contextmanager
def started(files, folder, tmp_path):
    """(a process for each file, by file; their ports by those in the files), in a folder of their own."""
    found = sorted({int(port) for path in files for port in re.findall(r":(9\d{3})", path.read_text())})
    ports = dict(zip(found, free_ports(len(found)), strict=True))
    processes = {}
    try:
        for path in files:
            text = re.sub(r":(9\d{3})", lambda each: f":{ports[int(each[1])]}", path.read_text())
            own = tmp_path / path.name
            own.write_text(text.replace(folder, str(tmp_path)))
            # The broker without a vote asks the controllers for the cluster's id.
            cluster = [] if path == BROKER else ["--cluster-id", CLUSTER_ID]
            processes[path] = subprocess.Popen(
                [sys.executable, "-m", "broker_core.cli.main", "broker", "--config", str(own), *cluster],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
        yield processes, ports
    finally:
        for process in processes.values():
            process.kill()
            process.communicate()


@pytest.mark.long
def test_three_nodes_and_the_broker_start_with_them(tmp_path):
    with started([*FILES, BROKER], "/tmp/streamlog-cluster", tmp_path) as (processes, _):
        for process in processes.values():
            assert "is ready: PLAINTEXT://127.0.0.1:" in process.stdout.readline()


@pytest.mark.long
def test_three_secured_nodes_start_with_them(tmp_path):
    shutil.copy(PEMS / "authority.pem", tmp_path)
    for number in (1, 2, 3):
        shutil.copy(PEMS / "broker.pem", tmp_path / f"node-{number}.pem")
    with started(SECURED, "/tmp/streamlog-secured", tmp_path) as (processes, ports):
        for process in processes.values():
            assert "is ready: SASL_SSL://127.0.0.1:" in process.stdout.readline()
        given = {
            "bootstrap.servers": f"127.0.0.1:{ports[9092]}",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": "change-me-admin",
            "ssl.truststore.location": str(PEMS / "authority.pem"),
        }
        client = open_remote(parse_client_settings(given))
        client.create_topic("t", partition_count=1)
        client.close()
