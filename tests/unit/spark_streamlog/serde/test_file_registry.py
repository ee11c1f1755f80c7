import json
import multiprocessing

import pytest

from spark_streamlog.serde.file_registry import FileRegistry
from spark_streamlog.serde.serde_errors import SchemaRegistryError, UnknownSchemaError

INT, LONG = '"int"', '{"type": "long"}'


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "registry.json")


def entries_of(path):
    with open(path) as file:
        return json.load(file)["schemas"]


def write_file(path, **document):
    with open(path, "w") as file:
        json.dump({"schemas": []} | document, file)


def test_a_file_written_by_hand_is_read(path):
    entries = [
        {"id": 7, "subject": "a-value", "version": 1, "schema": {"type": "record", "name": "r", "fields": []}},
        {"id": 9, "subject": "a-value", "version": 2, "schemaType": "AVRO", "schema": '["null","int"]'},
        {"id": 8, "subject": "b-value", "version": 1, "schemaType": "PROTOBUF", "schema": 'syntax = "proto3";'},
    ]
    with open(path, "w") as file:
        json.dump({"schemas": entries}, file)
    registry = FileRegistry(path)
    assert registry.latest("a-value").schema_id == 9
    assert json.loads(registry.schema_by_id(7).text) == entries[0]["schema"]
    assert (registry.schema_by_id(8).schema_type, registry.schema_by_id(8).text) == ("PROTOBUF", 'syntax = "proto3";')
    assert registry.find_id("a-value", ' [ "null", "int" ]', "AVRO") == 9


def test_registering_assigns_ids_and_versions_as_confluents_registry_does(path):
    registry = FileRegistry(path)
    assert registry.register("a", INT, "AVRO") == 1
    assert registry.register("a", LONG, "AVRO") == 2
    assert registry.register("a", ' "int" ', "AVRO") == 1
    # The same schema under another subject has the same id.
    assert registry.register("b", LONG, "AVRO") == 2
    assert FileRegistry(path).latest("a").schema_id == 2
    assert FileRegistry(path).latest("b").schema_id == 2
    versions = [(e["subject"], e["version"], e["id"]) for e in entries_of(path)]
    assert versions == [("a", 1, 1), ("a", 2, 2), ("b", 1, 2)]


def test_schemas_registered_by_another_process_are_seen(path):
    reader, writer = FileRegistry(path), FileRegistry(path)
    with pytest.raises(UnknownSchemaError, match="no schema id 1"):
        reader.schema_by_id(1)
    writer.register("a", INT, "AVRO")
    assert reader.schema_by_id(1).text.strip('"') == "int"
    writer.register("a", LONG, "AVRO")
    assert reader.latest("a").schema_id == 2


def test_a_lookup_in_a_missing_file_says_that_the_file_does_not_exist(path):
    for ask in (
        lambda: FileRegistry(path).schema_by_id(1),
        lambda: FileRegistry(path).latest("a"),
        lambda: FileRegistry(path).find_id("a", INT, "AVRO"),
    ):
        with pytest.raises(UnknownSchemaError, match="the file does not exist"):
            ask()


def test_an_unknown_subject_or_schema_is_reported(path):
    registry = FileRegistry(path)
    registry.register("a", INT, "AVRO")
    with pytest.raises(UnknownSchemaError, match="no subject 'b'"):
        registry.latest("b")
    with pytest.raises(UnknownSchemaError, match="does not have this schema under 'a'"):
        registry.find_id("a", LONG, "AVRO")
    with pytest.raises(UnknownSchemaError, match="no subject"):
        registry.latest("A")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"schemas":[{}]}',
        '{"schemas":5}',
        '{"schemas":[{"id":"1","subject":"a","version":1,"schema":"x"}]}',
        '{"schemas":[{"id":true,"subject":"a","version":1,"schema":"x"}]}',
        "[" * 100_000,
    ],
)
def test_a_file_that_is_not_a_registry_fails_the_query(path, content):
    with open(path, "w") as file:
        file.write(content)
    with pytest.raises(SchemaRegistryError, match="is not valid") as error:
        FileRegistry(path).latest("a")
    assert not isinstance(error.value, UnknownSchemaError)


@pytest.mark.parametrize(
    "document",
    [{"compatibility": "SOMETIMES"}, {"subjects": {"a": {"compatibility": "backward"}}}, {"subjects": {"a": "FULL"}}],
)
def test_an_invalid_compatibility_level_is_reported(path, document):
    write_file(path, **document)
    with pytest.raises(SchemaRegistryError, match="is not valid"):
        FileRegistry(path).latest("a")


def test_a_file_that_cannot_be_written_is_reported(tmp_path):
    with pytest.raises(SchemaRegistryError, match="cannot be locked"):
        FileRegistry(str(tmp_path / "no" / "registry.json")).register("a", INT, "AVRO")
    with pytest.raises(SchemaRegistryError, match="cannot be read"):
        FileRegistry(str(tmp_path)).latest("a")


def register_many(path, name, count):
    for number in range(count):
        FileRegistry(path).register(name, json.dumps({"type": "fixed", "name": f"F{number}", "size": number}), "AVRO")


def test_concurrent_registrations_are_not_lost(path):
    write_file(path, compatibility="NONE")
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=register_many, args=(path, name, 8)) for name in "abc"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
        assert worker.exitcode == 0
    entries = entries_of(path)
    assert sorted({entry["id"] for entry in entries}) == list(range(1, 9))
    assert sorted((e["subject"], e["version"]) for e in entries) == [(n, v) for n in "abc" for v in range(1, 9)]


def test_a_schema_that_cannot_read_the_latest_version_is_refused_and_not_written(path):
    registry = FileRegistry(path)
    registry.register("a", LONG, "AVRO")
    with pytest.raises(SchemaRegistryError) as caught:
        registry.register("a", INT, "AVRO")
    assert "refuses a new schema for the subject 'a', whose level is BACKWARD" in caught.value.message
    assert "it cannot read values written with version 1 (at the top: long cannot be read as int)" in (
        caught.value.message
    )
    assert [entry["version"] for entry in entries_of(path)] == [1]
    assert registry.register("b", INT, "AVRO") == 2  # another subject


def test_the_level_is_that_of_the_subject_or_of_the_file_and_is_kept(path):
    write_file(path, compatibility="FULL", subjects={"a": {"compatibility": "NONE"}, "c": {}}, remark="kept")
    for subject, is_taken in (("a", True), ("b", False), ("c", False)):
        FileRegistry(path).register(subject, INT, "AVRO")
        if is_taken:
            FileRegistry(path).register(subject, LONG, "AVRO")
        else:
            with pytest.raises(SchemaRegistryError, match="whose level is FULL"):
                FileRegistry(path).register(subject, LONG, "AVRO")
    with open(path) as file:
        document = json.load(file)
    assert (document["compatibility"], document["remark"]) == ("FULL", "kept")
    assert document["subjects"]["a"] == {"compatibility": "NONE"}


def test_a_schema_that_the_subject_already_has_is_not_compared_again(path):
    entries = [
        {"id": number, "subject": "a", "version": number, "schema": text}
        for number, text in ((1, INT), (2, '"string"'))
    ]
    write_file(path, schemas=entries)
    assert FileRegistry(path).register("a", INT, "AVRO") == 1


def test_a_subject_of_another_type_refuses_an_avro_schema(path):
    entry = {"id": 1, "subject": "a", "version": 1, "schemaType": "PROTOBUF", "schema": 'syntax = "proto3";'}
    write_file(path, schemas=[entry])
    with pytest.raises(SchemaRegistryError, match="version 1 is of type PROTOBUF, not AVRO"):
        FileRegistry(path).register("a", INT, "AVRO")


def test_an_invalid_version_in_the_file_is_reported_and_not_ignored(path):
    write_file(path, schemas=[{"id": 1, "subject": "a", "version": 1, "schema": {"type": "nothing"}}])
    with pytest.raises(SchemaRegistryError, match="it cannot be compared with the existing versions"):
        FileRegistry(path).register("a", INT, "AVRO")
