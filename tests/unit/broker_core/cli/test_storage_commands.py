"""`streamlog storage …`; the bytes are compared with those of Kafka's own tool in tests/conformance."""

import re
import subprocess
import sys

import pytest
from support.brokers.reachable_broker import free_ports

from broker_core.log_directory.meta_properties import decode_meta_properties
from broker_core.log_directory.quorum_directory import load_voters, open_quorum_log
from broker_core.metadata.controller import encode_id
from broker_core.model.exceptions import DirectoryFormatError
from broker_core.raft.voter_set import VoterSet
from broker_core.storage.os_file_system import OsFileSystem

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
SNAPSHOT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
DIRECTORY_1, DIRECTORY_2 = "JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A"


@pytest.fixture
def data(tmp_path):
    return tmp_path / "disk" / "data"


@pytest.fixture
def node(tmp_path, data):
    """Writes the settings of a node: those of a dynamic controller and broker, and these."""

    def write(**settings):
        lines = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "log.dirs": str(data),
            "controller.listener.names": "CONTROLLER",
            "listeners": "PLAINTEXT://host-1:9092,CONTROLLER://host-1:9093",
            **{name.replace("__", "."): value for name, value in settings.items()},
        }
        path = tmp_path / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        return path

    return write


@pytest.fixture
def storage(streamlog):
    return lambda *arguments: streamlog("storage", *arguments, with_path=False)


@pytest.fixture
def formatted(storage):
    """Formats for the cluster, with success."""

    def run(config, *options):
        outcome = storage("format", "--config", config, "--cluster-id", CLUSTER, *options)
        assert outcome.status == 0, outcome.err
        return outcome

    return run


def files_of(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def properties_of(folder):
    path = folder / "meta.properties"
    return decode_meta_properties(path.read_bytes(), str(path))


def test_random_ids_have_22_characters_and_differ(storage):
    printed = [storage("random-uuid").out.decode() for _ in range(2)]
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}\n", line) for line in printed)
    assert printed[0] != printed[1]


def test_a_standalone_controller_is_the_only_voter_of_its_snapshot(node, formatted, data):
    said = formatted(node(), "--standalone").err
    assert said == (f"formatted metadata directory {data} with metadata.version 4.3-IV0\nnode 1 of cluster {CLUSTER}\n")
    assert files_of(data) == [SNAPSHOT, "bootstrap.checkpoint", "meta.properties"]
    properties = properties_of(data)
    assert (properties.cluster_id, properties.node_id, properties.is_ours) == (CLUSTER, 1, False)
    snapshot = (data / SNAPSHOT).read_bytes()
    assert properties.directory_id.bytes in snapshot
    assert b"CONTROLLER" in snapshot and b"host-1" in snapshot


@pytest.mark.parametrize(
    ("settings", "host"),
    [
        ({"listeners": "CONTROLLER://:9093"}, b"localhost"),
        ({"listeners": "CONTROLLER://0.0.0.0:9093"}, b"localhost"),
        ({"advertised__listeners": "CONTROLLER://seen-as:9093"}, b"seen-as"),
    ],
)
def test_the_voters_address_is_the_one_that_others_reach(node, formatted, data, settings, host):
    formatted(node(**settings), "--standalone")
    assert host in (data / SNAPSHOT).read_bytes()


def test_a_node_among_the_initial_controllers_gets_the_directory_id_that_they_have(node, formatted, data):
    voters = f"1@host-1:9093:{DIRECTORY_1},2@host-2:9093:{DIRECTORY_2}"
    formatted(node(), "--initial-controllers", voters)
    assert encode_id(properties_of(data).directory_id) == DIRECTORY_1
    assert b"host-2" in (data / SNAPSHOT).read_bytes()


def test_a_broker_with_the_id_of_an_initial_controller_keeps_an_id_of_its_own(node, formatted, data):
    settings = node(process__roles="broker", listeners="PLAINTEXT://host-1:9092")
    formatted(settings, "--initial-controllers", f"1@host-1:9093:{DIRECTORY_1}")
    assert encode_id(properties_of(data).directory_id) != DIRECTORY_1


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({"controller__quorum__voters": "1@host-1:9093"}, ()),
        ({"controller__quorum__voters": "1@host-1:9093"}, ("--no-initial-controllers",)),
        ({}, ("--no-initial-controllers",)),
        ({"process__roles": "broker"}, ()),
    ],
)
def test_without_first_voters_there_is_no_snapshot(node, formatted, data, settings, options):
    formatted(node(**settings), *options)
    assert files_of(data) == ["bootstrap.checkpoint", "meta.properties"]


def test_each_directory_has_an_id_of_its_own_and_only_one_the_snapshot(node, formatted, tmp_path):
    a, b, metadata = (tmp_path / name for name in ("a", "b", "metadata"))
    said = formatted(node(log__dirs=f"{a},{b}", metadata__log__dir=str(metadata)), "--standalone").err
    assert said.splitlines()[2].startswith(f"formatted metadata directory {metadata}")
    assert files_of(a) == files_of(b) == ["bootstrap.checkpoint", "meta.properties"]
    assert SNAPSHOT in files_of(metadata)
    assert len({properties_of(path).directory_id for path in (a, b, metadata)}) == 3


def test_a_formatted_directory_is_refused_or_left_as_it_is(node, formatted, storage, data, tmp_path):
    formatted(node(), "--standalone")
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    refused = storage("format", "--config", node(), "--cluster-id", CLUSTER, "--standalone")
    assert (refused.status, "is formatted already; --ignore-formatted" in refused.err) == (1, True)
    said = formatted(node(log__dirs=f"{data},{tmp_path}/new"), "--standalone", "--ignore-formatted").err
    assert f"formatted directory {tmp_path}/new" in said
    assert f"metadata directory {data} is formatted already, and stays as it is" in said
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize(
    ("cluster", "node_id"), [("another", "1"), (CLUSTER, "2")], ids=["of another cluster", "of another node"]
)
def test_a_foreign_directory_is_never_touched(node, formatted, storage, data, tmp_path, cluster, node_id):
    formatted(node(), "--standalone")
    settings = node(node__id=node_id, log__dirs=f"{data},{tmp_path}/new")
    refused = storage("format", "--config", settings, "--cluster-id", cluster, "--standalone", "--ignore-formatted")
    assert refused.status == 1
    assert f"{data} belongs to node 1 of cluster {CLUSTER}, not to node {node_id} of cluster {cluster}" in refused.err
    assert not (tmp_path / "new").exists()


def test_a_metadata_log_without_an_identity_is_not_formatted_over(node, storage, data):
    folder = data / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    (folder / "00000000000000000000.log").write_bytes(b"")
    refused = storage("format", "--config", node(), "--cluster-id", CLUSTER, "--standalone")
    assert (refused.status, f"{folder} has a metadata log" in refused.err) == (1, True)
    assert files_of(data) == ["__cluster_metadata-0/00000000000000000000.log"]


STATIC = {"controller__quorum__voters": "1@host-1:9093"}


@pytest.mark.parametrize(
    ("settings", "options", "reason"),
    [
        (STATIC, ["--standalone"], "makes the voters static, so --standalone and --initial-controllers cannot"),
        (STATIC, ["--initial-controllers", f"1@h:1:{DIRECTORY_1}"], "makes the voters static"),
        ({**STATIC, "node__id": "2"}, [], "node.id is 2, which is not among controller.quorum.voters"),
        ({}, [], "controller.quorum.voters is not set: give one of --standalone"),
        (
            {"process__roles": "broker"},
            ["--standalone"],
            "--standalone is for a controller, and process.roles is broker",
        ),
        ({"process__roles": "zookeeper"}, [], "roles are broker and controller"),
        ({"listeners": "PLAINTEXT://h:1"}, ["--standalone"], "listeners has no CONTROLLER"),
        ({"listeners": "h:1"}, ["--standalone"], "h:1 is not NAME://host:port"),
        ({"log__dirs": ""}, ["--standalone"], "log.dirs is missing"),
        ({"node__id": ""}, ["--standalone"], "node.id is missing"),
        ({"node__id": "one"}, ["--standalone"], "Invalid value one for configuration node.id"),
        ({}, ["--standalone", "--feature", "kraft.version=0"], "kraft.version=0: the voters are dynamic, so it is 1"),
        (STATIC, ["--feature", "kraft.version=1"], "kraft.version=1: the voters are static, so it is 0"),
        ({}, ["--standalone", "--release-version", "4.4"], "unknown release '4.4'"),
        (
            {},
            ["--standalone", "--cluster-id", "a b"],
            "'a b' is no cluster id: streamlog storage random-uuid prints one",
        ),
    ],
)
def test_settings_and_options_that_contradict_each_other_are_refused(node, storage, data, settings, options, reason):
    config = node(**settings)
    refused = storage("format", "--config", config, "--cluster-id", CLUSTER, *options)
    assert (refused.status, refused.err.count("\n")) == (1, 1)
    assert refused.err.startswith(f"streamlog: {config}: ") and reason in refused.err
    assert not data.exists()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--cluster-id", CLUSTER], "give --config FILE"),
        (["--config", "f"], "give --cluster-id ID, the same for all nodes"),
        (["--config", "f", "--cluster-id", CLUSTER, "-s", "-N"], "exclude each other: give one of them"),
        (["--config", "f", "--cluster-id", CLUSTER, "-s", "-f", "group.version"], "--feature 'group.version' is not"),
        (["--config", "f", "--cluster-id", CLUSTER, "-s", "-f", "group.version=x"], "the level is a whole number"),
        (["--config", "f", "--cluster-id", CLUSTER, "-I", "1@h:9093"], "--initial-controllers: '1@h:9093' is not"),
    ],
)
def test_wrong_usage_has_its_own_exit_code(storage, options, reason):
    refused = storage("format", *options)
    assert (refused.status, reason in refused.err) == (2, True), refused.err


def test_a_controller_of_ours_starts_in_a_directory_for_static_voters(node, formatted, data):
    formatted(node(**STATIC))
    log = open_quorum_log(OsFileSystem(), str(data))
    assert (log.start_offset, log.end_offset, log.snapshot_id) == (0, 0, None)
    log.close()


def test_a_controller_of_ours_knows_the_first_voters_of_a_dynamic_quorum(node, formatted, data):
    voters = f"1@host-1:9093:{DIRECTORY_1},2@host-2:9093:{DIRECTORY_2}"
    formatted(node(), "--initial-controllers", voters)
    log = open_quorum_log(OsFileSystem(), str(data))
    history = load_voters(log, VoterSet())
    assert list(history.latest.nodes) == [1, 2] and history.latest_offset == -1 and history.is_dynamic
    log.close()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--release-version", "4.0"], "the level 25 of metadata.version"),
        (["--feature", "transaction.version=0"], "the level 2 of transaction.version"),
    ],
)
def test_a_controller_of_ours_names_the_features_that_it_does_not_begin_with(node, formatted, data, options, what):
    formatted(node(**STATIC), *options)
    with pytest.raises(DirectoryFormatError, match=rf"does not begin, first with {what}: format it without"):
        open_quorum_log(OsFileSystem(), str(data))


# Nodes of ours, each a process

START_SECONDS = 60


def served(config):
    return subprocess.Popen(
        [sys.executable, "-m", "broker_core.cli.main", "broker", "--config", str(config)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.fixture
def static_node(node):
    """The settings of a broker and controller that is the only voter."""
    broker_port, controller_port = free_ports(2)
    return node(
        controller__quorum__voters=f"1@127.0.0.1:{controller_port}",
        listeners=f"PLAINTEXT://127.0.0.1:{broker_port},CONTROLLER://127.0.0.1:{controller_port}",
        listener__security__protocol__map="CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    )


def test_a_node_of_ours_runs_in_a_formatted_directory_and_keeps_its_identity(static_node, formatted, data):
    formatted(static_node)
    before = (data / "meta.properties").read_bytes()
    with served(static_node) as process:
        try:
            assert process.stdout.readline().startswith("streamlog broker is ready:"), process.stderr.read()
        finally:
            process.terminate()
            process.communicate(timeout=START_SECONDS)
    assert process.returncode == 0
    assert (data / "meta.properties").read_bytes() == before


def test_a_node_of_ours_says_at_its_start_what_a_directory_was_formatted_for(node, formatted, static_node, data):
    formatted(static_node, "--release-version", "4.1")
    with served(static_node) as process:
        _, errors = process.communicate(timeout=START_SECONDS)
    assert process.returncode == 1
    assert "asks for a new cluster that this version does not begin" in errors.splitlines()[-1]
