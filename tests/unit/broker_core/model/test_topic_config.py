import dataclasses

import pytest

from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.identifiers import CompressionType, TimestampType
from broker_core.model.topic_config import TopicConfig
from broker_core.model.topic_settings import SETTINGS


def test_without_settings_kafkas_defaults_apply():
    assert TopicConfig.from_strings({}) == TopicConfig()


def test_setting_every_default_explicitly_gives_the_default():
    written_out = {name: setting.default for name, setting in SETTINGS.items() if setting.default is not None}
    assert TopicConfig.from_strings(written_out) == TopicConfig()


def test_every_setting_has_an_attribute_with_its_name():
    names = {name.replace(".", "_") for name in SETTINGS} - {"internal_segment_bytes"}
    of_node = {"producer_id_expiration_ms"}
    assert {field.name for field in dataclasses.fields(TopicConfig)} == names | of_node


def test_values_are_parsed_to_their_types():
    config = TopicConfig.from_strings(
        {
            "cleanup.policy": "delete,compact",
            "retention.ms": "-1",
            "min.cleanable.dirty.ratio": "0.25",
            "message.timestamp.type": "LogAppendTime",
            "preallocate": "true",
            "compression.type": "zstd",
            "leader.replication.throttled.replicas": "0:1, 1:2",
        }
    )
    assert config.cleanup_policy == {"compact", "delete"}
    assert config.is_compacted
    assert config.is_deleted_by_retention
    assert config.retention_ms == -1
    assert config.min_cleanable_dirty_ratio == 0.25
    assert config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
    assert config.preallocate is True
    assert config.codec is CompressionType.ZSTD
    assert config.leader_replication_throttled_replicas == ("0:1", "1:2")


def test_by_default_the_producer_chooses_the_codec():
    assert TopicConfig().codec is None
    assert TopicConfig.from_strings({"compression.type": "uncompressed"}).codec is CompressionType.NONE


def test_an_empty_cleanup_policy_removes_nothing():
    config = TopicConfig.from_strings({"cleanup.policy": ""})
    assert not config.is_compacted
    assert not config.is_deleted_by_retention


def test_internal_segment_bytes_overrides_segment_bytes():
    assert TopicConfig.from_strings({"internal.segment.bytes": "100"}).segment_bytes == 100
    assert TopicConfig.from_strings({"internal.segment.bytes": "7", "segment.bytes": "2000000"}).segment_bytes == 7


def test_flush_policy_is_batch_or_os():
    assert TopicConfig().is_synced_per_batch
    assert not TopicConfig.from_strings({"flush.policy": "os"}).is_synced_per_batch
    with pytest.raises(InvalidConfigError, match=r"Invalid value never for configuration flush\.policy"):
        TopicConfig.from_strings({"flush.policy": "never"})


def test_an_unknown_setting_is_refused_before_values_are_validated():
    with pytest.raises(InvalidConfigError, match=r"Unknown topic config name: segment\.byte\. Did you mean"):
        TopicConfig.from_strings({"retention.ms": "x", "segment.byte": "1"})


def test_a_minimum_lag_above_the_maximum_is_refused():
    with pytest.raises(InvalidConfigError, match=r"min\.compaction\.lag\.ms \(10\) > max\.compaction\.lag\.ms \(5\)"):
        TopicConfig.from_strings({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})
    TopicConfig.from_strings({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"})


def test_invalid_stored_settings_fall_back_to_their_defaults():
    stored = {"retention.ms": "7", "new.in.kafka.9": "x", "segment.bytes": "3", "cleanup.policy": "compact"}
    assert TopicConfig.from_stored(stored) == TopicConfig.from_strings(
        {"retention.ms": "7", "cleanup.policy": "compact"}
    )


def test_a_codec_uses_the_topics_level_and_snappy_has_no_level():
    config = TopicConfig.from_strings({"compression.gzip.level": "3", "compression.zstd.level": "-5"})
    assert config.compression_level(CompressionType.GZIP) == 3
    assert config.compression_level(CompressionType.ZSTD) == -5
    assert config.compression_level(CompressionType.LZ4) == 9
    assert config.compression_level(CompressionType.SNAPPY) is None


@pytest.mark.parametrize(
    ("settings", "takes"),
    [
        ({}, True),
        ({"compression.type": "producer"}, True),
        ({"compression.type": "uncompressed"}, True),
        ({"compression.type": "gzip"}, False),
        ({"compression.type": "zstd"}, False),
        ({"message.timestamp.before.max.ms": "9223372036854775806"}, False),
        ({"message.timestamp.before.max.ms": "9223372036854775807"}, True),
        ({"compression.type": "uncompressed", "message.timestamp.before.max.ms": "1000"}, False),
    ],
)
def test_plain_batches_are_taken_as_they_come_unless_a_codec_or_an_age_limit_says_otherwise(settings, takes):
    assert TopicConfig.from_strings(settings).takes_plain_as_they_come is takes
