"""`streamlog cluster start`, as a process: signals, and what it says."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager

import pytest

from broker_core.log_directory.system_ports import SYSTEM_LOCKS
from broker_core.ports import LockMode
from broker_core.server.local.cluster_layout import free_ports

SECONDS = 60


class ClusterCommand:
    """The command while it runs; `lines` are those that it has written."""

    def __init__(self, *arguments):
        command = [sys.executable, "-m", "broker_core.cli.main", "cluster", "start", *map(str, arguments)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        self.lines = []
        self._reader = threading.Thread(target=lambda: self.lines.extend(iter(self.process.stdout.readline, "")))
        self._reader.start()

    def wait_for(self, pattern):
        """The first line that matches."""
        deadline = time.monotonic() + SECONDS
        while True:
            for line in self.lines:
                if found := re.search(pattern, line):
                    return found
            assert time.monotonic() < deadline, f"no {pattern} in {self.lines}"
            assert self.process.poll() is None or self._reader.is_alive(), f"no {pattern} in {self.lines}"
            time.sleep(0.02)

    def pid_of(self, node_id):
        return int(self.wait_for(rf"node {node_id}: process (\d+)")[1])

    def end(self, number):
        """Its status, and how long it took."""
        began = time.monotonic()
        self.process.send_signal(number)
        status = self.process.wait(SECONDS)
        self._reader.join(SECONDS)
        return status, time.monotonic() - began


@pytest.fixture
def start():
    commands = []

    def start(*arguments):
        commands.append(ClusterCommand(*arguments))
        return commands[-1]

    yield start
    for command in commands:
        if command.process.poll() is None:
            command.end(signal.SIGTERM)


@contextmanager
def served_elsewhere(directory):
    """As by a broker that somebody started in another terminal."""
    with closing(SYSTEM_LOCKS.open(str(directory / ".lock"), LockMode.EXCLUSIVE, creates=False)) as lock:
        assert lock.lock(LockMode.EXCLUSIVE, waits=False)
        yield


def is_there(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_killed_node_is_told_and_the_others_go_on_until_ctrl_c(start, tmp_path):
    command = start("--path", tmp_path / "c")
    command.wait_for("Ctrl-C stops all nodes")
    pids = [command.pid_of(node_id) for node_id in (1, 2, 3)]
    os.kill(pids[1], signal.SIGKILL)
    command.wait_for(rf"^node 2 \(process {pids[1]}\) was ended by SIGKILL$")
    by_hand = f"streamlog broker --config {tmp_path}/c/node-2/server.properties"
    command.wait_for(f"start it again, in another terminal, where Ctrl-C stops it then: {by_hand}$")
    assert [is_there(pid) for pid in pids] == [True, False, True]
    with served_elsewhere(tmp_path / "c/node-2/data"):
        command.wait_for("^node 2 runs again, started elsewhere")
        said = len(command.lines)
        status, seconds = command.end(signal.SIGINT)
    assert status == 0
    assert seconds < 15
    assert not any(map(is_there, pids))
    assert command.lines[said:] == ["node 2 goes on: it was started elsewhere, and is stopped there\n"]


def test_a_node_that_is_started_again_by_hand_is_known_and_left_to_who_started_it(start, tmp_path):
    """The last node that it had started is dead, and the command goes on because of the other one."""
    command = start("--path", tmp_path, "--nodes", 2)
    command.wait_for("Ctrl-C stops all nodes")
    os.kill(command.pid_of(2), signal.SIGKILL)
    command.wait_for("node 2 .* was ended by SIGKILL")
    with served_elsewhere(tmp_path / "node-2/data"):
        command.wait_for("^node 2 runs again, started elsewhere: Ctrl-C here will not stop it$")
        os.kill(command.pid_of(1), signal.SIGKILL)
        command.wait_for("node 1 .* was ended by SIGKILL")
        assert command.process.poll() is None
    command.wait_for("^node 2 ended elsewhere$")
    assert command.process.wait(SECONDS) == 1


def test_with_restart_a_killed_node_is_started_again_and_the_next_start_has_the_same_ports(start, tmp_path):
    first = free_ports(10)[0]
    command = start("--path", tmp_path, "--nodes", 1, "--port", first, "--restart")
    os.kill(command.pid_of(1), signal.SIGKILL)
    again = int(command.wait_for(r"node 1 is started again: process (\d+)")[1])
    command.wait_for("node 1 is ready again")
    assert is_there(again)
    assert command.end(signal.SIGTERM)[0] == 0
    assert not is_there(again)

    second = start("--path", tmp_path)
    second.wait_for(f"bootstrap servers: 127.0.0.1:{first}$")
    assert second.end(signal.SIGINT)[0] == 0


def test_a_cluster_all_of_whose_nodes_are_dead_ends_with_an_error(start, tmp_path):
    command = start("--path", tmp_path, "--nodes", 1)
    os.kill(command.pid_of(1), signal.SIGKILL)
    assert command.process.wait(SECONDS) == 1


def test_a_node_that_cannot_start_ends_the_command_with_its_reason(start, tmp_path):
    from broker_core.server.local.cluster_layout import open_layout

    node = open_layout(tmp_path, node_count=2).nodes[1]
    with node.properties_path.open("a") as settings:
        settings.write("num.partitions=many\n")
    command = start("--path", tmp_path)
    assert command.process.wait(SECONDS) == 1
    command.wait_for("streamlog: node 2 ended with 1: Invalid value many for configuration num.partitions")


def test_a_signal_during_the_start_stops_what_was_started(start, tmp_path):
    command = start("--path", tmp_path, "--nodes", 3)
    while not (tmp_path / "node-3" / "node.log").exists():
        time.sleep(0.01)
    assert command.end(signal.SIGINT)[0] == 0
    assert "is ready" not in "".join(command.lines)


def test_another_count_of_nodes_is_refused_in_one_sentence(streamlog, tmp_path):
    from broker_core.server.local.cluster_layout import open_layout

    open_layout(tmp_path, node_count=2)
    refused = streamlog("cluster", "start", "--path", tmp_path, "--nodes", 3, with_path=False)
    assert refused.status == 1
    assert refused.err == (
        f"streamlog: {tmp_path} is a cluster of 2 nodes, and its voters are fixed: for 3 take another directory\n"
    )


@pytest.mark.parametrize("count", ["0", "10", "three"])
def test_a_count_that_no_local_cluster_has_is_wrong_usage(streamlog, tmp_path, count):
    refused = streamlog("cluster", "start", "--path", tmp_path, "--nodes", count, with_path=False)
    assert refused.status == 2
