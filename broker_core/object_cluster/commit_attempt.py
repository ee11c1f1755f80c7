"""The state of one commit, from its first request to its last one: see `shared_log`."""

from __future__ import annotations

from dataclasses import dataclass

from broker_core.model.exceptions import StreamlogError
from broker_core.object_log.commit import Commit
from broker_core.object_log.log_image import LogImage


@dataclass(slots=True, kw_only=True)
class CommitAttempt:
    """One commit in flight: `commit` is the last one sent, `first_number` the number that it would have had if no other
    writer had come first. `is_fresh`: the image was brought up to date since."""

    writer: str
    first_number: int = 0
    outline: LogImage | None = None
    commit: Commit | None = None
    base_offsets: tuple[int, ...] = ()
    is_fresh: bool = False
    unanswered: int = 0
    last_error: StreamlogError | None = None
