"""Real servers that speak S3, each started on a free port of this machine with an empty bucket.

versitygw (Go, files behind it) is found as STREAMLOG_VERSITYGW, on the PATH, or where `go install` puts it:

    go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

moto (Python) runs in a thread.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

ACCESS_KEY, SECRET_KEY = "streamlog-access", "streamlog-very-secret"
BUCKET = "bucket"
START_SECONDS = 30


@dataclass(frozen=True)
class S3Server:
    """`port` on 127.0.0.1. `keeps_keys`: whether it refuses a wrong key. `pid`: 0 for a server in this process."""

    name: str
    port: int
    keeps_keys: bool
    pid: int = 0

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def options(self, **more: str) -> dict[str, str]:
        """Of `open_objects`; with `_` for `.` in the names of further ones."""
        base = {
            "object.endpoint": self.endpoint,
            "object.allow.http": "true",
            "object.region": "us-east-1",
            "object.access.key.id": ACCESS_KEY,
            "object.secret.access.key": SECRET_KEY,
            "object.timeout.ms": "10000",
            "object.retry.timeout.ms": "10000",
        }
        return base | {f"object.{name.replace('_', '.')}": value for name, value in more.items()}


@contextmanager
def versitygw(folder: Path) -> Iterator[S3Server]:
    """Skips the test where the program is missing or does not start."""
    program = find_versitygw()
    if program is None:
        pytest.skip("versitygw is not installed: go install github.com/versity/versitygw/cmd/versitygw@v1.8.0")
    (folder / "data" / BUCKET).mkdir(parents=True)
    (folder / "meta").mkdir()
    port = free_port()
    command = [
        *(program, "--port", f"127.0.0.1:{port}", "--access", ACCESS_KEY, "--secret", SECRET_KEY, "--quiet"),
        *("posix", "--sidecar", str(folder / "meta"), str(folder / "data")),
    ]
    output = (folder / "output").open("wb")
    process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=folder)
    try:
        if not answers(port, process):
            pytest.skip(f"versitygw does not start: {(folder / 'output').read_text()[-500:]}")
        yield S3Server(name="versitygw", port=port, keeps_keys=True, pid=process.pid)
    finally:
        process.terminate()
        process.wait(10)
        output.close()


@contextmanager
def moto() -> Iterator[S3Server]:
    """Skips the test where moto is missing.

    It answers one request at a time: moto looks whether an object exists and stores it in two steps, so of two threads
    that create one conditionally both may succeed, which no S3 does.
    """
    server_module = pytest.importorskip(
        "moto.server", reason="moto is not installed: pip install moto flask flask-cors"
    )
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    server._server.app = _one_at_a_time(server._server.app)
    try:
        _, port = server.get_host_and_port()
        _make_bucket(port)
        yield S3Server(name="moto", port=port, keeps_keys=False)
    finally:
        server.stop()


def _one_at_a_time(app: Callable[..., Iterable[bytes]]) -> Callable[..., list[bytes]]:
    lock = threading.Lock()

    def call(environ: object, start_response: object) -> list[bytes]:
        with lock:
            return list(app(environ, start_response))

    return call


def find_versitygw() -> str | None:
    given = os.environ.get("STREAMLOG_VERSITYGW") or shutil.which("versitygw")
    if given:
        return given
    installed = Path(os.environ.get("GOPATH", str(Path.home() / "go"))) / "bin" / "versitygw"
    return str(installed) if installed.is_file() else None


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def answers(port: int, process: subprocess.Popen) -> bool:
    """Whether the process, while it lives, comes to listen on the port."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return True
    return False


def _make_bucket(port: int) -> None:
    from http.client import HTTPConnection

    connection = HTTPConnection("127.0.0.1", port, timeout=START_SECONDS)
    connection.request("PUT", f"/{BUCKET}")
    assert connection.getresponse().status == 200
    connection.close()
