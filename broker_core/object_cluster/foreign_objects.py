"""Finds objects in the folders of a log that no process of the log wrote, or that name what does not exist yet.

    commits/        another name; a number above the end of the log
    checkpoints/    another name; a number above the end of the log; content that is not the image at that commit
    data/           another name; begun later than now
    groups/         another name; content that is not a group

Readers, writers and maintenance ignore them; only a commit above the end will be in the way when the log reaches its
number. They are listed for `streamlog log verify`, and never removed: their owner is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

from broker_core.model.exceptions import CorruptObjectError, ObjectLogFormatError, ObjectNotFoundError
from broker_core.object_cluster.log_ports import LogPorts
from broker_core.object_cluster.shared_log import SharedLog
from broker_core.object_log.checkpoint_codec import decode_checkpoint
from broker_core.object_log.group_codec import decode_group
from broker_core.object_log.object_names import (
    CHECKPOINT_PREFIX,
    COMMIT_PREFIX,
    DATA_PREFIX,
    GROUP_PREFIX,
    LATEST_CHECKPOINT,
    begun_ms_of,
    is_group,
    number_of,
)

CLOCK_TOLERANCE_MS: Final = 3600 * 1000
"""A machine whose clock is further ahead than this writes objects that are reported."""
_FOREIGN_NAME: Final = "its name is not one of the log's"


class ForeignObject(NamedTuple):
    path: str
    problem: str


def find_foreign_objects(ports: LogPorts, log: SharedLog) -> Iterator[ForeignObject]:
    """Lists every folder, and reads the checkpoints and groups."""
    # Listed before the end of the log is looked up, so that no new commit is taken for a foreign one.
    commits = [entry.path for entry in ports.store.list_after(COMMIT_PREFIX)]
    checkpoints = [entry.path for entry in ports.store.list_after(CHECKPOINT_PREFIX)]
    log_id, end = log.read(lambda image: (image.log_id, image.number))
    for path in commits:
        number = number_of(path)
        if number is None:
            yield ForeignObject(path, _FOREIGN_NAME)
        elif number > end:
            yield ForeignObject(path, f"the log ends at commit {end}, and cannot grow past this number")
    for path in checkpoints:
        number = number_of(path)
        if number is None:
            if path != LATEST_CHECKPOINT:
                yield ForeignObject(path, _FOREIGN_NAME)
        elif number > end:
            yield ForeignObject(path, f"the log ends at commit {end}")
        else:
            yield from _unreadable(ports, path, partial(decode_checkpoint, log_id=log_id, number=number))
    yield from _foreign_data(ports)
    yield from _foreign_groups(ports)


def _foreign_data(ports: LogPorts) -> Iterator[ForeignObject]:
    latest_ms = ports.clock.now_ms() + CLOCK_TOLERANCE_MS
    for entry in ports.store.list_after(DATA_PREFIX):
        begun_ms = begun_ms_of(entry.path)
        if begun_ms is None:
            yield ForeignObject(entry.path, _FOREIGN_NAME)
        elif begun_ms > latest_ms:
            yield ForeignObject(entry.path, "its name has a time in the future, so it is not removed as garbage")


def _foreign_groups(ports: LogPorts) -> Iterator[ForeignObject]:
    for entry in ports.store.list_after(GROUP_PREFIX):
        path = entry.path
        if not is_group(path):
            yield ForeignObject(path, _FOREIGN_NAME)
        else:
            yield from _unreadable(ports, path, partial(decode_group, path=path))


def _unreadable(ports: LogPorts, path: str, decode: Callable[[memoryview], object]) -> Iterator[ForeignObject]:
    try:
        decode(ports.store.get(path).data)
    except ObjectNotFoundError:
        return  # removed since it was listed
    except (CorruptObjectError, ObjectLogFormatError) as error:
        yield ForeignObject(path, error.message.removeprefix(f"/{path} "))
