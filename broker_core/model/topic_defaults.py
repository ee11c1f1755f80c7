"""The settings of a broker that are the defaults of its topics.

    topic_defaults({"log.retention.hours": "2"}) == {"retention.ms": "7200000"}

Of several settings of a broker for one of a topic, the first that is given counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from broker_core.model.topic_config import PRODUCER_ID_EXPIRATION_MS, TopicConfig

TOPIC_SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "cleanup.policy": ("log.cleanup.policy",),
        "compression.gzip.level": ("compression.gzip.level",),
        "compression.lz4.level": ("compression.lz4.level",),
        "compression.type": ("compression.type",),
        "compression.zstd.level": ("compression.zstd.level",),
        "delete.retention.ms": ("log.cleaner.delete.retention.ms",),
        "file.delete.delay.ms": ("log.segment.delete.delay.ms",),
        "flush.messages": ("log.flush.interval.messages",),
        "flush.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        "flush.policy": ("flush.policy",),
        "index.interval.bytes": ("log.index.interval.bytes",),
        "local.retention.bytes": ("log.local.retention.bytes",),
        "local.retention.ms": ("log.local.retention.ms",),
        "max.compaction.lag.ms": ("log.cleaner.max.compaction.lag.ms",),
        "max.message.bytes": ("message.max.bytes",),
        "message.timestamp.after.max.ms": ("log.message.timestamp.after.max.ms",),
        "message.timestamp.before.max.ms": ("log.message.timestamp.before.max.ms",),
        "message.timestamp.type": ("log.message.timestamp.type",),
        "min.cleanable.dirty.ratio": ("log.cleaner.min.cleanable.ratio",),
        "min.compaction.lag.ms": ("log.cleaner.min.compaction.lag.ms",),
        "min.insync.replicas": ("min.insync.replicas",),
        "preallocate": ("log.preallocate",),
        "retention.bytes": ("log.retention.bytes",),
        "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        "segment.bytes": ("log.segment.bytes",),
        "segment.index.bytes": ("log.index.size.max.bytes",),
        "segment.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
        "segment.ms": ("log.roll.ms", "log.roll.hours"),
        "unclean.leader.election.enable": ("unclean.leader.election.enable",),
    }
)

_UNIT_MS: Final[Mapping[str, int]] = MappingProxyType({"minutes": 60_000, "hours": 3_600_000})
"""By the last word of a setting's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDefaults:
    """What topics are set to where they say nothing themselves, by the names of topic settings, and what the node says
    of their logs."""

    configs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS
    is_always_synced: bool = False
    """Whatever a topic's flush.policy is: for a broker whose replicas must be on the device to be in sync."""

    def config_of(self, configs: Mapping[str, str]) -> TopicConfig:
        """All settings of a topic that sets `configs`. What is not understood is left out; see `from_stored`."""
        config = TopicConfig.from_stored({**self.configs, **configs})
        flush_policy = "batch" if self.is_always_synced else config.flush_policy
        return replace(config, producer_id_expiration_ms=self.producer_id_expiration_ms, flush_policy=flush_policy)


KAFKAS_DEFAULTS: Final = TopicDefaults()


def dynamic_topic_defaults(broker_configs: Mapping[str, Mapping[str, str]], node_id: int) -> TopicDefaults:
    """From the metadata log: the settings of all brokers, overridden by those of this node.

    For a process that opens the directory without a broker, and does not know its properties file.
    """
    given = {**broker_configs.get("", {}), **broker_configs.get(str(node_id), {})}
    configs = {
        name: given[synonyms[0]]
        for name, synonyms in TOPIC_SYNONYMS.items()
        if synonyms[0] in given  # the others cannot be changed while a broker runs
    }
    return TopicDefaults(configs=MappingProxyType(configs))


def topic_defaults(given: Mapping[str, str]) -> dict[str, str]:
    """`given`: settings of a broker by name, parsable ones. The result is by the names of topic settings."""
    found: dict[str, str] = {}
    for topic_name, synonyms in TOPIC_SYNONYMS.items():
        name = next((one for one in synonyms if one in given), None)
        if name is not None:
            found[topic_name] = _in_unit_of_topics(name, given[name])
    return found


def _in_unit_of_topics(name: str, value: str) -> str:
    unit_ms = _UNIT_MS.get(name.rpartition(".")[2])
    # -1 hours is without a bound, as -1 ms is.
    return value if unit_ms is None else str(max(-1, int(value) * unit_ms))
