"""Loads the image of a log from a store. `SharedLog` reads the commits after it.

    GET checkpoints/latest ──► GET checkpoints/<number>, and a listing of the commits after it at the same time
         missing                    missing or unreadable
         └──► GET streamlog.json, a listing of the checkpoints, and one of the commits at the same time
                ──► the newest checkpoint, or else all commits from the first on

If a checkpoint is damaged or missing, an older one or none is used: the commits are the source of truth.

A commit is created only behind the one before it. So a missing one with a later one behind it was removed, and the log
is refused: what counts up would take its end for the end of the log, and the next commit would take the free number.
An object that is not a commit of this log is none: another program put it there (`foreign_objects`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple
from uuid import UUID

from broker_core.metadata.controller import random_id
from broker_core.model.exceptions import (
    CorruptObjectError,
    ObjectLogFormatError,
    ObjectNotFoundError,
    ObjectOutcomeUnknownError,
    ObjectPreconditionError,
    ObjectStoreUnsuitableError,
    ObjectThrottledError,
)
from broker_core.object_cluster.log_ports import LogPorts
from broker_core.object_log.checkpoint_codec import decode_checkpoint
from broker_core.object_log.commit_codec import decode_commit
from broker_core.object_log.log_identity import decode_identity, decode_latest, encode_identity
from broker_core.object_log.log_image import LogImage
from broker_core.object_log.object_names import (
    CHECKPOINT_PREFIX,
    COMMIT_PREFIX,
    LATEST_CHECKPOINT,
    LOG_OBJECT,
    checkpoint_path,
    commit_path,
    number_of,
)

_MAKE_ATTEMPT_COUNT: Final = 5
_FIRST_WAIT_MS: Final = 100.0
_MAX_LATER_COUNT: Final = 8
"""Objects behind a missing commit that are looked at when a log is opened."""

logger: Final = logging.getLogger(__name__)


class ListedCommits(NamedTuple):
    """How many commits follow an image without a gap, and the first objects with later numbers."""

    commit_count: int
    later: Sequence[str]


class LoadedImage(NamedTuple):
    """An image to start from, possibly an old one, and what a listing shows after it; None for a store whose listings
    take longer the more commits there are."""

    image: LogImage
    listed: ListedCommits | None


def load_image(ports: LogPorts) -> LoadedImage | None:
    """None if there is no log. Raises ObjectStoreError, CorruptObjectError."""
    latest = _latest(ports)
    if latest is not None:
        image, listed = ports.requests.both(
            partial(_checkpoint, ports, *latest), partial(_list_commits, ports, latest[1])
        )
        if image is not None:
            return LoadedImage(image, listed)
    image, listed = ports.requests.both(partial(_image_without_hint, ports, latest), partial(_list_commits, ports, 0))
    if image is None:
        return None
    if image.number:
        listed = _list_commits(ports, image.number)
    return LoadedImage(image, listed)


def _image_without_hint(ports: LogPorts, latest: tuple[UUID, int] | None) -> LogImage | None:
    identity, listed = ports.requests.both(partial(_identity, ports), partial(_listed_checkpoints, ports))
    if identity is None:
        if latest is None:
            return None
        raise ObjectLogFormatError(
            f"{ports.store.url} has checkpoints and no {LOG_OBJECT}: it was removed, or the checkpoints belong"
            " to another log.",
            url=ports.store.url,
        )
    for number in listed:
        image = _checkpoint(ports, identity, number)
        if image is not None:
            return image
    return LogImage(identity)


def _identity(ports: LogPorts) -> UUID | None:
    try:
        return decode_identity(ports.store.get(LOG_OBJECT).data, url=ports.store.url)
    except ObjectNotFoundError:
        return None


def _listed_checkpoints(ports: LogPorts) -> list[int]:
    """The newest first."""
    numbers = (number_of(entry.path) for entry in ports.store.list_after(CHECKPOINT_PREFIX))
    return sorted((number for number in numbers if number is not None), reverse=True)


def _list_commits(ports: LogPorts, after: int) -> ListedCommits | None:
    """One request for a thousand."""
    if ports.store.lists_from_start:
        return None
    number = after
    later: list[str] = []
    for entry in ports.store.list_after(COMMIT_PREFIX, commit_path(after)):
        if entry.path == commit_path(number + 1):
            number += 1
        elif number_of(entry.path) is not None:
            later.append(entry.path)
            if len(later) == _MAX_LATER_COUNT:
                break
    return ListedCommits(number - after, later)


def read_commits(ports: LogPorts, numbers: range) -> list[memoryview | None]:
    """Requests all at once. None for one that does not exist."""

    def read(number: int) -> memoryview | None:
        try:
            return ports.store.get(commit_path(number)).data
        except ObjectNotFoundError:
            return None

    return ports.requests.gather([partial(read, number) for number in numbers])


def read_missing_commit(ports: LogPorts, number: int, log_id: UUID, later: Sequence[str]) -> memoryview | None:
    """Reads commit `number` once more, which was missing although objects with `later` numbers were seen: it may have
    been created between the two. None if none of those is a commit. Raises CorruptObjectError if one is."""
    try:
        return ports.store.get(commit_path(number)).data
    except ObjectNotFoundError:
        found = next((path for path in later if _is_commit(ports, path, log_id)), None)
        if found is None:
            return None
        raise _removed(ports, number, found) from None


def require_all_commits(ports: LogPorts, image_number: int, log_id: UUID) -> None:
    """Raises CorruptObjectError if commit `image_number` + 1 does not exist, but a later one does. One request, and one
    for each object with a later number."""
    wanted = commit_path(image_number + 1)
    later = [entry.path for entry in ports.store.list_after(COMMIT_PREFIX, commit_path(image_number))]
    if later and wanted not in later:
        read_missing_commit(ports, image_number + 1, log_id, later)


def _removed(ports: LogPorts, number: int, found: str) -> CorruptObjectError:
    missing = commit_path(number)
    return CorruptObjectError(
        f"{ports.store.url}/{missing} is missing, but {found} exists: a commit was removed. What it and later"
        " commits contained is not readable. Stop all writers, and restore the object.",
        object=missing,
    )


def _is_commit(ports: LogPorts, path: str, log_id: UUID) -> bool:
    number = number_of(path)
    if number is None:
        return False
    try:
        decode_commit(ports.store.get(path).data, log_id=log_id, number=number, url=ports.store.url)
    except (CorruptObjectError, ObjectNotFoundError):
        return False
    except ObjectLogFormatError:
        return True  # of a newer version
    return True


def create_log(ports: LogPorts) -> LogImage:
    """Creates the log unless another process has just done so. Raises ObjectStoreUnsuitableError for a store that
    ignores the conditions of writes: a second conditional creation of the same object must fail."""
    log_id = random_id(ports.entropy)
    content = encode_identity(log_id)
    made_id = _make_identity(ports, content)
    if made_id != log_id:
        return LogImage(made_id)
    try:
        ports.store.put_if_absent(LOG_OBJECT, content)
    except ObjectPreconditionError:
        return LogImage(log_id)
    raise ObjectStoreUnsuitableError(
        f"{ports.store.url}: the store does not support conditional writes: a second creation of {LOG_OBJECT} with"
        " If-None-Match succeeded. A log needs conditional writes; use another store or a newer version"
        " of it.",
        url=ports.store.url,
    )


def _make_identity(ports: LogPorts, content: bytes) -> UUID:
    """The identity of the log that exists afterwards, created by this process or another one."""
    for attempt in range(_MAKE_ATTEMPT_COUNT):
        try:
            ports.store.put_if_absent(LOG_OBJECT, content)
        except ObjectPreconditionError:
            pass
        except (ObjectOutcomeUnknownError, ObjectThrottledError):
            if attempt + 1 == _MAKE_ATTEMPT_COUNT:
                raise
            ports.sleep_ms(_FIRST_WAIT_MS * float(1 << attempt) * (0.5 + ports.dice()))
            continue
        break
    return decode_identity(ports.store.get(LOG_OBJECT).data, url=ports.store.url)


def no_log(ports: LogPorts) -> ObjectLogFormatError:
    return ObjectLogFormatError(
        f"There is no log at {ports.store.url}: it holds no {LOG_OBJECT}.", url=ports.store.url, object=LOG_OBJECT
    )


def _latest(ports: LogPorts) -> tuple[UUID, int] | None:
    try:
        return decode_latest(ports.store.get(LATEST_CHECKPOINT).data)
    except ObjectNotFoundError:
        return None


def _checkpoint(ports: LogPorts, log_id: UUID, number: int) -> LogImage | None:
    path = checkpoint_path(number)
    try:
        data = ports.store.get(path).data
        return decode_checkpoint(data, log_id=log_id, number=number, url=ports.store.url)
    except ObjectNotFoundError:
        return None
    except CorruptObjectError as error:
        logger.warning("ignoring a checkpoint, using an older one or the commits: %s", error)
        return None
