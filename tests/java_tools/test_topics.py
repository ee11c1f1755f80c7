"""kafka-topics.sh."""

import re
import time

import pytest


def described(tools, *arguments):
    """Topic to (its line, the lines of its partitions)."""
    found = {}
    for line in tools.run("TopicCommand", "--describe", *arguments).lines:
        fields = dict(re.findall(r"(\w+): ?([^\t]*)", line))
        if "TopicId" in fields:
            found[fields["Topic"]] = (fields, [])
        else:
            found[fields["Topic"]][1].append(fields)
    return found


def described_once_there(tools, pattern, names):
    """A broker may learn of a new topic a little later than its creator."""
    deadline = time.monotonic() + 20
    while not names <= (found := described(tools, "--topic", pattern)).keys():
        assert time.monotonic() < deadline, found
    return found


def test_a_topic_from_its_creation_to_its_deletion(tools, broker):
    name = broker.name()
    created = tools.run(
        "TopicCommand", "--create", "--topic", name, "--partitions", 3, "--config", "retention.ms=-1",
        "--config", "segment.bytes=2000000",
    )  # fmt: skip
    assert created.lines == [f"Created topic {name}."]
    assert name in tools.run("TopicCommand", "--list").lines

    (topic, partitions) = described(tools, "--topic", name)[name]
    assert (topic["PartitionCount"], topic["ReplicationFactor"]) == ("3", "1")
    assert {"retention.ms=-1", "segment.bytes=2000000"} <= set(topic["Configs"].split(","))
    assert [(p["Partition"], p["Leader"], p["Replicas"], p["Isr"]) for p in partitions] == [
        (str(number), "1", "1", "1") for number in range(3)
    ]
    by_id = tools.run("TopicCommand", "--describe", "--topic-id", topic["TopicId"])
    assert f"Topic: {name}\t" in by_id.out

    tools.run("TopicCommand", "--alter", "--topic", name, "--partitions", 5)
    grown, partitions = described(tools, "--topic", name)[name]
    assert (grown["TopicId"], len(partitions)) == (topic["TopicId"], 5)

    tools.run("TopicCommand", "--delete", "--topic", name)
    assert name not in tools.run("TopicCommand", "--list").lines


def test_topics_are_found_by_pattern_and_by_state(tools, broker):
    plain, set_apart = broker.name("one"), broker.name("one")
    tools.run("TopicCommand", "--create", "--topic", plain, "--replica-assignment", "1,1")
    tools.run("TopicCommand", "--create", "--topic", set_apart, "--config", "min.insync.replicas=2")
    found = described_once_there(tools, "one-.*", {plain, set_apart})
    assert {name: len(partitions) for name, (_, partitions) in found.items()} == {plain: 2, set_apart: 1}
    assert set_apart in tools.run("TopicCommand", "--describe", "--topics-with-overrides").out
    for complaint in ("--under-replicated-partitions", "--unavailable-partitions"):
        assert tools.run("TopicCommand", "--describe", complaint).out == ""
    # One replica where two must be in sync: listed apart from partitions that are at the minimum.
    assert f"Topic: {set_apart}\t" in tools.run("TopicCommand", "--describe", "--under-min-isr-partitions").out
    assert plain in tools.run("TopicCommand", "--describe", "--at-min-isr-partitions").out
    tools.run("TopicCommand", "--delete", "--topic", "one-.*")
    assert not [name for name in tools.run("TopicCommand", "--list").lines if name.startswith("one-")]


def test_invalid_requests_are_refused_with_kafkas_messages(tools, broker):
    name = broker.name()
    tools.run("TopicCommand", "--create", "--topic", name, "--partitions", 2)
    assert tools.run("TopicCommand", "--create", "--topic", name, "--if-not-exists").out == ""
    create = ("TopicCommand", "--create", "--topic")
    for words, sentence in (
        ((*create, name), f"Topic '{name}' already exists."),
        ((*create, "x" * 250), "the length of"),
        ((*create, "new", "--replication-factor", 3), "Unable to replicate the partition 3 time(s)"),
        ((*create, "new", "--config", "nonsense=1"), "Unknown topic config name: nonsense"),
        ((*create, "new", "--config", "retention.ms=never"), "Invalid value never for configuration retention.ms"),
        ((*create, "new", "--replica-assignment", "7"), "broker"),
        (("TopicCommand", "--alter", "--topic", name, "--partitions", 1),
         f"The topic {name} currently has 2 partition(s); 1 would not be an increase."),
        (("TopicCommand", "--alter", "--topic", "no-such", "--partitions", 3), "Topic 'no-such' does not exist"),
        (("TopicCommand", "--delete", "--topic", "no-such"), "Topic 'no-such' does not exist"),
        (("TopicCommand", "--describe", "--topic", "no-such"), "Topic 'no-such' does not exist"),
    ):  # fmt: skip
        assert sentence in tools.refused(*words), words
    assert "new" not in tools.run("TopicCommand", "--list").lines


def test_a_name_that_differs_in_a_dot_only_is_refused(tools, broker):
    name = broker.name("dotted")
    tools.run("TopicCommand", "--create", "--topic", f"{name}.x")
    assert f"Topic '{name}_x' collides with existing topic: {name}.x" in tools.refused(
        "TopicCommand", "--create", "--topic", f"{name}_x"
    )


@pytest.mark.parametrize("count", [100])
def test_many_partitions_are_listed_a_few_at_a_time(tools, broker, count):
    name = broker.name()
    tools.run("TopicCommand", "--create", "--topic", name, "--partitions", count)
    (_, partitions) = described(tools, "--topic", name, "--partition-size-limit-per-response", 7)[name]
    assert [p["Partition"] for p in partitions] == [str(number) for number in range(count)]
