"""Every setting of a broker has an effect that a test shows, in `test_broker_settings_effects*` or in one that
`ELSEWHERE` names; or it is noted to have none. The same for every setting of a topic."""

import logging
import re
from pathlib import Path

import pytest
from support.brokers.small_broker import SmallBroker
from support.builders.builders import a_batch
from support.nodes.whole_node import a_node, ask, make_topic, produce, stop

from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.broker.settings.broker_settings import BROKER_SETTINGS
from broker_core.broker.settings.idle_settings import IDLE_SETTINGS
from broker_core.embedded.embedded_cluster import EmbeddedCluster
from broker_core.model.topic_defaults import TOPIC_SYNONYMS
from broker_core.model.topic_settings import IDLE_TOPIC_SETTINGS, SETTINGS
from broker_core.protocol.api_table import ApiKey

TESTS = Path(__file__).parents[4]

ELSEWHERE = {
    "advertised.listeners": "unit/broker_core/server/test_broker_server.py::test_an_advertised_address_keeps_its_port",
    "auto.create.topics.enable":
        "unit/broker_core/handlers/test_metadata.py::test_auto_create_topics_enable_false_disables_auto_creation",
    "broker.id": "unit/broker_core/broker/settings/test_broker_config.py::test_node_id_and_broker_id_are_synonyms",
    "connection.failed.authentication.delay.ms":
        "unit/broker_core/server/test_client_login.py::test_a_wrong_password_is_refused_after_the_delay_and_closes_the_connection",
    "connections.max.idle.ms":
        "unit/broker_core/server/test_open_connections.py::test_an_idle_connection_is_closed",
    "controller.listener.names":
        "unit/broker_core/broker/settings/test_listener_settings.py::test_controller_listeners_are_not_opened",
    "delete.topic.enable":
        "unit/broker_core/handlers/test_delete_topics.py::test_delete_topic_enable_false_refuses_every_deletion",
    "group.coordinator.rebalance.protocols":
        "unit/broker_core/broker/coordination/test_coordinators.py::"
        "test_consumer_groups_are_enabled_unless_the_configuration_disables_them",
    "group.max.session.timeout.ms":
        "unit/broker_core/broker/coordination/test_coordinators.py::"
        "test_group_settings_come_from_the_broker_configuration",
    "group.min.session.timeout.ms":
        "unit/broker_core/broker/coordination/test_coordinators.py::"
        "test_group_settings_come_from_the_broker_configuration",
    "listener.security.protocol.map":
        "unit/broker_core/server/test_broker_server.py::test_clients_of_every_listener_are_served",
    "listeners": "unit/broker_core/server/test_broker_server.py::test_clients_of_every_listener_are_served",
    "log.dir":
        "unit/broker_core/broker/settings/test_broker_config.py::test_log_dirs_may_be_a_file_url_but_no_other_url",
    "log.dirs":
        "unit/broker_core/broker/test_broker_node.py::test_a_new_directory_is_created_with_everything_a_node_needs",
    "max.connections":
        "unit/broker_core/server/test_connection_quota.py::test_a_full_broker_accepts_the_next_connection_when_one_closes",
    "max.connections.per.ip":
        "unit/broker_core/server/test_connection_quota.py::test_a_connection_above_the_address_limit_is_closed",
    "metrics.listener": "unit/broker_core/server/test_metrics_endpoint.py::test_client_requests_are_counted",
    "node.id":
        "unit/broker_core/broker/test_broker_node.py::"
        "test_a_new_directory_gets_the_configured_node_id",
    "num.partitions":
        "unit/broker_core/handlers/test_metadata.py::test_an_auto_created_topic_has_num_partitions",
    **dict.fromkeys(
        ("quota.window.num", "quota.window.size.seconds", "controller.quota.window.num",
         "controller.quota.window.size.seconds"),
        "unit/broker_core/broker/test_node_quotas.py::test_the_windows_are_those_of_the_settings",
    ),
    "replica.selector.class":
        "unit/broker_core/handlers/test_near_replicas.py::"
        "test_a_consumer_is_sent_to_the_replica_in_its_rack_without_records",
    "sasl.enabled.mechanisms":
        "unit/broker_core/server/test_client_login.py::"
        "test_the_response_to_a_disabled_mechanism_lists_the_enabled_ones",
    "sasl.jaas.config":
        "unit/broker_core/broker/settings/test_listener_security.py::"
        "test_plain_users_are_set_per_mechanism_or_per_listener",
    "sasl.server.max.receive.size":
        "unit/broker_core/server/test_client_login.py::test_frames_are_limited_more_strictly_before_the_login",
    "ssl.allow.dn.changes":
        "unit/broker_core/server/test_served_listeners.py::test_a_certificate_with_another_subject_is_served_if_ssl_allow_dn_changes_says_so",
    "ssl.allow.san.changes":
        "unit/broker_core/server/test_served_listeners.py::test_a_certificate_with_less_names_is_served_if_ssl_allow_san_changes_says_so",
    "ssl.client.auth":
        "unit/broker_core/server/test_tcp_listener.py::"
        "test_a_client_without_the_required_certificate_is_refused",
    "ssl.principal.mapping.rules":
        "unit/broker_core/server/test_tcp_listener.py::test_mapping_rules_translate_the_subject",
    "transaction.max.timeout.ms":
        "unit/broker_core/broker/coordination/test_coordinators.py::"
        "test_transaction_max_timeout_ms_comes_from_the_broker_configuration",
    **dict.fromkeys(
        ("ssl.enabled.protocols", "ssl.key.password", "ssl.keystore.certificate.chain", "ssl.keystore.key",
         "ssl.keystore.location", "ssl.truststore.certificates", "ssl.truststore.location"),
        "unit/broker_core/broker/settings/test_listener_security.py::"
        "test_certificates_come_from_files_or_inline_settings",
    ),
    **dict.fromkeys(
        ("ssl.keystore.password", "ssl.keystore.type", "ssl.truststore.password", "ssl.truststore.type"),
        "unit/broker_core/broker/settings/test_listener_security.py::"
        "test_tls_errors_name_the_listener",
    ),
}  # fmt: skip
"""Setting of a broker -> the test that shows what it changes."""

OF_TOPICS = {
    "cleanup.policy": "unit/broker_core/log/test_retention.py::test_retention_does_not_apply_to_a_compacted_topic",
    "compression.gzip.level":
        "unit/broker_core/model/test_topic_config.py::test_a_codec_uses_the_topics_level_and_snappy_has_no_level",
    "compression.lz4.level":
        "unit/broker_core/model/test_topic_config.py::test_a_codec_uses_the_topics_level_and_snappy_has_no_level",
    "compression.type":
        "unit/broker_core/log/test_batch_validation.py::test_batches_are_recompressed_with_the_topics_codec",
    "compression.zstd.level":
        "unit/broker_core/model/test_topic_config.py::test_a_codec_uses_the_topics_level_and_snappy_has_no_level",
    "delete.retention.ms":
        "unit/broker_core/log/test_compaction.py::"
        "test_a_tombstone_removes_older_records_at_once_and_itself_after_the_delete_horizon",
    "flush.messages":
        "unit/broker_core/storage/test_writable_partition.py::test_flush_messages_syncs_after_that_many_records",
    "flush.ms":
        "unit/broker_core/storage/test_writable_partition.py::test_a_clock_that_was_set_back_does_not_delay_the_sync",
    "flush.policy":
        "unit/broker_core/storage/test_writable_partition.py::"
        "test_with_flush_policy_os_nothing_is_synced_and_a_lost_tail_is_truncated",
    "index.interval.bytes":
        "unit/broker_core/log/test_segment_index_feed.py::test_an_index_entry_is_added_after_more_than_the_interval",
    "internal.segment.bytes":
        "unit/broker_core/model/test_topic_config.py::test_internal_segment_bytes_overrides_segment_bytes",
    "max.compaction.lag.ms":
        "unit/broker_core/log/test_compaction_plan.py::"
        "test_compaction_is_due_when_a_record_waits_longer_than_max_compaction_lag",
    "max.message.bytes": "unit/broker_core/log/test_batch_validation.py::test_the_error_names_max_message_bytes",
    "message.timestamp.after.max.ms":
        "unit/broker_core/log/test_batch_validation.py::test_a_timestamp_that_readers_cannot_represent_is_refused",
    "message.timestamp.before.max.ms":
        "unit/broker_core/log/test_batch_validation.py::test_old_timestamps_are_accepted_unless_the_topic_bounds_them",
    "message.timestamp.type":
        "unit/broker_core/log/test_batch_validation.py::test_with_log_append_time_create_times_are_not_checked",
    "min.cleanable.dirty.ratio":
        "unit/broker_core/log/test_compaction_plan.py::test_compaction_is_due_only_above_the_dirty_ratio",
    "min.compaction.lag.ms":
        "unit/broker_core/log/test_compaction_plan.py::test_young_segments_wait_for_min_compaction_lag",
    "remote.storage.enable":
        "unit/broker_core/model/test_topic_settings.py::test_remote_storage_cannot_be_enabled",
    "retention.bytes": "unit/broker_core/log/test_retention.py::test_retention_bytes_keeps_at_least_that_many_bytes",
    "retention.ms":
        "unit/broker_core/log/test_retention.py::test_segments_older_than_retention_ms_are_removed_oldest_first",
    "segment.bytes": "unit/broker_core/log/test_partition_log.py::test_an_append_may_roll_several_segments",
    "segment.index.bytes":
        "unit/broker_core/log/test_append_plan.py::"
        "test_a_full_index_rolls_the_segment_and_the_time_index_reserves_a_slot",
    "segment.jitter.ms":
        "unit/broker_core/log/test_append_plan.py::test_with_jitter_each_segment_rolls_earlier_by_its_own_amount",
    "segment.ms":
        "unit/broker_core/log/test_append_plan.py::"
        "test_a_segment_rolls_when_a_batch_is_segment_ms_younger_than_its_first",
}  # fmt: skip
"""The same of topics; that a broker's setting is one of its topics is in `test_broker_config` and below."""


def is_there(test):
    path, _, name = test.partition("::")
    return re.search(rf"^def {name}\(", (TESTS / path).read_text(), re.MULTILINE) is not None


def shown_by_effects():
    text = "".join(file.read_text() for file in Path(__file__).parent.glob("test_broker_settings_effects*.py"))
    marks = re.findall(r"^@of\((.*?)\)(?:  # fmt: skip)?$", text, re.MULTILINE | re.DOTALL)
    return {name for mark in marks for name in re.findall(r'"([^"]+)"', mark)}


def test_every_broker_setting_has_a_test_of_its_effect_or_is_reported_as_ignored():
    of_topics = {name for names in TOPIC_SYNONYMS.values() for name in names}
    shown = shown_by_effects() | ELSEWHERE.keys()
    assert BROKER_SETTINGS.keys() - of_topics == shown
    assert not shown & IDLE_SETTINGS.keys()
    assert not [name for name, test in ELSEWHERE.items() if not is_there(test)]
    assert not shown_by_effects() & ELSEWHERE.keys()


def test_every_topic_setting_has_a_test_of_its_effect_or_is_reported_as_ignored():
    assert SETTINGS.keys() == OF_TOPICS.keys() | IDLE_TOPIC_SETTINGS.keys()
    assert not OF_TOPICS.keys() & IDLE_TOPIC_SETTINGS.keys()
    assert not [name for name, test in OF_TOPICS.items() if not is_there(test)]


@pytest.mark.parametrize(("name", "synonyms"), TOPIC_SYNONYMS.items(), ids=lambda value: str(value))
def test_broker_defaults_apply_to_topics(name, synonyms):
    setting = SETTINGS[name]
    other = {"BOOLEAN": "true", "DOUBLE": "0.25", "STRING": None, "LIST": "compact"}.get(setting.kind.name, "7")
    other = {"compression.type": "lz4", "flush.policy": "os", "message.timestamp.type": "LogAppendTime",
             "segment.bytes": "2000000"}.get(name, other)  # fmt: skip
    for synonym in synonyms:
        unit_ms = {"hours": 3_600_000, "minutes": 60_000}.get(synonym.rpartition(".")[2], 1)
        config = parse_broker_config({synonym: other}).topic_config
        found = getattr(config, name.replace(".", "_"))
        assert found == (setting.parse(other) if unit_ms == 1 else 7 * unit_ms)
        assert found != getattr(parse_broker_config({}).topic_config, name.replace(".", "_"))


@pytest.mark.parametrize("name", sorted(IDLE_TOPIC_SETTINGS))
def test_ignored_topic_defaults_are_logged_at_the_start(name):
    for synonym in TOPIC_SYNONYMS.get(name, ()):
        (note,) = parse_broker_config({synonym: BROKER_SETTINGS[synonym].default}).notes
        assert note == f"{synonym} is ignored: {IDLE_TOPIC_SETTINGS[name]}"


def test_ignored_settings_are_logged_at_the_start(caplog):
    with caplog.at_level(logging.INFO), SmallBroker(num__network__threads=5, log__preallocate="true"):
        pass
    assert "num.network.threads is ignored" in caplog.text
    assert "log.preallocate is ignored" in caplog.text


def test_stored_settings_apply_without_a_broker_too(tmp_path):
    """Kafka's cluster-wide defaults: an embedded process that maintains the log must not go by others."""
    node = a_node(tmp_path / "log")
    change = {"name": "log.retention.bytes", "config_operation": 0, "value": "0"}
    resources = [{"resource_type": 4, "resource_name": "", "configs": [change]}]
    ask(node, ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=resources)
    make_topic(node, "t")
    produce(node, "t", a_batch(3))
    stop(node)
    with EmbeddedCluster(tmp_path / "log") as cluster:
        (report,) = cluster.maintain(["t"])
        assert (report.error, report.deleted_offset_count) == (None, 3)
