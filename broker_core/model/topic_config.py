"""A topic's settings as typed values, with defaults.

    TopicConfig.from_strings({"retention.ms": "1000"}).retention_ms == 1000

An attribute is the setting's name with `_` for `.`; its type and default stand below, its range in `topic_settings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.identifiers import CompressionType, TimestampType
from broker_core.model.setting_parsers import LONG_MAX
from broker_core.model.topic_settings import SETTINGS, unknown_setting

PRODUCER_ID_EXPIRATION_MS: Final = 86_400_000
"""Kafka's producer.id.expiration.ms: a producer silent for a day, without an open transaction, is forgotten."""

_CODECS: Final[dict[str, CompressionType | None]] = {
    "producer": None,
    "uncompressed": CompressionType.NONE,
    "gzip": CompressionType.GZIP,
    "snappy": CompressionType.SNAPPY,
    "lz4": CompressionType.LZ4,
    "zstd": CompressionType.ZSTD,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """All settings of one topic. `TopicConfig()` holds Kafka 4.3's defaults.

    Settings without effect here (`topic_settings.IDLE_TOPIC_SETTINGS`) are validated and stored, so that a directory
    can move to a broker that supports them."""

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    """Of `delete` and `compact`; empty: nothing is ever removed."""
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    flush_policy: str = "batch"
    """`batch`: an append is acknowledged after fdatasync; `os`: when the operating system has it, as Kafka does."""
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    local_retention_bytes: int = -2
    local_retention_ms: int = -2
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    """Below 0: no bound."""
    retention_ms: int = 604_800_000
    """-1: no bound."""
    segment_bytes: int = 1_073_741_824
    """`internal.segment.bytes` if that is set, as in Kafka."""
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False
    producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS
    """The node's, not a setting of topics: producers that are silent for longer are forgotten when a segment rolls."""

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def is_deleted_by_retention(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def has_age_limit(self) -> bool:
        """Whether an appended record may be too old."""
        return self.message_timestamp_before_max_ms != LONG_MAX

    @property
    def codec(self) -> CompressionType | None:
        """The codec that `compression.type` asks for; None: whatever the producer chose."""
        return _CODECS[self.compression_type]

    @property
    def takes_plain_as_they_come(self) -> bool:
        """Whether an appended uncompressed batch needs neither decoding nor compression."""
        return self.codec in (None, CompressionType.NONE) and not self.has_age_limit

    def compression_level(self, codec: CompressionType) -> int | None:
        """The topic's level for the codec; None where the codec has none."""
        return {
            CompressionType.GZIP: self.compression_gzip_level,
            CompressionType.LZ4: self.compression_lz4_level,
            CompressionType.ZSTD: self.compression_zstd_level,
        }.get(codec)

    @property
    def is_synced_per_batch(self) -> bool:
        return self.flush_policy == "batch"

    @classmethod
    def from_strings(cls, configs: Mapping[str, str]) -> TopicConfig:
        """The settings given by a user. Raises an InvalidConfigError that names setting and value for an unknown name,
        a value out of range, or two contradicting settings."""
        values: dict[str, Any] = {}
        for name in configs:
            if name not in SETTINGS:
                raise unknown_setting(name)
        for name, value in configs.items():
            values[name.replace(".", "_")] = SETTINGS[name].parse(value)
        internal_segment_bytes = values.pop("internal_segment_bytes", None)
        if internal_segment_bytes is not None:
            values["segment_bytes"] = internal_segment_bytes
        config = cls(**values)
        if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
            raise InvalidConfigError(
                f"conflict topic config setting min.compaction.lag.ms ({config.min_compaction_lag_ms})"
                f" > max.compaction.lag.ms ({config.max_compaction_lag_ms})",
                setting="min.compaction.lag.ms",
                value=str(config.min_compaction_lag_ms),
            )
        return config

    @classmethod
    def from_stored(cls, configs: Mapping[str, str]) -> TopicConfig:
        """The settings stored by another version or a real Kafka: unknown ones keep their default, so that a topic
        stays readable. Never raises."""
        understood: dict[str, str] = {}
        for name, value in configs.items():
            try:
                cls.from_strings({**understood, name: value})
            except InvalidConfigError:
                continue
            understood[name] = value
        return cls.from_strings(understood)
