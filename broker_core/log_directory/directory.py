"""The log's directory: its kind, its owner, and the root lock.

    .lock               a broker holds it exclusively, embedded processes share it, while they have the directory open
    meta.properties     see `meta_properties`; written last when a directory becomes a log, so it marks a complete one
    .kafka_cleanshutdown    Kafka's, see `clean_shutdown`; embedded processes remove it before a write
    .broker_running         a broker uses the directory, or was killed while it did; see there

Kinds of paths:

    ABSENT     does not exist, or is an empty directory: becomes a log at the first write, if the caller allows it
    OURS       meta.properties with our line
    FOREIGN    meta.properties without it, or partition folders without meta.properties: a real Kafka's; read only,
               nothing in it is created, changed or locked

Anything else (a file, a directory full of other things, a newer format) is refused with DirectoryFormatError.

If two processes create the same directory, each tries to lock `.lock` exclusively, and the holder checks again before
it writes. A crash leaves a directory without meta.properties and at most a `.lock` and a temporary file, which is
ABSENT.
"""

from __future__ import annotations

import enum
import errno
from contextlib import suppress
from typing import Final

from broker_core.log_directory.broker_epoch import EPOCH_FILE_NAME
from broker_core.log_directory.clean_shutdown import remove_clean_shutdown
from broker_core.log_directory.meta_properties import (
    META_PROPERTIES_FILE_NAME,
    NODE_ID,
    MetaProperties,
    decode_meta_properties,
    encode_meta_properties,
)
from broker_core.log_directory.partition_lock import LOCK_FILE_NAME, PartitionLock
from broker_core.log_directory.system_ports import SYSTEM_LOCKS
from broker_core.metadata.controller import encode_id, random_id
from broker_core.model.exceptions import (
    DirectoryFormatError,
    DirectoryLockedError,
    DirectoryReadOnlyError,
    StorageError,
)
from broker_core.model.topic_name import parse_partition_folder
from broker_core.ports import Entropy, FileSystem, LockMode, Locks
from broker_core.storage.checkpoints import read_small_file, write_atomically
from broker_core.storage.storage_errors import storage_error, translated

_LOCK_WAIT_SECONDS: Final = 5.0
"""How long an opener waits for the root lock: longer than another process needs to create the directory."""

_PAUSE_SECONDS: Final = 0.01
_NO_ACCESS: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_NO_NEW_FOLDERS: Final = _NO_ACCESS | {errno.ENOENT, errno.ENOTDIR}
"""Of a parent in which nobody, or not this process, can create anything: /proc answers ENOENT."""
_NEVER_LOOKED_AT: Final = ()
"""Equal to no directory's identity."""
_LEFT_OF_A_BEGINNING: Final = frozenset({LOCK_FILE_NAME, META_PROPERTIES_FILE_NAME + ".tmp", "lost+found", ".DS_Store"})


class DirectoryKind(enum.Enum):
    ABSENT = "absent"
    OURS = "ours"
    FOREIGN = "foreign"


class LogDirectory:
    """The directory at `path`. The constructor checks it; nothing is changed before `make()`.

    Raises DirectoryFormatError for a path that cannot be a log, or does not exist while `create` is False;
    DirectoryReadOnlyError when it may not be read; DirectoryLockedError while a broker serves it.
    """

    def __init__(
        self,
        fs: FileSystem,
        path: str,
        *,
        create: bool,
        entropy: Entropy,
        lock_mode: LockMode = LockMode.SHARED,
        node_id: int = NODE_ID,
        locks: Locks = SYSTEM_LOCKS,
    ) -> None:
        """`lock_mode`: EXCLUSIVE for a broker, which does not share the directory. `node_id`: that of a created log."""
        self.path = path
        self.locks = locks
        self._fs = fs
        self._create = create
        self._lock_mode = lock_mode
        self._node_id = node_id
        self._entropy = entropy
        self._lock = PartitionLock(f"{path}/{LOCK_FILE_NAME}", locks=locks)
        self._holds_lock = False
        self._may_be_unclean = False
        self._properties: MetaProperties | None = None
        self._identity: tuple[int, ...] | None = None
        self._is_writable = False
        self._kind = DirectoryKind.ABSENT
        self.look_again()

    @property
    def kind(self) -> DirectoryKind:
        return self._kind

    @property
    def is_writable(self) -> bool:
        """Whether a write may be tried: the directory is ours, or can become ours, and the file system is writable."""
        return self._is_writable

    @property
    def is_held_alone(self) -> bool:
        """Whether no other process has the directory open or can open it."""
        return self._holds_lock and self._lock_mode is LockMode.EXCLUSIVE

    @property
    def properties(self) -> MetaProperties:
        """The meta.properties of a directory that is OURS."""
        assert self._properties is not None, f"{self.path} is {self._kind}"
        return self._properties

    @property
    def log_id(self) -> str:
        """`<cluster id>/<directory id>`, without ids that are missing in meta.properties; empty without such a file."""
        if self._properties is None:
            return ""
        directory_id = self._properties.directory_id
        ids = (self._properties.cluster_id, encode_id(directory_id) if directory_id.int else "")
        return "/".join(each for each in ids if each)

    def look_again(self) -> None:
        """Determines the kind of the path again; takes the root lock in shared mode when it is OURS."""
        self._release()
        self._may_be_unclean = False
        self._kind, self._properties = self._examine()
        self._is_writable = self._kind is DirectoryKind.ABSENT and self._create
        if self._kind is DirectoryKind.OURS:
            self._take_lock()
        self._identity = self._current_identity()

    def has_changed(self) -> bool:
        """Whether the path has a different directory than at the last check: created, removed or recreated since."""
        return self._current_identity() != self._identity

    def require_writable(self) -> None:
        """Call this before any change. Raises DirectoryReadOnlyError with the reason why the directory cannot be
        written.

        A shared directory loses its clean-shutdown mark, so the next broker checks for unfinished writes of this
        process.
        """
        if self._kind is DirectoryKind.FOREIGN:
            if self._fs.exists(f"{self.path}/{EPOCH_FILE_NAME}"):
                raise DirectoryReadOnlyError(
                    f"{self.path} is the directory of a node of a cluster and can only be read. Write to that cluster"
                    " with kafka.bootstrap.servers.",
                    directory=self.path,
                )
            raise DirectoryReadOnlyError(
                f"{self.path} was written by Apache Kafka and can only be read. Write to another directory,"
                " or to that Kafka cluster with kafka.bootstrap.servers.",
                directory=self.path,
            )
        if not self._is_writable:
            raise DirectoryReadOnlyError(
                f"No write access to {self.path}: check its owner, its mode and how its file system is mounted.",
                directory=self.path,
            )
        if self._kind is DirectoryKind.OURS and self._lock_mode is LockMode.SHARED and not self._may_be_unclean:
            with translated("changing", self.path):
                remove_clean_shutdown(self._fs, self.path)
            self._may_be_unclean = True

    def make(self) -> None:
        """Turns an ABSENT path into a log; does nothing if it is OURS. Durable when it returns."""
        self.require_writable()
        if self._kind is DirectoryKind.OURS:
            return
        try:
            self._make_folders()
            with translated("creating the log directory", self.path):
                self._lock_to_make()
                if self._kind is DirectoryKind.ABSENT:
                    self._write_properties()
                    self._keep_lock()
        except BaseException:
            self._release()
            self._identity = None
            raise
        self._identity = self._current_identity()

    def _write_properties(self) -> None:
        properties = MetaProperties(
            cluster_id=encode_id(random_id(self._entropy)),
            directory_id=random_id(self._entropy),
            node_id=self._node_id,
            is_ours=True,
        )
        path = f"{self.path}/{META_PROPERTIES_FILE_NAME}"
        write_atomically(self._fs, path, encode_meta_properties(properties))
        self._kind, self._properties = DirectoryKind.OURS, properties

    def release(self) -> None:
        """Releases the root lock until the next check. Until then `has_changed` is true."""
        self._release()
        self._identity = _NEVER_LOOKED_AT

    def close(self) -> None:
        self._release()
        self._lock.close()

    def reset_after_fork(self) -> None:
        """For a forked child, whose inherited lock is closed already: the next check takes the lock again."""
        self._holds_lock = False
        self._identity = None

    def _release(self) -> None:
        if self._holds_lock:
            self._lock.release()
            self._lock.close()
            self._holds_lock = False

    def _examine(self) -> tuple[DirectoryKind, MetaProperties | None]:
        try:
            found = self._fs.stat(self.path)
        except PermissionError as error:
            raise self._unreadable(error) from error
        if found is None:
            return self._absent(f"{self.path} does not exist")
        if not found.is_directory:
            raise DirectoryFormatError(f"{self.path} is a file, not a log directory", directory=self.path)
        try:
            names = self._fs.list_directory(self.path)
            data = read_small_file(self._fs, f"{self.path}/{META_PROPERTIES_FILE_NAME}")
        except PermissionError as error:
            raise self._unreadable(error) from error
        if data is not None:
            properties = decode_meta_properties(data, f"{self.path}/{META_PROPERTIES_FILE_NAME}")
            return (DirectoryKind.OURS if properties.is_ours else DirectoryKind.FOREIGN), properties
        if any(self._is_partition_folder(name) for name in names):
            return DirectoryKind.FOREIGN, None
        others = [name for name in names if name not in _LEFT_OF_A_BEGINNING]
        if others:
            raise DirectoryFormatError(
                f"{self.path} is not a log directory: it has no {META_PROPERTIES_FILE_NAME}, and holds {others[0]}"
                f"{f' and {len(others) - 1} more' if len(others) > 1 else ''}",
                directory=self.path,
            )
        return self._absent(f"{self.path} is an empty directory, not a log directory")

    def _absent(self, what: str) -> tuple[DirectoryKind, None]:
        if not self._create:
            raise DirectoryFormatError(f"{what}; create a topic to make it a log directory", directory=self.path)
        return DirectoryKind.ABSENT, None

    def _unreadable(self, error: OSError) -> DirectoryReadOnlyError:
        return DirectoryReadOnlyError(f"No access to {self.path}: {error.strerror}", directory=self.path)

    def _is_partition_folder(self, name: str) -> bool:
        if parse_partition_folder(name) is None:
            return False
        try:
            inside = self._fs.list_directory(f"{self.path}/{name}")
        except (NotADirectoryError, FileNotFoundError, PermissionError):
            return False
        return any(file_name.endswith(".log") or file_name == "partition.metadata" for file_name in inside)

    def _keep_lock(self) -> None:
        """The lock is held exclusively, to create the directory."""
        if self._lock_mode is LockMode.SHARED:
            self._lock.downgrade()

    def _take_lock(self) -> None:
        """Takes the root lock. Without write access a missing lock file is not needed, since no other process
        writes."""
        try:
            self._fs.open(self._lock.path, writable=True, create=True).close()
            self._is_writable = True
        except OSError as error:
            if error.errno not in _NO_ACCESS:
                raise StorageError(f"Cannot lock {self.path}: {error}", directory=self.path) from error
            self._is_writable = False
        try:
            if not self._lock.acquire(self._lock_mode, timeout_seconds=_LOCK_WAIT_SECONDS):
                raise self._locked()
            self._holds_lock = True
        except OSError as error:
            if self._is_writable or self._lock_mode is LockMode.EXCLUSIVE:
                raise StorageError(f"Cannot lock {self.path}: {error}", directory=self.path) from error

    def _locked(self) -> DirectoryLockedError:
        if self._lock_mode is LockMode.EXCLUSIVE:
            return DirectoryLockedError(
                f"{self.path} is open in another process, which holds {self._lock.path}: a broker needs its directory"
                " (log.dirs) for itself. Stop the other broker, or the programs that read or write the directory"
                " without one; they can connect to the broker with kafka.bootstrap.servers.",
                directory=self.path,
            )
        return DirectoryLockedError(
            f"{self.path} is served by a broker, which holds {self._lock.path}: connect to the broker with"
            " kafka.bootstrap.servers, or stop it.",
            directory=self.path,
        )

    def _make_folders(self) -> None:
        missing = []
        path = self.path
        while not self._fs.exists(path):
            missing.append(path)
            path = path.rpartition("/")[0] or "/"
        for folder in reversed(missing):
            parent = folder.rpartition("/")[0] or "/"
            try:
                with suppress(FileExistsError):  # another process creates the same directory
                    self._fs.make_directory(folder)
                    self._fs.sync_directory(parent)
            except OSError as error:
                raise self._cannot_make(parent, error) from error

    def _cannot_make(self, parent: str, error: OSError) -> StorageError:
        if error.errno not in _NO_NEW_FOLDERS:
            return storage_error("creating the log directory", self.path, error)
        # As /proc says it: ENOENT, although the parent is there.
        stat = self._fs.stat(parent)
        reason = error.strerror if stat is None or stat.is_directory else "it is a file"
        return DirectoryReadOnlyError(
            f"No log directory can be created at {self.path}: this process cannot create anything in {parent}"
            f" ({reason}). Give a path in a directory that it may write to: the path of load() or save(), --path of"
            " streamlog, log.dirs of a broker.",
            directory=self.path,
        )

    def _lock_to_make(self) -> None:
        """Takes the root lock: exclusively while there is no log yet, or shared if another process created it."""
        deadline = self.locks.monotonic_seconds() + _LOCK_WAIT_SECONDS
        while True:
            if self._lock.acquire(LockMode.EXCLUSIVE, timeout_seconds=0):
                self._holds_lock = True
                self._kind, self._properties = self._examine()
                if self._kind is not DirectoryKind.ABSENT:
                    self._keep_lock()
                    self.require_writable()
                return
            self._kind, self._properties = self._examine()
            if self._kind is not DirectoryKind.ABSENT:
                self.look_again()
                self.require_writable()
                return
            if self.locks.monotonic_seconds() >= deadline:
                raise DirectoryLockedError(
                    f"{self.path} cannot be made a log directory: another process holds {self._lock.path}",
                    directory=self.path,
                )
            self.locks.sleep(_PAUSE_SECONDS)

    def _current_identity(self) -> tuple[int, ...] | None:
        """The identity of meta.properties or, without it, of the directory: both stay the same while the log exists."""
        for path in (f"{self.path}/{META_PROPERTIES_FILE_NAME}", self.path):
            with suppress(OSError):
                found = self._fs.stat(path)
                if found is not None:
                    return (found.device, found.inode, found.modified_ns if path != self.path else 0)
        return None
