"""How a log directory was left, by two marks in it.

    .kafka_cleanshutdown    whoever had it wrote everything to the device before it let go
    .broker_running         a broker has it, or had it and did not get to its end

The first is Kafka's file and format: JSON, `{"version":0,"brokerEpoch":7}`. A broker writes it last when it stops and
takes it away first when it starts: a start that does not find it recovers every partition. A directory that is used
without a broker loses it at once, for nobody tells when the last of several processes has ended. That is no accident,
while a broker that was killed is one: the second, ours and empty, tells them apart, for people.

    mark         running    the directory was last used by
    there        any        a broker that stopped cleanly
    missing      there      a broker that was killed, whoever came after it
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
    """Whether it was there. It is gone from the device when this returns."""
    with translated("taking away the mark of a clean shutdown", directory):
        return _remove(fs, directory, CLEAN_SHUTDOWN_FILE_NAME)


def mark_broker_running(fs: FileSystem, directory: str) -> bool:
    """Whether it was marked already: by a broker that did not get to its end.

    Nothing but words depends on the mark: a disk that refuses it is no reason not to start.
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
    with suppress(FileNotFoundError):  # another process took it away
        fs.remove(path)
    fs.sync_directory(directory)
    return True
