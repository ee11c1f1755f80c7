"""The voters and the kraft.version by offset, as the control records of a snapshot and of the log behind it say.

The latest record counts from its append on, committed or not; a truncation takes it back. Records of a snapshot stand
at its last offset: those of a new cluster's first snapshot, which ends at 0, at -1, so that a leader sees that no log
has them yet. Without any record the static voters count.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Generic, NamedTuple, TypeVar

from broker_core.model.exceptions import UnsupportedFormatError
from broker_core.raft.quorum_control_records import read_control_record, voters_of
from broker_core.raft.quorum_values import SnapshotId
from broker_core.raft.voter_set import DYNAMIC_KRAFT_VERSION, STATIC_KRAFT_VERSION, VoterSet
from broker_core.record.batch_header import BatchHeader
from broker_core.record.batch_reader import iter_headers, records_of
from broker_core.record.control_records import ControlType, control_type

Value = TypeVar("Value")
_RELEVANT: Final = (ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS)


class QuorumControls(NamedTuple):
    """What a snapshot says of the quorum. None: nothing."""

    voters: VoterSet | None = None
    kraft_version: int | None = None


class _ByOffset(Generic[Value]):
    def __init__(self) -> None:
        self.entries: list[tuple[int, Value]] = []

    def add(self, offset: int, value: Value) -> None:
        self.entries.append((offset, value))

    def before(self, end_offset: int) -> Value | None:
        return next((value for offset, value in reversed(self.entries) if offset < end_offset), None)

    def truncate(self, end_offset: int) -> None:
        self.entries = [entry for entry in self.entries if entry[0] < end_offset]

    def forget_before(self, start_offset: int) -> None:
        """But for the last one, which still counts."""
        older = [entry for entry in self.entries if entry[0] < start_offset]
        self.entries = [*older[-1:], *(entry for entry in self.entries if entry[0] >= start_offset)]


class VoterSetHistory:
    """`static` are the voters while no record says who they are: those of `controller.quorum.voters`."""

    def __init__(self, static: VoterSet | None = None) -> None:
        self._static = VoterSet() if static is None else static
        self._voters: _ByOffset[VoterSet] = _ByOffset()
        self._versions: _ByOffset[int] = _ByOffset()

    @property
    def latest(self) -> VoterSet:
        return self._voters.entries[-1][1] if self._voters.entries else self._static

    @property
    def latest_offset(self) -> int | None:
        """Of the record with the latest voters; None for static ones."""
        return self._voters.entries[-1][0] if self._voters.entries else None

    @property
    def kraft_version(self) -> int:
        return self._versions.entries[-1][1] if self._versions.entries else STATIC_KRAFT_VERSION

    @property
    def is_dynamic(self) -> bool:
        """Voters can be added and removed."""
        return self.kraft_version >= DYNAMIC_KRAFT_VERSION

    def maybe_in_force(self, high_watermark: int) -> list[VoterSet]:
        """The sets of which each may be the one that is committed last, with all below the watermark committed."""
        if not self._voters.entries:
            return [self._static]
        open_sets = [voters for offset, voters in self._voters.entries if offset >= high_watermark]
        committed = self._voters.before(high_watermark)
        return open_sets if committed is None else [committed, *open_sets]

    def controls_before(self, end_offset: int) -> tuple[int, VoterSet] | None:
        """What a snapshot of all records below has: kraft.version and voters. None with kraft.version 0."""
        version, voters = self._versions.before(end_offset), self._voters.before(end_offset)
        return None if not version or voters is None else (version, voters)

    def on_batches(self, records: bytes, headers: Iterable[BatchHeader]) -> bool:
        """Whole batches were appended to the log; whether one of them changes something. Raises
        UnsupportedFormatError, CorruptBatchError."""
        position, is_changed = 0, False
        for header in headers:
            if header.is_control:
                for offset, controls in _controls_in(records, position):
                    self._add(offset, controls)
                    is_changed = True
            position += header.size_bytes
        return is_changed

    def on_snapshot(self, snapshot_id: SnapshotId, controls: QuorumControls) -> None:
        """The log was replaced by the snapshot."""
        self._voters.entries.clear()
        self._versions.entries.clear()
        self._add(snapshot_id.end_offset - 1, controls)

    def truncate(self, end_offset: int) -> None:
        self._voters.truncate(end_offset)
        self._versions.truncate(end_offset)

    def forget_before(self, start_offset: int) -> None:
        """The log begins there now."""
        self._voters.forget_before(start_offset)
        self._versions.forget_before(start_offset)

    def _add(self, offset: int, controls: QuorumControls) -> None:
        if controls.kraft_version is not None:
            self._versions.add(offset, controls.kraft_version)
        if controls.voters is not None:
            self._voters.add(offset, controls.voters)


def controls_of_snapshot(content: bytes) -> QuorumControls:
    """Of a whole snapshot. Raises UnsupportedFormatError, CorruptBatchError."""
    found = QuorumControls()
    for position, header in iter_headers(content):
        if header.is_control:
            for _, controls in _controls_in(content, position):
                found = QuorumControls(
                    found.voters if controls.voters is None else controls.voters,
                    found.kraft_version if controls.kraft_version is None else controls.kraft_version,
                )
    return found


def _controls_in(records: bytes, position: int) -> Iterable[tuple[int, QuorumControls]]:
    for record in records_of(records, position):
        if control_type(record.key) not in _RELEVANT:
            continue
        kind, message = read_control_record(record)
        if kind is ControlType.KRAFT_VOTERS:
            yield record.offset, QuorumControls(voters=voters_of(message))
            continue
        version = int(message.k_raft_version)
        if not STATIC_KRAFT_VERSION <= version <= DYNAMIC_KRAFT_VERSION:
            raise UnsupportedFormatError(
                f"the quorum's kraft.version is {version}, known are levels up to {DYNAMIC_KRAFT_VERSION}: a newer "
                "version is needed"
            )
        yield record.offset, QuorumControls(kraft_version=version)
