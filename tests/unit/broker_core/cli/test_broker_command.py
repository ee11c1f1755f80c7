"""What the options come to; that the process runs is tested with `server.broker_process`."""

from pathlib import Path

import pytest

from broker_core.server import broker_process


@pytest.fixture
def served(monkeypatch):
    """The configurations that a broker was run with."""
    configs = []
    monkeypatch.setattr(broker_process, "run_broker", lambda config: configs.append(config) or True)
    return configs


def test_without_options_a_temporary_log_is_served_on_localhost_only(streamlog, served):
    assert streamlog("broker", with_path=False).status == 0
    (config,) = served
    assert [str(one) for one in config.listeners] == ["PLAINTEXT://127.0.0.1:0"]
    assert "streamlog-" in config.log_dir

    assert not Path(config.log_dir).exists()


def test_a_directory_and_a_port_can_be_given(streamlog, served, log_path):
    assert streamlog("broker", "--port", 9092).status == 0
    assert served[0].log_dir == str(log_path)
    assert str(served[0].listeners[0]) == "PLAINTEXT://127.0.0.1:9092"


def test_set_options_override_the_file(streamlog, served, tmp_path):
    file = tmp_path / "broker.properties"
    file.write_text("listeners=PLAINTEXT://127.0.0.1:1\nlog.dirs=/a\nnum.partitions=2\nnode.id=3\n")
    status = streamlog(
        "broker", "--config", file, "--path", "/b", "--port", 2, "--set", "num.partitions=4",
        "--set", "broker.rack= r ",
        with_path=False,
    ).status  # fmt: skip
    assert status == 0
    (config,) = served
    assert (config.log_dir, config.listeners[0].port, config.num_partitions, config.node_id) == ("/b", 2, 4, 3)
    assert config.broker_rack == "r"


def test_all_configuration_errors_are_shown_one_per_line(streamlog, served):
    outcome = streamlog("broker", "--set", "num.partitions=x", "--set", "listners=a")
    assert outcome.status == 1
    assert outcome.err.splitlines() == [
        "streamlog: Invalid value x for configuration num.partitions: Not a number of type INT",
        "streamlog: listners is not a broker setting; did you mean listeners?",
    ]
    assert not served


def test_a_setting_without_a_value_is_refused(streamlog, served):
    outcome = streamlog("broker", "--set", "num.partitions")
    assert outcome.status == 2
    assert "--set num.partitions is not KEY=VALUE" in outcome.err


def test_a_missing_file_is_named(streamlog, tmp_path):
    outcome = streamlog("broker", "--config", tmp_path / "none", with_path=False)
    assert outcome.status == 1
    assert "none: No such file" in outcome.err


def test_a_broker_refuses_an_object_storage_url(streamlog):
    refused = streamlog("broker", "--path", "s3://bucket/log", with_path=False)
    assert refused.status == 2
    assert "s3://bucket/log: a broker serves a local directory, not a log on object storage" in refused.err
