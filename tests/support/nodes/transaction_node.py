"""A whole node on a real file system whose jobs run when they are told to; transactional requests to it, as a client
would send and read them."""

from __future__ import annotations

from support.files.queued_jobs import QueuedJobs
from support.nodes.replica_builders import HandClock, RefusingFileSystem

from broker_core.broker.broker_node import BrokerNode, NodePorts
from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.handlers.call import Peer
from broker_core.handlers.dispatch import dispatch
from broker_core.log_directory.system_ports import SystemEntropy
from broker_core.model.identifiers import IsolationLevel, TopicPartition
from broker_core.protocol.api_table import ApiKey, message_types
from broker_core.protocol.connection import Request
from broker_core.protocol.message_builder import build
from broker_core.protocol.message_reader import decode
from broker_core.protocol.message_writer import encode
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record, iter_headers, records_of
from broker_core.record.control_records import read_end_transaction_marker

ADMIN = "User:admin"
TV1 = {"init": 4, "add": 3, "produce": 9, "end": 3, "offsets": 3}
TV2 = {"init": 5, "add": None, "produce": 12, "end": 5, "offsets": 5}


class TransactionNode:
    """One start of a node in the directory at `path`. `loop_ms` is its clock."""

    def __init__(self, path, *, clock=None, fs=None, topics=("orders",), **settings):
        self.jobs = QueuedJobs()
        self.clock = clock or HandClock()
        self.fs = fs or RefusingFileSystem()
        named = {name.replace("_", "."): str(value) for name, value in settings.items()}
        config = parse_broker_config(
            {"listeners": "PLAINTEXT://127.0.0.1:19092", "log.dirs": str(path), "node.id": "0", **named}
        )
        ports = NodePorts(jobs=self.jobs, clock=self.clock, entropy=SystemEntropy(), file_system=self.fs)
        self.node = BrokerNode(config, ports)
        self.errors = []
        self.node.start(lambda: None, self.errors.append)
        self.jobs.run_all()
        assert not self.errors, self.errors
        for name in topics:
            if name not in self.node.topics.image.topics:
                self.make_topic(name)

    def make_topic(self, name, partition_count=3):
        refused = []
        self.node.topics.create_topic(
            name, partition_count=partition_count, configs={}, on_reply=lambda _: None, on_error=refused.append
        )
        self.jobs.run_all()
        assert not refused, refused

    def send(self, api_key, version, *, principal=ADMIN, **fields):
        """The list that the answer will be in: empty while it is on its way."""
        types = message_types(api_key, version)
        answers = []

        def receive(answer):
            written = memoryview(b"".join(bytes(part) for part in encode(answer)))
            answers.append(decode(types.response, written)[0])

        message = build(types.request, fields)
        request = Request(api_key=api_key, api_version=version, correlation_id=1, client_id="c", message=message)
        peer = Peer(client_host="127.0.0.1", client_port=1, listener="PLAINTEXT", principal=principal, connection_id=1)
        dispatch(self.node, request, peer, receive, self.clock.ms)
        return answers

    def ask(self, api_key, version, **fields):
        answers = self.send(api_key, version, **fields)
        self.jobs.run_all()
        (answer,) = answers
        return answer

    def pass_ms(self, duration_ms):
        until_ms = self.clock.ms + duration_ms
        while (at_ms := self.node.next_timer_ms()) is not None and at_ms <= until_ms:
            self.clock.ms = max(self.clock.ms, at_ms)
            self.node.on_time(self.clock.ms)
            self.jobs.run_all()
        self.clock.ms = until_ms

    def stop(self):
        ended = []
        self.node.stop(lambda: ended.append(True))
        self.jobs.run_all()
        assert ended

    # -- requests --

    def init(self, transactional_id="t", version=5, *, timeout_ms=60_000, known=(-1, -1), principal=ADMIN):
        """(error, producer id, epoch)."""
        fields = {"transactional_id": transactional_id, "transaction_timeout": timeout_ms}
        if version >= 3:
            fields |= {"producer_id": known[0], "producer_epoch": known[1]}
        answer = self.ask(ApiKey.INIT_PRODUCER_ID, version, principal=principal, **fields)
        return answer.error_code.name, answer.producer_id, answer.producer_epoch

    def producer(self, transactional_id="t", **given):
        """The next instance."""
        while (answer := self.init(transactional_id, **given))[0] == "concurrent_transactions":
            pass
        assert answer[0] == "none", answer
        return answer[1:]

    def send_add(self, producer, *numbers, transactional_id="t", version=3, topic="orders", principal=ADMIN):
        return self.send(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            version,
            principal=principal,
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=[{"name": topic, "partitions": list(numbers or (0,))}],
        )

    def add(self, producer, *numbers, **given):
        """The error of each partition."""
        answers = self.send_add(producer, *numbers, **given)
        self.jobs.run_all()
        (answer,) = answers
        (results,) = answer.results_by_topic_v3_and_below
        return [each.partition_error_code.name for each in results.results_by_partition]

    def end(self, producer, *, commit=True, transactional_id="t", version=5, principal=ADMIN):
        """(error, producer id, epoch); of old versions the error alone."""
        (answer,) = self.send_end(producer, commit, transactional_id, version, principal, run=True)
        if version < 5:
            return answer.error_code.name
        return answer.error_code.name, answer.producer_id, answer.producer_epoch

    def send_end(self, producer, commit=True, transactional_id="t", version=5, principal=ADMIN, *, run=False):
        answers = self.send(
            ApiKey.END_TXN,
            version,
            principal=principal,
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=commit,
        )
        if run:
            self.jobs.run_all()
        return answers

    def send_produce(self, producer, sequence, *, number=0, transactional_id="t", version=12, value=b"v"):
        batch = build_batch(
            [Record(value=value, timestamp_ms=self.clock.ms)],
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            is_transactional=True,
        )
        return self.send(
            ApiKey.PRODUCE,
            version,
            transactional_id=transactional_id,
            acks=-1,
            timeout=30_000,
            topic_data=[{"name": "orders", "partition_data": [{"index": number, "records": bytes(batch)}]}],
        )

    def produce(self, *arguments, **given):
        answers = self.send_produce(*arguments, **given)
        self.jobs.run_all()
        return produce_error(answers)

    def add_offsets(self, producer, *, group_id="g", transactional_id="t", version=3, principal=ADMIN):
        answer = self.ask(
            ApiKey.ADD_OFFSETS_TO_TXN,
            version,
            principal=principal,
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            group_id=group_id,
        )
        return answer.error_code.name

    def commit_offset(
        self, producer, offset=5, *, numbers=(0,), version=3, transactional_id="t", group_id="g", topic="orders", **more
    ):
        answer = self.ask(
            ApiKey.TXN_OFFSET_COMMIT,
            version,
            transactional_id=transactional_id,
            group_id=group_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            topics=[
                {
                    "name": topic,
                    "partitions": [
                        {"partition_index": number, "committed_offset": offset, "committed_metadata": "m"}
                        for number in numbers
                    ],
                }
            ],
            **more,
        )
        (topic_answer,) = answer.topics
        return [each.error_code.name for each in topic_answer.partitions]

    def committed_offset(self, group_id="g", number=0, topic="orders"):
        answer = self.ask(
            ApiKey.OFFSET_FETCH,
            7,
            group_id=group_id,
            topics=[{"name": topic, "partition_indexes": [number]}],
            require_stable=False,
        )
        return answer.topics[0].partitions[0].committed_offset

    def describe(self, transactional_id="t", principal=ADMIN):
        (state,) = self.ask(
            ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[transactional_id], principal=principal
        ).transaction_states
        return state

    def state(self, transactional_id="t"):
        """(state, epoch)."""
        described = self.describe(transactional_id)
        return described.transaction_state, described.producer_epoch

    # -- what is in the log --

    def log(self, number=0, topic="orders"):
        """Of one partition, in order: (producer id, epoch, value) of records and (producer id, epoch, is_commit)."""
        replica = self.node.replicas.get(TopicPartition(topic, number))
        found, offset = [], replica.bounds.log_start_offset
        while offset < replica.bounds.log_end_offset:
            fetched = replica.read(offset, max_bytes=1 << 20, isolation=IsolationLevel.READ_UNCOMMITTED)
            for position, header in iter_headers(fetched.buffer):
                who = header.producer_id, header.producer_epoch
                if header.is_control:
                    found.append((*who, read_end_transaction_marker(fetched.buffer, position).is_commit))
                else:
                    found += [(*who, record.value) for record in records_of(fetched.buffer, position)]
            offset = fetched.next_offset
        return found

    def open_producers(self, number=0):
        """Ids of producers with an open transaction in the partition."""
        replica, errors = self.node.replicas.get(TopicPartition("orders", number)), []
        replica.when_producers_known(lambda: None, errors.append)
        self.jobs.run_all()
        assert not errors, errors
        entries = replica.producer_entries()
        return {each for each, entry in entries.items() if entry.transaction_first_offset is not None}


def produce_error(answers):
    (answer,) = answers
    return answer.responses[0].partition_responses[0].error_code.name
