"""What of a node the handlers of groups touch: real topics, a real group service, a runtime whose log is a list; and
requests to it that may stay parked."""

from __future__ import annotations

from support.nodes.security_node import ADMIN, SecurityNode

from broker_core.broker.cluster_view import SingleNodeView
from broker_core.broker.coordination.coordinator_partitions import CoordinatorPart, CoordinatorPartitions
from broker_core.broker.coordination.group_coordinators import GroupCoordinators
from broker_core.broker.coordination.group_service import GroupService
from broker_core.broker.timer_queue import TimerQueue
from broker_core.group.coordinator_records import decode_coordinator_record, encode_coordinator_record
from broker_core.group.group_coordinator import GroupCoordinator
from broker_core.group.group_settings import GroupSettings
from broker_core.handlers.call import Call, Peer
from broker_core.handlers.registry import HANDLERS
from broker_core.model.client_settings import BrokerAddress
from broker_core.model.exceptions import StreamlogError
from broker_core.protocol.api_table import message_types
from broker_core.protocol.connection import Request
from broker_core.protocol.message_builder import build
from broker_core.protocol.message_reader import decode
from broker_core.protocol.message_writer import encode
from broker_core.protocol.served_versions import SERVED_VERSIONS


def error_of(error_code):
    error = StreamlogError("as the test wants it")
    error.error_code = error_code
    return error


class ListRuntime:
    """A coordinator whose records are durable at `flush`, or at once. `refusal` is what everything meets, if set."""

    def __init__(self, make):
        self._make = make
        self.coordinator = make()
        self.log = []
        self.producers = []
        self.is_prompt = True
        self.refusal = None
        self.is_elsewhere = False
        self._held = []

    def load(self):
        """The list is there already."""

    def change(self, plan, on_reply, on_error, *, producer=None, is_divisible=False):
        if self.refusal is not None:
            on_error(self.refusal)
            return
        result = plan(self.coordinator)
        for record in result.records:
            stored = encode_coordinator_record(record, timestamp_ms=0)
            self.log.append((stored.key, stored.value))
            self.producers.append(producer)
            self._replay(len(self.log) - 1)
        self._held.append((on_reply, on_error, result.reply))
        if self.is_prompt:
            self.flush()

    def look(self, question, on_reply, on_error):
        if self.refusal is not None:
            on_error(self.refusal)
        else:
            on_reply(question(self.coordinator))

    def flush(self):
        while self._held:
            on_reply, _, reply = self._held.pop(0)
            on_reply(reply)

    def lose(self, error, *, kept_records):
        """The log refuses what is held; the coordinator is rebuilt from what it has."""
        held, self._held = self._held, []
        del self.log[kept_records:]
        self.coordinator = self._make()
        for at in range(len(self.log)):
            self._replay(at)
        for _, on_error, _ in held:
            on_error(error)

    def _replay(self, at):
        self.coordinator.replay(decode_coordinator_record(*self.log[at]), record_offset=at)


def one_coordinator(node):
    """Of one partition, which has all groups, run by the node's `runtime`."""

    def part(partition):
        service = GroupService(node.runtime, node.timers, node, expiry_interval_ms=600_000)
        return CoordinatorPart(partition=partition, runtime=node.runtime, service=service)

    coordinators = GroupCoordinators(CoordinatorPartitions("__consumer_offsets", node.topics, part))
    coordinators.partitions.load_all()
    return coordinators


class GroupNode(SecurityNode):
    """Time is `now_ms`; `pass_ms` lets timers fire on the way."""

    def __init__(self, path, *, has_authorizer=False, topics=(), **settings):
        super().__init__(path, has_authorizer=has_authorizer)
        ids = iter(f"id{number}" for number in range(1, 1_000))
        given = GroupSettings(**settings)
        self.runtime = ListRuntime(lambda: GroupCoordinator(given, new_id=lambda: next(ids)))
        self.time_ms = 1_000_000
        self.timers = TimerQueue()
        self.groups = one_coordinator(self)
        self.cluster = SingleNodeView(
            cluster_id="c",
            node_id=7,
            endpoints=lambda: {"L": BrokerAddress(host="here", port=9092)},
            is_offline=lambda partition: False,
        )
        for name in topics:
            self.make_topic(name)

    def now_ms(self):
        return self.time_ms

    def pass_ms(self, duration_ms):
        until_ms = self.time_ms + duration_ms
        while (at_ms := self.timers.next_ms()) is not None and at_ms <= until_ms:
            self.time_ms = max(self.time_ms, at_ms)
            self.timers.fire(self.time_ms)
        self.time_ms = until_ms

    def make_topic(self, name, *, partition_count=2):
        made, refused = [], []
        self.topics.create_topic(
            name, partition_count=partition_count, configs={}, on_reply=made.append, on_error=refused.append
        )
        self.jobs.run_all()
        assert not refused, refused
        return made[0]


def send(node, api_key, version=None, *, principal=ADMIN, **fields):
    """The list that the answer will be in, as a client would read it: empty while the request is parked."""
    version = SERVED_VERSIONS[api_key][-1] if version is None else version
    types = message_types(api_key, version)
    answers = []

    def receive(answer):
        written = memoryview(b"".join(bytes(part) for part in encode(answer)))
        read, end = decode(types.response, written)
        assert end == len(written)
        answers.append(read)

    message = build(types.request, fields)
    request = Request(api_key=api_key, api_version=version, correlation_id=1, client_id="cli", message=message)
    peer = Peer(client_host="127.0.0.1", client_port=1, listener="L", principal=principal, connection_id=1)
    HANDLERS[api_key](Call(node=node, request=request, peer=peer, send=receive, now_ms=node.time_ms))
    node.jobs.run_all()
    return answers


def ask(node, api_key, version=None, **fields):
    (answer,) = send(node, api_key, version, **fields)
    return answer
