"""Fetch (1), versions 4 to 18: batches as stored in the log, at once or when there are enough of them.

Partitions are answered in the order of the request (of the session, see `fetch.fetch_session`), then those that do not
exist or may not be read. Limits: the partition's bytes, the request's bytes and fetch.max.bytes; the first batch always
fits. A read-committed client gets records up to the last stable offset and the list of aborted transactions. With fewer
than min_bytes and no error the request waits in the purgatory for more bytes or the end of max_wait. While memory is
short because clients do not read their answers, it waits longer and is answered with less. Topics are given by name,
from version 13 on by id. Epochs: see `handlers.leader_epochs`; a client with a diverged log (KIP-595 fields, version
12) gets the point of divergence.

A client beyond its quota gets no records, and is throttled; see `quota.client_throttle`.

A follower (replica_id) gets records up to the log's end, and its fetch says what it has (`Replica.on_fetch`). From
version 11 on a consumer may read from a follower, up to its high watermark, and a leader may send it to one in its
rack: `near_replicas`. Where that is set up, followers that wait are told at once of a high watermark that is news to
them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from itertools import groupby
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_core.broker.partition.replica import Replica
from broker_core.cluster import FetchedBatches, PartitionBounds
from broker_core.fetch.fetch_session import FINAL_EPOCH, NO_SESSION, FetchContext, PartitionKey, WantedPartition
from broker_core.handlers.awaited_partitions import AwaitedPartitions
from broker_core.handlers.call import Call
from broker_core.handlers.leader_epochs import refused_epoch
from broker_core.handlers.near_replicas import FIRST_VERSION_WITH_FOLLOWERS, NearReplicas
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.durations import milliseconds_of
from broker_core.model.exceptions import (
    OffsetOutOfRangeError,
    ReplicaError,
    StreamlogError,
    UnknownPartitionError,
    UnknownTopicError,
)
from broker_core.model.identifiers import NO_LEADER_EPOCH, IsolationLevel, TopicPartition
from broker_core.replication.replication_values import UNKNOWN_BROKER_EPOCH, PartitionFetch

_FIRST_VERSION_WITH_IDS: Final = 13
_FIRST_VERSION_THAT_NAMES_LEADERS: Final = 16
_NO_REPLICA: Final = -1
_IS_NOT_FOUND: Final = "is_not_found"
"""Marks an answer, before it is sent, whose partition was not read."""


def handle(call: Call) -> None:
    wanted: dict[PartitionKey, WantedPartition] = {}
    for topic in call.message.topics:
        named = _topic_of(call, topic)
        for partition in topic.partitions:
            wanted[PartitionKey(named, partition.partition)] = WantedPartition(
                fetch_offset=partition.fetch_offset,
                max_bytes=partition.partition_max_bytes,
                current_leader_epoch=max(NO_LEADER_EPOCH, getattr(partition, "current_leader_epoch", -1)),
                last_fetched_epoch=getattr(partition, "last_fetched_epoch", -1),
                log_start_offset=getattr(partition, "log_start_offset", -1),
            )
    forgotten = [
        PartitionKey(_topic_of(call, topic), number)
        for topic in call.request_field("forgotten_topics_data", ())
        for number in topic.partitions
    ]
    context = call.node.fetch_sessions.context_of(
        session_id=call.request_field("session_id", 0),
        epoch=call.request_field("session_epoch", FINAL_EPOCH),
        wanted=wanted,
        forgotten=forgotten,
        with_topic_ids=call.version >= _FIRST_VERSION_WITH_IDS,
        now_ms=call.now_ms,
    )
    if context.error is not ErrorCode.none:
        call.respond(error_code=context.error)
        return
    _Fetch(call, context).begin()


def _topic_of(call: Call, topic: Any) -> str | UUID | None:
    named: str | UUID | None = topic.topic_id if call.version >= _FIRST_VERSION_WITH_IDS else topic.topic
    return named


def _replica_id(call: Call) -> int:
    """The follower's replica id; -1 for a client."""
    state = call.request_field("replica_state", None)
    return int(call.request_field("replica_id", _NO_REPLICA) if state is None else state.replica_id)


def _topic_name(call: Call, key: PartitionKey) -> str | None:
    if isinstance(key.topic, str):
        return key.topic
    topic = None if key.topic is None else call.node.topics.image.topic_by_id(key.topic)
    return None if topic is None else topic.name


class _Fetch:
    """One request, parked until there are enough bytes."""

    def __init__(self, call: Call, context: FetchContext) -> None:
        self._call = call
        self._context = context
        self._isolation = IsolationLevel(1 if call.message.isolation_level == 1 else 0)
        most = None if call.meter is None else call.meter.most_fetch_bytes()
        limits = (call.message.max_bytes, call.node.config.fetch_max_bytes, *(() if most is None else (most,)))
        self._max_bytes = max(0, min(limits))
        self._min_bytes = min(call.message.min_bytes, self._max_bytes)
        self._awaited: AwaitedPartitions | None = None
        self._replica_id = _replica_id(call)
        self._is_follower = self._replica_id >= 0
        self._near = NearReplicas(call)
        self._tells_watermarks = self._is_follower and call.node.config.has_near_replicas
        replicas = call.node.replicas
        reads_followers = not self._is_follower and call.version >= FIRST_VERSION_WITH_FOLLOWERS
        self._replica_of = replicas.get_readable if reads_followers else replicas.get
        self._may_read: dict[str, bool] = {}
        self._may_follow: bool | None = None
        # A topic that is deleted while this waits gets the error of a deleted topic, not of an unknown id.
        self._names = {key: _topic_name(call, key) for key in context.wanted}

    def begin(self) -> None:
        max_wait_ms = milliseconds_of(self._call.message.max_wait)
        answers, byte_count, is_urgent = self._read(self._call.node.answer_room_bytes())
        if is_urgent or max_wait_ms <= 0 or byte_count >= self._min_bytes or not self._context.wanted:
            self._respond(answers)
            return
        self._awaited = self._awaiting(byte_count)
        self._call.node.parked_fetches.park(
            self,
            self._awaited,
            until_ms=self._call.now_ms + max_wait_ms,
            connection_id=self._call.peer.connection_id,
        )

    def maybe_complete(self, partition: Hashable) -> bool:
        """Of the purgatory."""
        assert self._awaited is not None and isinstance(partition, TopicPartition), (
            f"the fetch does not wait for {partition}"
        )
        if not self._awaited.is_worth_a_look(partition) and not self._is_watermark_news(partition):
            return False
        room_bytes = self._call.node.answer_room_bytes()
        if room_bytes < self._min_bytes:
            # Only checks for errors: the bytes would not be enough, and reading them each time would be wasted.
            answers, _, is_urgent = self._read(0)
            if is_urgent:
                self._respond(answers)
            return is_urgent
        answers, byte_count, is_urgent = self._read(room_bytes)
        if not is_urgent and byte_count < self._min_bytes:
            self._awaited = self._awaiting(byte_count)
            return False
        self._respond(answers)
        return True

    def _is_watermark_news(self, partition: TopicPartition | None) -> bool:
        """For a follower."""
        replica = self._replica_if_any(partition) if self._tells_watermarks else None
        return replica is not None and replica.is_watermark_news(self._replica_id)

    def _note_watermarks(self, answers: Mapping[PartitionKey, dict[str, Any]]) -> None:
        for key, answer in answers.items():
            replica = self._replica_if_any(self._partition(key))
            if replica is not None and answer["error_code"] is ErrorCode.none:
                replica.on_watermark_told(self._replica_id, answer["high_watermark"])

    def _replica_if_any(self, partition: TopicPartition | None) -> Replica | None:
        try:
            return None if partition is None else self._replica_of(partition)
        except StreamlogError:
            return None

    def fail(self) -> None:
        if not self._call.is_answered:
            self._call.close_connection("answering a parked fetch failed")

    def _awaiting(self, byte_count: int) -> AwaitedPartitions:
        """Partitions without an error and their available bytes."""
        wanted = [
            (partition, each.fetch_offset)
            for key, each in self._context.wanted.items()
            if (partition := self._partition(key)) is not None
        ]
        return AwaitedPartitions(
            self._replica_of, wanted, self._readable_end, missing_bytes=self._min_bytes - byte_count
        )

    def give_up_waiting(self) -> None:
        """max_wait is over: answers with the available records."""
        self._respond(self._read(self._call.node.answer_room_bytes())[0])

    def _read(self, room_bytes: int) -> tuple[dict[PartitionKey, dict[str, Any]], int, bool]:
        """(an answer for each partition, bytes of records, whether one is an error or a divergence). Without free
        memory nothing is read."""
        answers: dict[PartitionKey, dict[str, Any]] = {}
        left = min(self._max_bytes, room_bytes)
        has_room, byte_count, is_urgent = room_bytes > 0, 0, False
        for key, wanted in self._context.wanted.items():
            answer = self._read_one(key, wanted, left, is_first=has_room and byte_count == 0)
            answers[key] = answer
            size = len(answer["records"] or b"")
            byte_count += size
            left = max(0, left - size)
            is_urgent = is_urgent or _is_urgent(answer) or self._is_watermark_news(self._partition(key))
        return answers, byte_count, is_urgent

    def _read_one(self, key: PartitionKey, wanted: WantedPartition, left: int, *, is_first: bool) -> dict[str, Any]:
        try:
            name = self._names[key]
            if name is None:
                return _refusal(key, ErrorCode.unknown_topic_id, is_found=False)
            if not self._is_readable(name):
                return _refusal(key, ErrorCode.topic_authorization_failed, is_found=False)
            replica = self._replica_of(TopicPartition(name, key.number))
            if self._is_follower:
                return self._read_for_follower(key, wanted, replica, left, is_first=is_first)
            refused = refused_epoch(wanted.current_leader_epoch, replica.leader_epoch)
            if refused is not None:
                return _refusal(key, refused)
            preferred = self._near.preferred(replica, wanted.fetch_offset)
            if preferred is not None:
                return self._answer(key, replica, None) | {"preferred_read_replica": preferred}
            diverging = _diverging_epoch(replica, wanted)
            if diverging is not None:
                return self._answer(key, replica, None) | {"diverging_epoch": diverging}
            max_bytes = min(wanted.max_bytes, left)
            if (max_bytes <= 0 and not is_first) or not self._has_more(replica, wanted.fetch_offset):
                return self._answer(key, replica, None)
            fetched = replica.read(wanted.fetch_offset, max_bytes=max(0, max_bytes), isolation=self._isolation)
            if len(fetched.buffer) > max_bytes and not is_first:
                return self._answer(key, replica, None)
            return self._answer(key, replica, fetched)
        except (UnknownTopicError, UnknownPartitionError) as error:
            return _refusal(key, error.error_code, is_found=self._awaited is not None)
        except ReplicaError as error:
            return self._refusal_of_replica(key, error.error_code)
        except StreamlogError as error:
            return _refusal(key, error.error_code)

    def _read_for_follower(
        self, key: PartitionKey, wanted: WantedPartition, replica: Replica, left: int, *, is_first: bool
    ) -> dict[str, Any]:
        """Up to the log's end. That it fetches says what it has."""
        state = self._call.request_field("replica_state", None)
        verdict = replica.on_fetch(
            PartitionFetch(
                fetch_offset=wanted.fetch_offset,
                current_leader_epoch=wanted.current_leader_epoch,
                last_fetched_epoch=wanted.last_fetched_epoch,
                replica_id=self._replica_id,
                broker_epoch=UNKNOWN_BROKER_EPOCH if state is None else state.replica_epoch,
                log_start_offset=wanted.log_start_offset,
            )
        )
        if verdict.error is not ErrorCode.none:
            return self._refusal_of_replica(key, verdict.error)
        if verdict.diverging is not None:
            diverging = {"epoch": verdict.diverging.leader_epoch, "end_offset": verdict.diverging.end_offset}
            return self._answer(key, replica, None) | {"diverging_epoch": diverging}
        max_bytes = min(wanted.max_bytes, left)
        if (max_bytes <= 0 and not is_first) or wanted.fetch_offset >= verdict.until_offset:
            return self._answer(key, replica, None)
        fetched = replica.read_log(wanted.fetch_offset, max_bytes=max(0, max_bytes), until_offset=verdict.until_offset)
        if len(fetched.buffer) > max_bytes and not is_first:
            return self._answer(key, replica, None)
        return self._answer(key, replica, fetched)

    def _refusal_of_replica(self, key: PartitionKey, error_code: ErrorCode) -> dict[str, Any]:
        """With the leader, where the client may ask next."""
        refusal = _refusal(key, error_code)
        partition = self._partition(key)
        if partition is not None and self._call.version >= _FIRST_VERSION_THAT_NAMES_LEADERS:
            leader = self._call.node.cluster.leader_of(partition)
            refusal["current_leader"] = {"leader_id": leader.leader_id, "leader_epoch": leader.leader_epoch}
        return refusal

    def _readable_end(self, bounds: PartitionBounds) -> int:
        return bounds.log_end_offset if self._is_follower else bounds.readable_end(self._isolation)

    def _has_more(self, replica: Replica, from_offset: int) -> bool:
        """False: at the end, nothing to read. The replica refuses an offset out of range."""
        return from_offset != replica.bounds.readable_end(self._isolation)

    def _partition(self, key: PartitionKey) -> TopicPartition | None:
        name = self._names[key]
        return None if name is None else TopicPartition(name, key.number)

    def _is_readable(self, name: str) -> bool:
        """A follower needs CLUSTER_ACTION, and nothing on the topic."""
        if self._is_follower:
            if self._may_follow is None:
                self._may_follow = self._call.is_allowed(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
            return self._may_follow
        if name not in self._may_read:
            self._may_read[name] = self._call.is_allowed(Operation.READ, ResourceType.TOPIC, name)
        return self._may_read[name]

    def _respond(self, answers: Mapping[PartitionKey, dict[str, Any]]) -> None:
        session = self._context.session
        if self._call.meter is not None:
            byte_count = sum(len(answer["records"] or b"") for answer in answers.values())
            if self._call.meter.on_fetched(byte_count):
                self._respond_throttled()
                return
        if self._tells_watermarks:
            self._note_watermarks(answers)
        sent = dict(answers)
        if session is not None:
            for key, answer in answers.items():
                has_news = session.maybe_report(
                    key,
                    high_watermark=answer["high_watermark"],
                    log_start_offset=answer["log_start_offset"],
                    has_records=bool(answer["records"]),
                    has_error=_is_urgent(answer),
                )
                if self._context.is_incremental and not has_news:
                    del sent[key]
        # Kafka puts partitions that it did not read last, and groups neighbours of one topic.
        ordered = list(sent.items())
        if any(_IS_NOT_FOUND in answer for answer in sent.values()):
            ordered.sort(key=lambda item: item[1].pop(_IS_NOT_FOUND, False))
        name = "topic_id" if self._call.version >= _FIRST_VERSION_WITH_IDS else "topic"
        self._call.respond(
            session_id=self._context.session_id,
            responses=[
                {name: topic, "partitions": [answer for _, answer in answers_of_topic]}
                for topic, answers_of_topic in groupby(ordered, key=lambda item: item[0].topic)
            ],
        )

    def _respond_throttled(self) -> None:
        """Without records, and as if nothing had been read: what the client knows of the partitions does not change. A
        session that the request was to begin does not."""
        context = self._context
        if context.session is not None and not context.is_incremental:
            self._call.node.fetch_sessions.drop(context.session_id)
        self._call.respond(session_id=context.session_id if context.is_incremental else NO_SESSION, responses=[])

    def _answer(self, key: PartitionKey, replica: Replica, fetched: FetchedBatches | None) -> dict[str, Any]:
        bounds = replica.bounds
        aborted = [] if fetched is None else fetched.aborted_transactions
        is_committed_only = self._isolation is IsolationLevel.READ_COMMITTED
        return {
            "partition_index": key.number,
            "error_code": ErrorCode.none,
            "high_watermark": bounds.high_watermark,
            "last_stable_offset": bounds.last_stable_offset,
            "log_start_offset": bounds.log_start_offset,
            "aborted_transactions": (
                [{"producer_id": each.producer_id, "first_offset": each.first_offset} for each in aborted]
                if is_committed_only
                else None
            ),
            "preferred_read_replica": _NO_REPLICA,
            "records": b"" if fetched is None else fetched.buffer,
        }


def _is_urgent(answer: Mapping[str, Any]) -> bool:
    """The client must act upon it."""
    is_refused = answer["error_code"] is not ErrorCode.none
    return is_refused or "diverging_epoch" in answer or answer["preferred_read_replica"] != _NO_REPLICA


def _diverging_epoch(replica: Replica, wanted: WantedPartition) -> dict[str, int] | None:
    """The point of divergence from the client's log: the end of the epoch that it fetched last, if it fetched
    beyond."""
    if wanted.last_fetched_epoch < 0:
        return None
    epoch, end_offset = replica.end_offset_for_epoch(wanted.last_fetched_epoch)
    if epoch < 0 or end_offset < 0:
        raise OffsetOutOfRangeError(
            f"{replica.topic_partition} has no leader epoch {wanted.last_fetched_epoch}, which the client fetched last"
        )
    if epoch == wanted.last_fetched_epoch and end_offset >= wanted.fetch_offset:
        return None
    return {"epoch": epoch, "end_offset": end_offset}


def _refusal(key: PartitionKey, error_code: ErrorCode, *, is_found: bool = True) -> dict[str, Any]:
    return {
        **({} if is_found else {_IS_NOT_FOUND: True}),
        "partition_index": key.number,
        "error_code": error_code,
        "high_watermark": -1,
        "last_stable_offset": -1,
        "log_start_offset": -1,
        "aborted_transactions": None if is_found else [],
        "preferred_read_replica": _NO_REPLICA,
        "records": b"",
    }
