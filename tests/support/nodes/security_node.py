"""What of a node the handlers of users and access rules touch, over a real metadata log; and requests to them."""

from __future__ import annotations

from collections import deque

from broker_core.broker.topic_store import TopicStore
from broker_core.handlers.call import Call, Peer
from broker_core.handlers.registry import HANDLERS
from broker_core.log_directory.directory import LogDirectory
from broker_core.log_directory.metadata_log import MetadataLog
from broker_core.log_directory.partition_folders import PartitionFolders
from broker_core.log_directory.system_ports import SystemClock, SystemEntropy
from broker_core.metadata.authorizer import Authorizer
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.protocol.api_table import message_types
from broker_core.protocol.connection import Request
from broker_core.protocol.message_builder import build
from broker_core.protocol.message_reader import decode
from broker_core.protocol.message_writer import encode
from broker_core.protocol.served_versions import SERVED_VERSIONS
from broker_core.storage.os_file_system import OsFileSystem

ADMIN = "User:admin"


class WaitingJobs:
    """Jobs that are done when a test says so."""

    def __init__(self):
        self._waiting = deque()

    def submit(self, work, on_value, on_error):
        self._waiting.append((work, on_value, on_error))

    def run_all(self):
        while self._waiting:
            work, on_value, on_error = self._waiting.popleft()
            try:
                value = work()
            except Exception as error:
                on_error(error)
            else:
                on_value(value)


class SecurityNode:
    """`authorizer` with admin as the super user, or none."""

    def __init__(self, path, *, has_authorizer=True, fs=None):
        self.fs = fs or OsFileSystem()
        self.entropy = SystemEntropy()
        directory = LogDirectory(self.fs, str(path), create=True, entropy=self.entropy)
        directory.make()
        self._log = MetadataLog(self.fs, directory, SystemClock())
        self._log.make()
        folders = PartitionFolders(self.fs, str(path), self._log, self.entropy)
        self.jobs = WaitingJobs()
        self.topics = TopicStore(MetadataImage(), self._log, folders, self.jobs, self.entropy)
        self.authorizer = Authorizer(self._rules, super_users={ADMIN}) if has_authorizer else None

    def _rules(self):
        return self.topics.image.access_control

    def image_from_the_log(self):
        """What a node that starts now would know."""
        self._log.refresh()
        return self._log.image


def ask(node, api_key, version=None, *, principal=ADMIN, **fields):
    """The answer, through bytes and back, as a client would read it."""
    answers = []
    version = SERVED_VERSIONS[api_key][-1] if version is None else version
    types = message_types(api_key, version)
    request = Request(
        api_key=api_key,
        api_version=version,
        correlation_id=1,
        client_id="test",
        message=build(types.request, fields),
    )
    peer = Peer(client_host="127.0.0.1", client_port=1, listener="L", principal=principal, connection_id=1)
    HANDLERS[api_key](Call(node=node, request=request, peer=peer, send=answers.append, now_ms=0))
    node.jobs.run_all()
    (answer,) = answers
    written = memoryview(b"".join(bytes(part) for part in encode(answer)))
    read, end = decode(types.response, written)
    assert end == len(written)
    return read


def codes(results):
    return [(result.error_code.name, result.error_message) for result in results]
