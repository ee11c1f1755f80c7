"""AddPartitionsToTxn (24), versions 0 to 5: partitions become part of a producer's transaction, all of them or none.

Clients use versions up to 3, for one transaction; from 4 on it is a request among brokers, for several, and may ask
whether the partitions are in it (`verify_only`). One refused or unknown partition refuses the others with
OPERATION_NOT_ATTEMPTED. Internal topics are refused to all users; a broker adds the one of committed offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.cluster import TransactionalProducer
from broker_core.handlers.call import Call
from broker_core.handlers.transaction_errors import transaction_error
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_name import CONSUMER_OFFSETS_TOPIC, is_internal_topic
from broker_core.txn.transaction_steps import CLIENT_VERSION, OLD_CLIENT_VERSION

_FIRST_VERSION_OF_BROKERS: Final = 4
_FIRST_VERSION_WITH_FENCED: Final = 2

Errors = Mapping[TopicPartition, ErrorCode]


def handle(call: Call) -> None:
    if call.version >= _FIRST_VERSION_OF_BROKERS:
        _handle_several(call)
        return
    message = call.message
    producer = TransactionalProducer(
        transactional_id=message.v3_and_below_transactional_id,
        producer_id=message.v3_and_below_producer_id,
        producer_epoch=message.v3_and_below_producer_epoch,
    )
    topics = message.v3_and_below_topics

    def respond(errors: Errors) -> None:
        call.respond(results_by_topic_v3_and_below=_topic_results(topics, errors))

    if not call.is_allowed(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, producer.transactional_id):
        respond(dict.fromkeys(_partitions_of(topics), ErrorCode.transactional_id_authorization_failed))
        return
    _add(call, producer, topics, client_version=OLD_CLIENT_VERSION, checks_access=True, on_errors=respond)


def _handle_several(call: Call) -> None:
    if not call.is_allowed(Operation.CLUSTER_ACTION, ResourceType.CLUSTER):
        call.respond(error_code=ErrorCode.cluster_authorization_failed)
        return
    transactions = call.message.transactions
    answers: dict[int, Errors] = {}

    def answer(slot: int, errors: Errors) -> None:
        answers[slot] = errors
        if len(answers) == len(transactions):
            call.respond(
                results_by_transaction=[
                    {
                        "transactional_id": each.transactional_id,
                        "topic_results": _topic_results(each.topics, answers[number]),
                    }
                    for number, each in enumerate(transactions)
                ]
            )

    if not transactions:
        call.respond()
    for slot, each in enumerate(transactions):
        producer = TransactionalProducer(
            transactional_id=each.transactional_id, producer_id=each.producer_id, producer_epoch=each.producer_epoch
        )

        def on_errors(errors: Errors, slot: int = slot) -> None:
            answer(slot, errors)

        if each.verify_only:
            _verify(call, producer, each.topics, on_errors)
        else:
            _add(call, producer, each.topics, client_version=CLIENT_VERSION, checks_access=False, on_errors=on_errors)


def _add(
    call: Call,
    producer: TransactionalProducer,
    topics: Any,
    *,
    client_version: int,
    checks_access: bool,
    on_errors: Callable[[Errors], None],
) -> None:
    partitions = _partitions_of(topics)
    refused = _refused(call, topics, checks_access=checks_access)
    if refused:
        on_errors({**dict.fromkeys(partitions, ErrorCode.operation_not_attempted), **refused})
        return
    if not producer.transactional_id:
        on_errors(dict.fromkeys(partitions, ErrorCode.invalid_request))
        return
    call.node.transactions.of(producer.transactional_id).add_partitions(
        producer,
        partitions,
        client_version=client_version,
        on_done=lambda: on_errors({}),
        on_error=lambda error: on_errors(dict.fromkeys(partitions, _error(call, error))),
    )


def _verify(call: Call, producer: TransactionalProducer, topics: Any, on_errors: Callable[[Errors], None]) -> None:
    partitions = _partitions_of(topics)
    if not producer.transactional_id:
        on_errors(dict.fromkeys(partitions, ErrorCode.invalid_request))
        return
    call.node.transactions.of(producer.transactional_id).partitions_outside(
        producer,
        partitions,
        on_reply=lambda outside: on_errors(dict.fromkeys(outside, ErrorCode.transaction_abortable)),
        on_error=lambda error: on_errors(dict.fromkeys(partitions, _error(call, error))),
    )


def _error(call: Call, error: StreamlogError) -> ErrorCode:
    return transaction_error(error, knows_fenced=call.version >= _FIRST_VERSION_WITH_FENCED)


def _refused(call: Call, topics: Any, *, checks_access: bool) -> dict[TopicPartition, ErrorCode]:
    refused: dict[TopicPartition, ErrorCode] = {}
    for topic in topics:
        known = call.node.topics.image.topics.get(topic.name)
        is_committed_offsets = topic.name == CONSUMER_OFFSETS_TOPIC and not checks_access
        is_refused = (is_internal_topic(topic.name) and not is_committed_offsets) or (
            checks_access and not call.is_allowed(Operation.WRITE, ResourceType.TOPIC, topic.name)
        )
        for number in topic.partitions:
            if is_refused:
                refused[TopicPartition(topic.name, number)] = ErrorCode.topic_authorization_failed
            elif known is None or not 0 <= number < known.partition_count:
                refused[TopicPartition(topic.name, number)] = ErrorCode.unknown_topic_or_partition
    return refused


def _partitions_of(topics: Any) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in topics for number in topic.partitions]


def _topic_results(topics: Any, errors: Errors) -> list[dict[str, Any]]:
    return [
        {
            "name": topic.name,
            "results_by_partition": [
                {
                    "partition_index": number,
                    "partition_error_code": errors.get(TopicPartition(topic.name, number), ErrorCode.none),
                }
                for number in topic.partitions
            ],
        }
        for topic in topics
    ]
