"""A folder as an object store: on a disk, or on a mount that several machines share.

    <folder>/commits/…                 an object is a file, written in .uploads and then linked: complete or missing;
                                       of two links with the same name one is refused, on NFS too
    <folder>/groups/g-a                an object's first version
    <folder>/groups/g-a@/00000001      the versions that replaced it, each created once: a replacement names the version
                                       that it replaces, and creates the next number
    <folder>/.uploads/…                files that are being written

Files and folders are synced before a call returns. File systems have no compare-and-swap, so `put_if_matches` builds
one from names that can be created only once. Versions far below the newest one are removed. The replaced version must
still exist after the new number was created; otherwise a delayed writer could create a number that was used and
removed before.

If the file system is full, the outcome is known: nothing is linked before its file is complete and synced. No failed
write leaves its file in .uploads.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from typing_extensions import Buffer

from broker_core.model.exceptions import (
    DiskFullError,
    ObjectNotFoundError,
    ObjectOutcomeUnknownError,
    ObjectPermissionError,
    ObjectPreconditionError,
    ObjectStoreUnavailableError,
    StorageError,
)
from broker_core.ports import ObjectEntry, StoredObject

_UPLOADS: Final = ".uploads"
_VERSIONS: Final = "@"
_KEPT_VERSION_COUNT: Final = 16
_KEPT_VERSION_SECONDS: Final = 3600
_REFUSALS: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)


class FolderStore:
    """`ports.ObjectStore` over the folder at an absolute path, which the first write creates."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.abspath(folder)
        self._uploads = os.path.join(self._folder, _UPLOADS)

    def __repr__(self) -> str:
        return f"FolderStore({self._folder})"

    @property
    def url(self) -> str:
        return f"objects://{self._folder}"

    @property
    def lists_from_start(self) -> bool:
        return True

    def get(self, path: str) -> StoredObject:
        with self._translated(path, is_write=False):
            version = self._last_version(path)
            with open(self._version_file(path, version), "rb") as file:
                return StoredObject(data=memoryview(file.read()), etag=str(version))

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        with self._translated(path, is_write=False):
            descriptor = os.open(self._file(path), os.O_RDONLY)
            try:
                return [memoryview(os.pread(descriptor, length, position)) for position, length in ranges]
            finally:
                os.close(descriptor)

    def put(self, path: str, data: Buffer) -> None:
        with self._translated(path, is_write=True):
            file = self._made_parent(path)
            written = self._written(data)
            try:
                os.replace(written, file)
            except BaseException:
                _remove(written)
                raise
            self._sync_folder(file)

    def put_if_absent(self, path: str, data: Buffer) -> str:
        with self._translated(path, is_write=True):
            file = self._made_parent(path)
            self._link(self._written(data), file)
        return "0"

    def put_if_matches(self, path: str, data: Buffer, etag: str) -> str:
        with self._translated(path, is_write=True):
            version = int(etag)
            if version != self._last_version(path):
                raise ObjectPreconditionError(f"{self.url}/{path} no longer has the version {etag}", object=path)
            following = self._version_file(path, version + 1)
            os.makedirs(os.path.dirname(following), exist_ok=True)
            self._link(self._written(data), following)
            if not os.path.exists(self._version_file(path, version)):
                os.remove(following)
                raise ObjectOutcomeUnknownError(
                    f"{self.url}/{path}: version {version} was removed while it was being replaced", object=path
                )
            self._remove_old_versions(path, version + 1)
            return str(version + 1)

    def upload(self, path: str) -> _FolderUpload:
        with self._translated(path, is_write=True):
            return _FolderUpload(self, path, self._upload_file())

    def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectEntry]:
        with self._translated(prefix, is_write=False):
            try:
                with os.scandir(self._file(prefix)) as entries:
                    names = sorted(entry.name for entry in entries if not entry.name.endswith(_VERSIONS))
            except FileNotFoundError:
                return
            for name in names:
                path = f"{prefix}{name}"
                if path <= after:
                    continue
                with suppress(FileNotFoundError):
                    found = os.stat(self._file(path))
                    if stat.S_ISDIR(found.st_mode):
                        continue
                    yield ObjectEntry(path=path, size_bytes=found.st_size, modified_ms=found.st_mtime_ns // 1_000_000)

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            with self._translated(path, is_write=True), suppress(FileNotFoundError):
                os.remove(self._file(path))

    def remove_abandoned(self, before_ms: int) -> int:
        """Removes files of uploads without a write since then; returns their count."""
        count = 0
        with (
            self._translated(_UPLOADS, is_write=True),
            suppress(FileNotFoundError),
            os.scandir(self._uploads) as entries,
        ):
            for entry in entries:
                with suppress(FileNotFoundError):
                    if entry.stat().st_mtime_ns // 1_000_000 < before_ms:
                        os.remove(entry.path)
                        count += 1
        return count

    def close(self) -> None:
        return None

    # -- files --

    def _file(self, path: str) -> str:
        return os.path.join(self._folder, path)

    def _made_parent(self, path: str) -> str:
        file = self._file(path)
        os.makedirs(os.path.dirname(file), exist_ok=True)
        return file

    def _version_file(self, path: str, version: int) -> str:
        return self._file(path) if version == 0 else f"{self._file(path)}{_VERSIONS}/{version:08d}"

    def _last_version(self, path: str) -> int:
        try:
            names = os.listdir(f"{self._file(path)}{_VERSIONS}")
        except (FileNotFoundError, NotADirectoryError):
            return 0
        return max((int(name) for name in names if name.isdigit()), default=0)

    def _remove_old_versions(self, path: str, last: int) -> None:
        """Oldest first, without the file that marks the object's existence."""
        folder = f"{self._file(path)}{_VERSIONS}"
        oldest_kept = time.time() - _KEPT_VERSION_SECONDS
        for version in sorted(int(name) for name in os.listdir(folder) if name.isdigit()):
            file = self._version_file(path, version)
            with suppress(OSError):
                if version > last - _KEPT_VERSION_COUNT or os.stat(file).st_mtime > oldest_kept:
                    return
                os.remove(file)

    def _upload_file(self) -> str:
        os.makedirs(self._uploads, exist_ok=True)
        return os.path.join(self._uploads, secrets.token_hex(16))

    def _written(self, data: Buffer) -> str:
        """A synced file with the bytes, not an object yet."""
        name = self._upload_file()
        try:
            with open(name, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            _remove(name)
            raise
        return name

    def _link(self, written: str, file: str) -> None:
        """Creates the file. Raises ObjectPreconditionError if it exists."""
        try:
            os.link(written, file)
        except FileExistsError:
            raise ObjectPreconditionError(f"{file} exists already", object=file) from None
        finally:
            _remove(written)
        self._sync_folder(file)

    def _sync_folder(self, file: str) -> None:
        """After the file was linked: whether it is durable is unknown if this fails, on a full disk too."""
        descriptor = os.open(os.path.dirname(file), os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            path = os.path.relpath(file, self._folder)
            raise ObjectOutcomeUnknownError(
                f"{self.url}/{path}: its folder cannot be synced: {error.strerror or error}", url=self.url, object=path
            ) from error
        finally:
            os.close(descriptor)

    @contextmanager
    def _translated(self, path: str, *, is_write: bool) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise ObjectNotFoundError(f"{self.url}/{path} does not exist.", url=self.url, object=path) from None
        except OSError as error:
            where = f"{self.url}/{path}: {error.strerror or error}"
            if error.errno in _REFUSALS:
                raise ObjectPermissionError(where, url=self.url, object=path) from error
            if is_write and error.errno in _NO_SPACE:
                raise DiskFullError(
                    f"No space left on the device while writing {where}. Nothing was written. Free space on the file"
                    f" system of {self._folder}, and try again.",
                    directory=self._folder,
                    url=self.url,
                    object=path,
                ) from error
            if is_write and error.errno == errno.EFBIG:
                raise StorageError(
                    f"A file would be larger than this process may write, while writing {where}. Nothing was written."
                    " Raise the limit of the process (RLIMIT_FSIZE, ulimit -f), and try again.",
                    url=self.url,
                    object=path,
                ) from error
            if is_write:
                raise ObjectOutcomeUnknownError(where, url=self.url, object=path) from error
            raise ObjectStoreUnavailableError(where, url=self.url, object=path) from error


class _FolderUpload:
    def __init__(self, store: FolderStore, path: str, name: str) -> None:
        self._store = store
        self._path = path
        self._name = name
        self._file = open(name, "xb")  # noqa: SIM115 - closed by finish or abort

    def write(self, data: Buffer) -> None:
        with self._removed_on_error(), self._store._translated(self._path, is_write=True):
            self._file.write(data)

    def finish(self) -> None:
        with self._removed_on_error(), self._store._translated(self._path, is_write=True):
            file = self._store._made_parent(self._path)
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._store._link(self._name, file)

    def abort(self) -> None:
        with suppress(OSError):
            self._file.close()
        _remove(self._name)

    @contextmanager
    def _removed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.abort()
            raise


def _remove(name: str) -> None:
    with suppress(OSError):
        os.remove(name)
