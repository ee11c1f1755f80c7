"""S3, compatible stores, Google Cloud Storage and Azure by `obstore` (Rust's object_store).

Only this module loads the library, so that a log in a directory does not need it. It retries requests after server
errors and broken connections. A retried conditional write may then be refused because the first attempt succeeded;
users of `ObjectStore` have to handle that (`ports.ObjectStore`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

from typing_extensions import Buffer

from broker_core.model.exceptions import (
    ObjectPreconditionError,
    ObjectStoreUnsuitableError,
    StreamlogError,
)
from broker_core.model.store_settings import StoreSettings
from broker_core.object_store.client_errors import StoreOperation, cannot_open, translated
from broker_core.ports import ObjectEntry, ObjectUpload, StoredObject

PART_BYTES: Final = 8 * 1024 * 1024
"""The part size of a multipart upload, which may have 10,000 parts: objects of 80 GB."""
PARTS_AT_ONCE: Final = 4
"""Of one upload: as much as `staged_upload` gathers, so that it goes on gathering while they are under way."""
COALESCED_GAP_BYTES: Final = 64 * 1024
_LIST_CHUNK: Final = 1000
_VERSIONS: Final = {"gs": "version"}
"""What the library calls the text that a conditional replacement names. GCS compares generations, not ETags."""


def open_client_store(settings: StoreSettings) -> ClientStore:
    """Sends no request. Raises ObjectStoreUnsuitableError without the client library, and what
    `StoreSettings.checked` raises."""
    settings = settings.checked(os.environ)
    try:
        import obstore
        from obstore import store as stores
    except ImportError as error:
        raise ObjectStoreUnsuitableError(
            f"{settings.url} needs the client library for object storage, which is not installed:"
            " pip install obstore (the extra 'objects' of spark-streamlog)",
            url=settings.url,
        ) from error
    client_options = {
        "allow_http": settings.allow_http,
        "timeout": timedelta(milliseconds=settings.timeout_ms),
        "connect_timeout": timedelta(milliseconds=settings.connect_timeout_ms),
    }
    retry = {
        "max_retries": settings.max_retries,
        "retry_timeout": timedelta(milliseconds=settings.retry_timeout_ms),
        "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5)},
    }
    config: dict[str, Any] = dict(settings.config)
    kinds = {"s3": stores.S3Store, "gs": stores.GCSStore, "az": stores.AzureStore}
    if settings.provider == "s3" and settings.path_style is not None:
        config["virtual_hosted_style_request"] = not settings.path_style
    try:
        store = kinds[settings.provider](
            settings.bucket, prefix=settings.prefix, config=config, client_options=client_options, retry_config=retry
        )
    except BaseException as error:
        if not _is_librarys(error):
            raise
        raise cannot_open(error, settings) from None
    return ClientStore(settings, obstore, store)


class ClientStore:
    """`ports.ObjectStore` over one bucket and prefix. Thread-safe, but must not be used in a forked child."""

    def __init__(self, settings: StoreSettings, library: Any, store: Any) -> None:
        self._settings = settings
        self._library = library
        self._store = store
        self._version: Final = _VERSIONS.get(settings.provider, "e_tag")

    def __repr__(self) -> str:
        return f"ClientStore({self._settings.url})"

    @property
    def url(self) -> str:
        return self._settings.url

    @property
    def lists_from_start(self) -> bool:
        return False

    def get(self, path: str) -> StoredObject:
        with self._translated(path, StoreOperation.READ):
            found = self._library.get(self._store, path)
            return StoredObject(data=memoryview(found.bytes()).cast("B"), etag=str(found.meta[self._version] or ""))

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        if not ranges:
            return []
        with self._translated(path, StoreOperation.READ):
            found = self._library.get_ranges(
                self._store,
                path,
                starts=[position for position, _ in ranges],
                lengths=[length for _, length in ranges],
                coalesce=COALESCED_GAP_BYTES,
            )
        return [memoryview(one).cast("B") for one in found]

    def put(self, path: str, data: Buffer) -> None:
        with self._translated(path, StoreOperation.WRITE):
            self._library.put(self._store, path, data, use_multipart=False)

    def put_if_absent(self, path: str, data: Buffer) -> str:
        with self._translated(path, StoreOperation.WRITE):
            return self._etag(self._library.put(self._store, path, data, mode="create"), path)

    def put_if_matches(self, path: str, data: Buffer, etag: str) -> str:
        with self._translated(path, StoreOperation.WRITE):
            try:
                return self._etag(self._library.put(self._store, path, data, mode={self._version: etag}), path)
            except FileNotFoundError as error:
                raise ObjectPreconditionError(f"{self.url}/{path} does not exist", object=path) from error

    def upload(self, path: str) -> ObjectUpload:
        with self._translated(path, StoreOperation.WRITE):
            writer = self._library.open_writer(self._store, path, buffer_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE)
        return _ClientUpload(self, path, writer)

    def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectEntry]:
        """Stores list in the order of names, and the library keeps that order for one directory."""
        with self._translated(prefix, StoreOperation.LIST):
            chunks = self._library.list(self._store, prefix.rstrip("/"), offset=after or None, chunk_size=_LIST_CHUNK)
            for chunk in chunks:
                for meta in chunk:
                    if meta["path"] <= after:
                        continue  # some stores, Azurite among them, ignore where a listing shall start
                    yield ObjectEntry(
                        path=meta["path"],
                        size_bytes=meta["size"],
                        modified_ms=int(meta["last_modified"].timestamp() * 1000),
                    )

    def delete(self, paths: Sequence[str]) -> None:
        with self._translated(paths[0] if paths else "", StoreOperation.DELETE):
            try:
                self._library.delete(self._store, list(paths))
            except FileNotFoundError:
                if len(paths) > 1:
                    for path in paths:
                        self.delete([path])

    def remove_abandoned(self, before_ms: int) -> int:
        """The library cannot list multipart uploads: use a lifecycle rule of the bucket to remove them."""
        return 0

    def close(self) -> None:
        return None

    def _has_object(self, path: str, size_bytes: int) -> bool:
        """Whether the store shows an object of this size. False also if it does not answer."""
        try:
            return int(self._library.head(self._store, path)["size"]) == size_bytes
        except BaseException as error:
            if not _is_librarys(error):
                raise
            return False

    def _etag(self, result: Any, path: str) -> str:
        etag = result[self._version]
        if not etag:
            raise ObjectStoreUnsuitableError(
                f"{self.url}: the store returns no ETag (GCS: no generation) for {path}; conditional writes need one",
                url=self.url,
            )
        return str(etag)

    @contextmanager
    def _translated(self, path: str, operation: StoreOperation) -> Iterator[None]:
        try:
            yield
        except (StreamlogError, GeneratorExit):
            raise
        except BaseException as error:
            if not _is_librarys(error):
                raise
            raise translated(error, self._settings, path, operation) from None


class _ClientUpload:
    """Of an object whose name nobody else uses, so if it exists at the end, the upload has succeeded: then only the
    answers to its last request were lost. The library would report that as an upload that the store does not know."""

    def __init__(self, store: ClientStore, path: str, writer: Any) -> None:
        self._store = store
        self._path = path
        self._writer: Any | None = writer
        self._size_bytes = 0

    def write(self, data: Buffer) -> None:
        assert self._writer is not None, "an upload that has ended"
        with self._store._translated(self._path, StoreOperation.WRITE):
            self._writer.write(data)
        self._size_bytes += memoryview(data).nbytes

    def finish(self) -> None:
        assert self._writer is not None, "an upload that has ended"
        writer, self._writer = self._writer, None
        with self._store._translated(self._path, StoreOperation.WRITE):
            try:
                writer.close()
            except BaseException as error:
                if not _is_librarys(error) or not self._store._has_object(self._path, self._size_bytes):
                    raise

    def abort(self) -> None:
        writer, self._writer = self._writer, None
        if writer is None:
            return
        try:
            # The library aborts the multipart upload if its context ends with an error.
            writer.__exit__(RuntimeError, RuntimeError("aborted"), None)
        except Exception:
            return


def _is_librarys(error: BaseException) -> bool:
    """Whether the library raised it. Where it cannot go on, as with an address that is none, it panics."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"
