"""Controllers of ours as processes on free ports; any can be killed, stopped and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from support.brokers.reachable_broker import free_ports
from support.runs.warm_process import WarmProcess, start_warm

from broker_core.client.quorum_description import describe_quorum
from broker_core.model.client_settings import parse_client_settings
from broker_core.model.exceptions import RemoteError

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
START_SECONDS = 60


def run_streamlog(*arguments):
    """A command that must succeed; what it says."""
    command = [sys.executable, "-m", "broker_core.cli.main", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=START_SECONDS, check=False)
    assert done.returncode == 0, f"{arguments}: {done.stderr}"
    return done.stdout + done.stderr


class OurQuorum:
    """A context manager that kills what still runs."""

    def __init__(
        self, folder: Path, *, node_count=3, settings=(), cluster_id=CLUSTER_ID, other_ports=None, is_dynamic=False
    ):
        """`other_ports`: of voters that somebody else runs, by id; the nodes here come after them. `is_dynamic`: the
        first of all nodes is the only voter at first, if it is one of these."""
        self._is_dynamic = is_dynamic
        self.folder, self._settings, self.cluster_id = folder, settings, cluster_id
        first = 1 + len(other_ports or {})
        self.node_ids = range(1, first + node_count)
        own = zip(range(first, first + node_count), free_ports(node_count), strict=True)
        self.ports = {**(other_ports or {}), **dict(own)}
        self._processes: dict[int, WarmProcess] = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for node_id in self.node_ids:
            self.kill(node_id)

    @property
    def bootstrap_controllers(self):
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def metadata_folder(self, node_id):
        return self.folder / str(node_id) / "data" / "__cluster_metadata-0"

    @property
    def voters(self):
        return ",".join(f"{node_id}@127.0.0.1:{port}" for node_id, port in self.ports.items())

    def properties(self, node_id, *settings):
        """The settings file of a node."""
        folder = self.folder / str(node_id)
        folder.mkdir(parents=True, exist_ok=True)
        lines = [f"node.id={node_id}", f"log.dirs={folder}/data"]
        if self._is_dynamic:
            lines += [
                "process.roles=controller", f"controller.quorum.bootstrap.servers={self.bootstrap_controllers}",
                "controller.listener.names=CONTROLLER", f"listeners=CONTROLLER://127.0.0.1:{self.ports[node_id]}",
            ]  # fmt: skip
        else:
            lines.append(f"controller.quorum.voters={self.voters}")
        path = folder / "server.properties"
        path.write_text("\n".join([*lines, *self._settings, *settings]) + "\n")
        return path

    def start(self, *node_ids):
        """All nodes, or these; waits until they listen."""
        for node_id in node_ids or self.node_ids:
            folder = self.folder / str(node_id)
            properties = self.properties(node_id)
            if self._is_dynamic and not (folder / "data").exists():
                first = "--standalone" if node_id == 1 else "--no-initial-controllers"
                run_streamlog("storage", "format", "--config", properties, "--cluster-id", self.cluster_id, first)
            with (folder / "node.log").open("ab") as log:
                self._processes[node_id] = start_warm(
                    ["quorum", "serve", "--config", properties, "--cluster-id", self.cluster_id],
                    stdout=subprocess.PIPE, stderr=log, text=True,
                )  # fmt: skip
        for node_id in node_ids or self.node_ids:
            line = self._processes[node_id].stdout.readline()
            assert "is ready" in line, self.log_of(node_id)

    def is_running(self, node_id):
        return node_id in self._processes

    def kill(self, node_id):
        process = self._processes.pop(node_id, None)
        if process is not None:
            process.kill()
            process.wait()

    def stop(self, node_id):
        process = self._processes.pop(node_id)
        process.terminate()
        assert process.wait(30) == 0, self.log_of(node_id)

    def freeze(self, node_id):
        os.kill(self._processes[node_id].pid, signal.SIGSTOP)

    def thaw(self, node_id):
        os.kill(self._processes[node_id].pid, signal.SIGCONT)

    def described(self, *, other_than=None, seconds=START_SECONDS, past=0):
        """As a leader other than that one tells, once its high watermark is past that; and how long that took. The
        other one is not asked: it may be frozen."""
        asked = [node_id for node_id in self.node_ids if node_id != other_than]
        running = ",".join(f"127.0.0.1:{self.ports[node_id]}" for node_id in asked)
        settings = parse_client_settings({"bootstrap.servers": running, "default.api.timeout.ms": "2000"})
        began = time.monotonic()
        while True:
            try:
                found = describe_quorum(settings)
                if found.leader_id != other_than and found.high_watermark > past:
                    return found, time.monotonic() - began
            except RemoteError:
                pass
            assert time.monotonic() < began + seconds, "\n".join(map(self.log_of, self.node_ids))
            time.sleep(0.01)

    def log_of(self, node_id):
        path = self.folder / str(node_id) / "node.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-30:]) if path.exists() else ""
