"""confluent-kafka (librdkafka) at the broker of a test: clients with short waits, and all that a topic holds."""

from __future__ import annotations

import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support.brokers.reachable_broker import PASSWORD, PEMS, USER
from support.builders.wire_batches import wait_for_markers

SECONDS = 20
QUIET = {"log_level": 0}
# What a broker says that has just started and does not know yet which groups it has.
STARTING = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
_IMPATIENT = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "retry.backoff.ms": 20}
_READING = {"fetch.wait.max.ms": 50, "auto.offset.reset": "earliest", "enable.auto.commit": False}


def settings_of(broker, listener="PLAINTEXT", **given):
    """What a client needs for a listener; `__` in a name stands for a dot."""
    found = {"bootstrap.servers": broker.bootstrap(listener), "security.protocol": listener, **_IMPATIENT}
    if listener.startswith("SASL"):
        found |= {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": USER, "sasl.password": PASSWORD}
    if listener.endswith("SSL"):
        found |= {"ssl.ca.location": str(PEMS / "authority.pem")}
    return found | {name.replace("__", "."): value for name, value in given.items()}


def an_admin(broker, listener="PLAINTEXT", **given):
    return AdminClient(settings_of(broker, listener, **given))


def a_producer(broker, listener="PLAINTEXT", **given):
    return Producer(settings_of(broker, listener, **{"linger__ms": 1, **given}))


def a_consumer(broker, group="unused", listener="PLAINTEXT", **given):
    return Consumer(settings_of(broker, listener, **{"group.id": group, **_READING, **given}))


def first_error(broker, listener, **given):
    """The reason that this client reports for a failed login."""
    errors = []
    admin = an_admin(broker, listener, error_cb=errors.append, **QUIET, **given)
    deadline = time.monotonic() + SECONDS
    while not errors and time.monotonic() < deadline:
        admin.poll(0.1)
    return errors[0]


def make_topic(broker, partition_count=1, **config):
    """A new topic; its name."""
    name = broker.name()
    config = {key.replace("__", "."): str(value) for key, value in config.items()}
    new = NewTopic(name, num_partitions=partition_count, replication_factor=1, config={"retention.ms": "-1", **config})
    admin = an_admin(broker)  # gives up what it waits for when it goes out of scope
    admin.create_topics([new])[name].result(SECONDS)
    return name


def send(producer, topic, records):
    """Sends records, each a value or the arguments of produce; their delivery reports, all without an error."""
    reports = []

    def on_delivery(error, message):
        assert error is None, error
        reports.append(message)

    for record in records:
        given = record if isinstance(record, dict) else {"value": record}
        producer.produce(topic, on_delivery=on_delivery, **given)
        producer.poll(0)
    assert producer.flush(SECONDS) == 0
    assert len(reports) == len(records)
    return reports


def read_all(broker, topic, listener="PLAINTEXT", **given):
    """Every message from the beginning to the end, partition by partition in the order of their offsets."""
    reader = a_consumer(broker, listener=listener, **{"enable.partition.eof": True, **given})
    try:
        partitions = sorted(reader.list_topics(topic, SECONDS).topics[topic].partitions)
        reader.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        found, ended, deadline = [], set(), time.monotonic() + SECONDS
        while len(ended) < len(partitions):
            assert time.monotonic() < deadline, f"{len(found)} messages and no end after {SECONDS} s"
            for message in reader.consume(1000, 0.2):
                if message.error() and message.error().code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                else:
                    assert message.error() is None, message.error()
                    found.append(message)
        return sorted(found, key=lambda message: message.partition())
    finally:
        reader.close()


def values_of(broker, topic, **given):
    return [message.value() for message in read_all(broker, topic, **given)]


def committed_values(broker, topic, **given):
    """What read-committed readers, as those of this client are, see once every transaction has ended."""
    wait_for_markers(broker, topic)
    return values_of(broker, topic, **given)


def take(consumer, count, seconds=SECONDS, passing=()):
    """The next `count` messages, in the order in which they came. Errors of the codes in `passing` are those that the
    client only tells of, and gets over by itself."""
    found, deadline = [], time.monotonic() + seconds
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} messages after {seconds} s"
        for message in consumer.consume(count - len(found), 0.2):
            if message.error() is None:
                found.append(message)
            else:
                assert message.error().code() in passing, message.error()
    return found


def once_coordinated(ask):
    """What a call of a consumer returns; it is made again while a broker that has just started says that it is not the
    coordinator yet."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in STARTING or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def committed_in(broker, group, topic, number=0):
    """Offset and metadata that the group has committed."""
    reader = a_consumer(broker, group)
    try:
        asked = [TopicPartition(topic, number)]
        [found] = once_coordinated(lambda: reader.committed(asked, timeout=SECONDS))
        return found.offset, found.metadata
    finally:
        reader.close()


def poll_until(condition, *consumers):
    """Polls consumers, which must have nothing to read, until the condition holds."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {SECONDS} s"
        for consumer in consumers:
            message = consumer.poll(0.02)
            assert message is None or message.error() is not None, "something to read"


def numbers_of(consumer):
    """The partitions that it has been given."""
    return sorted(partition.partition for partition in consumer.assignment())
