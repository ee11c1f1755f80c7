"""keyFormat, valueFormat and their settings."""

import errno
import json

import pytest
from support.builders.protobuf_messages import DESCRIPTOR_SET

from spark_streamlog.errors import ConditionError
from spark_streamlog.options import format_options
from spark_streamlog.options.format_options import SETTINGS, sink_formats, source_formats
from spark_streamlog.options.option_reader import OptionReader
from spark_streamlog.serde import file_registry
from spark_streamlog.serde.file_registry import FileRegistry
from spark_streamlog.serde.format_settings import NO_FORMATS, CorruptMode, FormatKind, WireFormat
from spark_streamlog.serde.limits import MAX_SCHEMA_BYTES
from spark_streamlog.serde.protobuf_options import PROTOBUF_FLAGS

RECORD = '{"type":"record","name":"r","fields":[{"name":"a","type":"int"}]}'


def source(given, topic="t"):
    options = OptionReader(given, role="source")
    formats = source_formats(options, topic=topic)
    options.finish()
    return formats


def sink(given, topic="t"):
    options = OptionReader(given, role="sink")
    formats = sink_formats(options, topic=topic)
    options.finish()
    return formats


def refused(given, side=source, topic="t"):
    with pytest.raises(ConditionError, match="STREAMLOG_INVALID_OPTIONS") as error:
        side(given, topic)
    return str(error.value)


@pytest.fixture
def registry(tmp_path):
    path = str(tmp_path / "registry.json")
    FileRegistry(path).register("t-value", RECORD, "AVRO")
    return path


@pytest.fixture
def descriptor(tmp_path):
    (tmp_path / "all.desc").write_bytes(DESCRIPTOR_SET)
    return str(tmp_path / "all.desc")


def test_without_a_format_columns_stay_binary():
    assert source({}) == sink({}) == NO_FORMATS
    assert source({"keyFormat": "binary", "valueFormat": "BINARY"}) == NO_FORMATS


@pytest.mark.parametrize("word", ["string", "short", "int", "long", "float", "double", "json"])
def test_a_primitive_format_needs_no_other_option(word):
    formats = source({"keyFormat": word.upper(), "VALUEFORMAT": word})
    assert formats.key == formats.value
    assert formats.key.kind is FormatKind(word)
    assert formats.key.mode is CorruptMode.PERMISSIVE
    assert sink({"valueFormat": word}).value.kind is FormatKind(word)


def test_each_side_has_its_own_mode():
    formats = source(
        {"keyFormat": "int", "keyFormat.mode": "FailFast", "valueFormat": "int", "valueFormat.mode": "dropmalformed"}
    )
    assert (formats.key.mode, formats.value.mode) == (CorruptMode.FAIL_FAST, CorruptMode.DROP_MALFORMED)


def test_json_accepts_a_schema_as_text_or_as_a_file(tmp_path):
    (tmp_path / "schema.ddl").write_text("\ufeffa INT")
    assert source({"valueFormat": "json", "valueFormat.schema": "a INT"}).value.schema_text == "a INT"
    formats = source({"valueFormat": "json", "valueFormat.schema.file": str(tmp_path / "schema.ddl")})
    assert formats.value.schema_text == "a INT"


def test_plain_avro_is_read_with_the_writers_schema():
    formats = source({"valueFormat": "avro", "valueFormat.schema": RECORD, "valueFormat.avroSchema": RECORD})
    assert formats.value.wire_format is WireFormat.PLAIN
    assert formats.value.reader_schema_text == RECORD


def test_a_registry_implies_the_wire_format_and_provides_the_schema_of_the_topics_subject(registry):
    found = source({"valueFormat": "avro", "valueFormat.registry.file": registry}).value
    assert found.wire_format is WireFormat.CONFLUENT
    assert json.loads(found.schema_text) == json.loads(RECORD)
    FileRegistry(registry).register("other", '"int"', "AVRO")
    given = {"valueFormat": "avro", "valueFormat.registry.file": registry, "valueFormat.subject": "other"}
    assert source(given, topic=None).value.schema_text == "int"


def test_a_given_schema_needs_no_request_to_the_registry():
    given = {
        "keyFormat": "avro",
        "keyFormat.registry.url": " http://one:8081 , https://two/sr",
        "keyFormat.schema": '"int"',
        "keyFormat.registry.userPassword": "me:secret",
        "keyFormat.registry.timeout": "250ms",
    }
    target = source(given).key.registry
    assert target.urls == ("http://one:8081", "https://two/sr")
    assert (target.user_info, target.timeout_seconds) == ("me:secret", 0.25)


def test_protobuf_needs_a_descriptor_file_and_a_message(descriptor):
    given = {
        "valueFormat": "protobuf",
        "valueFormat.descriptor.file": descriptor,
        "valueFormat.message": "All",
        "valueFormat.enums.as.ints": "true",
        "valueFormat.wireFormat": "confluent",
    }
    found = source(given).value
    assert (found.descriptor_set, found.message) == (DESCRIPTOR_SET, "All")
    assert found.protobuf.enums_as_ints
    assert found.wire_format is WireFormat.CONFLUENT


def test_settings_that_only_the_other_side_uses_are_ignored(registry):
    shared = {
        "valueFormat": "avro",
        "valueFormat.registry.file": registry,
        "valueFormat.autoRegister": "false",
        "valueFormat.mode": "failfast",
        "valueFormat.recordName": "R",
    }
    assert source(shared).value.mode is CorruptMode.FAIL_FAST
    found = sink(shared).value
    assert (found.subject, found.registers, found.record_name) == ("t-value", False, "R")


def test_settings_for_writing_do_not_change_reading(registry):
    plain = source({"valueFormat": "avro", "valueFormat.registry.file": registry})
    more = {"valueFormat.autoRegister": "false", "valueFormat.schema.id": "9", "valueFormat.subject": "t-value"}
    assert source({"valueFormat": "avro", "valueFormat.registry.file": registry, **more}) == plain


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"valueFormat": "xml"}, "valueFormat must be one of binary, string, int"),
        ({"valueFormat.mode": "failfast"}, "valueFormat.mode is for valueFormat = any format, not binary"),
        (
            {"valueFormat": "int", "valueFormat.schema": "x"},
            "valueFormat.schema is for valueFormat = json, avro, not int",
        ),
        (
            {"valueFormat": "json", "valueFormat.mesage": "x"},
            "valueFormat.mesage is not an option of the streamlog source",
        ),
        ({"valueFormat": "json", "valueFormat.mode": "skip"}, "valueFormat.mode must be one of permissive"),
        ({"valueFormat": "json", "valueFormat.schema": "a NUMBER"}, "valueFormat.schema: 'number' is not a known type"),
        ({"valueFormat": "json", "valueFormat.schema.file": "/nowhere"}, "valueFormat.schema.file cannot be read"),
        ({"valueFormat": "json", "valueFormat.schema.file": "a\0b"}, "valueFormat.schema.file cannot be read"),
        ({"valueFormat": "avro"}, "valueFormat.schema is missing"),
        ({"valueFormat": "avro", "valueFormat.schema": "{"}, "valueFormat.schema: the Avro schema is not JSON"),
        (
            {"valueFormat": "avro", "valueFormat.schema": '"int"', "valueFormat.avroSchema": '"string"'},
            "valueFormat.avroSchema: what was written as int cannot be read as string",
        ),
        (
            {"valueFormat": "avro", "valueFormat.schema": '"int"', "valueFormat.wireFormat": "confluent"},
            "valueFormat.registry.url or valueFormat.registry.file is missing",
        ),
        ({"valueFormat": "avro", "valueFormat.registry.url": "registry:8081"}, "must be an http or https address"),
        ({"valueFormat": "avro", "valueFormat.registry.url": "file:///etc"}, "must be an http or https address"),
        ({"valueFormat": "avro", "valueFormat.registry.url": "http://a:b:c"}, "must be an http or https address"),
        ({"valueFormat": "avro", "valueFormat.registry.url": " , "}, "must be an http or https address"),
        (
            {"valueFormat": "avro", "valueFormat.registry.url": "http://a", "valueFormat.registry.file": "b"},
            "are both set",
        ),
        (
            {"valueFormat": "avro", "valueFormat.registry.file": "/r", "valueFormat.registry.userPassword": "a:b"},
            "valueFormat.registry.userPassword must be user:password and needs valueFormat.registry.url",
        ),
        (
            {
                "valueFormat": "avro",
                "valueFormat.registry.url": "http://a",
                "valueFormat.registry.userPassword": "token",
            },
            "valueFormat.registry.userPassword must be user:password",
        ),
        (
            {"valueFormat": "avro", "valueFormat.registry.file": "/r", "valueFormat.registry.timeout": "0"},
            "between 1ms and 1h",
        ),
        (
            {"valueFormat": "avro", "valueFormat.registry.file": "/r", "valueFormat.wireFormat": "plain"},
            "cannot be combined with a registry",
        ),
        ({"valueFormat": "avro", "valueFormat.registry.file": " "}, "valueFormat.registry.file is empty"),
        (
            {"valueFormat": "avro", "valueFormat.registry.file": "/nowhere/r"},
            "valueFormat.registry.file: the schema registry /nowhere/r does not exist",
        ),
        (
            {"valueFormat": "avro", "valueFormat.schema": '"int"', "valueFormat.schema.id": "5"},
            "valueFormat.schema.id is for valueFormat.wireFormat=confluent",
        ),
        (
            {"valueFormat": "avro", "valueFormat.registry.file": "/r", "valueFormat.avroSchema": '"int"'},
            "is for plain values",
        ),
        ({"valueFormat": "avro", "valueFormat.schema": "x", "valueFormat.schema.file": __file__}, "are both set"),
        ({"valueFormat": "protobuf"}, "valueFormat.descriptor.file is missing"),
        (
            {"valueFormat": "protobuf", "valueFormat.message": "M", "valueFormat.descriptor.file": __file__},
            "is not a descriptor set",
        ),
        (
            {"valueFormat": "protobuf", "valueFormat.message": "M", "valueFormat.emit.default.values": "1"},
            "must be true or false",
        ),
    ],
    ids=lambda found: str(found)[:60],
)
def test_each_complaint_names_its_setting(given, said):
    assert said in refused(given)


def test_all_complaints_are_reported_together():
    text = refused(
        {
            "keyFormat": "int",
            "keyFormat.message": "M",
            "valueFormat": "json",
            "valueFormat.schema": "a NUMBER",
            "x": "y",
        }
    )
    assert "3 option(s)" in text
    for said in ("keyFormat.message is for keyFormat = protobuf", "'number' is not a known type", "x is not an option"):
        assert said in text


@pytest.mark.parametrize("name", ["keyFormat", "valueFormat"])
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("missing", "does not exist"),
        ("folder", "cannot be read: Is a directory"),
        ("unreadable", "cannot be read: Permission denied"),
        ("no name\0", "cannot be read: embedded null byte"),
        ("text", "is not valid: JSONDecodeError"),
    ],
)
def test_an_error_of_the_registry_file_is_reported_under_its_option(tmp_path, monkeypatch, name, kind, said):
    # A file that does not exist was said to have no subject, under the option subject.
    path = tmp_path / kind
    if kind == "folder":
        path.mkdir()
    elif kind == "text":
        path.write_text("[schemas]")
    elif kind == "unreadable":
        monkeypatch.setattr(file_registry, "open", no_access, raising=False)
    given = {name: "avro", f"{name}.registry.file": str(path)}
    complaint = f"are wrong: {name}.registry.file: the schema registry {path} {said}"
    assert complaint in refused(given)
    assert complaint in refused(given | {f"{name}.autoRegister": "false"}, side=sink)


def no_access(path, mode):
    raise PermissionError(errno.EACCES, "Permission denied", path)


def test_a_sink_and_a_source_with_a_schema_accept_a_missing_registry_file(tmp_path):
    given = {"valueFormat": "avro", "valueFormat.registry.file": str(tmp_path / "later.json")}
    assert sink(given).value.registry.path == given["valueFormat.registry.file"]
    assert source(given | {"valueFormat.schema": RECORD}).value.schema_text == RECORD
    nowhere = given | {"valueFormat.registry.file": str(tmp_path / "folder" / "later.json")}
    assert "later.json does not exist, and neither does its directory" in refused(nowhere, side=sink)


def test_a_subject_is_required_unless_the_query_has_a_single_topic(registry):
    given = {"valueFormat": "avro", "valueFormat.registry.file": registry}
    assert "valueFormat.schema and valueFormat.subject are missing" in refused(given, topic=None)
    assert "valueFormat.subject is missing" in refused(given, side=sink, topic=None)


def test_a_subject_of_another_schema_type_is_refused(registry):
    FileRegistry(registry).register("t-value", "x", "PROTOBUF")
    assert "holds a schema of type PROTOBUF, not AVRO" in refused(
        {"valueFormat": "avro", "valueFormat.registry.file": registry}
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"valueFormat": "avro", "valueFormat.wireFormat": "confluent"}, "needs a schema id"),
        (
            {"valueFormat": "avro", "valueFormat.wireFormat": "confluent", "valueFormat.schema.id": "5"},
            "needs the schema that it is the id of",
        ),
        ({"valueFormat": "avro", "valueFormat.schema": "{"}, "valueFormat.schema: the Avro schema is not JSON"),
        (
            {"valueFormat": "protobuf", "valueFormat.message": "M", "valueFormat.descriptor.file": __file__},
            "not a descriptor set",
        ),
    ],
)
def test_a_sink_refuses_invalid_settings_before_its_columns_are_known(given, said):
    assert said in refused(given, side=sink)


def test_no_complaint_contains_a_password(registry):
    given = {
        "valueFormat": "avro",
        "valueFormat.registry.url": "ftp://me:secret@host/x",
        "valueFormat.registry.userPassword": "secret",
    }
    assert "secret" not in refused(given)


def test_the_size_of_a_schema_file_is_bounded(tmp_path):
    (tmp_path / "large").write_bytes(b" " * (MAX_SCHEMA_BYTES - 5) + b"a INT")
    given = {"valueFormat": "json", "valueFormat.schema.file": str(tmp_path / "large")}
    assert source(given).value.schema_text.strip() == "a INT"
    (tmp_path / "large").write_bytes(b" " * (MAX_SCHEMA_BYTES - 4) + b"a INT")
    assert f"more than {MAX_SCHEMA_BYTES} bytes" in refused(given)
    (tmp_path / "large").write_bytes(b"\xff")
    assert "not UTF-8 text" in refused(given)


def test_the_module_documents_every_setting():
    described = format_options.__doc__
    assert [name for name in SETTINGS if name not in PROTOBUF_FLAGS and f".{name}" not in described] == []
