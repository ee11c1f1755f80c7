"""kafka-consumer-groups.sh and kafka-groups.sh."""

import time

import pytest
from confluent_kafka import TopicPartition
from support.clients.confluent_clients import a_consumer, a_producer, make_topic, send, take

HOUR_MS = 3_600_000
QUICK = ["--command-property", "session.timeout.ms=6000", "--command-property", "heartbeat.interval.ms=200"]


def of_group(tools, group, *arguments):
    return tools.table("ConsumerGroupCommand", "--describe", "--group", group, *arguments)


def progress(tools, group):
    """Partition to (committed, end, lag)."""
    titles = ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")
    rows = of_group(tools, group)
    return {
        int(row["PARTITION"]): tuple(None if row[title] == "-" else int(row[title]) for title in titles) for row in rows
    }


def reset(tools, group, *arguments, scope="--all-topics"):
    """Partition to the offset that the tool prints."""
    scope = (scope,) if isinstance(scope, str) else scope
    words = ("ConsumerGroupCommand", "--reset-offsets", "--group", group, *scope, *arguments)
    return {int(row["PARTITION"]): int(row["NEW-OFFSET"]) for row in tools.table(*words)}


@pytest.fixture
def stale(broker):
    """A group without members that has committed offsets 5 and 3 of two partitions with ten records, an hour apart."""
    topic, group = make_topic(broker, 2, message__timestamp__type="CreateTime"), broker.name("g")
    now_ms = int(time.time() * 1000)
    producer = a_producer(broker)
    for n in range(10):
        record = {"value": b"v", "timestamp": now_ms - (10 - n) * HOUR_MS}
        send(producer, topic, [{**record, "partition": number} for number in range(2)])
    commit(broker, topic, group, {0: 5, 1: 3})
    return topic, group


def commit(broker, topic, group, offsets):
    consumer = a_consumer(broker, group)
    consumer.commit(offsets=[TopicPartition(topic, *each) for each in offsets.items()], asynchronous=False)
    consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_and_their_partitions_are_described(tools, broker, protocol):
    topic, group = make_topic(broker, 2), broker.name("g")
    send(a_producer(broker), topic, [{"value": b"v", "partition": n % 2} for n in range(6)])
    words = ["--topic", topic, "--group", group, "--command-property", f"group.protocol={protocol}"]
    words += ["--from-beginning", *(QUICK if protocol == "classic" else [])]
    members = [tools.begin("ConsoleConsumer", *words) for _ in range(2)]
    _until(lambda: _shares(tools, group) == [1, 1] and _stable(tools, group))
    (state,) = of_group(tools, group, "--state", "--verbose")
    assert state["#MEMBERS"] == "2"
    rows = of_group(tools, group, "--members", "--verbose")
    assert sorted(row["CURRENT-ASSIGNMENT"] for row in rows) == [f"{topic}:0", f"{topic}:1"]
    assert {row["HOST"] for row in rows} == {"/127.0.0.1"}
    assert {row["CLIENT-ID"] for row in rows} == {"console-consumer"}
    if protocol == "consumer":
        epochs = {row["CURRENT-EPOCH"] for row in rows} | {row["TARGET-EPOCH"] for row in rows}
        assert epochs == {state["GROUP-EPOCH"]} == {state["TARGET-ASSIGNMENT-EPOCH"]}
    listed = tools.table("ConsumerGroupCommand", "--list", "--state", "stable", "--type", protocol)
    assert {"GROUP": group, "TYPE": protocol.capitalize(), "STATE": "Stable"} in listed
    _until(lambda: progress(tools, group) == {0: (3, 3, 0), 1: (3, 3, 0)})
    _refuses_while_active(tools, topic, group)
    # The first member may have read everything before the second joined: it commits before its partitions are revoked.
    assert sum(len(member.stop().out.split()) for member in members) == 6
    (state,) = of_group(tools, group, "--state")
    assert (state["STATE"], state["#MEMBERS"]) == ("Empty", "0")


def _until(is_so, seconds=45):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _shares(tools, group):
    ended = tools.run("ConsumerGroupCommand", "--describe", "--group", group, "--members")
    return [int(line.split()[-1]) for line in ended.lines if line.startswith(group)]


def _stable(tools, group):
    (state,) = of_group(tools, group, "--state")
    return state["STATE"] == "Stable"


def _refuses_while_active(tools, topic, group):
    for words, sentence in (
        (("--delete",), "GroupNotEmptyException"),
        (("--delete-offsets", "--topic", topic), "GroupSubscribedToTopicException"),
        (("--reset-offsets", "--all-topics", "--to-earliest", "--execute"),
         f"Assignments can only be reset if the group '{group}' is inactive, but the current state is Stable."),
    ):  # fmt: skip
        said = tools.run("ConsumerGroupCommand", "--group", group, *words, status=None)
        assert sentence in said.out + said.err


def test_offsets_are_reset_in_every_way(tools, stale):
    _, group = stale
    assert progress(tools, group) == {0: (5, 10, 5), 1: (3, 10, 7)}
    in_between = time.strftime("%Y-%m-%dT%H:%M:%S.000", time.gmtime(time.time() - 4.5 * 3600))
    for words, expected in (
        (("--to-earliest",), {0: 0, 1: 0}),
        (("--to-latest",), {0: 10, 1: 10}),
        (("--to-offset", 4), {0: 4, 1: 4}),
        (("--to-offset", 40), {0: 10, 1: 10}),
        (("--shift-by", -3), {0: 7, 1: 7}),
        (("--shift-by", -30), {0: 0, 1: 0}),
        # Between the records of 5 and of 4 hours ago: the later record is chosen.
        (("--to-datetime", in_between), {0: 6, 1: 6}),
        (("--by-duration", "PT2H30M"), {0: 8, 1: 8}),
        (("--to-datetime", "2010-01-01T00:00:00.000"), {0: 0, 1: 0}),
        (("--to-current",), {0: 0, 1: 0}),
    ):
        assert reset(tools, group, *words, "--execute") == expected, words
        assert {number: row[0] for number, row in progress(tools, group).items()} == expected, words


def test_offsets_are_reset_of_some_partitions_or_from_a_file_or_only_shown(tools, stale, tmp_path):
    topic, group = stale
    assert reset(tools, group, "--to-latest", "--dry-run") == {0: 10, 1: 10}
    assert progress(tools, group) == {0: (5, 10, 5), 1: (3, 10, 7)}
    assert reset(tools, group, "--to-latest", "--execute", scope=("--topic", f"{topic}:1")) == {1: 10}
    assert progress(tools, group) == {0: (5, 10, 5), 1: (10, 10, 0)}
    to_current = ("--reset-offsets", "--group", group, "--all-topics", "--to-current", "--export", "--dry-run")
    exported = tools.run("ConsumerGroupCommand", *to_current).lines
    assert sorted(exported) == [f"{topic},0,5", f"{topic},1,10"]
    file = tmp_path / "offsets.csv"
    file.write_text(f"{topic},0,1\n{topic},1,2\n")
    assert reset(tools, group, "--execute", scope=("--from-file", file)) == {0: 1, 1: 2}
    assert progress(tools, group) == {0: (1, 10, 9), 1: (2, 10, 8)}


def test_offsets_can_be_set_for_a_new_group(tools, broker):
    topic, group = make_topic(broker), broker.name("g")
    send(a_producer(broker), topic, [b"a", b"b", b"c"])
    assert reset(tools, group, "--to-offset", 2, "--execute", scope=("--topic", topic)) == {0: 2}
    consumer = a_consumer(broker, group)
    consumer.subscribe([topic])
    assert [message.value() for message in take(consumer, 1)] == [b"c"]
    consumer.close()


def test_offsets_and_groups_are_deleted(tools, stale):
    topic, group = stale
    (row,) = tools.table("ConsumerGroupCommand", "--delete-offsets", "--group", group, "--topic", f"{topic}:0")
    assert row == {"TOPIC": topic, "PARTITION": "0", "STATUS": "Successful"}
    assert progress(tools, group) == {1: (3, 10, 7)}
    assert group in tools.run("ConsumerGroupCommand", "--list").lines
    (kind,) = [row for row in tools.table("GroupsCommand", "--list") if row["GROUP"] == group]
    assert kind["TYPE"] == "Classic"
    said = tools.run("ConsumerGroupCommand", "--delete", "--group", group, "--group", "no-such", status=None).out
    assert f"These consumer groups were deleted successfully: '{group}'" in said
    assert "Group 'no-such' could not be deleted due to" in said
    assert "The group id does not exist." in said
    assert group not in tools.run("ConsumerGroupCommand", "--list").lines
    unknown = tools.run("ConsumerGroupCommand", "--describe", "--group", group, status=None)
    assert f"Group {group} not found." in unknown.out + unknown.err
