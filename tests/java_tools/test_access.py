"""kafka-acls.sh, and how its rules affect Kafka's other tools."""

import re

import pytest
from support.brokers.reachable_broker import PEMS

PASSWORD = "pw"
LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def add(tools, *arguments):
    return tools.run("AclCommand", "--add", *arguments).out


def remove(tools, *arguments):
    return tools.run("AclCommand", "--remove", "--force", *arguments).out


def listed(tools, *arguments):
    """(resource type, name, pattern, principal, host, operation, permission) of every rule."""
    found, resource = set(), ()
    for line in tools.run("AclCommand", "--list", *arguments).lines:
        if match := re.search(r"resourceType=(\w+), name=(.*), patternType=(\w+)\)", line):
            resource = match.groups()
        elif match := re.search(r"principal=(.*), host=(.*), operation=(\w+), permissionType=(\w+)", line):
            found.add((*resource, *match.groups()))
    return found


@pytest.fixture
def user(host, tools, broker, tmp_path):
    """A new user: the name, and Kafka's tools with that login."""
    name = broker.name("user")
    tools.run("ConfigCommand", "--alter", "--user", name, "--add-config", f"SCRAM-SHA-256=[password={PASSWORD}]")
    file = tmp_path / "login"
    lines = ["security.protocol=SASL_SSL", "sasl.mechanism=SCRAM-SHA-256", "ssl.truststore.type=PEM"]
    lines += [f"ssl.truststore.location={PEMS / 'authority.pem'}"]
    lines += [f'sasl.jaas.config={LOGIN} username="{name}" password="{PASSWORD}";', "request.timeout.ms=5000"]
    file.write_text("\n".join([*lines, "default.api.timeout.ms=10000"]) + "\n")

    def run(tool, *arguments, **given):
        words = ("--bootstrap-server", broker.bootstrap("SASL_SSL"), "--command-config", file, *arguments)
        ended = host.run(tool, *words, status=None, **given)
        return ended.out + ended.err

    return name, run


def test_rules_are_added_listed_and_removed(tools, broker):
    topic, who = broker.name("acl"), f"User:{broker.name('who')}"
    allow = ("--allow-principal", who)
    said = add(tools, *allow, "--operation", "Read", "--operation", "Alter", "--topic", topic)
    assert f"Adding ACLs for resource `ResourcePattern(resourceType=TOPIC, name={topic}, patternType=LITERAL)`" in said
    add(tools, *allow, "--operation", "Write", "--topic", topic, "--resource-pattern-type", "prefixed")
    add(tools, "--deny-principal", who, "--deny-host", "10.0.0.1", "--operation", "All", "--topic", topic)
    add(tools, *allow, "--producer", "--topic", topic, "--transactional-id", "tx", "--idempotent")
    add(tools, *allow, "--operation", "Alter", "--cluster")
    literal, rule = ("TOPIC", topic, "LITERAL"), (who, "*")
    of_topic = {(*literal, *rule, operation, "ALLOW") for operation in ("READ", "ALTER", "CREATE", "DESCRIBE", "WRITE")}
    of_topic |= {(*literal, who, "10.0.0.1", "ALL", "DENY")}
    prefixed = {("TOPIC", topic, "PREFIXED", *rule, "WRITE", "ALLOW")}
    others = {("TRANSACTIONAL_ID", "tx", "LITERAL", *rule, operation, "ALLOW") for operation in ("DESCRIBE", "WRITE")}
    others |= {
        ("CLUSTER", "kafka-cluster", "LITERAL", *rule, operation, "ALLOW")
        for operation in ("ALTER", "IDEMPOTENT_WRITE")
    }
    assert {each for each in listed(tools) if each[3] == who} == of_topic | prefixed | others
    assert listed(tools, "--topic", topic) == of_topic
    assert listed(tools, "--topic", topic, "--resource-pattern-type", "match") == of_topic | prefixed
    assert listed(tools, "--topic", f"{topic}-x", "--resource-pattern-type", "match") == prefixed

    remove(tools, *allow, "--operation", "Read", "--topic", topic)
    assert listed(tools, "--topic", topic) == of_topic - {(*literal, *rule, "READ", "ALLOW")}
    remove(tools, "--topic", topic)
    assert listed(tools, "--topic", topic, "--resource-pattern-type", "any") == prefixed
    wrong = tools.refused("AclCommand", "--add", "--allow-principal", "nonsense", "--operation", "Read", "--topic", "x")
    assert "expected a string in format principalType:principalName" in wrong


def test_a_user_may_do_what_a_rule_allows_and_no_more(tools, broker, user):
    topic = broker.name("guarded")
    tools.run("TopicCommand", "--create", "--topic", topic)
    name, run = user
    allow = ("--allow-principal", f"User:{name}", "--topic", topic)
    read = ("ConsoleConsumer", "--topic", topic, "--from-beginning", "--max-messages", 1, "--timeout-ms", 8000)
    group = ("--group", f"{topic}-group")
    write = ("ConsoleProducer", "--topic", topic)

    assert run("TopicCommand", "--list").split() == []
    assert "TopicAuthorizationException" in run(*write, given="secret\n")
    add(tools, *allow, "--operation", "Write")
    assert run("TopicCommand", "--list").split() == [topic]
    assert "Exception" not in run(*write, given="told\n")
    assert "GroupAuthorizationException" in run(*read, *group)
    add(tools, "--allow-principal", f"User:{name}", "--operation", "Read", "--group", f"{topic}-group")
    assert "TopicAuthorizationException" in run(*read, *group)
    add(tools, *allow, "--operation", "Read")
    assert "told" in run(*read, *group)
    add(tools, "--deny-principal", f"User:{name}", "--topic", topic, "--operation", "Read")
    assert "TopicAuthorizationException" in run(*read, *group)
    assert "ClusterAuthorizationException" in run("AclCommand", "--list")
    assert "TopicAuthorizationException" in run("TopicCommand", "--delete", "--topic", topic)
