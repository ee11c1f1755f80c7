"""The last registration of a directory's broker.

What its replicas acknowledged is on the device even after a crash, so the controller may go on trusting them; a
directory that was lost has no such file (KIP-966).
"""

from __future__ import annotations

from typing import Final

from broker_core.ports import FileSystem
from broker_core.storage.checkpoints import read_small_file, write_atomically

EPOCH_FILE_NAME: Final = "streamlog-broker-epoch"


def stored_broker_epoch(fs: FileSystem, directory: str) -> int:
    """-1 without one."""
    found = read_small_file(fs, f"{directory}/{EPOCH_FILE_NAME}")
    return -1 if found is None or not found.strip().isdigit() else int(found)


def write_broker_epoch(fs: FileSystem, directory: str, broker_epoch: int) -> None:
    write_atomically(fs, f"{directory}/{EPOCH_FILE_NAME}", b"%d\n" % broker_epoch)
