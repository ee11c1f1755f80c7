import json

import pytest
from support.files.avro_compatibility import field, record

from spark_streamlog.serde.compatibility_level import DEFAULT_LEVEL, CompatibilityLevel, incompatibility_with_versions

A = record(field("a", "int"))
AB = record(field("a", "int"), field("b", "int"))
AB_DEFAULT = record(field("a", "int"), field("b", "int", default=0))
B_DEFAULT = record(field("b", "int", default=0))
STRING_A = record(field("a", "string"))

# Versions, the new schema, the levels that take it: by the table of Confluent's documentation.
CHANGES = [
    ([A], AB, {"FORWARD", "FORWARD_TRANSITIVE"}),  # a field without a default is added
    ([AB], A, {"BACKWARD", "BACKWARD_TRANSITIVE"}),  # … is removed
    ([A], AB_DEFAULT, {each.value for each in CompatibilityLevel}),  # a field with a default is added
    ([AB_DEFAULT], A, {each.value for each in CompatibilityLevel}),  # … is removed
    ([A], STRING_A, set()),
    ([A], A, {each.value for each in CompatibilityLevel}),
    # The latest version goes along with it both ways; the one before has no a, which the new schema needs.
    ([B_DEFAULT, AB_DEFAULT], A, {"BACKWARD", "FORWARD", "FORWARD_TRANSITIVE", "FULL"}),
    ([STRING_A, A], AB_DEFAULT, {"BACKWARD", "FORWARD", "FULL"}),
    ([], STRING_A, {each.value for each in CompatibilityLevel}),
]


@pytest.mark.parametrize(("versions", "new", "taken_by"), CHANGES)
@pytest.mark.parametrize("level", CompatibilityLevel)
def test_each_level_allows_the_changes_of_its_definition(level, versions, new, taken_by):
    numbered = [(number, json.dumps(version)) for number, version in enumerate(versions, 1)]
    is_taken = incompatibility_with_versions(level, json.dumps(new), numbered) is None
    assert is_taken == (level.value in taken_by | {"NONE"})


def test_the_reason_names_the_version_and_the_direction():
    versions = [(3, json.dumps(A)), (7, json.dumps(AB))]
    backward = incompatibility_with_versions(CompatibilityLevel.BACKWARD, json.dumps(STRING_A), versions)
    assert backward.startswith("it cannot read values written with version 7 (at a: int cannot be read as string)")
    forward = incompatibility_with_versions(CompatibilityLevel.FORWARD, json.dumps(A), versions)
    assert forward.startswith("version 7 cannot read values written with it (at b: the writer does not have the field")


def test_the_default_level_is_backward():
    assert DEFAULT_LEVEL is CompatibilityLevel.BACKWARD
