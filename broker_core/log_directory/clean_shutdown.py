"""`.kafka_cleanshutdown` in a log directory: whoever had it wrote everything to the device before it let go.

Kafka's file and format: JSON, `{"version":0,"brokerEpoch":7}`. A broker writes it last when it stops and takes it away
first when it starts: a start that does not find it recovers every partition. A directory that is used without a broker
loses it at once, for nobody tells when the last of several processes has ended.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Final

from broker_core.ports import FileSystem
from broker_core.storage.checkpoints import write_atomically
from broker_core.storage.storage_errors import translated

CLEAN_SHUTDOWN_FILE_NAME: Final = ".kafka_cleanshutdown"
_VERSION: Final = 0


def write_clean_shutdown(fs: FileSystem, directory: str, *, broker_epoch: int) -> None:
    """Durable when it returns. Raises StorageError."""
    content = json.dumps({"version": _VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    with translated("marking a clean shutdown", directory):
        write_atomically(fs, f"{directory}/{CLEAN_SHUTDOWN_FILE_NAME}", content.encode())


def remove_clean_shutdown(fs: FileSystem, directory: str) -> bool:
    """Whether it was there. It is gone from the device when this returns."""
    path = f"{directory}/{CLEAN_SHUTDOWN_FILE_NAME}"
    with translated("taking away the mark of a clean shutdown", directory):
        if not fs.exists(path):
            return False
        with suppress(FileNotFoundError):  # another process took it away
            fs.remove(path)
        fs.sync_directory(directory)
        return True
