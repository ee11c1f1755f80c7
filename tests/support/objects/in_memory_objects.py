"""An object store in a dictionary, as strict as S3: conditional writes, etags by content, listings in order.

`now_ms` gives the store's clock. Every request is counted in `requests` by its name.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from broker_core.model.exceptions import ObjectNotFoundError, ObjectPreconditionError
from broker_core.ports import ObjectEntry, StoredObject


class InMemoryObjects:
    def __init__(self, *, now_ms: Callable[[], int] = lambda: 0, url: str = "memory://bucket/log") -> None:
        self.url = url
        self.lists_from_start = False
        self.objects: dict[str, bytes] = {}
        self.modified_ms: dict[str, int] = {}
        self.requests: Counter[str] = Counter()
        self._now_ms = now_ms

    def get(self, path: str) -> StoredObject:
        self.requests["get"] += 1
        data = self._data(path)
        return StoredObject(data=memoryview(data), etag=etag_of(data))

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        self.requests["get_ranges"] += 1
        data = memoryview(self._data(path))
        return [data[position : position + length] for position, length in ranges]

    def put(self, path: str, data) -> None:
        self.requests["put"] += 1
        self._store(path, data)

    def put_if_absent(self, path: str, data) -> str:
        self.requests["put_if_absent"] += 1
        if path in self.objects:
            raise ObjectPreconditionError(f"{path} exists already", object=path)
        return self._store(path, data)

    def put_if_matches(self, path: str, data, etag: str) -> str:
        self.requests["put_if_matches"] += 1
        if path not in self.objects or etag_of(self.objects[path]) != etag:
            raise ObjectPreconditionError(f"{path} is another version", object=path)
        return self._store(path, data)

    def upload(self, path: str) -> InMemoryUpload:
        return InMemoryUpload(self, path)

    def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectEntry]:
        self.requests["list"] += 1
        for path in sorted(self.objects):
            if path.startswith(prefix) and path > after:
                yield ObjectEntry(path=path, size_bytes=len(self.objects[path]), modified_ms=self.modified_ms[path])

    def delete(self, paths: Sequence[str]) -> None:
        self.requests["delete"] += 1
        for path in paths:
            self.objects.pop(path, None)

    def remove_abandoned(self, before_ms: int) -> int:
        return 0

    def close(self) -> None:
        pass

    def _data(self, path: str) -> bytes:
        if path not in self.objects:
            raise ObjectNotFoundError(f"{path} does not exist", object=path)
        return self.objects[path]

    def _store(self, path: str, data) -> str:
        self.objects[path] = bytes(data)
        self.modified_ms[path] = self._now_ms()
        return etag_of(self.objects[path])


class InMemoryUpload:
    def __init__(self, store: InMemoryObjects, path: str) -> None:
        self._store = store
        self._path = path
        self._parts: list[bytes] = []

    def write(self, data) -> None:
        self._store.requests["upload_part"] += 1
        self._parts.append(bytes(data))

    def finish(self) -> None:
        self._store.requests["upload"] += 1
        self._store._store(self._path, b"".join(self._parts))

    def abort(self) -> None:
        self._parts = []


def etag_of(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
