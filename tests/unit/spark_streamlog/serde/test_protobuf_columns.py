import pyarrow as pa
import pytest
from support.builders.protobuf_messages import DESCRIPTOR_SET

from spark_streamlog.serde.decoded_values import Unreadable
from spark_streamlog.serde.protobuf_columns import message_gatherer
from spark_streamlog.serde.protobuf_descriptor import message_descriptor
from spark_streamlog.serde.protobuf_options import NO_PROTOBUF_OPTIONS
from spark_streamlog.serde.protobuf_types import message_tree


@pytest.fixture
def message():
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(message_descriptor(DESCRIPTOR_SET, "house.All"))


@pytest.fixture
def gather():
    tree = message_tree(message_descriptor(DESCRIPTOR_SET, "house.All"), NO_PROTOBUF_OPTIONS)
    return message_gatherer(tree, NO_PROTOBUF_OPTIONS)


def test_missing_messages_are_null_rows_with_empty_lists(gather, message):
    array = gather([None, message(numbers=[1]), None])
    array.validate(full=True)
    assert array.is_null().to_pylist() == [True, False, True]
    assert array.field("numbers").to_pylist() == [None, [1], None]
    assert gather([]).type == array.type


def test_the_error_names_the_field_that_does_not_fit(gather, message):
    late = message()
    late.took.seconds = -(2**61)
    with pytest.raises(Unreadable, match=r"field took: -2305843009213693952 seconds"):
        gather([message(), late])


@pytest.mark.parametrize(("nanos", "micros"), [(999, 0), (1000, 1), (-999, 0), (-1000, -1), (-1999, -1)])
def test_nanoseconds_are_truncated_towards_zero_as_in_java(gather, message, nanos, micros):
    one = message()
    one.took.nanos = nanos
    assert gather([one]).field("took").cast(pa.int64()).to_pylist() == [micros]
