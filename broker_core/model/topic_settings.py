"""Every topic setting of Kafka 4.3 and ours: name, default, type, valid range.

A setting is kept as the string that the user gave, as Kafka's ConfigRecord keeps it; `Setting.parse` gives its value or
raises InvalidConfigError with Kafka's own words: `Invalid value 3 for configuration segment.bytes: Value must be at
least 1048576`. Numbers and booleans are read as Java reads them (blanks around them and a plus sign are allowed,
underscores and hexadecimal are not). Lists are separated by commas.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType

from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.identifiers import TimestampType

SettingValue = bool | int | float | str | frozenset[str] | tuple[str, ...] | TimestampType
Parser = Callable[[str, str], SettingValue]

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

_JAVA_BLANKS = "".join(map(chr, range(0x21)))
_WHOLE_NUMBER = re.compile(r"[+-]?\d+")
_DECIMAL_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?")
_THROTTLED_REPLICA = re.compile(r"\d+:\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting. `default` is the string that a user would write for it; None: it has no value unless set."""

    name: str
    default: str | None
    parser: Parser

    def parse(self, value: str) -> SettingValue:
        """The typed value. Raises InvalidConfigError naming the setting and the value."""
        return self.parser(self.name, value)


def invalid_value(name: str, value: str, why: str) -> InvalidConfigError:
    """The error for a value that the setting cannot take, in Kafka's words."""
    return InvalidConfigError(f"Invalid value {value} for configuration {name}: {why}", setting=name, value=value)


def unknown_setting(name: str) -> InvalidConfigError:
    """The error for a name that is no topic setting, with the nearest one that is."""
    close = difflib.get_close_matches(name, SETTINGS, n=1, cutoff=0.6)
    advice = f". Did you mean {close[0]}?" if close else ""
    return InvalidConfigError(f"Unknown topic config name: {name}{advice}", setting=name)


def _whole_number(java_type: str, lowest: int, highest: int, at_least: int | None, at_most: int | None) -> Parser:
    def parse(name: str, value: str) -> int:
        text = value.strip(_JAVA_BLANKS)
        number = int(text) if _WHOLE_NUMBER.fullmatch(text) and len(text) <= 20 else None
        if number is None or not lowest <= number <= highest:
            raise invalid_value(name, value, f"Not a number of type {java_type}")
        if at_least is not None and number < at_least:
            raise invalid_value(name, value, f"Value must be at least {at_least}")
        if at_most is not None and number > at_most:
            raise invalid_value(name, value, f"Value must be no more than {at_most}")
        return number

    return parse


def _int(at_least: int | None = None, at_most: int | None = None) -> Parser:
    return _whole_number("INT", -INT_MAX - 1, INT_MAX, at_least, at_most)


def _long(at_least: int | None = None) -> Parser:
    return _whole_number("LONG", -LONG_MAX - 1, LONG_MAX, at_least, None)


def _gzip_level(name: str, value: str) -> int:
    level = _int()(name, value)
    assert isinstance(level, int)
    if level != -1 and not 1 <= level <= 9:
        raise invalid_value(name, value, "Value must be between 1 and 9 or equal to -1")
    return level


def _ratio(name: str, value: str) -> float:
    # Kafka takes NaN here, with which no log is ever dirty enough and none is clean: refused as not a number.
    text = value.strip(_JAVA_BLANKS)
    if not _DECIMAL_NUMBER.fullmatch(text):
        raise invalid_value(name, value, "Not a number of type DOUBLE")
    ratio = float(text.rstrip("fFdD"))
    if ratio < 0:
        raise invalid_value(name, value, "Value must be at least 0")
    if ratio > 1:
        raise invalid_value(name, value, "Value must be no more than 1")
    return ratio


def _boolean(name: str, value: str) -> bool:
    text = value.strip(_JAVA_BLANKS).lower()
    if text not in ("true", "false"):
        raise invalid_value(name, value, "Expected value to be either true or false")
    return text == "true"


def _no_remote_storage(name: str, value: str) -> bool:
    if _boolean(name, value):
        raise invalid_value(
            name,
            value,
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        )
    return False


def _one_of(*choices: str) -> Parser:
    def parse(name: str, value: str) -> str:
        text = value.strip(_JAVA_BLANKS)
        if text not in choices:
            raise invalid_value(name, value, f"String must be one of: {', '.join(choices)}")
        return text

    return parse


def _items(value: str) -> list[str]:
    text = value.strip(_JAVA_BLANKS)
    return [item.strip(_JAVA_BLANKS) for item in text.split(",")] if text else []


def _set_of(*choices: str) -> Parser:
    def parse(name: str, value: str) -> frozenset[str]:
        items = _items(value)
        for item in items:
            if not item:
                raise invalid_value(name, value, f"Configuration '{name}' values must not be empty.")
            if item not in choices:
                raise invalid_value(name, item, f"String must be one of: {', '.join(choices)}")
        return frozenset(items)

    return parse


def _timestamp_type(name: str, value: str) -> TimestampType:
    text = _one_of("CreateTime", "LogAppendTime")(name, value)
    return TimestampType.CREATE_TIME if text == "CreateTime" else TimestampType.LOG_APPEND_TIME


def _throttled_replicas(name: str, value: str) -> tuple[str, ...]:
    items = _items(value)
    if items != ["*"] and not all(_THROTTLED_REPLICA.fullmatch(item) for item in items):
        raise invalid_value(
            name,
            f"[{', '.join(items)}]",
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        )
    return tuple(items)


def _setting(name: str, default: str | None, parser: Parser) -> tuple[str, Setting]:
    return name, Setting(name=name, default=default, parser=parser)


SETTINGS = MappingProxyType(
    dict(
        (
            _setting("cleanup.policy", "delete", _set_of("compact", "delete")),
            _setting("compression.gzip.level", "-1", _gzip_level),
            _setting("compression.lz4.level", "9", _int(1, 17)),
            _setting(
                "compression.type", "producer", _one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
            ),
            _setting("compression.zstd.level", "3", _int(-131072, 22)),
            _setting("delete.retention.ms", "86400000", _long(0)),
            _setting("file.delete.delay.ms", "60000", _long(0)),
            _setting("flush.messages", str(LONG_MAX), _long(1)),
            _setting("flush.ms", str(LONG_MAX), _long(0)),
            # Ours. batch: an append returns when it is on the device; os: when the operating system has it.
            _setting("flush.policy", "batch", _one_of("batch", "os")),
            _setting("follower.replication.throttled.replicas", "", _throttled_replicas),
            _setting("index.interval.bytes", "4096", _int(0)),
            # Kafka's own door for tests: a segment size without the lower bound of segment.bytes, and instead of it.
            _setting("internal.segment.bytes", None, _int(1)),
            _setting("leader.replication.throttled.replicas", "", _throttled_replicas),
            _setting("local.retention.bytes", "-2", _long(-2)),
            _setting("local.retention.ms", "-2", _long(-2)),
            _setting("max.compaction.lag.ms", str(LONG_MAX), _long(1)),
            _setting("max.message.bytes", "1048588", _int(0)),
            _setting("message.timestamp.after.max.ms", "3600000", _long(0)),
            _setting("message.timestamp.before.max.ms", str(LONG_MAX), _long(0)),
            _setting("message.timestamp.type", "CreateTime", _timestamp_type),
            _setting("min.cleanable.dirty.ratio", "0.5", _ratio),
            _setting("min.compaction.lag.ms", "0", _long(0)),
            _setting("min.insync.replicas", "1", _int(1)),
            _setting("preallocate", "false", _boolean),
            _setting("remote.log.copy.disable", "false", _boolean),
            _setting("remote.log.delete.on.disable", "false", _boolean),
            _setting("remote.storage.enable", "false", _no_remote_storage),
            _setting("retention.bytes", "-1", _long()),
            _setting("retention.ms", "604800000", _long(-1)),
            _setting("segment.bytes", "1073741824", _int(1048576)),
            _setting("segment.index.bytes", "10485760", _int(4)),
            _setting("segment.jitter.ms", "0", _long(0)),
            _setting("segment.ms", "604800000", _long(1)),
            _setting("unclean.leader.election.enable", "false", _boolean),
        )
    )
)
"""All settings by name, in alphabetical order."""
