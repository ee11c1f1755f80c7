"""Makes the two generated files of `broker_core/metadata` from Kafka's own definitions of its metadata records.

    PYTHONPATH=tests python tests/golden/metadata/generate_records.py

The definitions are JSON files, `common/metadata/*.json` in Kafka's `kafka-metadata` jar, which comes by Maven.
`metadata_records.py` gets a frozen dataclass for each record, `metadata_schemas.py` how its fields are written.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

from support.brokers import kafka_tools

ROOM = Path(__file__).parents[3] / "broker_core" / "metadata"
RECORDS, SCHEMAS = ROOM / "metadata_records.py", ROOM / "metadata_schemas.py"
JAR = kafka_tools.JARS / f"kafka-metadata-{kafka_tools.KAFKA_VERSION}.jar"

PYTHON_TYPES = {
    "string": "str", "bytes": "bytes", "uuid": "UUID", "bool": "bool", "float64": "float",
    **dict.fromkeys(("int8", "int16", "uint16", "int32", "int64"), "int"),
}  # fmt: skip

ABOUT = {
    "RegisterBrokerRecord": "A broker process registered.",
    "UnregisterBrokerRecord": "A broker was removed from the cluster.",
    "TopicRecord": "A topic is created.",
    "PartitionRecord": "A partition is created on these brokers, in these of their directories.",
    "ConfigRecord": "A setting of a resource is set, or with None reset to its default.",
    "PartitionChangeRecord": "A partition changed; what is at its default did not. It raises the partition epoch.",
    "FenceBrokerRecord": "A broker was fenced, as Kafka before 3.2 wrote it.",
    "UnfenceBrokerRecord": "A broker was unfenced, as Kafka before 3.2 wrote it.",
    "RemoveTopicRecord": "A topic is deleted with its partitions and settings.",
    "DelegationTokenRecord": "A delegation token is created or renewed.",
    "UserScramCredentialRecord": "A user's SCRAM credential for a mechanism; it replaces an existing one.",
    "FeatureLevelRecord": "The level of a feature, 0 removes it. Every log begins with that of `metadata.version`.",
    "ClientQuotaRecord": "A quota of an entity is set or removed.",
    "ProducerIdsRecord": "A block of producer ids was assigned; the next one begins at `next_producer_id`.",
    "BrokerRegistrationChangeRecord": "A broker's state changed: fenced 1, unfenced -1, the rest where it is given.",
    "AccessControlEntryRecord": "A rule of the access control list is created. The numbers are Kafka's.",
    "RemoveAccessControlEntryRecord": "A rule of the access control list is removed.",
    "NoOpRecord": "Nothing: shows that the controller lives.",
    "ZkMigrationStateRecord": "How far a migration from ZooKeeper was; in old logs only.",
    "RemoveUserScramCredentialRecord": "A user's credential for one SCRAM mechanism is removed.",
    "BeginTransactionRecord": "The records up to the end take effect together or not at all (KIP-866).",
    "EndTransactionRecord": "The records since the begin take effect.",
    "AbortTransactionRecord": "The records since the begin never take effect.",
    "RemoveDelegationTokenRecord": "A delegation token is removed.",
    "RegisterControllerRecord": "A controller process registered.",
    "ClearElrRecord": "The eligible leader replicas of a topic are forgotten, of all topics for an empty name.",
}

RECORDS_HEAD = '''"""KRaft's metadata records, as values: what `__cluster_metadata` holds. GENERATED, see below.

`tests/golden/metadata/generate_records.py` makes this file from the definitions in Kafka {kafka}'s own jar. Names are
Kafka's in snake case. `version` is the version in which the record was, or will be, written; `unknown_fields` are
tagged fields of a newer Kafka, which are written back as they came. Tagged fields that are at their default are not
written.

Longer than 400 lines because it lists everything that a metadata log can hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar
from uuid import UUID

UnknownFields = tuple[tuple[int, bytes], ...]
"""Tag and content, ascending."""

_ZERO_ID = UUID(int=0)
'''

SCHEMAS_HEAD = '''"""How the fields of metadata records are written. GENERATED, see below.

`tests/golden/metadata/generate_records.py` makes this file from the definitions in Kafka {kafka}'s own jar.
"""

from __future__ import annotations

from typing import Final

from broker_core.metadata import metadata_records as records
from broker_core.metadata.record_schema import FieldSchema as Field
from broker_core.metadata.record_schema import StructSchema

'''


def definitions():
    """Kafka's JSON definitions, by record type."""
    with zipfile.ZipFile(JAR) as jar:
        names = [n for n in jar.namelist() if re.fullmatch(r"common/metadata/\w+\.json", n)]
        texts = [jar.read(name).decode() for name in names]
    parsed = [json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)) for text in texts]
    return sorted(parsed, key=lambda definition: definition["apiKey"])


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def item_type(field):
    return field["type"].removeprefix("[]")


def is_array(field):
    return field["type"].startswith("[]")


def since(field):
    return int(field["versions"].removesuffix("+"))


def structs_of(definition):
    """The nested structures before the record that uses them: (name, its fields, whether it is the record)."""
    for field in definition["fields"]:
        if "fields" in field:
            yield item_type(field), field["fields"], None
    yield definition["name"], definition["fields"], definition


def python_type(field):
    kind = PYTHON_TYPES.get(item_type(field), item_type(field))
    kind = f"tuple[{kind}, ...]" if is_array(field) else kind
    return f"{kind} | None" if "nullableVersions" in field else kind


def python_default(field):
    """As source; None where a caller has to say the value."""
    explicit = field.get("default")
    if explicit == "null":
        return "None"
    if explicit is not None:
        return {"true": "True", "false": "False"}.get(explicit, explicit)
    if is_array(field):
        return "()"
    if "tag" in field or since(field) > 0:
        return {"uuid": "_ZERO_ID", "bool": "False", "string": '""'}.get(item_type(field), "0")
    return None


def dataclass_source(name, fields, definition):
    about = f"{ABOUT[name]} Record type {definition['apiKey']}." if definition else "A part of the record below."
    lines = ["@dataclass(frozen=True, slots=True, kw_only=True)", f"class {name}:", f'    """{about}"""', ""]
    if definition:
        lines += [f"    api_key: ClassVar[int] = {definition['apiKey']}"]
    for field in fields:
        default = python_default(field)
        if item_type(field) == "bytes":
            default = "field(repr=False)"
        lines.append(f"    {snake(field['name'])}: {python_type(field)}" + ("" if default is None else f" = {default}"))
    if definition:
        lines.append(f"    version: int = {definition['validVersions'].split('-')[-1]}")
    lines.append("    unknown_fields: UnknownFields = ()")
    return "\n".join(lines)


def field_source(field):
    kind = item_type(field)
    parts = [f'"{snake(field["name"])}"']
    parts.append(f'"{kind}"' if kind in PYTHON_TYPES else f"records.{kind}")
    parts += ["is_array=True"] if is_array(field) else []
    parts += ["is_nullable=True"] if "nullableVersions" in field else []
    parts += [f"since={since(field)}"] if since(field) else []
    if "tag" in field:
        default = (python_default(field) or "0").replace("_ZERO_ID", "UUID(int=0)")
        parts += [f"tag={field['tag']}", f"default={default}"]
    return f"Field({', '.join(parts)})"


def schema_source(name, fields, definition):
    low, _, high = (definition or {}).get("validVersions", "0-127").partition("-")
    assert low == "0" or not definition, name
    versions = f"range({int(high or low) + 1})" if definition else "range(128)"
    body = ", ".join(field_source(field) for field in fields)
    comma = "," if fields else ""
    return f"    records.{name}: StructSchema(versions={versions}, fields=({body}{comma})),"


def sources(kafka=kafka_tools.KAFKA_VERSION):
    """The text of both files, not yet formatted."""
    found = definitions()
    structs = [struct for definition in found for struct in structs_of(definition)]
    union = " | ".join(definition["name"] for definition in found)
    records = RECORDS_HEAD.format(kafka=kafka) + "\n\n"
    records += "\n\n\n".join(dataclass_source(*struct) for struct in structs)
    records += f"\n\n\nMetadataRecord = ({union})\n"
    types = ", ".join(f"records.{definition['name']}" for definition in found)
    schemas = SCHEMAS_HEAD.format(kafka=kafka)
    schemas += "SCHEMAS: Final[dict[type, StructSchema]] = {\n"
    schemas += "\n".join(schema_source(*struct) for struct in structs) + "\n}\n"
    schemas += '"""By the class of a record, and of the structures in it."""\n\n'
    schemas += f"RECORD_TYPES: Final[tuple[type[records.MetadataRecord], ...]] = ({types})\n"
    schemas += '"""All record types, in the order of their numbers."""\n'
    return records, schemas


def formatted(text):
    ruff = Path(sys.executable).with_name("ruff")
    command = [ruff, "format", "--config", str(ROOM.parents[1] / "pyproject.toml"), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def main():
    assert (refusal := kafka_tools.why_unavailable()) is None, refusal
    for path, text in zip((RECORDS, SCHEMAS), sources(), strict=True):
        path.write_text(formatted(text))


if __name__ == "__main__":
    main()
