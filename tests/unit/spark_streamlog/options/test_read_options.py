import logging
import pickle

import pytest

from broker_core.model.identifiers import IsolationLevel, TopicPartition
from spark_streamlog.errors import ConditionError
from spark_streamlog.options.option_reader import QueryKind
from spark_streamlog.options.read_options import PushFilters, parse_read_options
from spark_streamlog.planning.offset_limits import (
    Earliest,
    Latest,
)
from spark_streamlog.planning.subscription import AssignPartitions, SubscribePattern, SubscribeTopics

BATCH, STREAM, ANY = QueryKind.BATCH, QueryKind.STREAM, QueryKind.NOT_YET_KNOWN


def parse(kind=BATCH, **given):
    named = {name.replace("__", "."): value for name, value in given.items()}
    if not {"subscribe", "subscribePattern", "assign"} & named.keys():
        named["subscribe"] = "t"
    return parse_read_options({"path": "/log"} | named, kind)


def refused(kind=BATCH, **given):
    with pytest.raises(ConditionError) as error:
        parse(kind, **given)
    return str(error.value)


def test_a_batch_query_has_sparks_defaults():
    options = parse()
    assert (options.starting, options.ending) == (Earliest(), Latest())
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert options.isolation is IsolationLevel.READ_COMMITTED
    assert options.min_partitions is options.max_records_per_partition is options.max_offsets_per_trigger is None
    assert options.max_trigger_delay_ms == 15 * 60 * 1000
    assert options.fetch_offset_attempt_count == 3


def test_a_streaming_query_starts_at_latest():
    assert parse(STREAM).starting == Latest()


def test_read_options_can_be_pickled():
    options = parse(startingOffsets='{"t":{"0":5}}')
    assert pickle.loads(pickle.dumps(options)) == options


def test_topic_names_are_trimmed_and_empty_ones_dropped():
    assert parse(subscribe=" a , ,B,").subscription == SubscribeTopics(topics=frozenset({"a", "B"}))
    assert parse(subscribePattern=" a.* ").subscription == SubscribePattern(pattern="a.*")
    expected = AssignPartitions(partitions=frozenset({TopicPartition("a", 0), TopicPartition("a", 1)}))
    assert parse(assign='{"a":[0,1]}').subscription == expected


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"subscribe": "a", "assign": '{"a":[0]}'}, "exactly one of subscribe, subscribePattern and assign"),
        ({"subscribe": " , "}, "subscribe names no topic"),
        ({"subscribePattern": "("}, "subscribePattern is not a regular expression"),
        ({"subscribePattern": "a{99999999999999999999}"}, "subscribePattern is not a regular expression"),
        ({"subscribePattern": "(" * 3000 + ")" * 3000}, "subscribePattern is not a regular expression"),
        ({"subscribePattern": "  "}, "subscribePattern is empty"),
        ({"assign": "a"}, "assign: it is not JSON"),
    ],
)
def test_a_subscription_must_be_valid_and_unique(given, said):
    assert said in refused(**given)


def test_a_subscription_is_required():
    with pytest.raises(ConditionError, match="exactly one of subscribe"):
        parse_read_options({"path": "/log"}, BATCH)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"startingOffsetsByTimestampStrategy": "never"}, "must be one of error, latest"),
        ({"minPartitions": "0"}, "minPartitions must be a whole number from 1"),
        ({"maxRecordsPerPartition": "0"}, "maxRecordsPerPartition must be a whole number from 1"),
        ({"maxOffsetsPerTrigger": "-5"}, "maxOffsetsPerTrigger must be a whole number from 1"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "(5) is higher than maxOffsetsPerTrigger (4)"),
        ({"kafka__isolation__level": "dirty"}, "must be one of read_committed, read_uncommitted"),
        ({"kafka__auto__offset__reset": "latest"}, "set startingOffsets to say where a new query starts"),
        ({"kafka__key__deserializer": "x"}, "kafka.key.deserializer is not supported"),
        ({"kafka__value__deserializer": "x"}, "kafka.value.deserializer is not supported"),
        ({"kafka__enable__auto__commit": "true"}, "kafka.enable.auto.commit is not supported"),
        ({"kafka__interceptor__classes": "x"}, "kafka.interceptor.classes is not supported"),
        ({"kafka__no__such__setting": "x"}, "kafka.no.such.setting is not an option"),
        ({"maxBytesPerTrigger": "0"}, "maxBytesPerTrigger must be a size of at least 1 byte, such as 64MB"),
        ({"maxBytesPerTrigger": "8192p"}, "maxBytesPerTrigger must be a size of at least 1 byte"),
        ({"maxBytesPerTrigger": "10 megabytes"}, "maxBytesPerTrigger must be a size of at least 1 byte"),
        ({"kafka__bootstrap__servers": "h:1"}, "path names a directory and kafka.bootstrap.servers names brokers"),
    ],
)
def test_invalid_options_are_refused(given, said):
    assert said in refused(**given)


def test_a_start_above_the_end_is_refused():
    text = refused(startingOffsets='{"t":{"0":5}}', endingOffsets='{"t":{"0":4}}')
    assert "UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET" in text


def test_limits_per_trigger_take_any_64_bit_value():
    options = parse(STREAM, minOffsetsPerTrigger="1", maxOffsetsPerTrigger="9223372036854775807")
    assert options.max_offsets_per_trigger == 2**63 - 1


def test_limits_per_trigger_are_ignored_in_a_batch_query_with_a_warning(caplog):
    with caplog.at_level(logging.WARNING, logger="spark_streamlog"):
        parse(maxOffsetsPerTrigger="5", maxTriggerDelay="5s", maxBytesPerTrigger="1m")
        parse(STREAM, minOffsetsPerTrigger="5")
    assert "maxOffsetsPerTrigger is ignored in batch queries" in caplog.text
    assert "maxBytesPerTrigger is ignored in batch queries" in caplog.text
    assert "maxTriggerDelay is ignored in batch queries" in caplog.text
    assert "minOffsetsPerTrigger" not in caplog.text


@pytest.mark.parametrize(
    ("value", "count"), [("1", 1), ("64MB", 64 * 1024**2), ("10k", 10_240), ("9223372036854775807", 2**63 - 1)]
)
def test_max_bytes_per_trigger_has_sparks_size_units(value, count):
    assert parse(STREAM, maxBytesPerTrigger=value).max_bytes_per_trigger == count
    assert parse(STREAM).max_bytes_per_trigger is None


# -- the consumer group --


def test_a_stream_can_store_its_progress_in_a_group_and_pin_retention():
    options = parse(STREAM, groupId=" Billing ", pinRetention="7d")
    assert (options.group_id, options.pin_retention_ms) == ("Billing", 7 * 24 * 3600 * 1000)
    options = parse(STREAM, groupId="g")
    assert (options.group_id, options.pin_retention_ms) == ("g", None)
    assert parse(STREAM, kafka__group__id="k").group_id is None
    assert parse(ANY, groupId="g", pinRetention="1d").group_id == "g"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"groupId": " "}, "groupId is empty"),
        ({"groupId": "streamlog-sink-x"}, "groupId must not begin with streamlog-sink-"),
        ({"groupId": "streamlog-topics-x"}, "groupId must not begin with streamlog-topics-"),
        ({"pinRetention": "1d"}, "pinRetention needs groupId"),
        ({"groupId": "g", "pinRetention": "soon"}, "pinRetention must be a duration such as 15m"),
        ({"groupId": "g", "pinRetention": "999ms"}, "pinRetention must be a duration between 1s and 36500d"),
        (
            {"groupId": "g", "pinRetention": "9999999999999999999d"},
            "pinRetention must be a duration between 1s and 36500d",
        ),
    ],
)
def test_an_invalid_group_or_pin_is_refused(given, said):
    text = refused(STREAM, **given)
    assert said in text
    assert "1 option(s)" in text


def test_a_batch_query_refuses_group_id_and_pin_retention():
    text = refused(groupId="g", pinRetention="1d")
    assert "groupId is for streaming queries: a batch query stores no progress (use startingOffsets=group:<id>" in text
    assert "pinRetention is for streaming queries" in text


def test_a_retry_interval_of_zero_is_accepted():
    assert parse(fetchOffset__retryIntervalMs="0").fetch_offset_retry_interval_ms == 0
    assert parse().fetch_offset_retry_interval_ms == 1000


def test_a_consumer_setting_that_is_not_a_number_is_refused_by_name():
    with pytest.raises(Exception, match=r"kafka\.fetch\.max\.bytes must be a whole number"):
        parse(**{"kafka.fetch.max.bytes": "many"})


def test_push_filters_defaults_to_auto():
    assert parse().push_filters is PushFilters.AUTO
    assert parse(pushFilters=" Always ").push_filters is PushFilters.ALWAYS
    assert parse(pushFilters="never").push_filters is PushFilters.NEVER
    with pytest.raises(ConditionError, match="pushFilters must be one of auto, always, never, not 'yes'"):
        parse(pushFilters="yes")
