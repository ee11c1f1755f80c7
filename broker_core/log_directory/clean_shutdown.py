"""How the last use of a log directory ended, by two mark files.

    .kafka_cleanshutdown    the last broker synced everything before it released the directory
    .broker_running         a broker uses the directory, or was killed while it did

The first is Kafka's file and format: JSON, `{"version":0,"brokerEpoch":7}`. A broker writes it last when it stops and
removes it first when it starts: a start without it recovers every partition. A process that uses the directory without
a broker removes it at once, since it is unknown when the last of several processes ends. This is normal, while a killed
broker is not. The second file, ours and empty, distinguishes the two in the broker's log.

    mark         running    the directory was last used by
    present      any        a broker that stopped cleanly
    missing      present    a broker that was killed, perhaps followed by other programs
    missing      missing    programs without a broker
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Final

from broker_core.ports import FileSystem
from broker_core.storage.checkpoints import write_atomically
from broker_core.storage.storage_errors import translated

CLEAN_SHUTDOWN_FILE_NAME: Final = ".kafka_cleanshutdown"
BROKER_RUNNING_FILE_NAME: Final = ".broker_running"
_VERSION: Final = 0


def write_clean_shutdown(fs: FileSystem, directory: str, *, broker_epoch: int) -> None:
    """Durable when it returns. Raises StorageError."""
    content = json.dumps({"version": _VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    with translated("marking a clean shutdown", directory):
        write_atomically(fs, f"{directory}/{CLEAN_SHUTDOWN_FILE_NAME}", content.encode())


def remove_clean_shutdown(fs: FileSystem, directory: str) -> bool:
    """Returns whether it existed. Its removal is durable when this returns."""
    with translated("removing the mark of a clean shutdown", directory):
        return _remove(fs, directory, CLEAN_SHUTDOWN_FILE_NAME)


def mark_broker_running(fs: FileSystem, directory: str) -> bool:
    """Returns whether the mark already existed, left by a broker that was killed.

    Only log messages depend on the mark, so a disk error does not prevent the start.
    """
    path = f"{directory}/{BROKER_RUNNING_FILE_NAME}"
    if fs.exists(path):
        return True
    with suppress(OSError):
        write_atomically(fs, path, b"")
    return False


def unmark_broker_running(fs: FileSystem, directory: str) -> None:
    with suppress(OSError):
        _remove(fs, directory, BROKER_RUNNING_FILE_NAME)


def _remove(fs: FileSystem, directory: str, name: str) -> bool:
    path = f"{directory}/{name}"
    if not fs.exists(path):
        return False
    with suppress(FileNotFoundError):  # another process removed it
        fs.remove(path)
    fs.sync_directory(directory)
    return True
