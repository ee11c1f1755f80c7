import pytest
from google.protobuf import descriptor_pb2
from support.builders.protobuf_messages import DESCRIPTOR_SET, proto2_file, proto3_file

from spark_streamlog.serde.limits import MAX_SCHEMA_BYTES
from spark_streamlog.serde.protobuf_descriptor import indexes_of, message_at, message_descriptor
from spark_streamlog.serde.serde_errors import InvalidSchemaError


def a_set(*files):
    return descriptor_pb2.FileDescriptorSet(file=files).SerializeToString()


def test_a_message_is_found_by_its_full_name_or_its_last_name():
    for name in ("house.All", ".house.All", "All"):
        assert message_descriptor(DESCRIPTOR_SET, name).full_name == "house.All"
    assert message_descriptor(DESCRIPTOR_SET, "house.All.Inner").full_name == "house.All.Inner"


def test_an_ambiguous_name_must_be_given_in_full():
    with pytest.raises(InvalidSchemaError, match=r"'Inner' exists more than once.*house\.All\.Inner, house\.Inner"):
        message_descriptor(DESCRIPTOR_SET, "Inner")


def test_a_missing_message_is_refused_with_the_existing_names():
    with pytest.raises(InvalidSchemaError, match=r"'Nobody' is not in the descriptor set; .*house\.All, .*old\.Old"):
        message_descriptor(DESCRIPTOR_SET, "Nobody")


def test_googles_files_may_be_missing_and_the_order_does_not_matter():
    importing = descriptor_pb2.FileDescriptorProto(name="a.proto", package="a", syntax="proto3")
    importing.dependency[:] = ["all.proto"]
    importing.message_type.add(name="Using").field.add(name="s", number=1, type=11, label=1, type_name=".house.Scalars")
    assert message_descriptor(a_set(importing, proto3_file()), "a.Using").full_name == "a.Using"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not a descriptor set"),
        (b"\xff\xff", "is not a descriptor set"),
        (a_set(), "is not a descriptor set"),
        (b"\n" * (MAX_SCHEMA_BYTES + 1), "the limit is"),
    ],
    ids=["empty", "noise", "no files", "too large"],
)
def test_a_file_that_is_not_a_descriptor_set_is_refused(content, said):
    with pytest.raises(InvalidSchemaError, match=said):
        message_descriptor(content, "M")


def test_missing_imports_are_named():
    for name in ("other.proto", "google/protobuf/nothing.proto", "google/protobuf/../../os.proto"):
        file = proto2_file()
        file.dependency.append(name)
        with pytest.raises(InvalidSchemaError, match="lacks the imported file"):
            message_descriptor(a_set(file), "Old")


def test_circular_imports_and_unresolved_types_are_refused():
    one, two = (descriptor_pb2.FileDescriptorProto(name=f"{n}.proto", package=n, syntax="proto3") for n in "pq")
    one.dependency.append("q.proto")
    two.dependency.append("p.proto")
    with pytest.raises(InvalidSchemaError, match="the descriptor set is invalid"):
        message_descriptor(a_set(one, two), "x")
    broken = proto2_file()
    broken.message_type[0].field[3].type_name = ".old.Nothing"
    with pytest.raises(InvalidSchemaError, match=r"invalid at old\.proto"):
        message_descriptor(a_set(broken), "Old")


def test_message_indexes_are_positions_from_the_outermost_inwards():
    names = ["house.Scalars", "house.All", "house.Empty"]
    for place, name in enumerate(names):
        descriptor = message_descriptor(DESCRIPTOR_SET, name)
        assert indexes_of(descriptor) == (place,)
        assert message_at(descriptor, (place,)) == name
    inner = message_descriptor(DESCRIPTOR_SET, "house.All.Inner")
    assert indexes_of(inner) == (1, 0)
    assert message_at(inner, (1, 0)) == "house.All.Inner"
    for nowhere in ((99,), (-1,), (0, 0), (1, 0, 0)):
        assert message_at(inner, nowhere) is None
