"""Who uses the log in a simulation: each is a function that runs until it is done, or killed.

Whatever a store may answer is taken as a program of a user's would: tried again some times, then given up or begun
again with nothing in memory. Any other error ends the run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from simulation.objects.log_oracle import require

from broker_core.cluster import GroupOffset
from broker_core.model.exceptions import (
    ObjectStoreError,
    OffsetOutOfRangeError,
    TopicExistsError,
    UnknownTopicError,
    UploadExpiredError,
)
from broker_core.model.identifiers import OffsetSpec, TopicPartition
from broker_core.model.retention_pin import pin_metadata
from broker_core.object_cluster.object_cluster import ObjectCluster
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record, iter_headers, records_of
from broker_core.staged_writes import AppVersion, StagingPlan

if TYPE_CHECKING:
    from simulation.objects.object_world import ActorView

TOPIC, COMPACTED, CHURNED = "t", "k", "u"
PARTITIONS = (TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1))
KEYED = TopicPartition(COMPACTED, 0)
KEYS = (b"k0", b"k1", b"k2", b"k3", None)
"""The last key is of no record. Those of the other topics have none."""
MAX_ATTEMPT_COUNT = 30


def exactly_once_driver(view: ActorView, app: str, last: int) -> None:
    """A sink: for each version its tasks stage rows and the driver commits them. Several may run as the same one."""
    cluster = view.open()
    known = view.until_answered(lambda: cluster.last_version(app))
    version = 1 if known is None else known.version + 1
    for _ in range(MAX_ATTEMPT_COUNT):
        if version > last:
            return
        attempt = f"{view.name}.{view.next_number()}"
        try:
            staged = [_staged(view, cluster, f"{app}:{version}:{attempt}") for _ in range(view.dice.randint(1, 2))]
            outcome = cluster.commit_staged(staged, app=AppVersion(app_id=app, version=version, note=attempt))
        except (ObjectStoreError, UploadExpiredError):
            cluster = view.open() if view.dice.random() < 0.5 else cluster
            continue
        _check_outcome(view, app, version, attempt, is_new=outcome.is_new)
        version += 1


def planned_driver(view: ActorView, app: str, last: int) -> None:
    """The same in the processes of a cluster: one plans, each task is one, and one commits without loading the log. A
    commit that ended with an error is repeated with the same uploads, as its contract allows."""
    planner, committer = view.open(), view.open()
    version = 1
    for _ in range(MAX_ATTEMPT_COUNT):
        if version > last:
            return
        attempt = f"{view.name}.{view.next_number()}"
        app_version = AppVersion(app_id=app, version=version, note=attempt)
        try:
            plan = planner.plan_staging([TOPIC], app)
            found = plan.version_of(app)
            if found is not None and found.version >= version and view.dice.random() < 0.5:
                version = found.version + 1  # its tasks need not run
                continue
            staged = [
                _staged(view, view.open(), f"{app}:{version}:{attempt}", plan) for _ in range(view.dice.randint(1, 2))
            ]
        except (ObjectStoreError, UnknownTopicError):
            planner = view.open() if view.dice.random() < 0.5 else planner
            continue
        outcome = None
        for _ in range(3):
            try:
                outcome = committer.commit_staged(staged, app=app_version, plan=plan)
            except (ObjectStoreError, UploadExpiredError):
                committer = view.open() if view.dice.random() < 0.3 else committer
                continue
            if view.dice.random() < 0.7:
                break
        if outcome is not None:
            _check_outcome(view, app, version, attempt, is_new=outcome.is_new)
            version += 1


def _check_outcome(view: ActorView, app: str, version: int, attempt: str, *, is_new: bool) -> None:
    view.world.oracle.catch_up()
    history = dict(view.world.oracle.apps.get(app, ()))
    if is_new:
        require(history.get(version) == attempt, f"{attempt} was told that it committed version {version}: {history}")
    else:
        require(version in history, f"{attempt} was told that version {version} is there: {history}")


def _staged(view: ActorView, cluster: ObjectCluster, mark: str, plan: StagingPlan | None = None):
    upload = cluster.stage(plan)
    try:
        for partition in view.dice.sample(PARTITIONS, view.dice.randint(1, 2)):
            rows = [f"{mark}:{partition.partition}:{view.next_number()}" for _ in range(view.dice.randint(1, 3))]
            view.world.staged.setdefault(mark, []).extend(rows)
            upload.append(partition, _batch(view, rows))
        return upload.finish()
    except BaseException:
        upload.abort()
        raise


def planned_writer(view: ActorView, count: int) -> None:
    """Commits uploads by a plan and without a version: repeated, too, since they are recognised by themselves."""
    planner, committer = view.open(), view.open()
    for _ in range(count):
        rows = [f"pw:{view.name}:{view.next_number()}" for _ in range(2)]
        try:
            plan = planner.plan_staging([TOPIC])
            upload = view.open().stage(plan)
            upload.append(view.dice.choice(PARTITIONS), _batch(view, rows))
            staged = upload.finish()
        except (ObjectStoreError, UnknownTopicError):
            continue
        is_committed = False
        for _ in range(view.dice.randint(1, 3)):
            try:
                committer.commit_staged([staged], plan=plan)
            except (ObjectStoreError, UploadExpiredError):
                committer = view.open() if view.dice.random() < 0.3 else committer
            else:
                is_committed = True
        if is_committed:
            view.world.oracle.catch_up()
            committed = view.world.oracle.committed_values()
            counts = [committed.count(row.encode()) for row in rows]
            require(counts == [1, 1], f"{rows} were acknowledged, and are in the log {counts} times")


def at_least_once_writer(view: ActorView, count: int) -> None:
    cluster = view.open()
    for _ in range(count):
        row = f"al:{view.name}:{view.next_number()}"
        partition = view.dice.choice(PARTITIONS)
        for _ in range(MAX_ATTEMPT_COUNT):
            try:
                result = cluster.append(partition, _batch(view, [row]))
            except (ObjectStoreError, UploadExpiredError):
                continue
            view.world.oracle.catch_up()
            place = (view.world.oracle.topic_id(TOPIC), partition.partition)
            found = view.world.oracle.partitions[place].ever.get(result.base_offset)
            require(found == (None, row.encode()), f"{row} was acknowledged at {result.base_offset}, there is {found}")
            break


def keyed_writer(view: ActorView, count: int) -> None:
    cluster = view.open()
    for number in range(count):
        record = Record(key=b"k%d" % view.dice.randint(0, 2), value=b"%d" % number, timestamp_ms=view.world.now_ms())
        view.tried(lambda record=record: cluster.append(KEYED, build_batch([record])))


def topic_churner(view: ActorView, count: int) -> None:
    """Makes a topic, writes to it and deletes it, as others do with the same name."""
    cluster = view.open()
    partition = TopicPartition(CHURNED, 0)

    def create() -> None:
        made = cluster.create_topic(CHURNED, partition_count=1)
        view.world.oracle.catch_up()
        require(str(made.topic_id) in view.world.oracle.topic_ids, f"{made} was never made")

    steps: tuple[Callable[[], object], ...] = (
        create,
        lambda: cluster.append(partition, _batch(view, [f"u:{view.next_number()}"])),
        lambda: cluster.fetch(partition, 0, max_bytes=1000),
        lambda: cluster.delete_topic(CHURNED),
    )
    for step in itertools.islice(itertools.cycle(steps), count):
        try:
            step()
        except (ObjectStoreError, TopicExistsError, UnknownTopicError, OffsetOutOfRangeError, UploadExpiredError):
            continue


def maintainer(view: ActorView, count: int) -> None:
    cluster = view.open()
    for _ in range(count):
        view.tried(partial(cluster.maintain, grace_ms=view.world.grace_ms))
        if view.dice.random() < 0.3:
            cluster = view.open()


def reader(view: ActorView, rounds: int) -> None:
    """Reads on from where it was; every answer must be a prefix of what is committed, at one commit."""
    cluster = view.open()
    positions = dict.fromkeys(PARTITIONS, 0)
    for _ in range(rounds):
        ends = view.tried(partial(cluster.list_offsets, dict.fromkeys(PARTITIONS, OffsetSpec.LATEST)))
        if ends is None:
            continue
        oracle = view.world.oracle
        oracle.catch_up()
        topic_id = oracle.topic_id(TOPIC)
        seen = {(topic_id, tp.partition): ends[tp].offset for tp in PARTITIONS}
        require(
            any(seen.items() <= at_one_commit.items() for at_one_commit in oracle.ends),
            f"{seen} are ends of no one commit",
        )
        for partition in PARTITIONS:
            positions[partition] = _read_some(view, cluster, partition, positions[partition], ends[partition].offset)
        if view.dice.random() < 0.2:
            cluster = view.open()


def key_reader(view: ActorView, rounds: int) -> None:
    """Asks where records of a key may be. What is skipped must not have one, not even when it is read later."""
    cluster = view.open()
    for _ in range(rounds):
        partition = view.dice.choice((*PARTITIONS, KEYED))
        key = view.dice.choice(KEYS)
        ends = view.tried(partial(cluster.list_offsets, {partition: OffsetSpec.LATEST}))
        end = 0 if ends is None else ends[partition].offset
        found = view.tried(partial(cluster.ranges_with_key, partition, key, 0, end))
        if found is not None:
            view.world.check_skipped(partition, key, found, end)


def _read_some(view: ActorView, cluster: ObjectCluster, partition: TopicPartition, position: int, end: int) -> int:
    max_bytes = view.dice.choice((1, 200, 10_000))
    plan = None
    for _ in range(20):
        if position >= end:
            return position
        try:
            if view.dice.random() < 0.3:
                plan = cluster.plan_fetches(partition, position, end)
            fetched = (
                cluster.fetch(partition, position, max_bytes=max_bytes)
                if plan is None
                else cluster.fetch_planned(plan, position, max_bytes=max_bytes)
            )
        except OffsetOutOfRangeError as error:
            require(error.log_start_offset > position, f"{partition}: {error} at {position}")
            position, plan = error.log_start_offset, None
            continue
        except ObjectStoreError:
            continue
        place = (view.world.oracle.topic_id(partition.topic), partition.partition)
        log = view.world.oracle.partitions[place]
        for record in _records(fetched.buffer):
            if record.offset < position:
                continue
            require(record.offset == position, f"{partition}: {record.offset} comes where {position} should")
            found = log.ever.get(record.offset)
            require(found == (record.key, record.value), f"{partition}@{position}: {record.value}, not {found}")
            position = record.offset + 1
        require(fetched.next_offset == position, f"{partition}: goes on at {fetched.next_offset}, not {position}")
    return position


def group_member(
    view: ActorView, group: str, partition: TopicPartition, rounds: int, *, pins: bool, is_alone: bool
) -> None:
    """Commits ascending offsets for a partition of a group that others commit for too; `is_alone`: not for this one."""
    cluster = view.open()
    offset = 0
    for _ in range(rounds):
        oracle = view.world.oracle
        place = (oracle.topic_id(TOPIC), partition.partition)
        log = oracle.partitions[place]
        if is_alone:
            offset = max(offset + 1, log.log_start_offset)
        else:
            offset = view.dice.randint(log.log_start_offset, log.log_end_offset)
        until_ms = view.world.now_ms() + view.dice.choice((5_000, 50_000))
        metadata = pin_metadata(until_ms) if pins and view.dice.random() < 0.9 else ""
        try:
            cluster.commit_offsets(group, {partition: GroupOffset(offset=offset, metadata=metadata)})
        except ObjectStoreError:
            continue
        if not is_alone:
            continue
        found = view.tried(lambda: cluster.fetch_offsets(group, [partition]))
        require(
            found is None or found[partition].offset == offset,
            f"{group} committed {offset} for {partition}, and finds {found}",
        )


def _batch(view: ActorView, rows: list[str]) -> bytearray:
    return build_batch([Record(value=row.encode(), timestamp_ms=view.world.now_ms()) for row in rows])


def _records(buffer: memoryview) -> list[Record]:
    data = bytes(buffer)
    return [record for place, _ in iter_headers(data) for record in records_of(data, place)]
