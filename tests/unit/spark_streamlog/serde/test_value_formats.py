"""From settings to decoders and encoders, and the schema ids that a sink gets from a registry."""

import json
import pickle

import pyarrow as pa
import pytest
from support.builders.protobuf_messages import DESCRIPTOR_SET

from spark_streamlog.serde.file_registry import FileRegistry
from spark_streamlog.serde.format_settings import (
    NO_FORMATS,
    CorruptMode,
    FormatKind,
    FormatSettings,
    RecordFormats,
    WireFormat,
)
from spark_streamlog.serde.schema_registry import RegistryTarget
from spark_streamlog.serde.serde_errors import InvalidSchemaError, UnknownSchemaError
from spark_streamlog.serde.value_formats import decoder_for, encoder_for, with_schema_id

ROW = pa.struct([pa.field("a", pa.int32())])
DERIVED = {"type": "record", "name": "topLevelRecord", "fields": [{"name": "a", "type": ["int", "null"]}]}


def settings(kind, **more):
    return FormatSettings(kind=kind, **more)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "registry.json")


def in_registry(path, **more):
    return settings(
        FormatKind.AVRO, wire_format=WireFormat.CONFLUENT, registry=RegistryTarget(path=path), subject="t-value", **more
    )


@pytest.mark.parametrize(
    ("kind", "column", "more"),
    [
        (FormatKind.STRING, pa.array(["x", None]), {}),
        (FormatKind.SHORT, pa.array([1, None], pa.int16()), {}),
        (FormatKind.INT, pa.array([1, None], pa.int32()), {}),
        (FormatKind.LONG, pa.array([1, None]), {}),
        (FormatKind.FLOAT, pa.array([1.5, None], pa.float32()), {}),
        (FormatKind.DOUBLE, pa.array([1.5, None]), {}),
        (FormatKind.JSON, pa.array(['{"a":1}', None]), {}),
        (FormatKind.JSON, pa.array([{"a": 1}, None], ROW), {"schema_text": "a INT"}),
        (FormatKind.AVRO, pa.array([{"a": 1}, None], ROW), {"schema_text": json.dumps(DERIVED)}),
        (FormatKind.PROTOBUF, pa.array([{"y": 1}, None], pa.struct([("y", pa.int32())])),
         {"descriptor_set": DESCRIPTOR_SET, "message": "house.Inner"}),
    ],
)  # fmt: skip
def test_every_format_reads_what_it_writes(kind, column, more):
    known = settings(kind, **more)
    decoder = decoder_for(known)
    values = encoder_for(known, column.type).encode(column)
    assert decoder.arrow_type == column.type
    assert decoder.decode(values).column.equals(column)


def test_settings_can_be_pickled_and_decoders_are_cached_by_them():
    known = settings(FormatKind.PROTOBUF, descriptor_set=DESCRIPTOR_SET, message="house.All")
    assert decoder_for(pickle.loads(pickle.dumps(known))) is decoder_for(known)
    assert "descriptor_set" not in repr(known)


def test_the_column_corrupt_exists_if_a_side_is_permissive():
    permissive = settings(FormatKind.INT)
    strict = settings(FormatKind.INT, mode=CorruptMode.FAIL_FAST)
    assert NO_FORMATS.items() == []
    assert not NO_FORMATS.has_corrupt_column
    assert RecordFormats(key=strict, value=permissive).has_corrupt_column
    assert not RecordFormats(value=strict).has_corrupt_column


def test_a_sink_registers_the_schema_of_its_column(path):
    known = with_schema_id(in_registry(path), ROW)
    assert known.schema_id == 1
    assert json.loads(FileRegistry(path).latest("t-value").text) == DERIVED
    assert with_schema_id(in_registry(path), ROW) == known
    values = encoder_for(known, ROW).encode(pa.array([{"a": 5}], ROW))
    assert values.to_pylist() == [b"\0\0\0\0\1\0\n"]


def test_a_given_schema_is_registered_only_if_it_fits_the_column(path):
    wanted = in_registry(path, schema_text='{"type":"record","name":"r","fields":[{"name":"b","type":"int"}]}')
    with pytest.raises(InvalidSchemaError, match="it has no field b"):
        with_schema_id(wanted, ROW)
    with pytest.raises(UnknownSchemaError):
        FileRegistry(path).latest("t-value")
    assert with_schema_id(wanted, pa.struct([("b", pa.int32())])).schema_id == 1


def test_without_auto_register_the_schema_must_exist(path):
    text = json.dumps(DERIVED)
    with pytest.raises(InvalidSchemaError, match="autoRegister is false"):
        with_schema_id(in_registry(path, registers=False, schema_text=text), ROW)
    with pytest.raises(UnknownSchemaError, match="no subject 't-value'"):
        with_schema_id(in_registry(path, registers=False), ROW)
    older = DERIVED | {"fields": [*DERIVED["fields"], {"name": "dropped", "type": "int"}]}
    FileRegistry(path).register("t-value", json.dumps(older), "AVRO")
    FileRegistry(path).register("t-value", text, "AVRO")
    assert with_schema_id(in_registry(path, registers=False, schema_text=text), ROW).schema_id == 2
    latest = with_schema_id(in_registry(path, registers=False), ROW)
    assert (latest.schema_id, json.loads(latest.schema_text)) == (2, DERIVED)
    with pytest.raises(InvalidSchemaError, match="cannot be written"):
        with_schema_id(in_registry(path, registers=False), pa.int32())


def test_protobuf_uses_the_latest_id_of_its_subject(path):
    FileRegistry(path).register("t-value", 'syntax = "proto3";', "PROTOBUF")
    FileRegistry(path).register("other", '"int"', "AVRO")
    known = settings(
        FormatKind.PROTOBUF, wire_format=WireFormat.CONFLUENT, registry=RegistryTarget(path=path), subject="t-value",
        descriptor_set=DESCRIPTOR_SET, message="house.Inner",
    )  # fmt: skip
    assert with_schema_id(known, None).schema_id == 1
    wrong = FormatSettings(**{name: getattr(known, name) for name in known.__slots__} | {"subject": "other"})
    with pytest.raises(InvalidSchemaError, match="holds a schema of type AVRO, not PROTOBUF"):
        with_schema_id(wrong, None)


def test_plain_formats_need_no_schema_id():
    known = settings(FormatKind.AVRO)
    assert with_schema_id(known, ROW) is known
    given = settings(FormatKind.AVRO, wire_format=WireFormat.CONFLUENT, schema_id=5, schema_text='"int"')
    assert with_schema_id(given, pa.int32()) is given
