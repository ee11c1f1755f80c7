"""Pairs of Avro schemas, and whether Java's Avro says that values of one can be read as the other.

`PYTHONPATH=tests python tests/support/files/avro_compatibility.py` makes the recording: it asks the class that
Confluent's registry asks, SchemaCompatibility of the Avro that comes with PySpark (Java).
"""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pyspark

RECORDING = Path(__file__).parents[2] / "golden" / "avro-compatibility-1.12.1.json"
PROGRAM = Path(__file__).with_name("AvroCompatibility.java")
JARS = Path(pyspark.__file__).parent / "jars"
PAIR_COUNT = 600
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
DEFAULTS = {"null": None, "boolean": False, "int": 1, "long": 1, "float": 1.5, "double": 1.5, "bytes": "", "string": ""}


def recorded_pairs() -> list[dict[str, Any]]:
    """`reader` and `writer` as JSON, `is_compatible` as Java's Avro has it."""
    recorded: list[dict[str, Any]] = json.loads(RECORDING.read_text())
    return recorded


def ask_java(pairs: list[tuple[Any, Any]]) -> list[bool]:
    lines = "".join(f"{json.dumps(reader)}\t{json.dumps(writer)}\n" for reader, writer in pairs)
    answer = subprocess.run(
        ["java", "-cp", f"{JARS}/*", str(PROGRAM)], input=lines, capture_output=True, text=True, check=True, timeout=120
    )
    return [line == "COMPATIBLE" for line in answer.stdout.split()]


def record(*fields: Any, name: str = "shop.Order", **more: Any) -> Any:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> Any:
    return {"name": name, "type": kind, **more}


def enum(*symbols: str, **more: Any) -> Any:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def fixed(size: int, **more: Any) -> Any:
    return {"type": "fixed", "name": "F", "size": size, **more}


LIST = record(field("value", "int"), field("next", ["null", "shop.List"]), name="shop.List")
LONG_LIST = record(field("value", "long"), field("next", ["null", "shop.List"]), name="shop.List")
BY_HAND: list[tuple[Any, Any]] = [
    (reader, writer)
    for kinds in (
        PRIMITIVES,
        (record(field("a", "int")), record(), record(field("a", "long")), record(field("a", "int", default=1)),
         record(field("b", "int", aliases=["a"])), record(field("b", "int")), record(field("a", "int"), name="Order"),
         record(field("a", "int"), name="shop.Bill"), record(field("a", "int"), name="shop.Bill", aliases=["Order"]),
         record(field("a", "int"), name="shop.Bill", aliases=["shop.Order"]),
         record(field("a", "int"), name="Bill", aliases=["Order"])),
        (enum("A"), enum("A", "B"), enum("A", "C", default="A"), enum("A", name="x.E"), enum("B", aliases=["E"])),
        (fixed(2), fixed(3), fixed(2, name="G"), fixed(2, name="G", aliases=["F"]), "bytes"),
        (["null", "int"], ["int"], "int", "long", ["null", "long"], ["string", "null"], [], "string",
         ["int", "string"], ["null", "string", "long"], ["null", record(field("a", "int"))], record(field("a", "int"))),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, {"type": "map", "values": "int"},
         {"type": "map", "values": "double"}, {"type": "array", "items": ["null", "int"]}),
        (LIST, LONG_LIST, record(field("value", "int"), name="shop.List")),
        ({"type": "int", "logicalType": "date"}, {"type": "long", "logicalType": "timestamp-millis"},
         {"type": "long", "logicalType": "timestamp-micros"}, "int", "long"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "bytes",
         {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3}, {"type": "bytes"}),
    )
    for reader in kinds
    for writer in kinds
]  # fmt: skip


class DrawnSchemas:
    """By a seeded die, and changed a little, so that some pairs go together and some do not."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._names = 0

    def schema(self, depth: int = 0) -> Any:
        kinds = ("record", "enum", "fixed", "array", "map", "union", *PRIMITIVES)
        kind = self._dice.choice(kinds if depth < 3 else PRIMITIVES)
        if kind == "record":
            return record(*(self._field(f"f{n}", depth) for n in range(self._dice.randrange(1, 4))), name=self._name())
        if kind == "enum":
            return enum(*"ABC"[: self._dice.randrange(1, 4)], name=self._name())
        if kind == "fixed":
            return fixed(self._dice.randrange(1, 3), name=self._name())
        if kind == "array":
            return {"type": "array", "items": self.schema(depth + 1)}
        if kind == "map":
            return {"type": "map", "values": self.schema(depth + 1)}
        if kind == "union":
            return self._dice.sample(PRIMITIVES, self._dice.randrange(1, 4))
        return kind

    def changed(self, found: Any) -> Any:
        """The same with one or two small changes somewhere in it, or none."""
        if isinstance(found, list):
            return self._changed_union(found)
        if isinstance(found, str):
            return self._dice.choice((found, found, found, self._dice.choice(PRIMITIVES)))
        copy = dict(found)
        if copy["type"] == "record":
            copy["fields"] = self._changed_fields(copy["fields"])
        elif copy["type"] == "enum" and self._dice.random() < 0.5:
            copy["symbols"] = self._dice.sample("ABCD", self._dice.randrange(1, 4))
            if self._dice.random() < 0.4:
                copy["default"] = copy["symbols"][0]
        elif copy["type"] == "fixed" and self._dice.random() < 0.3:
            copy["size"] += 1
        else:
            for inside in ("items", "values"):
                if inside in copy:
                    copy[inside] = self.changed(copy[inside])
        if "name" in copy and self._dice.random() < 0.15:
            copy["aliases"], copy["name"] = [copy["name"]] if self._dice.random() < 0.6 else [], self._name()
        elif "name" in copy and self._dice.random() < 0.1:
            copy["name"] = f"other.{copy['name'].rpartition('.')[2]}"
        return copy

    def _changed_fields(self, fields: list[Any]) -> list[Any]:
        kept = []
        for each in fields:
            if self._dice.random() < 0.12:
                continue
            kind = self.changed(each["type"]) if self._dice.random() < 0.35 else each["type"]
            made = field(each["name"], kind)
            if isinstance(kind, str) and self._dice.random() < 0.4:
                made["default"] = DEFAULTS[kind]
            if self._dice.random() < 0.1:
                made["name"], made["aliases"] = f"{each['name']}x", [each["name"]]
            kept.append(made)
        if self._dice.random() < 0.25:
            kind = self._dice.choice(PRIMITIVES)
            kept.append(field("new", kind, **({"default": DEFAULTS[kind]} if self._dice.random() < 0.6 else {})))
        self._dice.shuffle(kept)
        return kept

    def _changed_union(self, branches: list[Any]) -> list[Any]:
        changed = list(branches)
        if self._dice.random() < 0.4:
            extra = self._dice.choice(PRIMITIVES)
            changed += [] if extra in changed else [extra]
        if len(changed) > 1 and self._dice.random() < 0.3:
            changed.pop(self._dice.randrange(len(changed)))
        return changed

    def _field(self, name: str, depth: int) -> Any:
        return field(name, self.schema(depth + 1))

    def _name(self) -> str:
        self._names += 1
        return f"shop.N{self._names}"


def all_pairs() -> list[tuple[Any, Any]]:
    drawn = DrawnSchemas(7)
    schemas = [drawn.schema() for _ in range(PAIR_COUNT)]
    return BY_HAND + [(drawn.changed(each), each) for each in schemas]


if __name__ == "__main__":
    pairs = all_pairs()
    answers = ask_java(pairs)
    assert len(answers) == len(pairs), f"{len(answers)} answers to {len(pairs)} questions"
    rows = [{"reader": r, "writer": w, "is_compatible": a} for (r, w), a in zip(pairs, answers, strict=True)]
    RECORDING.write_text("[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]\n")
