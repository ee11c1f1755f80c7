"""Finds a message in a descriptor set: the file that `protoc --include_imports --descriptor_set_out` writes.

A message has its full name, `package.Outer.Inner`, or its last name if that is unique. Google's own files
(`google/protobuf/*.proto`) may be missing from the set. Message indexes are Confluent's: positions among a file's
messages, from the outermost inwards.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from spark_streamlog.serde.limits import MAX_SCHEMA_BYTES
from spark_streamlog.serde.serde_errors import InvalidSchemaError

_GOOGLE_PREFIX: Final = "google/protobuf/"


@lru_cache(maxsize=64)
def message_descriptor(descriptor_set: bytes, message: str) -> Any:
    """Raises InvalidSchemaError with the existing names."""
    pool, names = _pool_of(descriptor_set)
    wanted = message.lstrip(".")
    found = [name for name in names if name == wanted] or [n for n in names if n.rpartition(".")[2] == wanted]
    if len(found) != 1:
        why = "exists more than once: give its full name" if found else "is not in the descriptor set"
        shown = ", ".join(sorted(found or names)[:20]) or "none"
        raise InvalidSchemaError(f"the Protobuf message {message!r} {why}; messages there: {shown}", setting="message")
    return pool.FindMessageTypeByName(found[0])


@lru_cache(maxsize=8)
def _pool_of(descriptor_set: bytes) -> tuple[Any, list[str]]:
    from google.protobuf import descriptor_pb2, descriptor_pool
    from google.protobuf.message import DecodeError

    if len(descriptor_set) > MAX_SCHEMA_BYTES:
        raise InvalidSchemaError(f"the descriptor set has {len(descriptor_set)} bytes; the limit is {MAX_SCHEMA_BYTES}")
    try:
        files = {file.name: file for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor_set).file}
    except DecodeError:
        files = {}
    if not files:
        raise InvalidSchemaError(
            "the descriptor file is not a descriptor set: create it with protoc --include_imports "
            "--descriptor_set_out=FILE"
        )
    pool = descriptor_pool.DescriptorPool()
    for file in _imports_first(files):
        try:
            pool.AddSerializedFile(file.SerializeToString())
        except (TypeError, KeyError) as error:
            raise InvalidSchemaError(f"the descriptor set is invalid at {file.name}: {error}") from None
    names: list[str] = []
    for file in files.values():
        waiting = [(file.package, message) for message in file.message_type]
        while waiting:
            outer, message = waiting.pop()
            name = f"{outer}.{message.name}" if outer else message.name
            if not message.options.map_entry:
                names.append(name)
                waiting += [(name, inner) for inner in message.nested_type]
    return pool, names


def _imports_first(files: dict[str, Any]) -> list[Any]:
    ordered: dict[str, Any] = {}
    # (file, whether its imports are already placed before it)
    waiting = [(name, False) for name in reversed(files)]
    begun: set[str] = set()
    while waiting:
        name, are_imports_done = waiting.pop()
        if are_imports_done:
            ordered[name] = files[name]
            continue
        if name in begun:
            continue
        begun.add(name)
        if name not in files:
            files = {**files, name: _google_file(name)}
        waiting.append((name, True))
        waiting += [(imported, False) for imported in files[name].dependency]
    return list(ordered.values())


def _google_file(name: str) -> Any:
    from importlib import import_module

    from google.protobuf import descriptor_pb2

    module = name.removesuffix(".proto").replace("/", ".") + "_pb2"
    try:
        if not name.startswith(_GOOGLE_PREFIX) or not name[len(_GOOGLE_PREFIX) :].removesuffix(".proto").isidentifier():
            raise ImportError
        found = descriptor_pb2.FileDescriptorProto()
        import_module(module).DESCRIPTOR.CopyToProto(found)
    except (ImportError, AttributeError):
        raise InvalidSchemaError(
            f"the descriptor set lacks the imported file {name}: create it with protoc --include_imports"
        ) from None
    return found


def indexes_of(descriptor: Any) -> tuple[int, ...]:
    """The position of a message in its file."""
    path: list[int] = []
    while descriptor is not None:
        outer = descriptor.containing_type
        proto = _proto_of(outer if outer is not None else descriptor.file)
        siblings = proto.nested_type if outer is not None else proto.message_type
        path.append([sibling.name for sibling in siblings].index(descriptor.name))
        descriptor = outer
    return tuple(reversed(path))


def message_at(descriptor: Any, indexes: tuple[int, ...]) -> str | None:
    """The full name of the message at this position of the file that defines `descriptor`; None if there is none."""
    proto = _proto_of(descriptor.file)
    name, siblings = proto.package, proto.message_type
    for index in indexes:
        if not 0 <= index < len(siblings):
            return None
        name = f"{name}.{siblings[index].name}" if name else siblings[index].name
        siblings = siblings[index].nested_type
    return str(name)


def is_repeated(field: Any) -> bool:
    # The first form exists in newer versions of protobuf, the second in older ones.
    found = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if found is None else found)


def is_required(field: Any) -> bool:
    found = getattr(field, "is_required", None)
    return bool(field.label == field.LABEL_REQUIRED if found is None else found)


def is_map(field: Any) -> bool:
    return bool(is_repeated(field) and field.message_type is not None and field.message_type.GetOptions().map_entry)


def _proto_of(descriptor: Any) -> Any:
    from google.protobuf import descriptor_pb2

    is_file = hasattr(descriptor, "serialized_pb")
    proto = descriptor_pb2.FileDescriptorProto() if is_file else descriptor_pb2.DescriptorProto()
    descriptor.CopyToProto(proto)
    return proto
