"""What the committed records of a metadata log add up to: replayed from its newest snapshot on, up to the high
watermark."""

from __future__ import annotations

import logging
from typing import Final

from broker_core.log_directory.metadata_snapshot import build_snapshot
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_replay import replay_batches
from broker_core.metadata.metadata_version import METADATA_VERSION_LEVEL
from broker_core.model.exceptions import CorruptDataError, UnsupportedFormatError
from broker_core.raft.quorum_values import SnapshotId
from broker_core.raft.snapshot_frame import check_snapshot
from broker_core.raft.voter_set_history import QuorumControls, VoterSetHistory, controls_of_snapshot
from broker_core.record.batch_reader import iter_headers
from broker_core.storage.quorum_log import QuorumLog

_READ_BYTES: Final = 4 * 1024 * 1024

_logger: Final = logging.getLogger(__name__)


class CommittedImage:
    """`image` is the same object until a snapshot replaces it; it holds everything below `offset`. Replaying raises
    CorruptDataError for a record that cannot be read."""

    def __init__(self, log: QuorumLog) -> None:
        self._log = log
        newest = log.read_snapshot()
        self.image = _image_of(newest)
        self._voters = VoterSetHistory()
        """Of the quorum, if they are dynamic: a snapshot tells them, too."""
        if log.snapshot_id is not None:
            self._voters.on_snapshot(log.snapshot_id, controls_of_snapshot(newest))
        self.offset = log.start_offset if log.snapshot_id is None else log.snapshot_id.end_offset
        self.bytes_since_snapshot = 0
        """Of the records that were replayed since the newest snapshot."""
        self.last_timestamp_ms = -1
        """That of the last batch."""

    def replay_to(self, high_watermark: int) -> None:
        while self.offset < high_watermark:
            batches = self._log.read(self.offset, until_offset=high_watermark, max_bytes=_READ_BYTES)
            if not batches:
                return  # the watermark is inside a batch whose end is not committed yet
            self.offset = replay_batches(self.image, batches, from_offset=self.offset)
            self.bytes_since_snapshot += len(batches)
            headers = [header for _, header in iter_headers(batches)]
            self.last_timestamp_ms = headers[-1].max_timestamp
            self._voters.on_batches(batches, headers)
            _require_known_level(self.image)

    def maybe_install(self, snapshot_id: SnapshotId) -> QuorumControls | None:
        """Puts the fetched snapshot in place of the log, and its image in place of this one; returns what it says of
        the voters. None, and nothing is changed, if it is damaged. Raises UnsupportedFormatError for one of a newer
        version."""
        content = self._log.read_part(snapshot_id)
        try:
            check_snapshot(content)
            image, controls = _image_of(content), controls_of_snapshot(content)
        except UnsupportedFormatError:
            raise
        except CorruptDataError as error:
            _logger.warning("metadata snapshot %s is fetched again: %s", snapshot_id, error.message)
            return None
        self._log.install_snapshot(snapshot_id)
        self._voters.on_snapshot(snapshot_id, controls)
        self.image, self.offset = image, snapshot_id.end_offset
        self.bytes_since_snapshot = 0
        return controls

    def maybe_snapshot(self, *, now_ms: int) -> SnapshotId | None:
        """Writes what is committed as a snapshot, with the voters at its end, and lets the log begin later; returns its
        id. None inside a transaction of records, and when nothing is new."""
        newest = self._log.snapshot_id
        is_new = newest is None or newest.end_offset < self.offset
        if self.image.is_in_transaction or not is_new or not self.bytes_since_snapshot:
            return None
        snapshot_id = SnapshotId(end_offset=self.offset, epoch=self._log.epoch_of(self.offset - 1))
        content = build_snapshot(
            self.image,
            snapshot_id,
            last_contained_ms=self.last_timestamp_ms,
            now_ms=now_ms,
            dynamic=self._voters.controls_before(self.offset),
        )
        self._log.keep_snapshot(snapshot_id, content)
        self._voters.forget_before(snapshot_id.end_offset)
        self.bytes_since_snapshot = 0
        return snapshot_id


def _image_of(snapshot: bytes) -> MetadataImage:
    """Raises UnsupportedFormatError for a cluster of a newer level, CorruptDataError."""
    image = MetadataImage()
    replay_batches(image, snapshot, from_offset=0)
    _require_known_level(image)
    return image


def _require_known_level(image: MetadataImage) -> None:
    level = image.metadata_version
    if level is not None and level > METADATA_VERSION_LEVEL:
        raise UnsupportedFormatError(
            f"the cluster's metadata.version is {level}, known are levels up to {METADATA_VERSION_LEVEL}: a newer"
            " version is needed"
        )
