"""The command line run in this process, with its own stdin and captured output."""

import io
import json
import sys
from dataclasses import dataclass

import pytest
from support.cluster.tested_cluster import TestedCluster

from broker_core.cli.command_line import run


@dataclass(frozen=True, kw_only=True)
class CommandOutcome:
    status: int
    out: bytes
    err: str

    @property
    def lines(self):
        return self.out.split(b"\n")[:-1]

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def log_path(tmp_path):
    return tmp_path / "log"


@pytest.fixture
def streamlog(capsysbinary, monkeypatch, log_path):
    """`streamlog("topic", "list", stdin=b"")` with --path given; the exit code and what was written."""

    def call(*arguments, stdin=b"", with_path=True):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsysbinary.readouterr()
        path = ["--path", str(log_path)] if with_path else []
        status = run([*map(str, arguments), *path])
        captured = capsysbinary.readouterr()
        return CommandOutcome(status=status, out=captured.out, err=captured.err.decode())

    return call


@pytest.fixture
def streamlog_cluster(tmp_path):
    """In place of the plugin's, whose nodes take longer to start."""
    with TestedCluster(tmp_path / "cluster") as cluster:
        yield cluster
