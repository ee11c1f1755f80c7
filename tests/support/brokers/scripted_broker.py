"""A broker that says what a test tells it: real sockets on 127.0.0.1, real frames, and no log behind them.

    with ScriptedBroker() as broker:
        broker.topics["t"] = 2                                Metadata is answered by itself, with this node as leader
        broker.script(ApiKey.LIST_OFFSETS, CLOSE, answer)     what comes first, second, …; the last one stays

An answer is a message, a function of the request, CLOSE (hangs up) or SILENCE. `broker.requests` holds what was asked.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from datetime import timedelta
from uuid import UUID, uuid5

from kio.schema.api_versions.v3 import response as api_versions
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v4 import response as find_coordinator
from kio.schema.metadata.v12 import response as metadata
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i16, i32, i32Timedelta, i64

from broker_core.client.cluster_client import open_remote
from broker_core.model.client_settings import parse_client_settings
from broker_core.model.exceptions import MalformedMessageError
from broker_core.protocol.api_table import ApiKey, message_types, versions_with_schemas
from broker_core.protocol.connection import ServerSide, response_frame

CLOSE = object()
SILENCE = object()
NO_TIME = i32Timedelta(timedelta(0))
_ID_SPACE = UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")


def schema_of(api_key, version, side="response"):
    """The module of kio that holds the message and its parts."""
    import importlib

    return importlib.import_module(getattr(message_types(api_key, version), side).__module__)


class ScriptedBroker:
    def __init__(self, *, node_id=1, tls=None):
        self.node_id = node_id
        self.topics = {}
        """Names and partition counts."""
        self.leaders = {}
        """(name, number) -> node, where it is another one than this."""
        self.nodes = {}
        """node -> (host, port) of others in the cluster."""
        self.controller_id = node_id
        self.versions = {key: (span.start, span.stop - 1) for key in ApiKey if (span := versions_with_schemas(key))}
        self.transaction_version = 2
        self.requests = []
        self.connection_count = 0
        self._scripts = {}
        self._tls = tls
        self._connections = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def client(self, **settings):
        """A client of it, impatient; `__` in a name stands for a dot."""
        given = {name.replace("__", "."): str(value) for name, value in settings.items()}
        defaults = {
            "bootstrap.servers": self.address,
            "default.api.timeout.ms": "2000",
            "delivery.timeout.ms": "2000",
            "request.timeout.ms": "1000",
            "retry.backoff.ms": "1",
            "retry.backoff.max.ms": "5",
        }
        return open_remote(parse_client_settings(defaults | given))

    def script(self, api_key, *answers):
        self._scripts[api_key] = list(answers)

    def asked(self, api_key):
        """The requests for one API key, as messages."""
        return [request.message for request in self.requests if request.api_key == api_key]

    def hang_up(self):
        """Closes every connection, and goes on listening."""
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._connections.clear()

    def stop(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def _accept(self):
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            self.connection_count += 1
            threading.Thread(target=self._serve, args=(accepted,), daemon=True).start()

    def _serve(self, accepted):
        protocol = ServerSide(max_frame_bytes=2**27)
        try:
            if self._tls is not None:
                accepted = self._tls.wrap_socket(accepted, server_side=True)
            self._connections.append(accepted)
            with accepted:
                while data := accepted.recv(65536):
                    protocol.receive_data(data)
                    while (request := protocol.next_request()) is not None:
                        self.requests.append(request)
                        answer = self._answer(request)
                        if answer is CLOSE:
                            return
                        if isinstance(answer, bytes):
                            accepted.sendall(answer)
                        elif answer is not SILENCE:
                            accepted.sendall(b"".join(response_frame(request, answer)[0]))
        except (OSError, MalformedMessageError):
            return

    def _answer(self, request):
        script = self._scripts.get(request.api_key)
        if not script:
            return self._own_answer(request)
        answer = script.pop(0) if len(script) > 1 else script[0]
        return answer(request) if callable(answer) else answer

    def _own_answer(self, request):
        if request.api_key == ApiKey.API_VERSIONS:
            return self._api_versions()
        if request.api_key == ApiKey.METADATA:
            return self._metadata(request.message)
        if request.api_key == ApiKey.FIND_COORDINATOR:
            return self._coordinators(request.message)
        if request.api_key == ApiKey.DESCRIBE_CONFIGS:
            return self._configs(request.message)
        raise AssertionError(f"the script has no answer to {ApiKey(request.api_key).label}")

    def _api_versions(self):
        return api_versions.ApiVersionsResponse(
            error_code=ErrorCode.none,
            throttle_time=NO_TIME,
            api_keys=tuple(
                api_versions.ApiVersion(api_key=i16(key), min_version=i16(low), max_version=i16(high))
                for key, (low, high) in self.versions.items()
            ),
            finalized_features=(
                api_versions.FinalizedFeatureKey(
                    name="transaction.version",
                    max_version_level=i16(self.transaction_version),
                    min_version_level=i16(self.transaction_version),
                ),
            ),
        )

    def _metadata(self, message):
        names = self.topics if message.topics is None else [topic.name for topic in message.topics]
        nodes = {self.node_id: ("127.0.0.1", self.port)} | self.nodes
        return metadata.MetadataResponse(
            throttle_time=NO_TIME,
            brokers=tuple(
                metadata.MetadataResponseBroker(node_id=BrokerId(node_id), host=host, port=i32(port), rack=None)
                for node_id, (host, port) in nodes.items()
            ),
            cluster_id="scripted",
            controller_id=BrokerId(self.controller_id),
            topics=tuple(self._topic(name) for name in names),
        )

    def _topic(self, name):
        is_known = name in self.topics
        return metadata.MetadataResponseTopic(
            error_code=ErrorCode.none if is_known else ErrorCode.unknown_topic_or_partition,
            name=TopicName(name),
            topic_id=uuid5(_ID_SPACE, name) if is_known else None,
            is_internal=name.startswith("__"),
            partitions=tuple(self._partition(name, number) for number in range(self.topics.get(name, 0))),
        )

    def _partition(self, name, number):
        return metadata.MetadataResponsePartition(
            error_code=ErrorCode.none,
            partition_index=i32(number),
            leader_id=BrokerId(self.leaders.get((name, number), self.node_id)),
            leader_epoch=i32(0),
        )

    def _coordinators(self, message):
        return find_coordinator.FindCoordinatorResponse(
            throttle_time=NO_TIME,
            coordinators=tuple(
                find_coordinator.Coordinator(
                    key=key,
                    node_id=BrokerId(self.node_id),
                    host="127.0.0.1",
                    port=i32(self.port),
                    error_code=ErrorCode.none,
                    error_message=None,
                )
                for key in message.coordinator_keys
            ),
        )

    def _configs(self, message):
        schema = schema_of(ApiKey.DESCRIBE_CONFIGS, 4)
        return schema.DescribeConfigsResponse(
            throttle_time=NO_TIME,
            results=tuple(
                schema.DescribeConfigsResult(
                    error_code=ErrorCode.none,
                    error_message=None,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    configs=(),
                )
                for resource in message.resources
            ),
        )


def offsets_answer(*entries):
    """ListOffsets version 7: (topic, number, offset, timestamp, error) each, by default -1 and no error."""
    schema = schema_of(ApiKey.LIST_OFFSETS, 7)
    return schema.ListOffsetsResponse(
        throttle_time=NO_TIME,
        topics=tuple(
            schema.ListOffsetsTopicResponse(
                name=TopicName(topic),
                partitions=(
                    schema.ListOffsetsPartitionResponse(
                        partition_index=i32(number),
                        error_code=(rest[1] if len(rest) > 1 else ErrorCode.none),
                        timestamp=i64(rest[0] if rest else -1),
                        offset=i64(offset),
                    ),
                ),
            )
            for topic, number, offset, *rest in entries
        ),
    )
