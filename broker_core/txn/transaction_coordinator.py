"""The transaction coordinator: decides requests for transactional ids and plans their records.

Each `plan_*` looks at the state and returns records and a reply; `replay` alone changes it (`coordinator.contract`).
The state is the newest record of each transactional id. Time and new producer ids are arguments.

    init ──► add partitions ──► (the producer writes) ──► end: Prepare* ──► markers in every partition ──► Complete*

Ending several transactions is one plan, checked as a whole, whose records are one batch: all are decided or none. From
then on `ending()` lists them, until markers are written and `plan_complete` is recorded.

The rules are Kafka's with transactions version 2:

    nothing is known of the id          UnknownTransactionalIdError
    another producer id                 InvalidProducerIdMappingError
    another epoch                       ProducerFencedError
    the epoch before the last end       a retry of that end: accepted if it goes the same way, else
                                        InvalidTransactionStateError
    commit where nothing is open        InvalidTransactionStateError
    abort where nothing is open         accepted: bumps the epoch, with no marker to write
    while it is being ended             ConcurrentTransactionsError

A broker has older clients too, whose ends bump no epoch (`client_version` below 2): the end that was is their retry,
and an abort where nothing is open is refused. Producers may ask for their next epoch: `producer_renewal`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from broker_core.cluster import TransactionalProducer, TransactionDescription
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.model.exceptions import (
    InvalidProducerIdMappingError,
    InvalidRequestError,
    InvalidTransactionStateError,
    UnknownTransactionalIdError,
)
from broker_core.model.identifiers import NO_PRODUCER_ID, NO_TIMESTAMP, ProducerIdAndEpoch, TopicPartition
from broker_core.model.limits import (
    MAX_EXPIRED_ID_COUNT,
    MAX_TRANSACTION_TIMEOUT_MS,
    TRANSACTIONAL_ID_EXPIRATION_MS,
)
from broker_core.model.transaction_state import TransactionState
from broker_core.txn import transaction_steps as steps
from broker_core.txn.producer_checks import (
    check_epoch,
    check_not_ending,
    check_owner,
    check_readable,
    check_transactional_id,
    checked_timeout_ms,
    is_repeated_end,
)
from broker_core.txn.producer_renewal import Renewal, check_expected_id, is_repeated_renewal
from broker_core.txn.transaction_expiry import expiry_ms, has_timeout, is_expired, is_idle
from broker_core.txn.transaction_replies import EndingTransaction, EndReply, InitReply
from broker_core.txn.txn_records import TransactionRecord, TransactionValue
from broker_core.txn.txn_states import COMMITS, OPEN_OR_ENDING, PREPARED


class TransactionCoordinator:
    """The coordinator of one partition of `__transaction_state`. `coordinator_epoch` is that partition's leader epoch.

    `longest_timeout_ms`: the largest timeout of a producer (transaction.max.timeout.ms). `id_expiration_ms`: how long
    an unused id is kept (transactional.id.expiration.ms).
    """

    def __init__(
        self,
        *,
        coordinator_epoch: int = 0,
        longest_timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS,
        id_expiration_ms: int = TRANSACTIONAL_ID_EXPIRATION_MS,
    ) -> None:
        self._coordinator_epoch = coordinator_epoch
        self._id_expiration_ms = id_expiration_ms
        self._longest_timeout_ms = longest_timeout_ms
        self._values: dict[str, TransactionValue] = {}
        self._ids_by_producer: dict[int, str] = {}
        self._ongoing: set[str] = set()
        self._prepared: set[str] = set()
        self._unreadable: set[str] = set()

    # -- queries --

    def ending(self) -> tuple[EndingTransaction, ...]:
        """All transactions that are decided and not complete, ordered by id."""
        return tuple(self._ending(key, self._values[key]) for key in sorted(self._prepared))

    def next_expiry_ms(self) -> int | None:
        """When the next open transaction times out; None: no transaction is open."""
        open_values = (self._values[key] for key in self._ongoing)
        return min((expiry_ms(value) for value in open_values if has_timeout(value)), default=None)

    def describe(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
        """By id; unknown ids are missing."""
        return {key: _description(key, self._values[key]) for key in transactional_ids if key in self._values}

    def list_transactions(
        self, *, prefix: str = "", states: Collection[TransactionState] | None = None
    ) -> tuple[TransactionDescription, ...]:
        """The transactions whose id begins with `prefix`, ordered by id."""
        return tuple(
            _description(key, value)
            for key, value in sorted(self._values.items())
            if key.startswith(prefix) and (states is None or value.state in states)
        )

    def find(self, is_wanted: Callable[[str, TransactionValue], bool]) -> dict[str, TransactionValue]:
        """By id, ordered."""
        return {key: value for key, value in sorted(self._values.items()) if is_wanted(key, value)}

    def value(self, transactional_id: str) -> TransactionValue | None:
        """The state of the id. Raises UnsupportedFormatError."""
        check_readable(transactional_id, self._unreadable)
        return self._values.get(transactional_id)

    def partitions_outside(
        self, producer: TransactionalProducer, partitions: Iterable[TopicPartition]
    ) -> frozenset[TopicPartition]:
        """The partitions of these that are not in the producer's open transaction.

        Raises UnknownTransactionalIdError, InvalidProducerIdMappingError, ProducerFencedError,
        ConcurrentTransactionsError.
        """
        value = self._known(producer.transactional_id)
        check_owner(producer, value)
        check_not_ending(producer.transactional_id, value)
        return frozenset(partitions) - frozenset(value.partitions)

    def check_append(self, producer_id: int, producer_epoch: int, partition: TopicPartition) -> None:
        """Whether a transactional batch may be written now (KIP-890): it must belong to an open transaction.

        Raises InvalidProducerIdMappingError, ProducerFencedError, InvalidTransactionStateError when none is open or the
        partition was not added, ConcurrentTransactionsError for an id that counts when the last one has ended.
        """
        transactional_id = self._ids_by_producer.get(producer_id)
        if transactional_id is None:
            raise InvalidProducerIdMappingError(
                f"{partition}: producer {producer_id} writes in a transaction, but no transactional id has this"
                " producer id, or it expired: call init_producer with a transactional id"
            )
        value = self._values[transactional_id]
        if producer_id != value.producer_id:
            check_not_ending(transactional_id, value)
        check_epoch(transactional_id, value, producer_epoch)
        if value.state is not TransactionState.ONGOING:
            raise InvalidTransactionStateError(
                f"{partition}: producer {producer_id} writes in a transaction, but transactional id"
                f" {transactional_id!r} has none open ({value.state.label}): add the partition to it first"
            )
        if partition not in value.partitions:
            raise InvalidTransactionStateError(
                f"{partition} was not added to the open transaction of transactional id {transactional_id!r}, which"
                " writes to it"
            )

    # -- plans --

    def plan_init_producer(
        self,
        transactional_id: str,
        *,
        timeout_ms: int,
        is_two_phase: bool,
        new_producer_id: Callable[[], int],
        now_ms: int,
        expected: ProducerIdAndEpoch | None = None,
        last_renewal: Renewal | None = None,
    ) -> CoordinatorResult[TransactionRecord, InitReply]:
        """A new producer instance takes over and fences the last one, whose open transaction goes to PrepareAbort.

        `expected`: the requesting producer is this one and asks for its next epoch; `last_renewal` is the answer to the
        last such request. `new_producer_id` is called at most once. Raises InvalidRequestError for an id that cannot be
        stored, InvalidTransactionTimeoutError, ProducerFencedError for an expected producer that was fenced.
        """
        check_transactional_id(transactional_id)
        check_readable(transactional_id, self._unreadable)
        stored_timeout_ms = checked_timeout_ms(
            timeout_ms, is_two_phase=is_two_phase, longest_ms=self._longest_timeout_ms
        )
        value = self._values.get(transactional_id)
        if expected is not None and value is not None:
            check_expected_id(transactional_id, value, expected)
        if value is None:
            initialised = steps.first(new_producer_id(), timeout_ms=stored_timeout_ms, now_ms=now_ms)
        elif value.state in PREPARED:
            return CoordinatorResult(reply=InitReply(producer=None))
        elif value.state is TransactionState.ONGOING:
            return CoordinatorResult(records=(_fence(transactional_id, value, now_ms),), reply=InitReply(producer=None))
        elif expected and is_repeated_renewal(transactional_id, value, expected, last_renewal):
            initialised = steps.kept(value, timeout_ms=stored_timeout_ms, now_ms=now_ms)
        elif steps.is_exhausted(value):
            initialised = steps.rotated(value, new_producer_id(), timeout_ms=stored_timeout_ms, now_ms=now_ms)
        else:
            initialised = steps.initialised(value, timeout_ms=stored_timeout_ms, now_ms=now_ms)
        producer = ProducerIdAndEpoch(producer_id=initialised.producer_id, producer_epoch=initialised.producer_epoch)
        return CoordinatorResult(
            records=(TransactionRecord(transactional_id=transactional_id, value=initialised),),
            reply=InitReply(producer=producer),
        )

    def plan_add_partitions(
        self,
        producer: TransactionalProducer,
        partitions: Collection[TopicPartition],
        *,
        now_ms: int,
        client_version: int = steps.CLIENT_VERSION,
    ) -> CoordinatorResult[TransactionRecord, None]:
        """Opens the producer's transaction if it is not open. No records if all the partitions are in it already.

        Raises UnknownTransactionalIdError, InvalidProducerIdMappingError, ProducerFencedError,
        ConcurrentTransactionsError.
        """
        value = self._known(producer.transactional_id)
        check_owner(producer, value)
        check_not_ending(producer.transactional_id, value)
        if set(partitions) <= set(value.partitions):
            return CoordinatorResult(reply=None)
        opened = steps.with_partitions(value, partitions, now_ms=now_ms, client_version=client_version)
        record = TransactionRecord(transactional_id=producer.transactional_id, value=opened)
        return CoordinatorResult(records=(record,), reply=None)

    def plan_end(
        self,
        producers: Sequence[TransactionalProducer],
        *,
        commit: bool,
        new_producer_id: Callable[[], int],
        now_ms: int,
        client_version: int = steps.CLIENT_VERSION,
    ) -> CoordinatorResult[TransactionRecord, tuple[EndingTransaction, ...]]:
        """Decides all these transactions alike, or raises and decides none.

        A transaction that its producer has already ended in the same way gives no record. The reply names those whose
        markers are owed. `new_producer_id` is called once for each producer that ends with the last epoch. Raises
        UnknownTransactionalIdError, InvalidProducerIdMappingError, ProducerFencedError, InvalidTransactionStateError,
        ConcurrentTransactionsError, and InvalidRequestError for a transactional id that is named twice.
        """
        if len({producer.transactional_id for producer in producers}) < len(producers):
            raise InvalidRequestError("a transactional id is given twice among the transactions to end")
        judged: list[tuple[str, TransactionValue, bool]] = []
        for producer in producers:
            value = self._known(producer.transactional_id)
            was_ended = is_repeated_end(producer, value, commit=commit, client_version=client_version)
            judged.append((producer.transactional_id, value, was_ended))
        target = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
        records: list[TransactionRecord] = []
        endings: list[EndingTransaction] = []
        for transactional_id, value, was_ended in judged:
            decided = value
            if not was_ended:
                bumps = client_version >= steps.CLIENT_VERSION
                next_id = new_producer_id() if bumps and steps.is_exhausted(value) else NO_PRODUCER_ID
                decided = steps.prepared(
                    value, target, next_producer_id=next_id, now_ms=now_ms, client_version=client_version
                )
                records.append(TransactionRecord(transactional_id=transactional_id, value=decided))
            if decided.state in PREPARED:
                endings.append(self._ending(transactional_id, decided))
        return CoordinatorResult(records=tuple(records), reply=tuple(endings))

    def plan_end_one(
        self,
        producer: TransactionalProducer,
        *,
        commit: bool,
        new_producer_id: Callable[[], int],
        now_ms: int,
        client_version: int,
    ) -> CoordinatorResult[TransactionRecord, EndReply]:
        """Like `plan_end`, but as in Kafka a retry while markers are owed gets a retriable error."""
        planned = self.plan_end(
            (producer,), commit=commit, new_producer_id=new_producer_id, now_ms=now_ms, client_version=client_version
        )
        decided = planned.records[0].value if planned.records else self._known(producer.transactional_id)
        assert decided is not None, producer
        if not planned.records:
            check_not_ending(producer.transactional_id, decided)
        changes_id = decided.next_producer_id != NO_PRODUCER_ID
        following = ProducerIdAndEpoch(
            producer_id=decided.next_producer_id if changes_id else decided.producer_id,
            producer_epoch=0 if changes_id else decided.producer_epoch,
        )
        ending = planned.reply[0] if planned.reply else None
        return CoordinatorResult(records=planned.records, reply=EndReply(producer=following, ending=ending))

    def plan_complete(
        self, endings: Iterable[EndingTransaction], *, now_ms: int
    ) -> CoordinatorResult[TransactionRecord, None]:
        """All markers of these are written. Ids that are no longer being ended were completed by another process."""
        records = tuple(
            TransactionRecord(
                transactional_id=ending.transactional_id,
                value=steps.completed(self._values[ending.transactional_id], now_ms=now_ms),
            )
            for ending in endings
            if self._is_ending(ending)
        )
        return CoordinatorResult(records=records, reply=None)

    def plan_abort(
        self, transactional_id: str, *, now_ms: int
    ) -> CoordinatorResult[TransactionRecord, EndingTransaction | None]:
        """Fences the producer and aborts its open transaction. A decision that was made already stays.

        The reply is the transaction whose markers are owed; None: none was open. Raises UnknownTransactionalIdError.
        """
        value = self._known(transactional_id)
        if value.state in PREPARED:
            return CoordinatorResult(reply=self._ending(transactional_id, value))
        if value.state is not TransactionState.ONGOING:
            return CoordinatorResult(reply=None)
        record = _fence(transactional_id, value, now_ms)
        assert record.value is not None
        return CoordinatorResult(records=(record,), reply=self._ending(transactional_id, record.value))

    def plan_expire(self, now_ms: int) -> CoordinatorResult[TransactionRecord, tuple[EndingTransaction, ...]]:
        """Fences producers and aborts transactions that exceeded their timeout; forgets ids that were idle for too
        long. At most `MAX_EXPIRED_ID_COUNT` of each per call: a caller that gets so many calls again. The reply names
        the aborted transactions."""
        expired = sorted(key for key in self._ongoing if is_expired(self._values[key], now_ms))
        fenced = tuple(_fence(key, self._values[key], now_ms) for key in expired[:MAX_EXPIRED_ID_COUNT])
        idle = sorted(
            key
            for key, value in self._values.items()
            if value.state not in OPEN_OR_ENDING
            and is_idle(key, value, now_ms, id_expiration_ms=self._id_expiration_ms)
        )
        forgotten = tuple(TransactionRecord(transactional_id=key) for key in idle[:MAX_EXPIRED_ID_COUNT])
        endings = tuple(self._ending(record.transactional_id, record.value) for record in fenced if record.value)
        return CoordinatorResult(records=fenced + forgotten, reply=endings)

    # -- replay --

    def replay(self, record: TransactionRecord) -> None:
        """Applies any record of the log."""
        key, value = record.transactional_id, record.value
        previous = self._values.pop(key, None)
        for producer_id in () if previous is None else (previous.producer_id, previous.next_producer_id):
            if self._ids_by_producer.get(producer_id) == key:
                del self._ids_by_producer[producer_id]
        self._ongoing.discard(key)
        self._prepared.discard(key)
        self._unreadable.discard(key)
        if record.is_unreadable:
            self._unreadable.add(key)
        if value is None:
            return
        self._values[key] = value
        self._ids_by_producer |= dict.fromkeys({value.producer_id, value.next_producer_id} - {NO_PRODUCER_ID}, key)
        if value.state is TransactionState.ONGOING:
            self._ongoing.add(key)
        elif value.state in PREPARED:
            self._prepared.add(key)

    def _known(self, transactional_id: str) -> TransactionValue:
        check_readable(transactional_id, self._unreadable)
        value = self._values.get(transactional_id)
        if value is None:
            raise UnknownTransactionalIdError(
                f"Transactional id {transactional_id!r} is unknown: it was never initialized, or it expired"
                f" after {self._id_expiration_ms} ms without a transaction",
                transactional_id=transactional_id,
            )
        return value

    def _is_ending(self, ending: EndingTransaction) -> bool:
        value = self._values.get(ending.transactional_id)
        return value is not None and value.state in PREPARED and self._ending(ending.transactional_id, value) == ending

    def _ending(self, transactional_id: str, value: TransactionValue) -> EndingTransaction:
        return EndingTransaction(
            transactional_id=transactional_id,
            producer_id=value.producer_id,
            producer_epoch=value.producer_epoch,
            is_commit=value.state in COMMITS,
            partitions=value.partitions,
            coordinator_epoch=self._coordinator_epoch,
            is_epoch_bumped=value.client_version >= steps.CLIENT_VERSION,
        )


def _fence(transactional_id: str, value: TransactionValue, now_ms: int) -> TransactionRecord:
    aborted = steps.prepared(value, TransactionState.PREPARE_ABORT, now_ms=now_ms)
    return TransactionRecord(transactional_id=transactional_id, value=aborted)


def _description(transactional_id: str, value: TransactionValue) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=transactional_id,
        state=value.state,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.timeout_ms,
        start_time_ms=value.start_ms if value.state in OPEN_OR_ENDING else NO_TIMESTAMP,
        partitions=value.partitions,
    )
