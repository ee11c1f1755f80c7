"""A descriptor set for the Protobuf tests, built without protoc. `message_class` gives the classes of its messages."""

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    message_factory,
    timestamp_pb2,
    wrappers_pb2,
)

Field = descriptor_pb2.FieldDescriptorProto
OPTIONAL, REQUIRED, REPEATED = Field.LABEL_OPTIONAL, Field.LABEL_REQUIRED, Field.LABEL_REPEATED
SCALARS = {
    "f_double": Field.TYPE_DOUBLE,
    "f_float": Field.TYPE_FLOAT,
    "f_int64": Field.TYPE_INT64,
    "f_uint64": Field.TYPE_UINT64,
    "f_int32": Field.TYPE_INT32,
    "f_fixed64": Field.TYPE_FIXED64,
    "f_fixed32": Field.TYPE_FIXED32,
    "f_bool": Field.TYPE_BOOL,
    "f_string": Field.TYPE_STRING,
    "f_bytes": Field.TYPE_BYTES,
    "f_uint32": Field.TYPE_UINT32,
    "f_sfixed32": Field.TYPE_SFIXED32,
    "f_sfixed64": Field.TYPE_SFIXED64,
    "f_sint32": Field.TYPE_SINT32,
    "f_sint64": Field.TYPE_SINT64,
}


def add(message, name, kind, *, label=OPTIONAL, type_name=None, **more):
    message.field.add(name=name, number=len(message.field) + 1, type=kind, label=label, type_name=type_name, **more)


def proto3_file():
    file = descriptor_pb2.FileDescriptorProto(name="all.proto", package="house", syntax="proto3")
    file.dependency[:] = [f"google/protobuf/{name}.proto" for name in ("timestamp", "duration", "wrappers", "any")]
    color = file.enum_type.add(name="Color")
    for number, name in enumerate(("BLACK", "RED")):
        color.value.add(name=name, number=number)
    scalars = file.message_type.add(name="Scalars")
    for name, kind in SCALARS.items():
        add(scalars, name, kind)
    everything = file.message_type.add(name="All")
    inner = everything.nested_type.add(name="Inner")
    add(inner, "x", Field.TYPE_INT32)
    add(inner, "names", Field.TYPE_STRING, label=REPEATED)
    by_name = everything.nested_type.add(name="ByNameEntry")
    by_name.options.map_entry = True
    add(by_name, "key", Field.TYPE_STRING)
    add(by_name, "value", Field.TYPE_MESSAGE, type_name=".house.All.Inner")
    counts = everything.nested_type.add(name="CountsEntry")
    counts.options.map_entry = True
    add(counts, "key", Field.TYPE_INT64)
    add(counts, "value", Field.TYPE_ENUM, type_name=".house.Color")
    add(everything, "color", Field.TYPE_ENUM, type_name=".house.Color")
    add(everything, "colors", Field.TYPE_ENUM, type_name=".house.Color", label=REPEATED)
    add(everything, "inner", Field.TYPE_MESSAGE, type_name=".house.All.Inner")
    add(everything, "inners", Field.TYPE_MESSAGE, type_name=".house.All.Inner", label=REPEATED)
    add(everything, "numbers", Field.TYPE_INT32, label=REPEATED)
    add(everything, "by_name", Field.TYPE_MESSAGE, type_name=".house.All.ByNameEntry", label=REPEATED)
    add(everything, "counts", Field.TYPE_MESSAGE, type_name=".house.All.CountsEntry", label=REPEATED)
    add(everything, "at", Field.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp")
    add(everything, "took", Field.TYPE_MESSAGE, type_name=".google.protobuf.Duration")
    add(everything, "maybe", Field.TYPE_MESSAGE, type_name=".google.protobuf.Int32Value")
    everything.oneof_decl.add(name="either")
    add(everything, "this", Field.TYPE_INT32, oneof_index=0)
    add(everything, "that", Field.TYPE_STRING, oneof_index=0)
    everything.oneof_decl.add(name="_optional")
    add(everything, "optional", Field.TYPE_INT32, oneof_index=1, proto3_optional=True)
    add(everything, "empty", Field.TYPE_MESSAGE, type_name=".house.Empty")
    file.message_type.add(name="Empty")
    node = file.message_type.add(name="Node")
    add(node, "children", Field.TYPE_MESSAGE, type_name=".house.Node", label=REPEATED)
    event = file.message_type.add(name="Event")
    add(event, "details", Field.TYPE_MESSAGE, type_name=".google.protobuf.Any")
    other = file.message_type.add(name="Inner")
    add(other, "y", Field.TYPE_INT32)
    return file


def proto2_file():
    file = descriptor_pb2.FileDescriptorProto(name="old.proto", package="old", syntax="proto2")
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="ONE", number=1)
    kind.value.add(name="TWO", number=2)
    message = file.message_type.add(name="Old")
    add(message, "id", Field.TYPE_INT32, label=REQUIRED)
    add(message, "name", Field.TYPE_STRING)
    add(message, "size", Field.TYPE_INT32, default_value="7")
    add(message, "kind", Field.TYPE_ENUM, type_name=".old.Kind")
    return file


DESCRIPTOR_SET = descriptor_pb2.FileDescriptorSet(file=[proto2_file(), proto3_file()]).SerializeToString()


def message_class(name):
    """From a pool of its own, not from that of the code under test."""
    pool = descriptor_pool.DescriptorPool()
    for google in (any_pb2, duration_pb2, timestamp_pb2, wrappers_pb2):
        pool.AddSerializedFile(google.DESCRIPTOR.serialized_pb)
    for file in (proto2_file(), proto3_file()):
        pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def write_shop_descriptor(path):
    """What protoc would write of `package shop; message Order { int64 id = 1; }`."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    add(file.message_type.add(name="Order"), "id", Field.TYPE_INT64)
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
