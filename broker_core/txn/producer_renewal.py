"""KIP-360: a producer that asks for its next epoch names the one it has, so that only the newest instance gets one.

    names nothing                        a new instance: takes over and fences the previous one
    the id and epoch that are current    goes on with the next epoch
    those before the last step           a repeated request whose answer was lost: gets what was given then
    anything else                        ProducerFencedError

What is given in answer to the last such request is not in the log, as it is not in Kafka's: the process that runs the
coordinator remembers it (`Renewal`), and after a restart the repeated request is refused. An end by transactions
version 2 is a step too, and stands in the log.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker_core.model.exceptions import ProducerFencedError
from broker_core.model.identifiers import ProducerIdAndEpoch
from broker_core.txn.producer_checks import is_next_producer_id
from broker_core.txn.transaction_steps import CLIENT_VERSION, LAST_GIVEN_EPOCH
from broker_core.txn.txn_records import TransactionValue
from broker_core.txn.txn_states import COMPLETION

_COMPLETE = frozenset(COMPLETION.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """The producer that `asked` for the next epoch is `given` from then on."""

    asked: ProducerIdAndEpoch
    given: ProducerIdAndEpoch


def check_expected_id(transactional_id: str, value: TransactionValue, expected: ProducerIdAndEpoch) -> None:
    """Where no epoch is left of an id, the one before and the one that follows are right too. Raises
    ProducerFencedError."""
    if is_next_producer_id(expected.producer_id, value):
        return
    is_rotated = expected.producer_id == value.previous_producer_id and expected.producer_epoch >= LAST_GIVEN_EPOCH
    if expected.producer_id != value.producer_id and not is_rotated:
        raise ProducerFencedError(
            f"transactional id {transactional_id!r} has the producer id {value.producer_id}, not"
            f" {expected.producer_id}: a newer instance took over"
        )


def is_repeated_renewal(
    transactional_id: str, value: TransactionValue, expected: ProducerIdAndEpoch, last: Renewal | None
) -> bool:
    """Whether the producer was given its next epoch already. The id is checked, nothing is open or being ended.

    Raises ProducerFencedError for one that is neither the newest instance nor was it a step ago.
    """
    current = ProducerIdAndEpoch(producer_id=value.producer_id, producer_epoch=value.producer_epoch)
    if expected == current:
        return False
    if last == Renewal(asked=expected, given=current) or _was_ended_by(value, expected):
        return True
    raise ProducerFencedError(
        f"transactional id {transactional_id!r}: producer {expected.producer_id} has epoch"
        f" {expected.producer_epoch}, but the current epoch is {value.producer_epoch}: a newer instance took over"
    )


def _was_ended_by(value: TransactionValue, expected: ProducerIdAndEpoch) -> bool:
    """The last transaction was this producer's, and its end bumped the epoch."""
    if value.state not in _COMPLETE or value.client_version < CLIENT_VERSION:
        return False
    if expected.producer_id == value.producer_id:
        return expected.producer_epoch == value.producer_epoch - 1
    return value.producer_epoch == 0
