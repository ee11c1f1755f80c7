"""`Cluster` on object storage, with staged writes and planned reads: no server, any number of machines.

    cluster = open_objects("s3://bucket/log", {"object.region": "eu-central-1"}, create=True)
    cluster.create_topic("events", partition_count=4)
    upload = cluster.stage(); upload.append(...); staged = upload.finish()
    cluster.commit_staged([staged], app=AppVersion(app_id="job", version=7))

Opening sends no request; the first call does (`image_loader`). Every call looks for new commits first, with one
request if there are none, except a fetch of known offsets: batches never change.

`broker_core.staged_writes` and `placed_writes` document the methods besides `Cluster`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from uuid import UUID

from broker_core.cluster import (
    AppendResult,
    FetchedBatches,
    GroupDescription,
    GroupOffset,
    KeyRanges,
    OffsetAndTimestamp,
    PartitionBounds,
    SegmentDescription,
    TopicDescription,
)
from broker_core.log.batch_validation import validate_batches
from broker_core.model.exceptions import (
    PolicyViolationError,
    TopicRecreatedError,
)
from broker_core.model.group_state import GroupState
from broker_core.model.identifiers import IsolationLevel, OffsetSpec, ProducerIdAndEpoch, TopicPartition
from broker_core.model.topic_config import TopicConfig
from broker_core.object_cluster.batch_fetcher import BatchFetcher
from broker_core.object_cluster.foreign_objects import ForeignObject, find_foreign_objects
from broker_core.object_cluster.group_store import GroupStore
from broker_core.object_cluster.image_loader import require_all_commits
from broker_core.object_cluster.log_maintenance import LogMaintenance, LogMaintenanceReport
from broker_core.object_cluster.log_ports import LogPorts
from broker_core.object_cluster.maintenance_turn import MaintenanceTurn
from broker_core.object_cluster.object_lookups import ObjectLookups, bounds_of, partition_of
from broker_core.object_cluster.object_reads import ObjectReads, knows
from broker_core.object_cluster.object_topics import ObjectTopics
from broker_core.object_cluster.placed_appends import PlacedAppends
from broker_core.object_cluster.range_filters import RangeFilters
from broker_core.object_cluster.range_inspection import InspectedRange, RangeInspection
from broker_core.object_cluster.shared_log import Proposal, SharedLog
from broker_core.object_cluster.staged_commits import StagedCommits
from broker_core.object_cluster.staged_upload import DataUpload, fresh_producer, sealed_pieces
from broker_core.object_cluster.transactions_refused import TransactionsRefused
from broker_core.object_log.append_plan import AlreadyCommitted, plan_append
from broker_core.object_log.commit import MoveLogStart
from broker_core.object_log.data_range import AppendedRange, DataRange
from broker_core.object_log.log_image import LogImage
from broker_core.object_log.object_names import data_path
from broker_core.placed_writes import PlacedAppend
from broker_core.record.batch_header import write_placement
from broker_core.record.batch_reader import iter_headers
from broker_core.staged_writes import AppVersion, CommitOutcome, FetchPlan, FetchStep, StagedData, StagingPlan


class ObjectCluster(TransactionsRefused):
    """`broker_core.cluster.Cluster`, `StagedWrites`, `PlannedReads` and `PlacedWrites`. Thread-safe.

    `maintains`: after some of its own commits it does maintenance in a thread.
    """

    def __init__(
        self, ports: LogPorts, *, create: bool = False, num_partitions: int = 1, maintains: bool = True
    ) -> None:
        self._ports = ports
        self._turn = MaintenanceTurn(lambda: self._maintenance.maintain_behind_commit()) if maintains else None
        self._log = SharedLog(ports, create=create, on_committed=self._on_committed)
        self._fetcher = BatchFetcher(ports)
        self._reads = ObjectReads(self._log, self._fetcher)
        self._lookups = ObjectLookups(self._log, self._fetcher, RangeFilters(ports), url=ports.store.url)
        self._placed = PlacedAppends(ports, self._log)
        self._staging = StagedCommits(ports, self._log)
        self._topics = ObjectTopics(ports, self._log, num_partitions=num_partitions)
        self._groups = GroupStore(ports, self._log)
        self._maintenance = LogMaintenance(ports, self._log, self._fetcher)
        self._inspection = RangeInspection(self._log, self._fetcher)

    @property
    def url(self) -> str:
        """The URL of the log, without secrets."""
        return self._ports.store.url

    def exists(self) -> bool:
        """Whether there is a log, or the first write may create it. Raises ObjectStoreError if the store cannot
        tell."""
        return self._log.exists()

    def one_look(self) -> AbstractContextManager[None]:
        return self._log.one_look()

    def known_state(self) -> AbstractContextManager[None]:
        return self._log.known_state()

    def ensure_log(self) -> None:
        """Creates the log if there is none, so that processes without `create` find it."""
        self._log.ensure()

    def _url(self) -> str:
        return self._ports.store.url

    def _fresh_producer(self) -> ProducerIdAndEpoch:
        return fresh_producer(self._ports)

    # -- topics --

    def describe_topics(self, names: Collection[str] | None = None) -> dict[str, TopicDescription]:
        return self._topics.describe(names)

    def create_topic(
        self, name: str, *, partition_count: int | None = None, configs: Mapping[str, str] | None = None
    ) -> TopicDescription:
        return self._topics.create(name, partition_count=partition_count, configs=configs)

    def auto_creates_topics(self) -> bool:
        return True

    def delete_topic(self, name: str) -> None:
        self._topics.delete(name)

    def create_partitions(self, name: str, total_count: int) -> TopicDescription:
        return self._topics.widen(name, total_count)

    def alter_topic_configs(self, name: str, changes: Mapping[str, str | None]) -> TopicDescription:
        return self._topics.alter(name, changes)

    # -- partitions --

    def list_offsets(
        self,
        partitions: Mapping[TopicPartition, OffsetSpec | int],
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return self._lookups.list_offsets(partitions)

    def bounds(self, partition: TopicPartition) -> PartitionBounds:
        return self._lookups.look(partition, bounds_of)

    def describe_segments(self, partition: TopicPartition) -> tuple[SegmentDescription, ...]:
        return self._lookups.describe_segments(partition)

    def find_offset_within_bytes(
        self, partition: TopicPartition, from_offset: int, until_offset: int, max_bytes: int
    ) -> int:
        return self._lookups.find_offset_within_bytes(partition, from_offset, until_offset, max_bytes)

    def bytes_between(self, partition: TopicPartition, from_offset: int, until_offset: int) -> int:
        return self._lookups.bytes_between(partition, from_offset, until_offset)

    def ranges_with_key(
        self, partition: TopicPartition, key: bytes | None, from_offset: int, until_offset: int
    ) -> KeyRanges:
        return self._lookups.ranges_with_key(partition, key, from_offset, until_offset)

    def delete_records(self, partition: TopicPartition, before_offset: int) -> int:
        starts: list[int] = []

        def plan(image: LogImage) -> Proposal | None:
            topic_id, found = partition_of(image, partition)
            config = _config_of(image, partition.topic)
            if config.is_compacted and not config.is_deleted_by_retention:
                raise PolicyViolationError(
                    f"Records of partition {partition} can not be deleted: its cleanup.policy is compact without"
                    " delete.",
                    topic=partition.topic,
                )
            offset = found.log_end_offset if before_offset == -1 else before_offset
            if not 0 <= offset <= found.log_end_offset:
                bounds_of(found).require(offset, partition)
            starts.append(max(offset, found.log_start_offset))
            if offset <= found.log_start_offset:
                return None
            return Proposal(changes=(MoveLogStart(topic_id=topic_id, partition=partition.partition, offset=offset),))

        self._log.commit(plan)
        return starts[-1]

    # -- reading --

    def fetch(
        self,
        partition: TopicPartition,
        from_offset: int,
        *,
        max_bytes: int,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        topic_id: UUID | None = None,
    ) -> FetchedBatches:
        return self._reads.fetch(partition, from_offset, max_bytes=max_bytes, topic_id=topic_id)

    def plan_fetches(self, partition: TopicPartition, from_offset: int, until_offset: int) -> FetchPlan:
        return self._reads.plan(partition, from_offset, until_offset)

    def fetch_steps(
        self, plan: FetchPlan, from_offset: int, until_offset: int, *, max_bytes: int, ahead_bytes: int
    ) -> list[FetchStep]:
        return self._reads.fetch_steps(plan, from_offset, until_offset, max_bytes=max_bytes, ahead_bytes=ahead_bytes)

    def fetch_planned(self, plan: FetchPlan, from_offset: int, *, max_bytes: int) -> FetchedBatches:
        return self._reads.fetch_planned(plan, from_offset, max_bytes=max_bytes)

    def fetch_several_planned(self, plans: Sequence[FetchPlan], *, max_bytes: int) -> list[FetchedBatches | None]:
        return self._reads.fetch_several_planned(plans, max_bytes=max_bytes)

    def is_current(self, plan: FetchPlan) -> bool:
        return self._reads.is_current(plan)

    # -- writing --

    def append(self, partition: TopicPartition, batches: bytearray, *, topic_id: UUID | None = None) -> AppendResult:
        """Writes one object and one commit; use `stage` for larger writes."""
        found_id, config = self._log.read_known(
            lambda image: knows(image, partition),
            lambda image: (partition_of(image, partition)[0], _config_of(image, partition.topic)),
        )
        if topic_id is not None and found_id != topic_id:
            raise TopicRecreatedError.of(partition.topic, topic_id)
        now_ms = self._ports.clock.now_ms()
        valid = validate_batches(batches, config=config, now_ms=now_ms, name=str(partition))
        path = data_path(now_ms, self._ports.entropy.random_bytes(16))
        ranges: list[AppendedRange] = []
        position = 0
        sealed = bytearray(valid.buffer)
        for piece, totals in sealed_pieces(sealed, len(sealed)):
            ranges.append(
                AppendedRange(found_id, partition.partition, DataRange(path, position, piece.nbytes, *totals))
            )
            position += piece.nbytes
        self._ports.store.put(path, sealed)
        committed = self._log.commit(lambda image: _append_proposal(image, ranges))
        assert committed is not None, "an object of this call was committed before it"
        base_offset = committed.base_offsets[0]
        next_offset = base_offset
        for place, header in iter_headers(batches):
            write_placement(batches, place, base_offset=next_offset, leader_epoch=0)
            next_offset += header.last_offset_delta + 1
        return AppendResult(
            base_offset=base_offset, last_offset=next_offset - 1, log_append_time_ms=valid.log_append_time_ms
        )

    def append_placed(self, appends: Sequence[PlacedAppend]) -> None:
        self._placed.append(appends)

    def plan_staging(self, topics: Collection[str] | None = None, app_id: str | None = None) -> StagingPlan:
        return self._staging.plan(topics, app_id)

    def stage(self, plan: StagingPlan | None = None) -> DataUpload:
        return self._staging.stage(plan)

    def commit_staged(
        self, staged: Sequence[StagedData], *, app: AppVersion | None = None, plan: StagingPlan | None = None
    ) -> CommitOutcome:
        return self._staging.commit(staged, app, plan)

    def last_version(self, app_id: str) -> AppVersion | None:
        return self._log.read(lambda image: image.apps.get(app_id))

    def _on_committed(self, number: int) -> None:
        if self._turn is not None:
            self._turn.on_committed(number)

    # -- maintenance --

    def maintain(self, topics: Collection[str] | None = None, *, grace_ms: int | None = None) -> LogMaintenanceReport:
        """Retention, merging, compaction, a checkpoint and removal of garbage, now. `topics`: only these.

        `grace_ms`: the minimum age of garbage; longer than the longest task and reader, 24 hours by default. Errors of
        single partitions are in the report and stop nothing else. Raises UnknownTopicError before anything is done.
        """
        return self._maintenance.maintain(topics, grace_ms=grace_ms)

    def require_all_commits(self) -> None:
        """Raises CorruptObjectError if a commit was removed and later ones exist."""
        require_all_commits(self._ports, *self._log.read(lambda image: (image.number, image.log_id)))

    def find_foreign_objects(self) -> Iterator[ForeignObject]:
        """Objects in the folders of the log that are not the log's; see `foreign_objects`."""
        return find_foreign_objects(self._ports, self._log)

    def inspect_ranges(self, partition: TopicPartition) -> Iterator[InspectedRange]:
        """Reads and checks every range of the partition; see `RangeInspection`."""
        return self._inspection.ranges(partition)

    # -- groups --

    def list_groups(self) -> tuple[str, ...]:
        return self._groups.list_groups()

    def describe_group(self, group_id: str) -> GroupDescription:
        """A group of an object log has offsets but no members."""
        state = GroupState.EMPTY if self._groups.fetch(group_id, None) else GroupState.DEAD
        return GroupDescription(group_id=group_id, state=state)

    def commit_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, GroupOffset],
        *,
        topic_ids: Mapping[str, UUID] | None = None,
    ) -> None:
        self._groups.commit(group_id, offsets, topic_ids or {})

    def fetch_offsets(
        self, group_id: str, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, GroupOffset]:
        return self._groups.fetch(group_id, partitions)

    def delete_group(self, group_id: str) -> None:
        self._groups.delete(group_id)

    # -- the end --

    def close(self) -> None:
        """Waits for running maintenance. Any other call afterwards raises StorageError."""
        if self._turn is not None:
            self._turn.stop()
        self._log.close()
        self._ports.store.close()

    def __enter__(self) -> ObjectCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _config_of(image: LogImage, name: str) -> TopicConfig:
    topic = image.topic(name)
    return TopicConfig.from_stored({} if topic is None else topic.configs)


def _append_proposal(image: LogImage, ranges: Sequence[AppendedRange]) -> Proposal | None:
    found = plan_append(image, ranges)
    return None if isinstance(found, AlreadyCommitted) else Proposal(changes=found)
