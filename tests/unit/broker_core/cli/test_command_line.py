"""One command line, in this process: exit codes, one sentence of error."""

from importlib.metadata import version

import pytest

from broker_core.cli import topic_commands
from broker_core.cli.command_line import run
from broker_core.record.active_kernel import KERNEL_NAME


def test_help_exits_with_0_and_lists_the_exit_codes(streamlog):
    shown = streamlog("--help", with_path=False)
    assert shown.status == 0
    assert b"Exit codes: 0 done, 1 an error, 2 wrong usage, 3 damage found" in b" ".join(shown.out.split())


def test_an_unknown_option_is_a_usage_error_in_one_sentence(streamlog):
    refused = streamlog("topic", "list", "--colour")
    assert refused.status == 2
    assert refused.out == b""
    assert refused.err == "streamlog: No such option: --colour. Try 'streamlog topic list --help'.\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        # It was: Did you mean 'consume'?. Try
        (("consum", "t"), "Did you mean 'consume'? Try 'streamlog --help'.\n"),
        # It was: Value error, 'brotli' is not one of
        (("produce", "t", "--compression", "brotli"), "for '--compression': 'brotli' is not one of 'none'"),
    ],
)
def test_an_unknown_command_is_a_usage_error_in_one_sentence(streamlog, arguments, said):
    refused = streamlog(*arguments)
    assert refused.status == 2
    assert said in refused.err


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (("produce", "t", "--header", "a"), "produce"),
        (("topic", "create", "t", "--config", "a"), "topic create"),
        (("topic", "alter", "t"), "topic alter"),
        (("consume", "t", "--from", "someday"), "consume"),
    ],
)
def test_an_unexpected_argument_points_to_the_help_of_its_command(streamlog, arguments, command):
    # All of them led to the help of streamlog.
    refused = streamlog(*arguments)
    assert refused.status == 2
    assert refused.err.endswith(f". Try 'streamlog {command} --help'.\n")


@pytest.mark.parametrize("group", [(), ("log",), ("topic",)])
def test_a_group_without_a_command_shows_its_help_with_its_line_ends(streamlog, group):
    # It was one long line that ended in: Try 'streamlog --help'.
    shown = streamlog(*group, with_path=False)
    assert (shown.status, shown.out) == (2, b"")
    assert shown.err.strip() == streamlog(*group, "--help", with_path=False).out.decode().strip()


def test_a_missing_argument_shows_a_valid_example(streamlog):
    refused = streamlog("log", "dump")
    assert refused.status == 2
    assert refused.err == (
        "streamlog: Missing argument 'TOPIC'. Example: streamlog log dump orders --path /data/log --partition 0. "
        "Try 'streamlog log dump --help'.\n"
    )
    for command in ("produce", "consume", "topic create", "topic alter", "topic delete"):
        assert f"Example: streamlog {command} orders --path /data/log" in streamlog(*command.split()).err


def test_version_shows_the_package_version_and_the_kernel(streamlog):
    shown = streamlog("--version", with_path=False)
    assert shown.status == 0
    assert shown.out.decode() == f"streamlog {version('spark-streamlog')}, {KERNEL_NAME} record kernel\n"


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        (("topic", "create", "t", "--partitions", "many"), "'many'"),
        (("topic", "create", "t", "--partitions", "-3"), "'-3'"),
        (("consume", "t", "--last", "1.5"), "'1.5'"),
        (("consume", "t", "--format", "xml"), "'xml'"),
        (("log", "dump", "t", "--from", "start"), "'start'"),
        (("broker", "--port", "99999"), "'99999'"),
    ],
)
def test_an_invalid_value_is_repeated_once(streamlog, arguments, given):
    refused = streamlog(*arguments, with_path=False)
    assert refused.status == 2
    assert refused.err.count(given) == 1


def test_a_missing_path_is_a_usage_error(streamlog, monkeypatch):
    monkeypatch.delenv("STREAMLOG_PATH", raising=False)
    refused = streamlog("topic", "list", with_path=False)
    assert refused.status == 2
    assert "--path" in refused.err
    assert refused.err.count("\n") == 1


def test_a_missing_directory_is_an_error_in_one_sentence(streamlog, log_path):
    refused = streamlog("topic", "list")
    assert refused.status == 1
    assert str(log_path) in refused.err
    assert refused.err.count("\n") == 1
    assert not log_path.exists()


def test_ctrl_c_exits_with_130_and_no_output(monkeypatch, capsys):
    def interrupted(*arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(topic_commands, "open_cluster", interrupted)
    assert run(["topic", "list", "--path", "x"]) == 130
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_the_path_may_come_from_the_environment(streamlog, log_path, monkeypatch):
    streamlog("topic", "create", "t")
    monkeypatch.setenv("STREAMLOG_PATH", str(log_path))
    assert streamlog("topic", "list", "--json", with_path=False).json[0]["name"] == "t"
