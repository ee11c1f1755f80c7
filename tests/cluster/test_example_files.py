"""The settings files in conf/cluster."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.brokers.reachable_broker import free_ports

from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.model.properties import parse_properties
from broker_core.server.cluster.cluster_process import is_of_cluster
from broker_core.server.cluster.replica_limits import parse_replica_limits
from broker_core.server.quorum.observer_settings import parse_observer_settings
from broker_core.server.quorum.quorum_settings import parse_quorum_settings

FOLDER = Path(__file__).parents[2] / "conf" / "cluster"
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


@pytest.mark.long
def test_three_nodes_and_the_broker_start_with_them(tmp_path):
    ports = dict(zip((9092, 9093, 9094, 9095, 9192, 9193, 9194), free_ports(7), strict=True))
    processes = []
    try:
        for path in (*FILES, BROKER):
            text = re.sub(r":(9\d{3})", lambda found: f":{ports[int(found[1])]}", path.read_text())
            own = tmp_path / path.name
            own.write_text(text.replace("/tmp/streamlog-cluster", str(tmp_path)))
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "broker_core.cli.main", "broker", "--config", str(own), "--cluster-id",
                     CLUSTER_ID],
                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                )
            )  # fmt: skip
        for process in processes:
            assert "is ready: PLAINTEXT://127.0.0.1:" in process.stdout.readline()
    finally:
        for process in processes:
            process.kill()
            process.communicate()
