"""What the committed records of a metadata log add up to: replayed from its newest snapshot on, up to the high
watermark."""

from __future__ import annotations

from typing import Final

from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_replay import replay_batches
from broker_core.metadata.metadata_version import METADATA_VERSION_LEVEL
from broker_core.model.exceptions import UnsupportedFormatError
from broker_core.storage.quorum_log import QuorumLog

_READ_BYTES: Final = 4 * 1024 * 1024


class CommittedImage:
    """`image` is the same object until a snapshot replaces it; it holds everything below `offset`. Replaying raises
    CorruptDataError for a record that cannot be read."""

    def __init__(self, log: QuorumLog) -> None:
        self._log = log
        self.image, self.offset = image_of(log.read_snapshot()), log.start_offset

    def replay_to(self, high_watermark: int) -> None:
        while self.offset < high_watermark:
            batches = self._log.read(self.offset, until_offset=high_watermark, max_bytes=_READ_BYTES)
            if not batches:
                return  # the watermark is inside a batch whose end is not committed yet
            self.offset = replay_batches(self.image, batches, from_offset=self.offset)
            _require_known_level(self.image)

    def replace(self, image: MetadataImage, offset: int) -> None:
        """By that of a snapshot which ends at the offset."""
        self.image, self.offset = image, offset


def image_of(snapshot: bytes) -> MetadataImage:
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
