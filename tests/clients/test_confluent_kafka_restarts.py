"""confluent-kafka: clients keep running while the broker is stopped or killed and restarted."""

import threading
import time

import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource
from support.brokers.reachable_broker import PASSWORD, USER
from support.clients.confluent_clients import (
    SECONDS,
    STARTING,
    a_consumer,
    a_producer,
    an_admin,
    committed_in,
    committed_values,
    first_error,
    make_topic,
    numbers_of,
    once_coordinated,
    poll_until,
    read_all,
    send,
    take,
    values_of,
)

LONGER = 60
# On a busy machine a real Kafka restarts slowly, and no client may give up before that.
PATIENT = {"transaction.timeout.ms": 600_000}
WAYS = ["kill", pytest.param("stop", marks=pytest.mark.long)]


class ConfluentWriter:
    """Writes numbers until it is stopped; `written` are the acknowledged ones, in order of acknowledgement."""

    def __init__(self, producer, topic):
        self.written, self.errors = [], []
        self._producer, self._topic, self._may_end = producer, topic, threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def wait_for(self, count):
        """Waits until this many more are acknowledged."""
        enough, deadline = len(self.written) + count, time.monotonic() + LONGER
        while len(self.written) < enough:
            assert time.monotonic() < deadline, f"{len(self.written)} of {enough} written after {LONGER} s"
            time.sleep(0.02)

    def end(self):
        self._may_end.set()
        self._thread.join()
        assert self.errors == []

    def _write(self):
        number = 0
        while not self._may_end.is_set():
            if len(self._producer) < 200:
                self._producer.produce(self._topic, b"%d" % number, on_delivery=self._on_delivery)
                number += 1
            self._producer.poll(0.001)
        assert self._producer.flush(LONGER) == 0

    def _on_delivery(self, error, message):
        if error is not None:
            self.errors.append(error)
        else:
            self.written.append(message.value())


def come_back(broker, how):
    if how == "kill":
        broker.restart()
    else:
        broker.stop()
        broker.start()


@pytest.mark.parametrize(
    ("how", "times"),
    [
        ("kill", 1),
        pytest.param("stop", 1, marks=pytest.mark.long),
        pytest.param("kill", 6, marks=pytest.mark.long),
    ],
)
def test_an_idempotent_producer_writes_each_record_once_and_in_order(broker, how, times):
    topic = make_topic(broker)
    producer = a_producer(broker, enable__idempotence=True, linger__ms=0, batch__num__messages=10, log_level=0)
    writer = ConfluentWriter(producer, topic)
    for _ in range(times):
        writer.wait_for(300)
        come_back(broker, how)
    writer.wait_for(300)
    writer.end()
    assert writer.written == [b"%d" % n for n in range(len(writer.written))]
    assert values_of(broker, topic) == writer.written


def test_no_acknowledged_record_is_lost_and_a_consumer_group_reads_all(broker):
    topic, group = make_topic(broker, partition_count=2), broker.name("g")
    writer = ConfluentWriter(a_producer(broker, enable__idempotence=False, acks="all", log_level=0), topic)
    reader = a_consumer(broker, group, session__timeout__ms=6000, log_level=0)
    reader.subscribe([topic])

    def read_until(values):
        """The positions of the messages that it reads until all these values were read."""
        found, missing, deadline = [], set(values), time.monotonic() + LONGER
        while missing:
            assert time.monotonic() < deadline, f"{len(missing)} not seen after {LONGER} s"
            for message in reader.consume(100, 0.1):
                assert message.error() is None, message.error()
                found.append((message.partition(), message.offset()))
                missing.discard(message.value())
        return found

    writer.wait_for(300)
    before = read_until(writer.written[:100])
    reader.commit(asynchronous=False)
    broker.restart()
    writer.wait_for(300)
    writer.end()
    stored = read_all(broker, topic)
    assert {message.value() for message in stored} == set(writer.written)
    places = [(message.partition(), message.offset()) for message in stored]
    # Offsets committed before the kill are not read again, and none is missing.
    rest = [place for place in places if place not in before]
    after = read_until([message.value() for message in stored if (message.partition(), message.offset()) in rest])
    assert sorted(set(after)) == rest
    reader.close()


@pytest.mark.parametrize("how", WAYS)
def test_a_transaction_survives_a_restart(broker, how):
    topic, group = make_topic(broker), broker.name("g")
    producer = a_producer(broker, transactional__id=broker.name("x"), log_level=0, **PATIENT)
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    send(producer, topic, [b"before"])
    come_back(broker, how)
    send(producer, topic, [b"after"])
    reader = a_consumer(broker, group)
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 2)], reader.consumer_group_metadata(), LONGER)
    assert values_of(broker, topic) == []
    producer.commit_transaction(LONGER)
    assert committed_values(broker, topic) == [b"before", b"after"]
    reader.close()
    assert committed_in(broker, group, topic) == (2, None)


@pytest.mark.long
def test_aborted_transactions_stay_aborted_and_open_ones_stay_open(broker):
    topic, name = make_topic(broker), broker.name("x")
    first = a_producer(broker, transactional__id=broker.name("x"), log_level=0, **PATIENT)
    left = a_producer(broker, transactional__id=name, log_level=0, **PATIENT)
    for producer, value in ((first, b"aborted"), (left, b"left open")):
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        send(producer, topic, [value])
    first.abort_transaction(SECONDS)
    broker.restart()
    send(a_producer(broker), topic, [b"behind"])
    assert values_of(broker, topic) == []
    a_producer(broker, transactional__id=name).init_transactions(LONGER)
    assert committed_values(broker, topic) == [b"behind"]


@pytest.mark.parametrize("how", ["stop", pytest.param("kill", marks=pytest.mark.long)])
def test_topics_settings_offsets_and_records_survive_a_restart(broker, how):
    topic, group = make_topic(broker, partition_count=2, segment__bytes=2_000_000), broker.name("g")
    sent = [{"key": b"k%d" % n, "value": b"%d" % n, "partition": n % 2} for n in range(100)]
    send(a_producer(broker, compression__type="zstd"), topic, sent)
    committer = a_consumer(broker, group)
    committer.commit(offsets=[TopicPartition(topic, 0, 10, metadata="here")], asynchronous=False)
    committer.close()
    before = [(m.partition(), m.offset(), m.key(), m.value(), m.timestamp()) for m in read_all(broker, topic)]
    cluster_id = an_admin(broker).list_topics(timeout=SECONDS).cluster_id
    come_back(broker, how)
    assert an_admin(broker).list_topics(timeout=SECONDS).cluster_id == cluster_id
    assert [(m.partition(), m.offset(), m.key(), m.value(), m.timestamp()) for m in read_all(broker, topic)] == before
    assert committed_in(broker, group, topic) == (10, "here")


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.long)])
def test_group_members_keep_their_partitions_over_a_restart(broker, protocol):
    topic, group = make_topic(broker, partition_count=2), broker.name("g")
    # In the new protocol the broker's setting counts, and a session restarts with the broker.
    patient = {"session.timeout.ms": 300_000} if protocol == "classic" else {}
    members = [a_consumer(broker, group, group__protocol=protocol, log_level=0, **patient) for _ in range(2)]
    for member in members:
        member.subscribe([topic])
    poll_until(lambda: sorted(map(numbers_of, members)) == [[0], [1]], *members)
    shares = [numbers_of(member) for member in members]
    broker.restart()
    send(a_producer(broker), topic, [{"value": b"%d" % number, "partition": number} for number in (0, 1)])
    for member, [number] in zip(members, shares, strict=True):
        assert [message.value() for message in take(member, 1, LONGER, STARTING)] == [b"%d" % number]
        once_coordinated(lambda member=member: member.commit(asynchronous=False))
    assert [numbers_of(member) for member in members] == shares
    for member in members:
        member.close()


JAAS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"


def plain_login(password):
    return {"sasl.mechanism": "PLAIN", "sasl.password": password}


def set_plain_password(broker, password):
    """While the broker runs; None: the one in its file counts again."""
    value = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{password}";'
    operation = AlterConfigOpType.SET if password else AlterConfigOpType.DELETE
    entry = ConfigEntry(JAAS, value if password else None, incremental_operation=operation)
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    admin = an_admin(broker)  # it ends when it goes out of scope
    admin.incremental_alter_configs([resource])[resource].result(SECONDS)


def assert_logs_in(broker, password, *, refused):
    assert an_admin(broker, "SASL_PLAINTEXT", **plain_login(password)).list_topics(timeout=SECONDS).brokers
    error = first_error(broker, "SASL_PLAINTEXT", **plain_login(refused))
    assert error.code() == KafkaError._AUTHENTICATION
    assert "uthentication failed" in error.str()


def test_a_password_changed_while_the_broker_runs_counts_for_new_connections_and_after_a_restart(broker_of_ours):
    """Kafka 4.3.1 accepts the change and keeps the old password, even after a restart."""
    broker = broker_of_ours
    topic = make_topic(broker)
    connected = a_producer(broker, "SASL_PLAINTEXT", log_level=0, **plain_login(PASSWORD))
    send(connected, topic, [b"before"])
    set_plain_password(broker, "sesame")
    assert_logs_in(broker, "sesame", refused=PASSWORD)
    send(connected, topic, [b"on the open connection"])
    broker.restart()
    assert_logs_in(broker, "sesame", refused=PASSWORD)
    set_plain_password(broker, None)
    assert_logs_in(broker, PASSWORD, refused="sesame")
    assert values_of(broker, topic) == [b"before", b"on the open connection"]


@pytest.mark.long
def test_a_password_edited_in_the_properties_file_counts_from_the_next_start(broker):
    old, new = (f'user_{USER}="{password}"' for password in (PASSWORD, "opened"))
    broker.edit_configuration(old, new)
    assert_logs_in(broker, PASSWORD, refused="opened")
    broker.restart()
    assert_logs_in(broker, "opened", refused=PASSWORD)
    broker.edit_configuration(new, old)
    broker.restart()
    assert_logs_in(broker, PASSWORD, refused="opened")
