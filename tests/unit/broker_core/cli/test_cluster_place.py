"""Commands at a broker: what the options mean, and that one is reached."""

import json

import pytest
from support.brokers.scripted_broker import ScriptedBroker, offsets_answer

from broker_core.log_directory.partition_lock import PartitionLock
from broker_core.ports import LockMode
from broker_core.protocol.api_table import ApiKey


@pytest.fixture
def broker():
    with ScriptedBroker() as scripted:
        scripted.topics["t"] = 1
        yield scripted


@pytest.fixture
def remote(streamlog, broker):
    """The command line with --bootstrap-server given."""

    def call(*arguments, **given):
        return streamlog(*arguments, "--bootstrap-server", broker.address, with_path=False, **given)

    return call


def test_topics_of_brokers_are_listed(remote, broker):
    broker.script(ApiKey.LIST_OFFSETS, *[offsets_answer(("t", 0, offset)) for offset in (2, 9, 9)])
    shown = remote("topic", "list", "--json")
    assert shown.status == 0
    (topic,) = json.loads(shown.out)
    assert (topic["name"], topic["partition_count"], topic["offsets"]) == ("t", 1, 7)


def test_a_connection_error_is_one_sentence(remote):
    refused = remote("topic", "describe", "nope")
    assert (refused.status, refused.err) == (1, "streamlog: topic 'nope' does not exist\n")


def test_exactly_one_of_path_and_bootstrap_server_must_be_given(streamlog, remote, monkeypatch):
    missing = streamlog("topic", "list", with_path=False)
    assert missing.status == 2
    assert "give --path DIR, or --bootstrap-server HOST:PORT" in missing.err
    both = remote("topic", "list", "--path", "/x")
    assert both.status == 2
    assert "give one of them" in both.err


@pytest.mark.parametrize("path", ["/x", "/x/"])
def test_bootstrap_server_overrides_a_path_from_the_environment_but_not_the_option(remote, monkeypatch, path):
    # A slash at its end was enough for a refusal, and a path typed as it stands there was passed over.
    monkeypatch.setenv("STREAMLOG_PATH", path)
    assert "does not exist" in remote("topic", "describe", "nope").err
    assert "give one of them" in remote("topic", "list", "--path", path).err


@pytest.mark.parametrize(
    ("command", "way"),
    [
        (["topic", "list"], "connect to the broker with --bootstrap-server, or stop it."),
        (["log", "segments"], "connect to the broker with a command that takes --bootstrap-server, or stop it."),
    ],
)
def test_the_error_for_a_directory_held_by_a_broker_names_the_command_line_option(
    streamlog, log_path, monkeypatch, command, way
):
    # It named an option of Spark.
    monkeypatch.setattr("broker_core.log_directory.directory._LOCK_WAIT_SECONDS", 0.05)
    streamlog("topic", "create", "t")
    broker = PartitionLock(f"{log_path}/.lock")
    assert broker.acquire(LockMode.EXCLUSIVE, timeout_seconds=0)
    refused = streamlog(*command)
    broker.release()
    assert refused.status == 1
    assert "is served by a broker" in refused.err
    assert refused.err.endswith(f"{way}\n")


@pytest.mark.parametrize(
    "command", [["produce", "t"], ["consume", "t"], ["topic", "create", "t"], ["topic", "delete", "t"]]
)
def test_every_log_command_supports_brokers(streamlog, command):
    refused = streamlog(*command, "--bootstrap-server", "nonsense", with_path=False)
    assert refused.status == 2
    assert "streamlog: --bootstrap-server must be host:port, separated by commas, not 'nonsense'" in refused.err


def test_a_properties_file_has_the_connection_settings(remote, tmp_path):
    config = tmp_path / "client.properties"
    config.write_text(
        "client.id=me\nsecurity.protocol=SASL_SSL\ngroup.id=x\nsasl.username=u\nsasl.password=topsecret\n"
    )
    refused = remote("topic", "list", "--command-config", config)
    assert refused.status == 2
    assert f"{config}: ignored settings: group.id" in refused.err
    assert "sasl.mechanism must be one of" in refused.err
    assert "topsecret" not in refused.err


def test_a_properties_file_is_used(remote, broker, tmp_path):
    config = tmp_path / "client.properties"
    config.write_text("client.id = me\n")
    remote("topic", "describe", "nope", "--command-config", config)
    assert {request.client_id for request in broker.requests} == {"me"}


def test_an_unreadable_or_useless_properties_file_is_reported(streamlog, remote, tmp_path):
    assert "No such file" in remote("topic", "list", "--command-config", tmp_path / "none").err
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert "is not a properties file" in remote("topic", "list", "--command-config", tmp_path / "binary").err
    alone = streamlog("topic", "list", "--command-config", tmp_path / "binary")
    assert "--command-config needs --bootstrap-server" in alone.err


@pytest.mark.parametrize(
    "command",
    [
        ("topic", "create", "t"),
        ("topic", "list"),
        ("produce", "t"),
        ("consume", "t"),
        ("group", "list"),
        ("transactions", "list"),
        ("log", "segments"),
        ("log", "verify"),
        ("log", "maintain"),
        ("broker",),
    ],
)
@pytest.mark.parametrize(
    ("location", "said"),
    [("hdfs://host/log", "hdfs://host/log is not a local directory"), ("file://host/log", "machine host")],
)
def test_an_unsupported_url_is_refused_and_creates_no_folder(streamlog, tmp_path, monkeypatch, command, location, said):
    # It became the folder hdfs:/host/log below the current one; file://host/log became /log.
    monkeypatch.chdir(tmp_path)
    refused = streamlog(*command, "--path", location, with_path=False, stdin=b"a\n")
    assert refused.status == 2
    assert said in refused.err
    assert "give a local directory" in refused.err
    assert ("--bootstrap-server" in refused.err) == (command[0] not in ("log", "broker"))
    assert not list(tmp_path.iterdir())


def test_a_url_in_the_environment_is_refused_too(streamlog, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STREAMLOG_PATH", "hdfs://host/log")
    refused = streamlog("produce", "t", with_path=False, stdin=b"a\n")
    assert refused.status == 2
    assert "hdfs://host/log is not a local directory" in refused.err
    assert not list(tmp_path.iterdir())


def test_a_url_in_the_environment_gives_way_to_typed_brokers(remote, monkeypatch):
    monkeypatch.setenv("STREAMLOG_PATH", "hdfs://host/log")
    assert "does not exist" in remote("topic", "describe", "nope").err


def test_a_file_url_is_the_path_in_it(streamlog, tmp_path):
    url = f"file://{tmp_path}/my%20log"
    assert streamlog("produce", "t", "--path", url, with_path=False, stdin=b"a\n").status == 0
    assert streamlog("consume", "t", "--path", str(tmp_path / "my log"), with_path=False).lines == [b"a"]
