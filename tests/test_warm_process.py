"""Processes of `support/runs/warm_process.py` behave as started ones do."""

import json
import os
import signal
import subprocess
import sys

import pytest
from support.runs.warm_process import WarmProcess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each is started anew")


def test_it_has_its_output_its_status_and_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = WarmProcess(
        ["topic", "create", "t", "--path", "here", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert made.wait(60) == made.poll() == made.returncode == 0
    assert json.loads(made.stdout.read())["name"] == "t"
    assert (tmp_path / "here" / "t-0").is_dir()
    refused = WarmProcess(["nonsense"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert refused.wait(60) == 2
    assert refused.stderr.read() == b"streamlog: No such command 'nonsense'. Try 'streamlog --help'.\n"
    assert refused.stdout.read() == b""


def test_a_broker_is_told_its_signals_and_stops_in_order_or_dies(tmp_path):
    for number, status in ((signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)):
        log = tmp_path / "log"
        with log.open("wb") as errors:
            broker = WarmProcess(
                ["broker", "--path", tmp_path / "data", "--port", 0],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert "is ready" in broker.stdout.readline(), log.read_text()
        assert broker.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            broker.wait(0.01)
        broker.send_signal(number)
        assert broker.wait(60) == status
        with pytest.raises(ProcessLookupError):
            os.kill(broker.pid, 0)


def test_it_reads_its_input_and_ends_with_who_started_it(tmp_path):
    producer = WarmProcess(
        ["produce", "t", "--path", tmp_path / "data", "--json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    producer.stdin.write(b"one\ntwo\n")
    producer.stdin.close()
    assert json.loads(producer.stdout.read()) == {"topic": "t", "records": 2}
    assert producer.wait(60) == 0

    consumer = WarmProcess(["consume", "t", "--path", tmp_path / "data", "--follow"], stdout=subprocess.PIPE, text=True)
    assert consumer.stdout.readline() == "one\n"
    output = consumer.stdout
    del consumer
    assert output.read() == "two\n", "its end of the pipe is closed"
