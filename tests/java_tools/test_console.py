"""kafka-console-producer.sh and kafka-console-consumer.sh."""

import pytest
from support.clients.confluent_clients import a_producer, make_topic, read_all, send

SHOW_ALL = [
    word
    for name in ("print.partition", "print.offset", "print.headers", "print.key")
    for word in ("--formatter-property", f"{name}=true")
]
COMPLETE = "Processed a total of {} messages"


def consume(tools, topic, count, *arguments):
    """The lines of `count` records. Waits for these and no more."""
    words = ("--max-messages", count, "--timeout-ms", 30_000, *arguments)
    ended = tools.run("ConsoleConsumer", "--topic", topic, *words)
    assert COMPLETE.format(count) in ended.err, ended
    return ended.out.splitlines()


def consume_until_silence(tools, topic, *arguments):
    return tools.run("ConsoleConsumer", "--topic", topic, "--timeout-ms", 2000, *arguments).out.splitlines()


def produce(tools, topic, text, *arguments):
    ended = tools.run("ConsoleProducer", "--topic", topic, *arguments, given=text)
    assert "ERROR" not in ended.err


def test_keys_headers_nulls_and_partitions_are_kept(tools, broker):
    topic = make_topic(broker, 3)
    lines = [f"one:1,two:{n}\tk{n}\tvalue ü {n}" for n in range(12)]
    words = ("parse.key=true", "parse.headers=true", "null.marker=NIL")
    properties = [word for name in words for word in ("--reader-property", name)]
    produce(tools, topic, "\n".join([*lines, "NIL\tNIL\tempty", "h:x\tgone\tNIL"]), *properties)
    shown = consume(tools, topic, 14, "--from-beginning", *SHOW_ALL, "--formatter-property", "null.literal=NIL")
    told = sorted(line.split("\t", 2) for line in shown)
    theirs = sorted(
        (f"Partition:{m.partition()}", f"Offset:{m.offset()}", _as_shown(m)) for m in read_all(broker, topic)
    )
    assert [tuple(line) for line in told] == theirs
    by_key = {line.split("\t")[3]: line.split("\t")[4] for line in shown}
    assert by_key == {f"k{n}": f"value ü {n}" for n in range(12)} | {"NIL": "empty", "gone": "NIL"}
    assert sorted({line.split("\t")[2] for line in shown if "k11" in line}) == ["one:1,two:11"]


def _as_shown(message):
    headers = ",".join(f"{name}:{value.decode()}" for name, value in message.headers() or ()) or "NO_HEADERS"
    key, value = (b"NIL" if each is None else each for each in (message.key(), message.value()))
    return f"{headers}\t{key.decode()}\t{value.decode()}"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_each_codec_is_written_and_read(tools, broker, codec):
    topic = make_topic(broker)
    lines = [f"{codec} {n} {'x' * n}" for n in range(200)]
    produce(tools, topic, "\n".join(lines), "--command-property", f"compression.type={codec}")
    assert consume(tools, topic, 200, "--from-beginning") == lines
    assert [message.value().decode() for message in read_all(broker, topic)] == lines


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_continues_at_its_committed_offsets(tools, broker, protocol):
    topic, group = make_topic(broker), broker.name("g")
    words = ("--group", group, "--command-property", f"group.protocol={protocol}")
    produce(tools, topic, "a\nb\nc\nd\n")
    assert consume(tools, topic, 3, *words, "--from-beginning") == ["a", "b", "c"]
    produce(tools, topic, "e\n")
    assert consume(tools, topic, 2, *words) == ["d", "e"]


def test_a_consumer_starts_at_the_given_offset(tools, broker):
    topic = make_topic(broker, 2)
    send(a_producer(broker), topic, [{"value": f"{n}".encode(), "partition": 1} for n in range(10)])
    there = ("--partition", 1)
    assert consume(tools, topic, 3, *there, "--offset", 7) == ["7", "8", "9"]
    assert consume(tools, topic, 1, *there, "--offset", "earliest") == ["0"]
    assert consume_until_silence(tools, topic, *there, "--offset", "latest") == []
    pattern = ("ConsoleConsumer", "--include", f"{topic}|no-such-.*", "--from-beginning", "--max-messages", 10)
    assert sorted(tools.run(*pattern).lines) == [str(n) for n in range(10)]


def test_a_read_committed_consumer_sees_neither_aborted_nor_open_transactions(tools, broker):
    topic = make_topic(broker)
    producer = a_producer(broker, transactional__id=broker.name("x"))
    producer.init_transactions(30)
    for values, end in (("abc", producer.commit_transaction), ("def", producer.abort_transaction), ("ghi", None)):
        producer.begin_transaction()
        send(producer, topic, [value.encode() for value in values])
        if end:
            end(30)
    committed = ("--from-beginning", "--isolation-level", "read_committed")
    assert consume_until_silence(tools, topic, *committed) == [*"abc"]
    assert consume(tools, topic, 9, "--from-beginning") == [*"abcdefghi"]
    producer.commit_transaction(30)
    assert consume(tools, topic, 6, *committed) == [*"abcghi"]


def test_the_first_write_creates_the_topic(tools, broker):
    topic = broker.name("new")
    produce(tools, topic, "first\n")
    assert consume(tools, topic, 1, "--from-beginning") == ["first"]


def test_records_of_the_internal_topics_can_be_read(tools, broker):
    topic, group = make_topic(broker), broker.name("g")
    produce(tools, topic, "a\n")
    consume(tools, topic, 1, "--group", group, "--from-beginning")
    formatter = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"
    said = consume_until_silence(tools, "__consumer_offsets", "--from-beginning", "--formatter", formatter)
    (mine,) = [line for line in said if f'"group":"{group}"' in line]
    assert f'"topic":"{topic}","partition":0' in mine
    assert '"offset":1' in mine
