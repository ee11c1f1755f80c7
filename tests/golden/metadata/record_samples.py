"""Samples of every metadata record in every version, with the bytes that Kafka's own classes make of them.

    PYTHONPATH=tests:tests/golden/metadata python tests/golden/metadata/record_samples.py

draws values by a seeded die, asks KafkaMetadata.java for their bytes and writes record-samples-kafka-4.3.1.json.
"""

from __future__ import annotations

import json
import random
from uuid import UUID

from kafka_metadata import FOLDER, TYPES, asked, to_json

from broker_core.metadata.metadata_schemas import SCHEMAS

RECORDING = FOLDER / "record-samples-kafka-4.3.1.json"
SAMPLES_PER_VERSION = 6
LIMITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
TEXTS = ("", "t", "User:ann", "größer", "x" * 200, "日本語", "a.b_c-d")


def drawn_record(dice, kind, version, *, is_plain=False):
    """A record of that type; a plain one has all tagged fields at their defaults."""
    values = _drawn_fields(dice, kind, version, is_plain=is_plain)
    return kind(**values, version=version)


def _drawn_fields(dice, kind, version, *, is_plain):
    fields = [field for field in SCHEMAS[kind].fields if field.since <= version]
    return {field.name: _drawn(dice, field, version) for field in fields if field.tag is None or not is_plain}


def _drawn(dice, field, version):
    if field.is_nullable and dice.random() < 0.3:
        return None
    if field.tag is not None and dice.random() < 0.3:
        return field.default
    if field.is_array:
        return tuple(_drawn_one(dice, field.kind, version) for _ in range(_drawn_count(dice, field.kind)))
    return _drawn_one(dice, field.kind, version)


def _drawn_count(dice, kind):
    is_long = kind == "int32" and dice.random() < 0.1
    return 130 if is_long else dice.choice((0, 1, 1, 2, 3))


def _drawn_one(dice, kind, version):
    if isinstance(kind, type):
        return kind(**_drawn_fields(dice, kind, version, is_plain=False))
    if kind in LIMITS:
        return dice.choice((0, 1, -1, dice.getrandbits(LIMITS[kind]), -(2 ** LIMITS[kind]), 2 ** LIMITS[kind] - 1))
    drawing = {
        "uint16": lambda: dice.choice((0, 9092, 65535)),
        "bool": lambda: dice.random() < 0.5,
        "float64": lambda: dice.choice((0.0, 1048576.0, -0.5, dice.random())),
        "uuid": lambda: UUID(int=dice.choice((0, 1, dice.getrandbits(128)))),
        "bytes": lambda: dice.randbytes(dice.choice((0, 1, 32, 300))),
        "string": lambda: dice.choice(TEXTS),
    }
    return drawing[kind]()


def drawn_samples(seed=4311):
    dice = random.Random(seed)
    return [
        drawn_record(dice, kind, version, is_plain=number == 0)
        for kind in TYPES.values()
        for version in SCHEMAS[kind].versions
        for number in range(SAMPLES_PER_VERSION)
    ]


def answered(records):
    """Each record with the bytes that Kafka makes of it."""
    lines = [f"json {r.api_key} {r.version} {json.dumps(to_json(r, r.version))}" for r in records]
    return [
        {"type": r.api_key, "version": r.version, "data": to_json(r, r.version), "hex": written}
        for r, written in zip(records, asked(lines), strict=True)
    ]


def main():
    rows = ",\n".join(json.dumps(row, ensure_ascii=False) for row in answered(drawn_samples()))
    RECORDING.write_text(f"[\n{rows}\n]\n")


if __name__ == "__main__":
    main()
