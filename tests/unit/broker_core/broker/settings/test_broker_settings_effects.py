"""The effects of broker settings, each shown at a node or a server. `test_broker_settings_all_count` checks that none
is missing."""

import socket

import pytest
from support.brokers.small_broker import SmallBroker, versions
from support.builders.builders import a_batch, a_record
from support.nodes.whole_node import a_guarded_node, a_node, ask, fetch, make_topic, pass_time, produce

from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.log.offset_map import OffsetMap
from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.limits import PRODUCER_EXPIRATION_CHECK_MS
from broker_core.protocol.api_table import ApiKey


def of(*names):
    """The test shows what these settings change: `test_broker_settings_all_count` reads them."""
    assert names
    return lambda test: test


def complaints_of(**given):
    with pytest.raises(InvalidConfigError) as caught:
        parse_broker_config({name.replace("_", "."): str(value) for name, value in given.items()})
    return " ".join(caught.value.complaints)


# -- what a node says of itself --


@of("broker.rack")
def test_broker_rack_is_returned_to_clients(tmp_path):
    node = a_node(tmp_path / "log", broker_rack=" r1 ")
    assert [each.rack for each in ask(node, ApiKey.METADATA, topics=[]).brokers] == ["r1"]
    assert [each.rack for each in ask(node, ApiKey.DESCRIBE_CLUSTER).brokers] == ["r1"]


@of("max.request.partition.size.limit")
def test_max_request_partition_size_limit_bounds_a_page(tmp_path):
    node = a_node(tmp_path / "log", max_request_partition_size_limit=3)
    make_topic(node, "t", 5)
    asked = {"topics": [{"name": "t"}], "response_partition_limit": 2000, "cursor": None}
    answer = ask(node, ApiKey.DESCRIBE_TOPIC_PARTITIONS, **asked)
    assert len(answer.topics[0].partitions) == 3
    assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("t", 3)


@of("default.replication.factor")
def test_a_single_node_allows_replication_factor_1_only():
    assert "default.replication.factor=3 must be 1" in complaints_of(default_replication_factor=3)


# -- fetching --


@of("fetch.max.bytes")
def test_fetch_max_bytes_limits_a_fetch_response(tmp_path):
    sizes = []
    for limit in (1024, 10_000):
        node = a_node(tmp_path / str(limit), fetch_max_bytes=limit)
        make_topic(node, "t")
        for _ in range(4):
            produce(node, "t", a_batch([a_record(0, value=b"v" * 600)]))
        sizes.append(len(fetch(node, "t").records))
    assert sizes[0] < 1024 < 4 * 600 < sizes[1]


@of("max.incremental.fetch.session.cache.slots")
def test_the_cache_slots_limit_fetch_sessions(tmp_path):
    node = a_node(tmp_path / "log", max_incremental_fetch_session_cache_slots=1)
    make_topic(node, "t")
    place = {"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]}
    asked = {"max_wait": 0, "min_bytes": 1, "session_id": 0, "session_epoch": 0, "topics": [place]}
    sessions = [ask(node, ApiKey.FETCH, 12, **asked).session_id for _ in range(2)]
    assert sessions[0] > 0
    assert sessions[1] == 0


# -- memory --


@of("queued.max.request.bytes")
def test_queued_max_request_bytes_pauses_reading(tmp_path):
    node = a_node(tmp_path / "log", queued_max_request_bytes=300)
    make_topic(node, "t")
    batch = a_batch([a_record(0, value=b"v" * 200)])
    waiting = produce(node, "t", batch, run=False)
    assert (waiting.answer, node.is_full) == (None, False)
    produce(node, "t", batch, run=False)
    assert node.is_full
    node.jobs.run_all()
    assert not node.is_full


# -- maintenance --


def compactable(path, **settings):
    node = a_node(path, **{"log_retention_check_interval_ms": 1000, **settings})
    make_topic(node, "t", cleanup_policy="compact", internal_segment_bytes=300, min_cleanable_dirty_ratio=0)
    for number in range(10):
        produce(node, "t", a_batch([a_record(0, key=b"k", value=b"v" * 100 + bytes([number]))]))
    return node


def log_bytes(path):
    return sum(file.stat().st_size for file in path.glob("t-0/*.log"))


@of("log.cleaner.enable")
def test_log_cleaner_enable_false_disables_compaction(tmp_path):
    for name in ("true", "false"):
        pass_time(compactable(tmp_path / name, log_cleaner_enable=name), 1000)
    assert log_bytes(tmp_path / "true") < 700 < 1700 < log_bytes(tmp_path / "false")


@of("log.cleaner.dedupe.buffer.size")
def test_the_dedupe_buffer_size_limits_the_keys_of_a_compaction_pass(tmp_path, monkeypatch):
    sizes = []

    class MeasuredMap(OffsetMap):
        def __init__(self, *, memory_bytes, **more):
            sizes.append(memory_bytes)
            super().__init__(memory_bytes=memory_bytes, **more)

    monkeypatch.setattr("broker_core.log.compaction.OffsetMap", MeasuredMap)
    pass_time(compactable(tmp_path / "log", log_cleaner_dedupe_buffer_size=2_000_000), 1000)
    assert set(sizes) == {2_000_000}
    assert "log.cleaner.dedupe.buffer.size=5 must be at least" in complaints_of(log_cleaner_dedupe_buffer_size=5)


@of("log.retention.check.interval.ms")
def test_the_retention_check_interval_triggers_retention(tmp_path):
    node = a_node(tmp_path / "log", log_retention_check_interval_ms=5000)
    make_topic(node, "t", retention_bytes=0)
    produce(node, "t", a_batch(1))
    pass_time(node, 4999)
    assert fetch(node, "t").log_start_offset == 0
    pass_time(node, 1)
    assert fetch(node, "t", 1).log_start_offset == 1


@of("producer.id.expiration.ms")
@pytest.mark.parametrize(("expiration_ms", "is_known"), [(1000, False), (100_000_000, True)])
def test_producer_id_expiration_ms_expires_idle_producers_at_a_roll(tmp_path, expiration_ms, is_known):
    node = a_node(tmp_path / "log", producer_id_expiration_ms=expiration_ms)
    make_topic(node, "t", internal_segment_bytes=300)
    produce(node, "t", a_batch(producer=(7, 0, 0)))
    for _ in range(2):  # at the first look it has written since the one before
        node.clock.time_ms += PRODUCER_EXPIRATION_CHECK_MS
        assert produce(node, "t", a_batch([a_record(0, value=b"v" * 200)])).error_code.name == "none"  # rolls
    asked = [{"name": "t", "partition_indexes": [0]}]
    (partition,) = ask(node, ApiKey.DESCRIBE_PRODUCERS, topics=asked).topics[0].partitions
    assert [each.producer_id for each in partition.active_producers] == [7] * is_known


# -- access --


@of("allow.everyone.if.no.acl.found")
@pytest.mark.parametrize(("value", "expected"), [("TRUE", "none"), ("false", "topic_authorization_failed")])
def test_allow_everyone_if_no_acl_found_opens_resources_without_acls(tmp_path, value, expected):
    node = a_guarded_node(tmp_path / "log", allow_everyone_if_no_acl_found=value)
    make_topic(node, "t")
    described = ask(
        node, ApiKey.METADATA, principal="User:eve", topics=[{"name": "t"}], allow_auto_topic_creation=False
    )
    assert described.topics[0].error_code.name == expected


@of("authorizer.class.name", "super.users")
def test_the_authorizer_restricts_everyone_except_super_users(tmp_path):
    assert a_node(tmp_path / "open").authorizer is None
    node = a_guarded_node(tmp_path / "guarded")
    make_topic(node, "t")  # by the super user
    refused = ask(node, ApiKey.DELETE_TOPICS, 1, principal="User:eve", topic_names=["t"], timeout=1000)
    assert refused.responses[0].error_code.name == "topic_authorization_failed"


# -- sockets --


@of("socket.request.max.bytes")
def test_socket_request_max_bytes_closes_the_connection(caplog):
    with SmallBroker(socket__request__max__bytes=1000) as broker, broker.connect() as client:
        assert versions(client).api_keys
        client.socket.sendall((1001).to_bytes(4, "big"))
        assert client.is_hung_up_on()


@of("max.connections.per.ip.overrides")
def test_connection_overrides_apply_to_single_addresses():
    settings = {"max__connections__per__ip__overrides": "127.0.0.1:1"}
    with SmallBroker(**settings) as broker, broker.connect() as first, broker.connect() as second:
        assert versions(first).api_keys
        assert second.is_hung_up_on()


@of("socket.send.buffer.bytes", "socket.receive.buffer.bytes", "socket.listen.backlog.size")
def test_socket_settings_set_buffers_and_backlog(monkeypatch):
    options, backlogs = [], []
    monkeypatch.setattr(socket.socket, "setsockopt", _recorded(socket.socket.setsockopt, options))
    monkeypatch.setattr(socket.socket, "listen", _recorded(socket.socket.listen, backlogs))
    settings = {"socket__send__buffer__bytes": 70_001, "socket__receive__buffer__bytes": 70_003}
    with SmallBroker(**settings, socket__listen__backlog__size=17) as broker, broker.connect() as client:
        assert versions(client).api_keys
    assert {(socket.SO_SNDBUF, 70_001), (socket.SO_RCVBUF, 70_003)} <= {each[1:] for each in options}
    assert (17,) in backlogs


def _recorded(call, seen):
    def recorded(self, *given):
        seen.append(given)
        return call(self, *given)

    return recorded


@of("connections.max.reauth.ms")
def test_connections_max_reauth_ms_limits_a_login():
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl__enabled__mechanisms": "PLAIN",
        "sasl__jaas__config": 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="s3cret";',
        "connections__max__reauth__ms": 3_600_000,
    }  # fmt: skip
    with SmallBroker(**settings) as broker, broker.connect() as client:
        client.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
        answer = client.ask(ApiKey.SASL_AUTHENTICATE, 1, auth_bytes=b"\0ann\0s3cret")
    assert (answer.error_code.name, answer.session_lifetime.total_seconds()) == ("none", 3600)


@of("num.io.threads")
def test_num_io_threads_sets_the_number_of_job_threads():
    with SmallBroker(num__io__threads=3) as broker:
        assert broker.server._jobs._threads._max_workers == 3
