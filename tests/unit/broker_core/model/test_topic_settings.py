import math

import pytest

from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.topic_config import TopicConfig
from broker_core.model.topic_settings import SETTINGS, unknown_setting

KAFKA_DEFAULTS = """\
cleanup.policy=delete
compression.gzip.level=-1
compression.lz4.level=9
compression.type=producer
compression.zstd.level=3
delete.retention.ms=86400000
file.delete.delay.ms=60000
flush.messages=9223372036854775807
flush.ms=9223372036854775807
follower.replication.throttled.replicas=
index.interval.bytes=4096
leader.replication.throttled.replicas=
local.retention.bytes=-2
local.retention.ms=-2
max.compaction.lag.ms=9223372036854775807
max.message.bytes=1048588
message.timestamp.after.max.ms=3600000
message.timestamp.before.max.ms=9223372036854775807
message.timestamp.type=CreateTime
min.cleanable.dirty.ratio=0.5
min.compaction.lag.ms=0
min.insync.replicas=1
preallocate=false
remote.log.copy.disable=false
remote.log.delete.on.disable=false
remote.storage.enable=false
retention.bytes=-1
retention.ms=604800000
segment.bytes=1073741824
segment.index.bytes=10485760
segment.jitter.ms=0
segment.ms=604800000
unclean.leader.election.enable=false
"""


def test_names_and_defaults_match_kafka_4_3_plus_flush_policy():
    described = dict(line.split("=", 1) for line in KAFKA_DEFAULTS.splitlines())
    ours = {name: setting.default for name, setting in SETTINGS.items()}
    assert ours.pop("flush.policy") == "batch"
    assert ours.pop("internal.segment.bytes") is None
    assert ours == described
    assert list(SETTINGS) == sorted(SETTINGS)


RATIO = "min.cleanable.dirty.ratio"
TAKEN_BY_KAFKA = [
    "cleanup.policy=compact,delete", "cleanup.policy=delete, compact", "cleanup.policy=delete,delete",
    "cleanup.policy=", "cleanup.policy= delete ", "retention.ms=-1", "retention.ms= 12 ", "retention.ms=+12",
    "retention.bytes=-5", "segment.bytes=1048576", "min.cleanable.dirty.ratio=1e-3", "min.cleanable.dirty.ratio=.5",
    "min.cleanable.dirty.ratio=0.5f", "preallocate=TRUE", "preallocate= true", "compression.type= gzip",
    "compression.gzip.level=-1", "message.timestamp.type= LogAppendTime ", "remote.storage.enable=false",
    "remote.log.copy.disable=true", "local.retention.ms=5", "follower.replication.throttled.replicas=*",
    "follower.replication.throttled.replicas=0:1,1:2", "follower.replication.throttled.replicas=",
    "internal.segment.bytes=100",
]  # fmt: skip


@pytest.mark.parametrize("assignment", TAKEN_BY_KAFKA)
def test_values_that_kafka_accepts_are_accepted(assignment):
    name, value = assignment.split("=", 1)
    SETTINGS[name].parse(value)


REFUSED_BY_KAFKA = [
    ("cleanup.policy", "Delete", "String must be one of: compact, delete"),
    ("cleanup.policy", "none", "String must be one of: compact, delete"),
    ("retention.ms", "-2", "Value must be at least -1"),
    ("retention.ms", "abc", "Not a number of type LONG"),
    ("retention.ms", "", "Not a number of type LONG"),
    ("retention.ms", "1.5", "Not a number of type LONG"),
    ("retention.ms", "1_000", "Not a number of type LONG"),
    ("retention.ms", "9223372036854775808", "Not a number of type LONG"),
    ("retention.ms", "1" * 5000, "Not a number of type LONG"),
    ("segment.bytes", "1048575", "Value must be at least 1048576"),
    ("segment.bytes", "2147483648", "Not a number of type INT"),
    ("min.cleanable.dirty.ratio", "1.1", "Value must be no more than 1"),
    ("min.cleanable.dirty.ratio", "-0.1", "Value must be at least 0"),
    ("min.cleanable.dirty.ratio", "1_0", "Not a number of type DOUBLE"),
    ("min.cleanable.dirty.ratio", "", "Not a number of type DOUBLE"),
    ("preallocate", "yes", "Expected value to be either true or false"),
    ("compression.type", "GZIP", "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
    ("compression.type", "none", "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
    ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
    ("compression.gzip.level", "10", "Value must be between 1 and 9 or equal to -1"),
    ("compression.zstd.level", "23", "Value must be no more than 22"),
    ("compression.lz4.level", "18", "Value must be no more than 17"),
    ("message.timestamp.type", "logappendtime", "String must be one of: CreateTime, LogAppendTime"),
    ("max.message.bytes", "-1", "Value must be at least 0"),
    ("flush.messages", "0", "Value must be at least 1"),
    ("index.interval.bytes", "x", "Not a number of type INT"),
    ("segment.ms", "0", "Value must be at least 1"),
]


@pytest.mark.parametrize(("name", "value", "why"), REFUSED_BY_KAFKA)
def test_values_that_kafka_refuses_are_refused_with_its_message(name, value, why):
    with pytest.raises(InvalidConfigError) as refusal:
        SETTINGS[name].parse(value)
    assert refusal.value.message == f"Invalid value {value} for configuration {name}: {why}"
    assert refusal.value.fields == {"setting": name, "value": value}


def test_the_error_names_only_the_unknown_policy():
    with pytest.raises(InvalidConfigError, match=r"Invalid value foo for configuration cleanup\.policy"):
        SETTINGS["cleanup.policy"].parse("delete,foo")


@pytest.mark.parametrize("value", ["0:x", "0:1,*", "*,*", "none", "0", "\u0660:1"])
def test_throttled_replica_lists_use_kafkas_format(value):
    with pytest.raises(InvalidConfigError, match="must be the literal '\\*' or a list of replicas"):
        SETTINGS["leader.replication.throttled.replicas"].parse(value)


@pytest.mark.parametrize("value", ["true", " TRUE "])
def test_remote_storage_cannot_be_enabled(value):
    with pytest.raises(InvalidConfigError) as refusal:
        SETTINGS["remote.storage.enable"].parse(value)
    assert refusal.value.message == (
        "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
    )
    assert refusal.value.setting == "remote.storage.enable"


@pytest.mark.parametrize("value", [",", "delete,", ",delete", "delete,,compact", ",x"])
def test_a_policy_with_an_empty_item_is_refused_with_kafkas_message(value):
    with pytest.raises(InvalidConfigError) as refusal:
        SETTINGS["cleanup.policy"].parse(value)
    assert refusal.value.message == "Configuration 'cleanup.policy' values must not be empty."
    assert refusal.value.fields == {"setting": "cleanup.policy", "value": value}


@pytest.mark.parametrize(
    ("name", "value", "shown", "why"),
    [
        ("cleanup.policy", "x,", "x", "String must be one of: compact, delete"),
        ("cleanup.policy", "delete\x01,compact", "delete\x01", "String must be one of: compact, delete"),
        ("remote.storage.enable", " YES", " YES", "Expected value to be either true or false"),
        ("retention.ms", " -2 ", "-2", "Value must be at least -1"),
        ("retention.ms", " x ", " x ", "Not a number of type LONG"),
        ("segment.bytes", "+007", "7", "Value must be at least 1048576"),
        ("compression.zstd.level", " 023", "23", "Value must be no more than 22"),
        ("compression.gzip.level", " +00 ", "0", "Value must be between 1 and 9 or equal to -1"),
        ("message.timestamp.type", " x ", "x", "String must be one of: CreateTime, LogAppendTime"),
        (RATIO, "+Infinity", "Infinity", "Value must be no more than 1"),
        (RATIO, "-Infinity", "-Infinity", "Value must be at least 0"),
        (RATIO, "0x1p1074", "Infinity", "Value must be no more than 1"),
        (RATIO, " 1.50 ", "1.5", "Value must be no more than 1"),
        (RATIO, "1e1", "10.0", "Value must be no more than 1"),
        (RATIO, "\u0660.5", "\u0660.5", "Not a number of type DOUBLE"),
    ],
)
def test_a_refused_value_is_shown_as_parsed_if_it_can_be(name, value, shown, why):
    """As Kafka 4.3.1 showed them."""
    with pytest.raises(InvalidConfigError) as refusal:
        SETTINGS[name].parse(value)
    assert refusal.value.message == f"Invalid value {shown} for configuration {name}: {why}"


@pytest.mark.parametrize("value", ["0:1,", "0:1,,1:2", ",", "0:1\x01,1:2", ",*", " * "])
def test_throttled_replica_lists_that_kafka_accepts_are_accepted(value):
    assert "" not in SETTINGS["leader.replication.throttled.replicas"].parse(value)


def test_a_ratio_may_be_hexadecimal_or_not_a_number():
    assert SETTINGS[RATIO].parse("0x1p-1") == 0.5
    assert SETTINGS[RATIO].parse("NaN") is math.nan
    assert TopicConfig.from_strings({RATIO: "NaN"}) == TopicConfig.from_strings({RATIO: "+NaN"})


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("retentoin.ms", "Unknown topic config name: retentoin.ms. Did you mean retention.ms?"),
        ("log.retention.ms", "Unknown topic config name: log.retention.ms. Did you mean local.retention.ms?"),
        ("zzz", "Unknown topic config name: zzz"),
    ],
)
def test_the_error_for_an_unknown_name_suggests_the_closest_one(name, advice):
    assert unknown_setting(name).message.startswith(advice.partition(" Did")[0])
    assert unknown_setting(name).message == advice
