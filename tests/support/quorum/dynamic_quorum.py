"""Controllers of a dynamic quorum in this process, on real sockets and directories, all on one loop in a thread.

Node 1 is the only voter at first, the others are observers.
"""

from __future__ import annotations

import asyncio
import threading
import time

from kio.schema.errors import ErrorCode
from support.brokers.reachable_broker import free_ports

from broker_core.client.quorum_change import add_voter
from broker_core.client.quorum_description import describe_quorum
from broker_core.log_directory.format_plan import FirstVoters, parse_format_settings, plan_format
from broker_core.log_directory.storage_format import format_directories
from broker_core.log_directory.system_ports import SystemEntropy
from broker_core.model.client_settings import BrokerAddress, parse_client_settings
from broker_core.model.exceptions import RemoteError
from broker_core.server.quorum.quorum_server import QuorumServer
from broker_core.server.quorum.quorum_settings import parse_quorum_settings
from broker_core.storage.os_file_system import OsFileSystem

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
SECONDS = 30
_SETTINGS = {
    "process.roles": "controller",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.fetch.timeout.ms": "600",
    "metadata.max.idle.interval.ms": "100",
}


class DynamicQuorum:
    """`with DynamicQuorum(path, 3) as quorum:` all nodes run. `settings`: further ones."""

    def __init__(self, path, count, *, settings=None):
        self._path, self._settings = path, settings or {}
        self.ports = dict(zip(range(1, count + 1), free_ports(count), strict=True))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.servers: dict[int, QuorumServer] = {}
        self.ended: list[Exception] = []

    def __enter__(self):
        self._thread.start()
        for node_id in self.ports:
            self.format(node_id)
            self.start(node_id)
        return self

    def __exit__(self, *_):
        for node_id in list(self.servers):
            self.stop(node_id)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        assert self.ended == []

    def given(self, node_id):
        places = ",".join(f"127.0.0.1:{port}" for port in self.ports.values())
        return {
            **_SETTINGS,
            **self._settings,
            "node.id": str(node_id),
            "log.dirs": f"{self._path}/{node_id}",
            "controller.quorum.bootstrap.servers": places,
            "listeners": f"CONTROLLER://127.0.0.1:{self.ports[node_id]}",
        }

    def format(self, node_id):
        entropy, now_ms = SystemEntropy(), int(time.time() * 1000)
        plan = plan_format(
            parse_format_settings(self.given(node_id)),
            cluster_id=CLUSTER_ID,
            first_voters=FirstVoters(is_standalone=node_id == 1, is_joining=node_id != 1),
            release=None,
            levels={},
            entropy=entropy,
        )
        format_directories(OsFileSystem(), plan, ignores_formatted=False, entropy=entropy, now_ms=now_ms)

    def start(self, node_id):
        async def begin():
            server = QuorumServer(parse_quorum_settings(self.given(node_id)), cluster_id=None, on_end=self.ended.append)
            server.start()
            return server

        self.servers[node_id] = self._run(begin())

    def stop(self, node_id):
        self._run(self.servers.pop(node_id).stop())

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(SECONDS)

    @property
    def client_settings(self):
        running = ",".join(f"127.0.0.1:{self.ports[node_id]}" for node_id in self.servers)
        return parse_client_settings({"bootstrap.servers": running, "default.api.timeout.ms": "3000"})

    def endpoints(self, node_id):
        return {"CONTROLLER": BrokerAddress(host="127.0.0.1", port=self.ports[node_id])}

    def directory_of(self, node_id):
        return self.servers[node_id].identity.directory_id

    def add(self, node_id):
        """An observer; again if it is not at the log's end at that moment."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                add_voter(self.client_settings, node_id, self.directory_of(node_id), self.endpoints(node_id))
                return
            except RemoteError as error:
                if error.error_code is not ErrorCode.request_timed_out or time.monotonic() > deadline:
                    raise
            time.sleep(0.1)

    def described(self, until):
        """Once that holds of it."""
        deadline = time.monotonic() + SECONDS
        found = None
        while True:
            try:
                found = describe_quorum(self.client_settings)
                if until(found):
                    return found
            except RemoteError as error:
                found = error
            assert time.monotonic() < deadline, found
            time.sleep(0.01)
