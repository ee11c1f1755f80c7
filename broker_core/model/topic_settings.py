"""Every topic setting of Kafka 4.3 and ours: name, default, type, valid range.

A setting is kept as the string that the user gave, as Kafka's ConfigRecord keeps it; `Setting.parse` gives its value or
raises InvalidConfigError with Kafka's own words: `Invalid value 3 for configuration segment.bytes: Value must be at
least 1048576`. Numbers and booleans are read as Java reads them (`java_numbers`). Lists are separated by commas.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.identifiers import TimestampType
from broker_core.model.java_numbers import JAVA_BLANKS
from broker_core.model.setting_kind import SettingKind, shown_value
from broker_core.model.setting_parsers import (
    LONG_MAX,
    Parser,
    SettingValue,
    boolean,
    int_parser,
    invalid_value,
    items_of,
    long_parser,
    one_of,
    ratio,
    set_of,
)

_THROTTLED_REPLICA = re.compile(r"([0-9]+:[0-9]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting. `default` is the string that a user would write for it; None: it has no value unless set."""

    name: str
    kind: SettingKind
    default: str | None
    parser: Parser

    def parse(self, value: str) -> SettingValue:
        """The typed value. Raises InvalidConfigError naming the setting and the value."""
        return self.parser(self.name, value)

    def shown(self, value: str) -> str:
        """The value as DescribeConfigs returns it. Kafka keeps duplicates in lists of throttled replicas."""
        shown = shown_value(self.kind, value, keeps_duplicates=self.name.endswith(".throttled.replicas"))
        assert shown is not None, f"{self.name}: topics have no secrets"
        return shown


def shown_topic_configs(configs: Mapping[str, str]) -> dict[str, str]:
    """Settings of a topic as DescribeConfigs returns them; unknown names keep their values."""
    return {name: SETTINGS[name].shown(value) if name in SETTINGS else value for name, value in configs.items()}


def unknown_setting(name: str) -> InvalidConfigError:
    """The error for a name that is no topic setting, with the nearest one that is."""
    close = difflib.get_close_matches(name, SETTINGS, n=1, cutoff=0.6)
    advice = f". Did you mean {close[0]}?" if close else ""
    return InvalidConfigError(f"Unknown topic config name: {name}{advice}", setting=name)


def _gzip_level(name: str, value: str) -> int:
    level = int_parser()(name, value)
    assert isinstance(level, int)
    if level != -1 and not 1 <= level <= 9:
        raise invalid_value(name, str(level), "Value must be between 1 and 9 or equal to -1")
    return level


def _no_remote_storage(name: str, value: str) -> bool:
    if boolean(name, value):
        raise InvalidConfigError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
            setting=name,
            value=value,
        )
    return False


def _timestamp_type(name: str, value: str) -> TimestampType:
    text = one_of("CreateTime", "LogAppendTime")(name, value)
    return TimestampType.CREATE_TIME if text == "CreateTime" else TimestampType.LOG_APPEND_TIME


def _throttled_replicas(name: str, value: str) -> tuple[str, ...]:
    """Kafka ignores empty items."""
    items = [item.strip(JAVA_BLANKS) for item in items_of(value)]
    if "".join(items) != "*" and not all(_THROTTLED_REPLICA.fullmatch(item) for item in items):
        raise invalid_value(
            name,
            f"[{', '.join(items)}]",
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        )
    return tuple(item for item in items if item)


def _setting(name: str, kind: SettingKind, default: str | None, parser: Parser) -> tuple[str, Setting]:
    return name, Setting(name=name, kind=kind, default=default, parser=parser)


_BOOLEAN, _STRING, _INT = SettingKind.BOOLEAN, SettingKind.STRING, SettingKind.INT
_LONG, _DOUBLE, _LIST = SettingKind.LONG, SettingKind.DOUBLE, SettingKind.LIST


SETTINGS = MappingProxyType(
    dict(
        (
            _setting("cleanup.policy", _LIST, "delete", set_of("compact", "delete")),
            _setting("compression.gzip.level", _INT, "-1", _gzip_level),
            _setting("compression.lz4.level", _INT, "9", int_parser(1, 17)),
            _setting(
                "compression.type",
                _STRING,
                "producer",
                one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
            ),
            _setting("compression.zstd.level", _INT, "3", int_parser(-131072, 22)),
            _setting("delete.retention.ms", _LONG, "86400000", long_parser(0)),
            _setting("file.delete.delay.ms", _LONG, "60000", long_parser(0)),
            _setting("flush.messages", _LONG, str(LONG_MAX), long_parser(1)),
            _setting("flush.ms", _LONG, str(LONG_MAX), long_parser(0)),
            # Ours. batch: an append returns when it is on the device; os: when the operating system has it.
            _setting("flush.policy", _STRING, "batch", one_of("batch", "os")),
            _setting("follower.replication.throttled.replicas", _LIST, "", _throttled_replicas),
            _setting("index.interval.bytes", _INT, "4096", int_parser(0)),
            # Kafka's own door for tests: a segment size without the lower bound of segment.bytes, and instead of it.
            _setting("internal.segment.bytes", _INT, None, int_parser(1)),
            _setting("leader.replication.throttled.replicas", _LIST, "", _throttled_replicas),
            _setting("local.retention.bytes", _LONG, "-2", long_parser(-2)),
            _setting("local.retention.ms", _LONG, "-2", long_parser(-2)),
            _setting("max.compaction.lag.ms", _LONG, str(LONG_MAX), long_parser(1)),
            _setting("max.message.bytes", _INT, "1048588", int_parser(0)),
            _setting("message.timestamp.after.max.ms", _LONG, "3600000", long_parser(0)),
            _setting("message.timestamp.before.max.ms", _LONG, str(LONG_MAX), long_parser(0)),
            _setting("message.timestamp.type", _STRING, "CreateTime", _timestamp_type),
            _setting("min.cleanable.dirty.ratio", _DOUBLE, "0.5", ratio),
            _setting("min.compaction.lag.ms", _LONG, "0", long_parser(0)),
            _setting("min.insync.replicas", _INT, "1", int_parser(1)),
            _setting("preallocate", _BOOLEAN, "false", boolean),
            _setting("remote.log.copy.disable", _BOOLEAN, "false", boolean),
            _setting("remote.log.delete.on.disable", _BOOLEAN, "false", boolean),
            _setting("remote.storage.enable", _BOOLEAN, "false", _no_remote_storage),
            _setting("retention.bytes", _LONG, "-1", long_parser()),
            _setting("retention.ms", _LONG, "604800000", long_parser(-1)),
            _setting("segment.bytes", _INT, "1073741824", int_parser(1048576)),
            _setting("segment.index.bytes", _INT, "10485760", int_parser(4)),
            _setting("segment.jitter.ms", _LONG, "0", long_parser(0)),
            _setting("segment.ms", _LONG, "604800000", long_parser(1)),
            _setting("unclean.leader.election.enable", _BOOLEAN, "false", boolean),
        )
    )
)
"""All settings by name, in alphabetical order."""

_ONE_REPLICA = "a partition has one replica"
_NO_TIERS = "tiered storage is not supported"
IDLE_TOPIC_SETTINGS = MappingProxyType(
    {
        "file.delete.delay.ms": "files are deleted at once; readers keep them open",
        "follower.replication.throttled.replicas": _ONE_REPLICA,
        "leader.replication.throttled.replicas": _ONE_REPLICA,
        "local.retention.bytes": _NO_TIERS,
        "local.retention.ms": _NO_TIERS,
        "min.insync.replicas": _ONE_REPLICA,
        "preallocate": "segments grow as they are written",
        "remote.log.copy.disable": _NO_TIERS,
        "remote.log.delete.on.disable": _NO_TIERS,
        "unclean.leader.election.enable": _ONE_REPLICA,
    }
)
"""Settings that are checked and kept, and change nothing here, each with the reason."""
