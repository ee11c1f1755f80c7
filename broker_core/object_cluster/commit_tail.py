"""Reads the commits after an image, several at once.

Commit n+1 is created only behind n. Of commits that are requested at once one may still be missing while a later one
exists: it was created between the two requests, or it was removed. So it is requested once more, and if it does not
exist, the log is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from broker_core.object_cluster.image_loader import LoadedImage, read_commits, read_missing_commit
from broker_core.object_cluster.log_ports import LogPorts
from broker_core.object_log.commit import Commit
from broker_core.object_log.commit_codec import decode_commit
from broker_core.object_log.log_image import LogImage
from broker_core.object_log.object_names import commit_path
from broker_core.object_log.tail_guess import MAX_WINDOW

_WINDOW_OF_LOADED_IMAGE: Final = 4
"""Commits of a folder that are requested at once after an image that was just loaded."""
_LEAST_SEEN_AFTER_LOADED: Final = 3
"""Numbers after the last commit that are requested at least when a folder is opened: a commit may have been removed at
the first of them."""
_LISTED_WINDOW: Final = 128
"""Commits that are requested at once where they are known to exist: all that usually follow a checkpoint."""


class CommitTail:
    """Calls `fold(image, commit)` for each commit after an image, in their order. Raises CorruptObjectError if a commit
    is damaged or was removed, ObjectStoreError, and what `fold` raises."""

    def __init__(self, ports: LogPorts, fold: Callable[[LogImage, Commit], None]) -> None:
        self._ports = ports
        self._fold = fold

    def fold(self, image: LogImage, window: int) -> int:
        """Requests at first `window` commits at once, then as many as were folded: two requests if one commit is new.
        Returns how many numbers after the last commit were requested."""
        before = image.number
        while not (missing_count := self._fold_next(image, window)):
            window = min(image.number - before, MAX_WINDOW)
        return missing_count

    def fold_loaded(self, loaded: LoadedImage) -> None:
        """The same for an image that was just loaded: no look where the listing shows how many commits there are."""
        image, listed = loaded
        if listed is None:
            if self.fold(image, _WINDOW_OF_LOADED_IMAGE) < _LEAST_SEEN_AFTER_LOADED:
                self._fold_next(image, _WINDOW_OF_LOADED_IMAGE)
            return
        left = listed.commit_count
        while left > 0 and not self._fold_next(image, min(left, _LISTED_WINDOW)):
            left -= _LISTED_WINDOW
        if listed.later:
            self._maybe_fold_missing(image, listed.later)

    def _fold_next(self, image: LogImage, window: int) -> int:
        """Requests so many commits at once. Returns how many of them do not exist yet."""
        numbers = range(image.number + 1, image.number + 1 + window)
        read = dict(zip(numbers, read_commits(self._ports, numbers), strict=True))
        for number, data in read.items():
            if data is not None:
                self._fold_data(image, data)
                continue
            later = [commit_path(one) for one in numbers if one > number and read[one] is not None]
            if not later or not self._maybe_fold_missing(image, later):
                return numbers.stop - number
        return 0

    def _maybe_fold_missing(self, image: LogImage, later: Sequence[str]) -> bool:
        """Folds the next commit, which was missing although objects with `later` numbers were seen. Returns whether it
        exists meanwhile."""
        data = read_missing_commit(self._ports, image.number + 1, image.log_id, later)
        if data is not None:
            self._fold_data(image, data)
        return data is not None

    def _fold_data(self, image: LogImage, data: memoryview) -> None:
        self._fold(image, decode_commit(data, log_id=image.log_id, number=image.number + 1, url=self._ports.store.url))
