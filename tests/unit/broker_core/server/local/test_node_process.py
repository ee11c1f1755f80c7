"""A node as a process of its own; a cluster of one starts fastest."""

import os
import socket
import time
from pathlib import Path

import pytest

from broker_core.model.exceptions import BrokerUnavailableError
from broker_core.server.local.cluster_layout import open_layout
from broker_core.server.local.local_cluster import LocalCluster

PAUSED = "T"
SECONDS = 20


def wait_for(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {SECONDS} s"
        time.sleep(0.01)


def state_of(node):
    """As the kernel has it: R, S, T, …"""
    return Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_node_is_killed_restarted_paused_and_stopped_on_the_same_port(tmp_path):
    with LocalCluster(open_layout(tmp_path, node_count=1, is_port_random=True)) as cluster:
        (node,) = cluster.nodes
        assert (node.is_running, node.is_paused, node.how_it_ended()) == (True, False, "runs")
        assert cluster.controller_id == 1
        first = node.pid
        assert node.place.pid_path.read_text() == f"{first}\n"

        node.kill()
        assert not node.is_running
        assert not node.place.pid_path.exists()
        assert node.how_it_ended() == "was ended by SIGKILL"
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", node.place.port), timeout=5).close()

        node.restart()
        assert node.pid != first
        socket.create_connection(("127.0.0.1", node.place.port), timeout=5).close()

        node.pause()
        assert node.is_paused
        wait_for(lambda: state_of(node) == PAUSED)
        node.resume()
        assert not node.is_paused
        wait_for(lambda: state_of(node) != PAUSED)

        node.pause()
        node.stop()
        assert (node.is_running, node.is_paused, node.how_it_ended()) == (False, False, "ended with 0")
    for pid in (first, node.pid):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_node_that_does_not_start_says_why(tmp_path):
    layout = open_layout(tmp_path, node_count=1, is_port_random=True)
    layout.nodes[0].log_path.write_text("streamlog: an error of another start\n")
    with (
        socket.create_server(("127.0.0.1", layout.nodes[0].port)),
        pytest.raises(BrokerUnavailableError, match=rf"node 1 ended with 1: .*{layout.nodes[0].port}"),
        LocalCluster(layout),
    ):
        pass


def test_a_node_without_a_majority_stops_at_the_first_signal(tmp_path):
    """It went on for ever: it waited for the orderly end of a broker that had not begun."""
    layout = open_layout(tmp_path, node_count=2, is_port_random=True)
    node = LocalCluster(layout).node(1)
    node.spawn()
    try:
        wait_for(lambda: "node=1 is registering" in node.place.log_path.read_text())
        assert not node.is_ready
        node.ask_to_stop()
        node.wait_until_stopped(timeout_seconds=SECONDS)
        assert node.how_it_ended() == "ended with 0"
    finally:
        node.kill()
