"""Every kind of error that the log reports.

    StreamlogError
    ├── InvalidRequestError            the caller asked for something that cannot be
    │   ├── InvalidTopicNameError        name against Kafka's rules, or colliding by '.' and '_'
    │   ├── InvalidConfigError           unknown setting, or a value out of its range
    │   ├── TopicExistsError
    │   ├── UnknownTopicError
    │   │   ├── TopicNotCreatedError       a write found it missing and may not create it
    │   │   └── TopicRecreatedError        it was deleted and created again: another topic, with the same name
    │   ├── UnknownPartitionError
    │   ├── InvalidPartitionsError       a partition count that is not positive, or fewer than there are
    │   ├── OffsetOutOfRangeError        below the log start or above the log end
    │   ├── UnexpectedLogEndError        a copy finds that its target was written to by somebody else
    │   ├── CopyRefusedError             a topic that can not be copied to this target as asked
    │   ├── RecordTooLargeError          a batch above max.message.bytes, a record above the batch limit
    │   ├── InvalidRecordError           well-formed bytes that the topic refuses (null key when compacted)
    │   │   └── InvalidTimestampError      a timestamp too far from now, or of the wrong type
    │   ├── PolicyViolationError         e.g. delete-records on a topic that is only compacted
    │   ├── RequestRefusedError          a controller refuses the whole request; `error_code` of the instance says why
    │   ├── UnknownTransactionalIdError  nothing is known of the transactional id
    │   ├── InvalidTransactionTimeoutError
    │   ├── InvalidGroupError            a group id that none can have
    │   ├── UnknownGroupError
    │   ├── GroupNotEmptyError           members are in the group: they decide about its offsets
    │   ├── OffsetMetadataTooLargeError
    │   ├── NotAvailableRemotelyError    a directory could tell, a broker cannot
    │   ├── NotAvailableOnObjectsError   a directory or a broker can do it, a log on object storage cannot
    │   └── UploadExpiredError           data that was uploaded too long ago to be committed: write it again
    ├── CorruptDataError                 bytes that are not what was written; served never
    │   ├── CorruptBatchError              names file, position and offset
    │   ├── CorruptObjectError             names the object of the log on object storage
    │   ├── InconsistentMetadataError      a metadata record that contradicts those before it
    │   └── UnsupportedFormatError         magic 0/1 batches, unknown codec or version
    ├── ProducerError                    idempotence and fencing
    │   ├── OutOfOrderSequenceError
    │   ├── ProducerFencedError            an older producer epoch
    │   ├── CoordinatorFencedError         a marker of an older transaction coordinator
    │   ├── InvalidProducerIdMappingError  another producer id than the transactional id has
    │   ├── InvalidTransactionStateError   what is asked does not fit the state of the producer's transaction
    │   │   └── ContradictingMarkerError     a partition has an abort marker of a committed transaction, or the reverse
    │   └── ConcurrentTransactionsError    its last transaction is still being ended: ask again
    ├── CoordinatorError                 a broker's coordinator cannot tell now: ask again
    │   ├── CoordinatorLoadingError        it is reading its log
    │   ├── NotCoordinatorError            another broker has this coordinator: find it
    │   └── CoordinatorNotAvailableError   its log could not be written, or not be read
    ├── ReplicaError                     this replica cannot do it now: another broker leads, or too few are in sync
    ├── StorageError                     the directory or the disk
    │   ├── DiskFullError
    │   ├── TooManyOpenFilesError          of the process or the machine: nothing is wrong with what was to be opened
    │   ├── DirectoryLockedError           a broker holds the directory
    │   ├── DirectoryReadOnlyError         no write access, or a directory that another system owns
    │   ├── DirectoryFormatError           not a log directory, or written by a newer version
    │   └── ObjectStoreError               a log on object storage, or the store
    │       ├── ObjectNotFoundError
    │       ├── ObjectPreconditionError      the object exists already, or is not the version that was named
    │       ├── ObjectThrottledError         the store asks for fewer requests, after all retries
    │       ├── ObjectPermissionError        credentials are missing, expired or not allowed to do it
    │       ├── ObjectOutcomeUnknownError    a write was sent and its answer did not come
    │       ├── ObjectStoreUnavailableError  no answer, or a server error, after all retries
    │       ├── ObjectStoreUnsuitableError   no such bucket, no conditional writes, no client library
    │       └── ObjectLogFormatError         not a log, or written by a newer version
    └── RemoteError                      between a client and a broker
        ├── BrokerUnavailableError         no address answers, or the connection broke
        ├── RequestTimedOutError           the answer did not come in time
        ├── AuthenticationError            TLS or SASL: the identity of the client, or of the broker
        ├── AuthorizationError             the broker's access rules
        ├── UnsupportedVersionError        no version of a request that both sides speak
        ├── MalformedMessageError          bytes that are not Kafka's protocol
        ├── QuorumError                    the metadata quorum cannot be followed any further
        ├── PartlyEndedError               one transaction is ended, others could not be ended alike after it
        └── BrokerError                    any other refusal; `error_code` is the broker's

`error_code` is the answer that a broker gives for it on the wire. Messages say what was wrong, where, and which
setting changes it.
"""

from __future__ import annotations

from typing import Any, Self
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_core.model.record_error import RecordError


class StreamlogError(Exception):
    """Root of the tree. Keyword arguments become attributes and survive pickling between processes."""

    error_code: ErrorCode = ErrorCode.unknown_server_error

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.fields = fields
        for name, value in fields.items():
            setattr(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.fields)


def _rebuild(kind: type[StreamlogError], message: str, fields: dict[str, Any]) -> StreamlogError:
    return kind(message, **fields)


class InvalidRequestError(StreamlogError):
    error_code = ErrorCode.invalid_request


class InvalidTopicNameError(InvalidRequestError):
    error_code = ErrorCode.invalid_topic_exception


class InvalidConfigError(InvalidRequestError):
    error_code = ErrorCode.invalid_config


class TopicExistsError(InvalidRequestError):
    error_code = ErrorCode.topic_already_exists


class UnknownTopicError(InvalidRequestError):
    error_code = ErrorCode.unknown_topic_or_partition


class TopicNotCreatedError(UnknownTopicError):
    pass


class TopicRecreatedError(UnknownTopicError):
    """Fields: `topic`, `topic_id`, which the topic no longer has. What belongs to the old topic, records or offsets, is
    not written into the new one."""

    @classmethod
    def of(cls, topic: str, topic_id: UUID) -> Self:
        text = f"topic {topic!r} was deleted and created again: its id is no longer {topic_id}"
        return cls(text, topic=topic, topic_id=topic_id)


class UnknownPartitionError(InvalidRequestError):
    error_code = ErrorCode.unknown_topic_or_partition


class InvalidPartitionsError(InvalidRequestError):
    error_code = ErrorCode.invalid_partitions


class OffsetOutOfRangeError(InvalidRequestError):
    """Fields: `offset`, `log_start_offset`, `log_end_offset`."""

    error_code = ErrorCode.offset_out_of_range


class UnexpectedLogEndError(InvalidRequestError):
    """Fields: `partition`, `expected_offset`, `log_end_offset`."""


class CopyRefusedError(InvalidRequestError):
    """Fields: `topic`, and `partition` and `offset` if it is about one."""


class RecordTooLargeError(InvalidRequestError):
    error_code = ErrorCode.message_too_large


class InvalidRecordError(InvalidRequestError):
    """Field: `record_errors`, one for each record that was refused for itself; none where the batch was."""

    record_errors: tuple[RecordError, ...] = ()
    error_code = ErrorCode.invalid_record


class InvalidTimestampError(InvalidRecordError):
    error_code = ErrorCode.invalid_timestamp


class PolicyViolationError(InvalidRequestError):
    error_code = ErrorCode.policy_violation


class RequestRefusedError(InvalidRequestError):
    """`error_code` of the instance is Kafka's."""


class UnknownTransactionalIdError(InvalidRequestError):
    error_code = ErrorCode.transactional_id_not_found


class InvalidTransactionTimeoutError(InvalidRequestError):
    error_code = ErrorCode.invalid_transaction_timeout


class InvalidGroupError(InvalidRequestError):
    error_code = ErrorCode.invalid_group_id


class UnknownGroupError(InvalidRequestError):
    error_code = ErrorCode.group_id_not_found


class OffsetMetadataTooLargeError(InvalidRequestError):
    error_code = ErrorCode.offset_metadata_too_large


class GroupNotEmptyError(InvalidRequestError):
    error_code = ErrorCode.non_empty_group


class NotAvailableRemotelyError(InvalidRequestError):
    error_code = ErrorCode.unsupported_version


class NotAvailableOnObjectsError(InvalidRequestError):
    error_code = ErrorCode.unsupported_version


class UploadExpiredError(InvalidRequestError):
    """Fields: `object`, `horizon_ms`."""


class CorruptDataError(StreamlogError):
    error_code = ErrorCode.corrupt_message


class CorruptBatchError(CorruptDataError):
    """Fields, as far as they are known where it is found: `file`, `position` (bytes), `offset` (base offset),
    `next_offset` (where the log continues behind it)."""


class CorruptObjectError(CorruptDataError):
    """Fields: `object`, and `position` (bytes) where it is known."""


class InconsistentMetadataError(CorruptDataError):
    pass


class UnsupportedFormatError(CorruptDataError):
    error_code = ErrorCode.unsupported_for_message_format


class ProducerError(StreamlogError):
    pass


class OutOfOrderSequenceError(ProducerError):
    error_code = ErrorCode.out_of_order_sequence_number


class ProducerFencedError(ProducerError):
    error_code = ErrorCode.invalid_producer_epoch


class CoordinatorFencedError(ProducerError):
    error_code = ErrorCode.transaction_coordinator_fenced


class InvalidProducerIdMappingError(ProducerError):
    error_code = ErrorCode.invalid_producer_id_mapping


class InvalidTransactionStateError(ProducerError):
    error_code = ErrorCode.invalid_txn_state


class ContradictingMarkerError(InvalidTransactionStateError):
    """Fields: `partition`, `producer_id`."""


class ConcurrentTransactionsError(ProducerError):
    error_code = ErrorCode.concurrent_transactions


class CoordinatorError(StreamlogError):
    error_code = ErrorCode.coordinator_not_available


class CoordinatorLoadingError(CoordinatorError):
    error_code = ErrorCode.coordinator_load_in_progress


class NotCoordinatorError(CoordinatorError):
    error_code = ErrorCode.not_coordinator


class CoordinatorNotAvailableError(CoordinatorError):
    pass


class ReplicaError(StreamlogError):
    """`error_code` of the instance is Kafka's."""

    error_code = ErrorCode.not_leader_or_follower


class StorageError(StreamlogError):
    error_code = ErrorCode.kafka_storage_error


class DiskFullError(StorageError):
    pass


class TooManyOpenFilesError(StorageError):
    pass


class DirectoryLockedError(StorageError):
    pass


class DirectoryReadOnlyError(StorageError):
    pass


class DirectoryFormatError(StorageError):
    pass


class ObjectStoreError(StorageError):
    """Fields, as far as they are known: `url` of the log, `object`."""


class ObjectNotFoundError(ObjectStoreError):
    pass


class ObjectPreconditionError(ObjectStoreError):
    pass


class ObjectThrottledError(ObjectStoreError):
    pass


class ObjectPermissionError(ObjectStoreError):
    pass


class ObjectOutcomeUnknownError(ObjectStoreError):
    pass


class ObjectStoreUnavailableError(ObjectStoreError):
    pass


class ObjectStoreUnsuitableError(ObjectStoreError):
    pass


class ObjectLogFormatError(ObjectStoreError):
    pass


class RemoteError(StreamlogError):
    error_code = ErrorCode.network_exception


class BrokerUnavailableError(RemoteError):
    """Fields, as far as they are known: `address` (host:port)."""


class RequestTimedOutError(RemoteError):
    error_code = ErrorCode.request_timed_out


class AuthenticationError(RemoteError):
    error_code = ErrorCode.sasl_authentication_failed


class AuthorizationError(RemoteError):
    """`error_code` of the instance says what was not allowed: topic, group, cluster, transactional id."""

    error_code = ErrorCode.cluster_authorization_failed


class UnsupportedVersionError(RemoteError):
    error_code = ErrorCode.unsupported_version


class MalformedMessageError(RemoteError):
    error_code = ErrorCode.invalid_request


class QuorumError(RemoteError):
    """Following on would do harm: another cluster, no permission, logs that contradict each other."""


class PartlyEndedError(RemoteError):
    """Fields: `transactional_ids` of those that could not be ended. What was decided stands."""

    error_code = ErrorCode.invalid_txn_state


class BrokerError(RemoteError):
    """`error_code` of the instance is what the broker answered."""
