import pytest

from broker_core.model.identifiers import TopicPartition
from spark_streamlog.errors import ConditionError
from spark_streamlog.options.limit_options import ending_limit, starting_limit
from spark_streamlog.options.option_reader import OptionReader, QueryKind
from spark_streamlog.planning.offset_limits import (
    BeforeEnd,
    BeforeNow,
    CommittedByGroup,
    Earliest,
    GlobalTimestamp,
    Latest,
    OffsetsByPartition,
    TimestampsByPartition,
)

BATCH, STREAM, ANY = QueryKind.BATCH, QueryKind.STREAM, QueryKind.NOT_YET_KNOWN


def limits(kind=BATCH, **given):
    """(start, end) that these options say."""
    options = OptionReader(given, role="source")
    found = starting_limit(options, kind), ending_limit(options, kind)
    options.finish()
    return found


def start(kind=BATCH, **given):
    return limits(kind, **given)[0]


def refused(kind=BATCH, **given):
    with pytest.raises(ConditionError) as error:
        limits(kind, **given)
    return str(error.value)


def test_a_batch_query_starts_at_earliest_and_a_stream_at_latest():
    assert limits() == (Earliest(), Latest())
    assert limits(STREAM) == (Latest(), Latest())


def test_a_global_timestamp_precedes_timestamps_which_precede_offsets():
    by_partition = {"startingOffsetsByTimestamp": '{"t":{"0":5}}', "startingOffsets": "latest"}
    assert start(STREAM, **by_partition, startingTimestamp="7") == GlobalTimestamp(
        option="startingTimestamp", timestamp_ms=7
    )
    assert start(STREAM, **by_partition) == TimestampsByPartition(
        option="startingOffsetsByTimestamp", by_partition={TopicPartition("t", 0): 5}
    )
    assert limits(endingOffsetsByTimestamp='{"t":{"0":5}}', endingTimestamp="9")[1] == GlobalTimestamp(
        option="endingTimestamp", timestamp_ms=9
    )


def test_topic_names_are_case_sensitive_and_earliest_and_latest_are_not():
    limit = start(startingOffsets='{"Topic":{"0":5}}')
    assert isinstance(limit, OffsetsByPartition)
    assert limit.by_partition == {TopicPartition("Topic", 0): 5}
    assert start(STREAM, startingOffsets=" EARLIEST ") == Earliest()


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ("latest", "for all partitions"),
        ('{"t":{"0":7,"1":-1}}', "-1 for t-1"),
        ('{"a":{"0":7},"t":"latest"}', "-1 for topic t"),
        ('{"t":{"3":-1,"2":-1,"1":-1,"0":-1}}', "-1 for t-0, t-1, t-2 and 1 more"),
    ],
)
def test_a_batch_query_refuses_latest_as_start_with_the_place_and_the_alternatives(value, where):
    complaint = refused(startingOffsets=value)
    assert f"startingOffsets cannot be latest in a batch query ({where}): " in complaint
    assert all(instead in complaint for instead in ("set earliest", "latest-1000 or -10m", "use readStream"))
    limits(STREAM, startingOffsets=value)
    limits(ANY, startingOffsets=value)


@pytest.mark.parametrize(
    ("value", "where"),
    [("earliest", "for all partitions"), ('{"t":{"0":-2}}', "-2 for t-0"), ('{"t":"earliest"}', "-2 for topic t")],
)
def test_a_batch_query_refuses_earliest_as_end_with_the_place_and_the_alternatives(value, where):
    complaint = refused(endingOffsets=value)
    assert f"endingOffsets cannot be earliest ({where}): no record is before it. " in complaint
    assert "set latest or the offsets to end before" in complaint


@pytest.mark.parametrize(
    "given",
    [{"endingOffsets": "latest"}, {"endingTimestamp": "5"}, {"endingOffsetsByTimestamp": '{"t":{"0":5}}'}],
)
def test_a_stream_has_no_end(given):
    assert f"{next(iter(given))} is not valid in a streaming query" in refused(STREAM, **given)


@pytest.mark.parametrize("kind", QueryKind)
@pytest.mark.parametrize(
    ("value", "limit"),
    [
        ("-10m", BeforeNow(duration_ms=600_000)),
        (" Latest-1000 ", BeforeEnd(offset_count=1000)),
        ("group:Billing", CommittedByGroup(group_id="Billing")),
    ],
)
def test_batch_and_stream_accept_relative_starts(kind, value, limit):
    assert start(kind, startingOffsets=value) == limit


@pytest.mark.parametrize("value", ["-10m", "latest-1000", "group:g"])
def test_an_end_cannot_be_relative(value):
    text = refused(endingOffsets=value)
    assert f"endingOffsets: {value!r} is only for startingOffsets" in text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"startingTimestamp": "soon"}, "startingTimestamp must be a whole number from 0"),
        ({"startingTimestamp": "-1"}, "startingTimestamp must be a whole number from 0"),
        ({"startingOffsetsByTimestamp": '{"t":{"0":"soon"}}'}, "the timestamp of t-0 is 'soon'"),
        ({"startingOffsets": "yesterday"}, "startingOffsets: 'yesterday' is not earliest, latest, -10m (ten"),
        ({"endingOffsets": "tomorrow"}, "endingOffsets: 'tomorrow' is not earliest, latest or JSON such as"),
        ({"startingOffsets": "{"}, "startingOffsets: it is not JSON"),
        (
            {"startingOffsets": "-1"},
            "startingOffsets: '-1' is not a duration before now; expected for example -30s, -10m",
        ),
        ({"startingOffsets": "latest-"}, "startingOffsets: 'latest-' is not a count of offsets before the end"),
        ({"startingOffsets": "group:"}, "startingOffsets: 'group:' does not name a consumer group"),
        ({"startingOffsets": "x" * 5000}, "is not earliest"),
    ],
)
def test_an_invalid_limit_is_refused_with_the_name_of_its_option(given, said):
    text = refused(**given)
    assert said in text
    assert len(text) < 500
