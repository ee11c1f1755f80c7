"""The same commands against our broker and a real Kafka: both print the same, except what is listed here.

Ports, topic ids, folders and the like are taken out, lines are compared in any order: Kafka's maps have none.
"""

import re

import pytest
from support.brokers.java_tool_host import BrokerTools
from support.brokers.real_kafka import RealKafka
from support.brokers.served_broker import ServedBroker

SETTINGS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
)

CONFIG_LINE = re.compile(r"^ +([a-z.]+)=(.*?) sensitive=(\w+) synonyms=\{(.*)\}$", re.MULTILINE)
# Settings of ours, or of a feature (KIP-966) that stores this setting for the cluster.
NOT_THEIRS = {"flush.policy", "min.insync.replicas"}
COMMANDS = """
TopicCommand --create --topic same --partitions 3 --config retention.ms=100000 --config cleanup.policy=compact
TopicCommand --create --topic same
TopicCommand --create --topic same.a_b
TopicCommand --create --topic same_a.b
TopicCommand --create --topic .. --partitions 1
TopicCommand --create --topic bad/name
TopicCommand --create --topic other --config segment.bytes=1
TopicCommand --create --topic other --config compression.type=pigz
TopicCommand --create --topic other --partitions 0
TopicCommand --create --topic other --replica-assignment 1,1:1
TopicCommand --describe --topic same --under-replicated-partitions
TopicCommand --alter --topic same --partitions 3
TopicCommand --alter --topic same --partitions 4 --replica-assignment 1,1,1,2
TopicCommand --delete --topic same_a.b
TopicCommand --delete --topic nothing
GetOffsetShell --topic same
GetOffsetShell --topic same --time max-timestamp
GetOffsetShell --topic-partitions same:0-1
GetOffsetShell --topic nothing
ConfigCommand --alter --topic same --add-config retention.ms=-2
ConfigCommand --alter --topic same --add-config retention.ms=5,nothing=1
ConfigCommand --alter --topic nothing --add-config retention.ms=5
ConfigCommand --describe --topic nothing
ConfigCommand --alter --topic same --delete-config retention.ms --add-config min.cleanable.dirty.ratio=0.25
ConfigCommand --describe --topic same
ConfigCommand --alter --user somebody --add-config SCRAM-SHA-256=[iterations=100,password=x]
ConfigCommand --alter --user somebody --add-config SCRAM-SHA-256=[iterations=5000,password=x]
ConfigCommand --describe --user somebody
ConfigCommand --describe --user nobody
ConfigCommand --alter --user somebody --delete-config SCRAM-SHA-512
ConsumerGroupCommand --list
ConsumerGroupCommand --describe --group nothing
ConsumerGroupCommand --delete --group nothing
ConsumerGroupCommand --reset-offsets --group same --topic same --to-earliest --execute
ConsumerGroupCommand --describe --group same
ConsumerGroupCommand --describe --group same --state --verbose
ConsumerGroupCommand --delete-offsets --group same --topic nothing
TransactionsCommand list
TransactionsCommand describe --transactional-id nothing
TransactionsCommand describe-producers --topic same --partition 0
TransactionsCommand forceTerminateTransaction --transactionalId nothing
AclCommand --list
LogDirsCommand --describe --broker-list 1 --topic-list same
ClusterTool list-endpoints
GroupsCommand --list
""".strip().splitlines()


@pytest.fixture(scope="module")
def both(host, tmp_path_factory):
    """Two brokers that no other test uses."""
    folder = tmp_path_factory.mktemp("both")
    brokers = [ServedBroker(folder / "ours", SETTINGS), RealKafka(folder / "theirs", SETTINGS)]
    yield [BrokerTools(host, broker.bootstrap()) for broker in brokers]
    for broker in brokers:
        broker.stop()


def said(tools, words):
    ended = tools.run(*words, status=None)
    text = ended.out + ended.err
    for pattern, word in (
        (r"^\s+at .*$|^Caused by.*$|^\s+\.\.\. \d+ more$", ""),
        (r"127\.0\.0\.1(:| +)\d+", "ADDRESS"),
        (r"TopicId: \S+", "TopicId: ID"),
        (r'"logDir":"[^"]*"', '"logDir":"FOLDER"'),
        (r"\[[-\w ]+?(\d+)?\]", "[THREAD]"),
        (r"adminclient-\d+", "CLIENT"),
        (r"Epoch: \d+", "Epoch: N"),
        # KIP-1066, which is not supported here.
        (r" or some brokers have all their log directories cordoned", ""),
        (r"min.insync.replicas=1,?", ""),
    ):
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return ended.status, sorted(line.strip() for line in text.splitlines() if line.strip())


@pytest.mark.timeout(600)
def test_both_print_the_same(both):
    apart = []
    for command in COMMANDS:
        ours, theirs = (said(tools, command.split()) for tools in both)
        if ours != theirs:
            apart.append(f"{command}\n  ours   {ours}\n  theirs {theirs}")
    assert not apart, "\n" + "\n".join(apart)


def test_both_describe_every_setting_of_a_topic_alike(both):
    described = []
    for tools in both:
        tools.run("TopicCommand", "--create", "--topic", "settings", "--config", "retention.ms=100000")
        out = tools.run("ConfigCommand", "--describe", "--topic", "settings", "--all").out
        described.append({match[0]: match[1:] for match in CONFIG_LINE.findall(out)})
    ours, theirs = described
    assert len(theirs) > 30
    names = (ours.keys() | theirs.keys()) - NOT_THEIRS
    assert [
        (name, ours.get(name), theirs.get(name)) for name in sorted(names) if ours.get(name) != theirs.get(name)
    ] == []
