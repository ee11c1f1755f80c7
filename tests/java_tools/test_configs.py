"""kafka-configs.sh: settings of topics and brokers, users who log in by SCRAM."""

import re

import pytest
from support.brokers.reachable_broker import PEMS

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def settings(tools, *arguments):
    """Name to value."""
    out = tools.run("ConfigCommand", "--describe", *arguments).out
    return dict(re.findall(r"^  (\S+?)=(.*?) sensitive=", out, re.MULTILINE))


def alter(tools, *arguments):
    return tools.run("ConfigCommand", "--alter", *arguments).out


@pytest.fixture
def topic(tools, broker):
    name = broker.name()
    tools.run("TopicCommand", "--create", "--topic", name, "--config", "retention.ms=-1")
    return name


def test_settings_of_a_topic_are_described_set_and_removed(tools, topic):
    assert settings(tools, "--topic", topic)["retention.ms"] == "-1"
    everything = settings(tools, "--topic", topic, "--all")
    assert everything["cleanup.policy"] == "delete"
    assert everything["max.message.bytes"] == "1048588"
    said = alter(
        tools, "--topic", topic, "--add-config", "max.message.bytes=2000,cleanup.policy=[compact,delete]",
        "--delete-config", "retention.ms",
    )  # fmt: skip
    assert said.strip() == f"Completed updating config for topic {topic}."
    now = settings(tools, "--topic", topic)
    assert now["max.message.bytes"] == "2000"
    assert now["cleanup.policy"] == "compact,delete"
    assert "retention.ms" not in now
    assert settings(tools, "--topic", topic, "--all")["retention.ms"] == "604800000"
    keyed = ("ConsoleProducer", "--topic", topic, "--reader-property", "parse.key=true")
    assert "RecordTooLargeException" in tools.run(*keyed, given=f"k\t{'v' * 3000}\n").err


def test_an_invalid_setting_changes_nothing(tools, topic):
    before = settings(tools, "--topic", topic)
    for given, sentence in (
        ("max.message.bytes=-2", "Invalid value -2 for configuration max.message.bytes: Value must be at least 0"),
        ("segment.bytes=3000000,nonsense=1", "Unknown topic config name: nonsense"),
    ):
        words = ("ConfigCommand", "--alter", "--topic", topic, "--add-config", given)
        assert sentence in tools.refused(*words)
    assert settings(tools, "--topic", topic) == before


def test_all_topics_with_settings_of_their_own_are_listed(tools, topic):
    out = tools.run("ConfigCommand", "--describe", "--entity-type", "topics").out
    assert f"Dynamic configs for topic {topic} are:\n" in out


def test_settings_of_a_broker_have_their_sources(tools):
    out = tools.run("ConfigCommand", "--describe", "--broker", 1, "--all").out
    assert re.search(r"^  num.partitions=1 .*STATIC_BROKER_CONFIG:num.partitions=1", out, re.MULTILINE)
    assert re.search(r"^  message.max.bytes=1048588 .*\{DEFAULT_CONFIG:message.max.bytes=1048588\}", out, re.MULTILINE)
    assert settings(tools, "--broker", 1, "--all")["node.id"] == "1"
    assert "s3cret" not in out


def login_file(path, user, password, mechanism):
    lines = [
        "security.protocol=SASL_SSL", f"sasl.mechanism={mechanism}", "ssl.truststore.type=PEM",
        f"ssl.truststore.location={PEMS / 'authority.pem'}",
        f'sasl.jaas.config={SCRAM} username="{user}" password="{password}";',
    ]  # fmt: skip
    path.write_text("\n".join(lines) + "\n")
    return path


def test_users_are_added_log_in_and_are_removed(host, tools, broker, tmp_path):
    name = broker.name("user")
    for mechanism, given in (("SCRAM-SHA-256", "[iterations=8192,password=x y]"), ("SCRAM-SHA-512", "[password=z]")):
        alter(tools, "--user", name, "--add-config", f"{mechanism}={given}")
    out = tools.run("ConfigCommand", "--describe", "--user", name).out
    assert f"SCRAM credential configs for user-principal '{name}' are" in out
    assert "SCRAM-SHA-256=iterations=8192" in out
    assert "SCRAM-SHA-512=iterations=4096" in out
    assert name in tools.run("ConfigCommand", "--describe", "--entity-type", "users").out

    def list_topics(password, mechanism, status):
        file = login_file(tmp_path / "login", name, password, mechanism)
        address = broker.bootstrap("SASL_SSL")
        return host.run(
            "TopicCommand", "--bootstrap-server", address, "--command-config", file, "--list", status=status
        )

    list_topics("x y", "SCRAM-SHA-256", 0)
    list_topics("z", "SCRAM-SHA-512", 0)
    assert "SaslAuthenticationException" in list_topics("wrong", "SCRAM-SHA-512", 1).err
    alter(tools, "--user", name, "--delete-config", "SCRAM-SHA-512")
    assert "SCRAM-SHA-512" not in tools.run("ConfigCommand", "--describe", "--user", name).out
    assert "SaslAuthenticationException" in list_topics("z", "SCRAM-SHA-512", 1).err
    assert "does not exist" in tools.refused(
        "ConfigCommand", "--alter", "--user", name, "--delete-config", "SCRAM-SHA-512"
    )
