"""A broker of ours that only follows, as a process beside a real Kafka; it can be killed and started again."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from support.brokers.reachable_broker import free_ports

START_SECONDS = 90


class OurReplica:
    """A context manager that kills it in the end."""

    def __init__(self, folder: Path, *, controllers, node_id=98):
        self.folder, self.node_id = folder, node_id
        folder.mkdir(parents=True)
        (port,) = free_ports(1)
        self.properties = folder / "replica.properties"
        lines = [
            "process.roles=broker", f"node.id={node_id}", f"controller.quorum.bootstrap.servers={controllers}",
            "controller.listener.names=CONTROLLER", f"listeners=PLAINTEXT://127.0.0.1:{port}",
            f"log.dirs={folder}/data",
        ]  # fmt: skip
        self.properties.write_text("\n".join(lines) + "\n")
        self._process = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def start(self):
        """Waits until the controller has unfenced it."""
        with (self.folder / "node.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "broker_core.cli.main", "replica", "serve", "--config", str(self.properties)],
                stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        assert "is ready" in self._process.stdout.readline(), self.log_end()

    def kill(self):
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            process.stdout.close()

    def stop(self):
        """By SIGTERM; returns the exit status."""
        self._process.terminate()
        return self.ended()

    def ended(self):
        process, self._process = self._process, None
        status = process.wait(START_SECONDS)
        process.stdout.close()
        return status

    def batches(self, topic, partition):
        """The bytes of the partition's log."""
        return log_of(self.folder / "data" / f"{topic}-{partition}")

    def log_end(self):
        return "\n".join((self.folder / "node.log").read_text(errors="replace").splitlines()[-40:])


def log_of(folder):
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))


def wait_until(condition, *, seconds=START_SECONDS, story=lambda: ""):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, story()
        time.sleep(0.1)
