"""Random Avro schemas with values, as Hypothesis strategies, and what fastavro and Spark make of them.

A value of a union is (branch, value), so that nothing has to be guessed; `for_fastavro` and `for_arrow` turn values
into what fastavro's writer takes and what a column gives back.
"""

import io
import itertools
import json

import fastavro
from hypothesis import strategies as st

NUMBERS = {
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
}
LEAVES = NUMBERS | {
    "null": st.none(),
    "boolean": st.booleans(),
    "bytes": st.binary(max_size=6),
    "string": st.text(max_size=6),
}


@st.composite
def schemas(draw, depth=3, names=None, is_item=False, is_branch=False):
    """As JSON values. An item of an array takes at least a byte; no union directly contains another one."""
    names = names if names is not None else itertools.count()
    kinds = [kind for kind in LEAVES if kind != "null" or not is_item]
    kinds += ["enum", "fixed", *(["record", "array", "map"] if depth else []), *([] if is_branch else ["union"])]
    kind = draw(st.sampled_from(kinds))
    if kind in LEAVES:
        return kind
    name = f"N{next(names)}"
    if kind == "enum":
        return {"type": "enum", "name": name, "symbols": ["A", "B", "C"][: draw(st.integers(1, 3))]}
    if kind == "fixed":
        return {"type": "fixed", "name": name, "size": draw(st.integers(1 if is_item else 0, 4))}
    if kind == "array":
        return {"type": "array", "items": draw(schemas(depth - 1, names, is_item=True))}
    if kind == "map":
        return {"type": "map", "values": draw(schemas(depth - 1, names))}
    if kind == "record":
        fields = [
            {"name": f"f{place}", "type": draw(schemas(depth - 1, names))}
            for place in range(draw(st.integers(1 if is_item else 0, 3)))
        ]
        if is_item:
            fields.append({"name": "b", "type": "boolean"})
        return {"type": "record", "name": name, "fields": fields}
    branches = draw(
        st.lists(schemas(max(depth - 1, 0), names, is_branch=True), min_size=1, max_size=4, unique_by=_kind)
    )
    if all(branch == "null" for branch in branches):
        branches.append("string")
    return branches


def _kind(branch):
    return branch if isinstance(branch, str) else branch.get("name", branch["type"])


def values(schema):
    if isinstance(schema, list):
        return st.integers(0, len(schema) - 1).flatmap(lambda place: st.tuples(st.just(place), values(schema[place])))
    if isinstance(schema, str):
        return LEAVES[schema]
    kind = schema["type"]
    if kind == "enum":
        return st.sampled_from(schema["symbols"])
    if kind == "fixed":
        return st.binary(min_size=schema["size"], max_size=schema["size"])
    if kind == "array":
        return st.lists(values(schema["items"]), max_size=3)
    if kind == "map":
        return st.dictionaries(st.text(max_size=3), values(schema["values"]), max_size=3)
    return st.fixed_dictionaries({field["name"]: values(field["type"]) for field in schema["fields"]})


@st.composite
def schemas_and_values(draw, max_size=5):
    """(schema as JSON values, a list of values, None among them for null rows)."""
    schema = draw(schemas())
    return schema, draw(st.lists(st.none() | st.tuples(values(schema)), max_size=max_size))


def for_fastavro(schema, value):
    if isinstance(schema, list):
        place, inner = value
        branch = schema[place]
        name = branch if isinstance(branch, str) else branch.get("name", branch["type"])
        return (name, for_fastavro(branch, inner))
    if isinstance(schema, str) or schema["type"] in ("enum", "fixed"):
        return value
    if schema["type"] == "array":
        return [for_fastavro(schema["items"], item) for item in value]
    if schema["type"] == "map":
        return {key: for_fastavro(schema["values"], item) for key, item in value.items()}
    return {field["name"]: for_fastavro(field["type"], value[field["name"]]) for field in schema["fields"]}


def for_arrow(schema, value):
    """What a column of the values gives as Python values."""
    if isinstance(schema, list):
        place, inner = value
        branches = [branch for branch in schema if branch != "null"]
        if schema[place] == "null":
            return None
        found = for_arrow(schema[place], inner)
        kinds = {branch if isinstance(branch, str) else branch["type"] for branch in branches}
        if len(branches) == 1 or (len(branches) == 2 and kinds in ({"int", "long"}, {"float", "double"})):
            return found
        at = sum(branch != "null" for branch in schema[:place])
        return {f"member{n}": found if n == at else None for n in range(len(branches))}
    if isinstance(schema, str) or schema["type"] in ("enum", "fixed"):
        return value
    if schema["type"] == "array":
        return [for_arrow(schema["items"], item) for item in value]
    if schema["type"] == "map":
        return [(key, for_arrow(schema["values"], item)) for key, item in value.items()]
    return {field["name"]: for_arrow(field["type"], value[field["name"]]) for field in schema["fields"]}


def written(schema, *rows):
    """The bytes of values as fastavro writes them."""
    parsed = fastavro.parse_schema(schema)
    found = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, row)
        found.append(out.getvalue())
    return found


def as_text(schema):
    return json.dumps(schema)
