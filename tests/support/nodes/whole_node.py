"""A whole BrokerNode in a directory, its jobs done when a test says so, and requests to it as a client reads them.

node = a_node(tmp_path)
answer = ask(node, ApiKey.METADATA, 12, topics=[{"name": "t"}])       jobs are run until it is there
waiting = begin(node, ApiKey.FETCH, …); waiting.answer is None        nothing runs by itself
"""

from __future__ import annotations

from support.clients.transacting import SetClock
from support.files.queued_jobs import QueuedJobs

from broker_core.broker.broker_node import BrokerNode, NodePorts
from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.handlers.call import ConnectionEnd, Peer, ThrottledAnswer
from broker_core.handlers.dispatch import dispatch
from broker_core.log_directory.system_ports import SystemEntropy, SystemLocks
from broker_core.protocol.api_table import ApiKey, message_types
from broker_core.protocol.connection import Request
from broker_core.protocol.message_builder import build
from broker_core.protocol.message_reader import decode
from broker_core.protocol.message_writer import encode
from broker_core.protocol.served_versions import SERVED_VERSIONS
from broker_core.storage.os_file_system import OsFileSystem

LISTENER = "PLAINTEXT"
EVE = "User:eve"
"""Somebody who may do nothing, unless a test allows it."""
NO_ANSWER = "no answer"
"""What `WaitingRequest.answer` is where none is given on purpose."""


def a_node(path, *, fs=None, clock=None, entropy=None, locks=None, stopwatch_ns=lambda: 0, **settings):
    """Started. Settings by their names, with `_` for `.`. The machine's own disk, locks and dice unless they are
    given."""
    given = {name.replace("_", "."): str(value) for name, value in settings.items()}
    config = parse_broker_config({"listeners": f"{LISTENER}://127.0.0.1:9092", "log.dirs": str(path), **given})
    ports = NodePorts(
        jobs=QueuedJobs(),
        clock=clock or SetClock(),
        entropy=entropy or SystemEntropy(),
        file_system=fs or OsFileSystem(),
        locks=locks or SystemLocks(),
        stopwatch_ns=stopwatch_ns,
    )
    node = BrokerNode(config, ports)
    started = []
    node.start(lambda: started.append(True), started.append)
    node.jobs.run_all()
    if started != [True]:
        raise started[0]
    return node


def a_guarded_node(path, **settings):
    """Where only who is asked for by default may do everything."""
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    return a_node(path, authorizer_class_name=authorizer, super_users="User:ANONYMOUS", **settings)


def allow(node, principal, operation, resource_type, name, *, is_prefix=False):
    rule = {
        "resource_type": int(resource_type),
        "resource_name": name,
        "resource_pattern_type": 4 if is_prefix else 3,
        "principal": principal,
        "host": "*",
        "operation": int(operation),
        "permission_type": 3,
    }
    (result,) = ask(node, ApiKey.CREATE_ACLS, creations=[rule]).results
    assert result.error_code.value == 0, result


def stop(node):
    stopped = []
    node.stop(lambda: stopped.append(True))
    node.jobs.run_all()
    assert stopped == [True]


class WaitingRequest:
    """One request. `answer` is None until it is there; then its client is throttled for `throttle_ms`."""

    def __init__(self, types):
        self._types = types
        self.answer = None
        self.throttle_ms = 0

    def take(self, message):
        assert self.answer is None, "answered twice"
        if isinstance(message, ThrottledAnswer):
            self.throttle_ms, message = message.throttle_ms, message.message
        if message is None:
            self.answer = NO_ANSWER
        elif isinstance(message, ConnectionEnd):
            self.answer = message
        else:
            written = memoryview(b"".join(bytes(part) for part in encode(message)))
            self.answer, end = decode(type(message), written)
            assert end == len(written)


def begin(node, api_key, version=None, *, principal="User:ANONYMOUS", **fields):
    version = SERVED_VERSIONS[api_key][-1] if version is None else version
    types = message_types(api_key, version)
    message = build(types.request, fields)
    # As it comes from the network: through bytes.
    written = memoryview(bytearray(b"".join(bytes(part) for part in encode(message))))
    request = Request(
        api_key=api_key,
        api_version=version,
        correlation_id=1,
        client_id="test",
        message=decode(types.request, written)[0],
        size_bytes=len(written),
    )
    peer = Peer(client_host="127.0.0.1", client_port=1, listener=LISTENER, principal=principal, connection_id=1)
    waiting = WaitingRequest(types)
    dispatch(node, request, peer, waiting.take, node.clock.now_ms())
    return waiting


def ask(node, api_key, version=None, *, principal="User:ANONYMOUS", **fields):
    waiting = begin(node, api_key, version, principal=principal, **fields)
    node.jobs.run_all()
    assert waiting.answer is not None, f"{ApiKey(api_key).label} waits for something that is no job"
    return waiting.answer


def set_quotas(node, entity=(("user", "ANONYMOUS"),), **quotas):
    """A value of None removes one."""
    entry = {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
        "ops": [{"key": key, "value": value or 0, "remove": value is None} for key, value in quotas.items()],
    }
    (answer,) = ask(node, ApiKey.ALTER_CLIENT_QUOTAS, entries=[entry], validate_only=False).entries
    assert answer.error_code.value == 0, answer


def pass_time(node, milliseconds):
    node.clock.time_ms += milliseconds
    node.on_time(node.clock.now_ms())
    node.jobs.run_all()


def make_topic(node, name, partition_count=1, **configs):
    answer = ask(
        node,
        ApiKey.CREATE_TOPICS,
        topics=[
            {
                "name": name,
                "num_partitions": partition_count,
                "replication_factor": -1,
                "configs": [{"name": key.replace("_", "."), "value": str(value)} for key, value in configs.items()],
            }
        ],
        timeout=1000,
    )
    (topic,) = answer.topics
    assert topic.error_code.value == 0, topic
    return topic.topic_id


def produce(node, topic, batch, *, partition=0, version=9, acks=-1, transactional_id=None, timeout=1000, run=True):
    """The answer for the one partition, or the whole request when `run` is false."""
    fields = {
        "acks": acks,
        "timeout": timeout,
        "transactional_id": transactional_id,
        "topic_data": [{"name": topic, "partition_data": [{"index": partition, "records": batch}]}],
    }
    if not run:
        return begin(node, ApiKey.PRODUCE, version, **fields)
    answer = ask(node, ApiKey.PRODUCE, version, **fields)
    return answer if acks == 0 else answer.responses[0].partition_responses[0]


def fetch(node, topic, offset=0, *, partition=0, version=12, run=True, **more):
    """The answer for the one partition, or the whole request when `run` is false."""
    fields = {"max_wait": 0, "min_bytes": 1, "max_bytes": 2**20, "isolation_level": 0, "session_epoch": -1}
    per_partition = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 2**20}
    for name in ("partition_max_bytes", "current_leader_epoch", "last_fetched_epoch"):
        if name in more:
            per_partition[name] = more.pop(name)
    fields |= more | {"topics": [{"topic": topic, "partitions": [per_partition]}]}
    waiting = begin(node, ApiKey.FETCH, version, **fields)
    if not run:
        return waiting
    node.jobs.run_all()
    return waiting.answer.responses[0].partitions[0]
