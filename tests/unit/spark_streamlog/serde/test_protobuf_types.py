"""Spark's types of Protobuf messages, as spark-protobuf's documentation and SchemaConverters say."""

import pytest
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from support.builders.protobuf_messages import DESCRIPTOR_SET

from spark_streamlog.serde.protobuf_descriptor import message_descriptor
from spark_streamlog.serde.protobuf_options import ProtobufOptions
from spark_streamlog.serde.protobuf_types import message_tree
from spark_streamlog.serde.serde_errors import InvalidSchemaError


def spark_type(message, **options):
    arrow_type = message_tree(message_descriptor(DESCRIPTOR_SET, message), ProtobufOptions(**options)).arrow_type
    found = from_arrow_type(arrow_type)
    assert to_arrow_type(found, timezone="UTC") == arrow_type
    return found.simpleString()


def test_scalars_have_spark_protobufs_types():
    assert spark_type("Scalars") == (
        "struct<f_double:double,f_float:float,f_int64:bigint,f_uint64:bigint,f_int32:int,f_fixed64:bigint,f_fixed32:int,"
        "f_bool:boolean,f_string:string,f_bytes:binary,f_uint32:int,f_sfixed32:int,f_sfixed64:bigint,f_sint32:int,"
        "f_sint64:bigint>"
    )


def test_lists_maps_enums_times_and_messages_have_spark_protobufs_types():
    inner = "struct<x:int,names:array<string>>"
    assert spark_type("All") == (
        f"struct<color:string,colors:array<string>,inner:{inner},inners:array<{inner}>,numbers:array<int>,"
        f"by_name:map<string,{inner}>,counts:map<bigint,string>,at:timestamp,took:interval day to second,"
        "maybe:struct<value:int>,this:int,that:string,optional:int>"
    )
    assert spark_type("Event") == "struct<details:struct<type_url:string,value:binary>>"
    assert spark_type("Old") == "struct<id:int,name:string,size:int,kind:string>"


def test_options_change_the_types_as_in_spark_protobuf():
    upcast = spark_type("Scalars", upcasts_unsigned=True)
    assert "f_uint64:decimal(20,0)" in upcast
    assert "f_uint32:bigint" in upcast
    assert "f_fixed64:bigint,f_fixed32:int" in upcast
    assert "color:int,colors:array<int>" in spark_type("All", enums_as_ints=True)
    assert "maybe:int" in spark_type("All", unwraps_wrappers=True)


def test_a_recursive_message_is_refused_by_name():
    with pytest.raises(InvalidSchemaError, match=r"message house\.Node contains itself, at children"):
        spark_type("Node")


def test_a_message_without_fields_is_refused_and_a_field_of_one_is_left_out():
    with pytest.raises(InvalidSchemaError, match=r"house\.Empty has no fields"):
        spark_type("Empty")
    assert "empty" not in spark_type("All")
