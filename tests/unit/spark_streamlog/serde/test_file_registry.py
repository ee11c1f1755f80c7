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


def test_registering_gives_ids_and_versions_as_confluents_registry_does(path):
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


def test_what_another_process_registers_is_seen(path):
    reader, writer = FileRegistry(path), FileRegistry(path)
    with pytest.raises(UnknownSchemaError, match="no schema id 1"):
        reader.schema_by_id(1)
    writer.register("a", INT, "AVRO")
    assert reader.schema_by_id(1).text.strip('"') == "int"
    writer.register("a", LONG, "AVRO")
    assert reader.latest("a").schema_id == 2


def test_what_is_asked_of_a_file_that_does_not_exist_is_answered_with_that(path):
    for ask in (
        lambda: FileRegistry(path).schema_by_id(1),
        lambda: FileRegistry(path).latest("a"),
        lambda: FileRegistry(path).find_id("a", INT, "AVRO"),
    ):
        with pytest.raises(UnknownSchemaError, match="the file does not exist"):
            ask()


def test_unknown_subjects_and_schemas_are_said(path):
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
def test_a_file_that_is_none_is_an_error_of_the_query(path, content):
    with open(path, "w") as file:
        file.write(content)
    with pytest.raises(SchemaRegistryError, match="is not valid") as error:
        FileRegistry(path).latest("a")
    assert not isinstance(error.value, UnknownSchemaError)


@pytest.mark.parametrize(
    "document",
    [{"compatibility": "SOMETIMES"}, {"subjects": {"a": {"compatibility": "backward"}}}, {"subjects": {"a": "FULL"}}],
)
def test_a_level_that_is_none_is_said(path, document):
    write_file(path, **document)
    with pytest.raises(SchemaRegistryError, match="is not valid"):
        FileRegistry(path).latest("a")


def test_a_place_that_cannot_be_written_is_said(tmp_path):
    with pytest.raises(SchemaRegistryError, match="cannot be locked"):
        FileRegistry(str(tmp_path / "no" / "registry.json")).register("a", INT, "AVRO")
    with pytest.raises(SchemaRegistryError, match="cannot be read"):
        FileRegistry(str(tmp_path)).latest("a")


def register_many(path, name, count):
    for number in range(count):
        FileRegistry(path).register(name, json.dumps({"type": "fixed", "name": f"F{number}", "size": number}), "AVRO")


def test_processes_that_register_at_once_lose_nothing(path):
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


def test_a_schema_that_cannot_read_the_latest_version_is_refused_and_nothing_is_written(path):
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


def test_the_level_is_the_subjects_or_the_files_and_stays_in_the_file(path):
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


def test_what_a_subject_has_already_is_not_compared_again(path):
    entries = [
        {"id": number, "subject": "a", "version": number, "schema": text}
        for number, text in ((1, INT), (2, '"string"'))
    ]
    write_file(path, schemas=entries)
    assert FileRegistry(path).register("a", INT, "AVRO") == 1


def test_a_subject_of_another_type_takes_no_avro_schema(path):
    entry = {"id": 1, "subject": "a", "version": 1, "schemaType": "PROTOBUF", "schema": 'syntax = "proto3";'}
    write_file(path, schemas=[entry])
    with pytest.raises(SchemaRegistryError, match="version 1 is of type PROTOBUF, not AVRO"):
        FileRegistry(path).register("a", INT, "AVRO")


def test_a_version_that_is_no_schema_is_said_and_not_passed_over(path):
    write_file(path, schemas=[{"id": 1, "subject": "a", "version": 1, "schema": {"type": "nothing"}}])
    with pytest.raises(SchemaRegistryError, match="it cannot be compared with the existing versions"):
        FileRegistry(path).register("a", INT, "AVRO")
