"""A broker's error codes as exceptions, with advice; which of them are worth a retry."""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.model.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BrokerError,
    BrokerUnavailableError,
    ConcurrentTransactionsError,
    CorruptBatchError,
    GroupNotEmptyError,
    InvalidConfigError,
    InvalidGroupError,
    InvalidPartitionsError,
    InvalidProducerIdMappingError,
    InvalidRecordError,
    InvalidRequestError,
    InvalidTimestampError,
    InvalidTopicNameError,
    InvalidTransactionStateError,
    InvalidTransactionTimeoutError,
    OffsetMetadataTooLargeError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    PolicyViolationError,
    ProducerFencedError,
    RecordTooLargeError,
    RequestTimedOutError,
    StreamlogError,
    TopicExistsError,
    UnknownGroupError,
    UnknownTransactionalIdError,
    UnsupportedVersionError,
)

_KINDS: Final[dict[ErrorCode, type[StreamlogError]]] = {
    ErrorCode.offset_out_of_range: OffsetOutOfRangeError,
    ErrorCode.corrupt_message: CorruptBatchError,
    ErrorCode.message_too_large: RecordTooLargeError,
    ErrorCode.record_list_too_large: RecordTooLargeError,
    ErrorCode.invalid_record: InvalidRecordError,
    ErrorCode.invalid_timestamp: InvalidTimestampError,
    ErrorCode.invalid_topic_exception: InvalidTopicNameError,
    ErrorCode.topic_already_exists: TopicExistsError,
    ErrorCode.invalid_partitions: InvalidPartitionsError,
    ErrorCode.invalid_config: InvalidConfigError,
    ErrorCode.policy_violation: PolicyViolationError,
    ErrorCode.invalid_request: InvalidRequestError,
    ErrorCode.out_of_order_sequence_number: OutOfOrderSequenceError,
    ErrorCode.unknown_producer_id: OutOfOrderSequenceError,
    ErrorCode.invalid_producer_epoch: ProducerFencedError,
    ErrorCode.producer_fenced: ProducerFencedError,
    ErrorCode.invalid_producer_id_mapping: InvalidProducerIdMappingError,
    ErrorCode.invalid_txn_state: InvalidTransactionStateError,
    ErrorCode.transaction_abortable: InvalidTransactionStateError,
    ErrorCode.concurrent_transactions: ConcurrentTransactionsError,
    ErrorCode.invalid_transaction_timeout: InvalidTransactionTimeoutError,
    ErrorCode.transactional_id_not_found: UnknownTransactionalIdError,
    ErrorCode.invalid_group_id: InvalidGroupError,
    ErrorCode.group_id_not_found: UnknownGroupError,
    ErrorCode.non_empty_group: GroupNotEmptyError,
    # A commit by a client that is not a member of a group with members.
    ErrorCode.unknown_member_id: GroupNotEmptyError,
    ErrorCode.illegal_generation: GroupNotEmptyError,
    ErrorCode.rebalance_in_progress: GroupNotEmptyError,
    ErrorCode.offset_metadata_too_large: OffsetMetadataTooLargeError,
    ErrorCode.request_timed_out: RequestTimedOutError,
    ErrorCode.unsupported_version: UnsupportedVersionError,
    ErrorCode.sasl_authentication_failed: AuthenticationError,
    ErrorCode.unsupported_sasl_mechanism: AuthenticationError,
    ErrorCode.illegal_sasl_state: AuthenticationError,
    ErrorCode.topic_authorization_failed: AuthorizationError,
    ErrorCode.group_authorization_failed: AuthorizationError,
    ErrorCode.cluster_authorization_failed: AuthorizationError,
    ErrorCode.transactional_id_authorization_failed: AuthorizationError,
}

_NEVER_RETRIED: Final = (CorruptBatchError, AuthenticationError)
"""Kafka calls a corrupt message retriable; ours had a valid checksum when sent, so a retry would fail in the same
way."""

_BUSY: Final = frozenset(
    {
        ErrorCode.concurrent_transactions,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.unstable_offset_commit,
        ErrorCode.throttling_quota_exceeded,
    }
)
"""Errors of the right broker that a short wait may resolve."""


_ADVICE: Final[dict[ErrorCode, str]] = {
    ErrorCode.message_too_large: "the topic setting max.message.bytes is lower",
    ErrorCode.record_list_too_large: "the topic setting segment.bytes is lower",
    ErrorCode.invalid_transaction_timeout: "the broker setting transaction.max.timeout.ms is lower",
    ErrorCode.offset_metadata_too_large: "the broker setting offset.metadata.max.bytes is lower",
    ErrorCode.not_enough_replicas: "fewer replicas are in sync than the topic setting min.insync.replicas requires",
    ErrorCode.not_enough_replicas_after_append: "it was appended, but fewer replicas are in sync than the topic setting"
    " min.insync.replicas requires",
    ErrorCode.topic_authorization_failed: "the user is not authorized for this operation on the topic",
    ErrorCode.group_authorization_failed: "the user is not authorized for this operation on the group",
    ErrorCode.transactional_id_authorization_failed: "the user is not authorized to use the transactional id",
    ErrorCode.cluster_authorization_failed: "the user is not authorized for this operation on the cluster",
    ErrorCode.invalid_producer_epoch: "another producer took over, or the transaction timed out",
    ErrorCode.producer_fenced: "another producer took over, or the transaction timed out",
    ErrorCode.unknown_member_id: "the group has members, and only they may commit its offsets",
    ErrorCode.non_empty_group: "the group has members",
    ErrorCode.unsupported_version: "the broker does not support this version of the request",
}


def broker_error(code: ErrorCode, what: str, message: str | None = None, **fields: Any) -> StreamlogError:
    """The exception for a code. `what` describes the request, `message` is the broker's own text if it sent one."""
    kind = _KINDS.get(code, BrokerError)
    advice = f" ({_ADVICE[code]})" if code in _ADVICE else ""
    reason = message or f"the broker answered {code.name.upper()}{advice}"
    error = kind(f"{what}: {reason}", **fields)
    error.error_code = code
    error.fields["error_code"] = code
    return error


def is_worth_a_retry(error: StreamlogError) -> bool:
    """Whether the same request may succeed later."""
    if isinstance(error, _NEVER_RETRIED):
        return False
    if isinstance(error, BrokerUnavailableError | RequestTimedOutError):
        return True
    return "error_code" in error.fields and error.error_code.retriable


def is_about_the_route(error: StreamlogError) -> bool:
    """Whether the request may have gone to the wrong broker."""
    return error.error_code not in _BUSY
