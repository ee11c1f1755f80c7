"""A process of its own, and signals."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from support.brokers.small_broker import RawClient, versions

PATIENCE_SECONDS = 60


TESTS = Path(__file__).parents[3]
HANGING = """
from functools import partial
from support.brokers.small_broker import SmallNode, dispatch
from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.server import broker_process
from broker_core.server.broker_server import BrokerServer

class HangingNode(SmallNode):
    def stop(self, on_done):
        pass

broker_process.BrokerServer = partial(BrokerServer, new_node=HangingNode, dispatch_request=dispatch)
broker_process.run_broker(parse_broker_config({"listeners": "PLAINTEXT://127.0.0.1:0"}))
"""


class CommandProcess:
    def __init__(self, command, **given):
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=TESTS.parent, **given
        )
        self.ready_line = None

    def wait_until_ready(self):
        self.ready_line = self.process.stdout.readline()

    @property
    def port(self):
        return int(re.fullmatch(r"streamlog broker is ready: PLAINTEXT://127\.0\.0\.1:(\d+)\n", self.ready_line)[1])

    def end(self, number):
        self.process.send_signal(number)
        _, log = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, log


class BrokerProcess(CommandProcess):
    def __init__(self, path):
        super().__init__([sys.executable, "-m", "broker_core.cli.main", "broker", "--path", str(path)])


def ignores_closed_pipes(process):
    """The command line lets itself be ended by one, and a broker that was found so died with the first TLS client that
    left in the middle of something (SIGPIPE)."""
    ignored = re.search(r"SigIgn:\s*([0-9a-f]+)", Path(f"/proc/{process.pid}/status").read_text())[1]
    return bool(int(ignored, 16) >> (signal.SIGPIPE - 1) & 1)


def test_a_signal_stops_the_broker_cleanly_and_a_second_one_immediately(tmp_path):
    brokers = {number: BrokerProcess(tmp_path / number.name) for number in (signal.SIGTERM, signal.SIGINT)}
    hanging = CommandProcess([sys.executable, "-c", HANGING], env=os.environ | {"PYTHONPATH": str(TESTS)})
    for number, broker in brokers.items():
        broker.wait_until_ready()
        assert not Path("/proc").exists() or ignores_closed_pipes(broker.process)
        with RawClient(broker.port) as client:
            assert versions(client).api_keys
            status, log = broker.end(number)
        assert status == 0, log
        assert "stopped" in log
        assert "Traceback" not in log
        assert (tmp_path / number.name / ".kafka_cleanshutdown").exists()
    hanging.wait_until_ready()
    hanging.process.send_signal(signal.SIGTERM)
    while "stopping" not in hanging.process.stderr.readline():
        pass
    status, _ = hanging.end(signal.SIGTERM)
    assert status == 130


def test_an_unclean_stop_sets_the_exit_status_and_is_logged(tmp_path):
    broker = BrokerProcess(tmp_path)
    broker.wait_until_ready()
    (tmp_path / ".kafka_cleanshutdown").mkdir()
    status, log = broker.end(signal.SIGTERM)
    assert status == 1, log
    assert "did not stop cleanly: the next start will recover the log" in log
    assert "Traceback" not in log
