"""The driver's side of one sink: take over, decide, abandon, end leftovers.

    take_over   when a batch is planned: fences every older driver and ends what its tasks left open
    decide      when all tasks are done: the decision and all their transactions, in one
    publish     the same for a single write, which stores no decision
    abandon     when a task failed: nothing of the batch becomes readable

A driver that was fenced and does not know it yet must do no harm. So transactions are ended by producer id and epoch,
never by transactional id alone: ids are reused from batch to batch, epochs are not. And leftovers are listed first,
then the driver checks that it is still the current one, then it ends them: a transaction that was open while it was
current does not belong to a newer driver. `TaskTransaction.add_partitions` refuses what is opened after the list.

Where transactions are not ended together (at brokers) a driver may die between the decision and the last end. The next
driver first commits the rest of that batch, by the ids in the decision (`finish_decided`). An open transaction with one
of those ids cannot belong to a later batch, since batches alternate between two sets of ids: those of batch n are used
again by batch n + 2, which begins after batch n + 1 is decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from broker_core.cluster import Cluster, TransactionalProducer, TransactionDescription
from broker_core.model.exceptions import (
    ProducerError,
    StorageError,
    StreamlogError,
    UnknownTransactionalIdError,
)
from broker_core.model.identifiers import ProducerIdAndEpoch
from broker_core.model.transaction_state import TransactionState
from spark_streamlog.errors import ConditionError
from spark_streamlog.exactly_once.commit_protocol import BatchFacts
from spark_streamlog.exactly_once.decision import (
    Decision,
    encode_decision,
    find_decision,
    last_decision,
    next_turn,
)
from spark_streamlog.exactly_once.sink_identity import DECISION_PARTITION, SinkIdentity
from spark_streamlog.exactly_once.steps import Step, log_step, logger
from spark_streamlog.exactly_once.task_transaction import (
    OpenTransaction,
    ids_of,
    is_open,
    lost_transaction,
    new_producer,
    require_current,
)
from spark_streamlog.sink_conditions import sink_error

_ABORTED: Final = frozenset({TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT})


class SinkDriver:
    """The driver's side of `commit_protocol`, by transactions.

    All state between the calls is in the log and in `driver`, which `take_over` returns.

    If planning does not know the sink, `driver` is None in the later calls: then `decide` takes over, and of two
    drivers the first to decide commits the batch.
    """

    def __init__(self, cluster: Cluster, identity: SinkIdentity, *, now_ms: Callable[[], int]) -> None:
        self._cluster = cluster
        self._identity = identity
        self._now_ms = now_ms

    def take_over(self) -> TransactionalProducer:
        """Called before the tasks start. The next call of `decide` needs the returned value."""
        log_step(Step.PLANNING, driver_id=self._identity.driver_id)
        driver = self._fence_older_drivers()
        self._finish_decided()
        self._abort_leftovers(lambda: self._is_current(driver))
        log_step(Step.PLANNED, **ids_of(driver))
        return driver

    def commit(
        self, facts: BatchFacts, written: Sequence[OpenTransaction], *, driver: TransactionalProducer | None
    ) -> None:
        """Decides a batch, or publishes a single write."""
        if facts.batch is None:
            assert driver is not None, "a single write's planning always takes over"
            self.publish(written, driver=driver)
            return
        decision = Decision(
            batch=facts.batch,
            task_count=facts.task_count,
            attempts={one.task: one.attempt for one in written},
            input_fingerprint=facts.input_fingerprint,
        )
        self.decide(decision, written, driver=driver)

    def decide(
        self, decision: Decision, opened: Sequence[OpenTransaction], *, driver: TransactionalProducer | None
    ) -> None:
        """The batch is readable when this returns, and is not before the decision. It is idempotent.

        `decision` lacks only the deciding driver. Raises STREAMLOG_DRIVER_FENCED, STREAMLOG_TRANSACTION_EXPIRED,
        STREAMLOG_TRANSACTION_FENCED and STREAMLOG_BATCH_NOT_NEXT; then nothing of the batch is readable, unless another
        driver has decided it.
        """
        assert self._identity.decision_group is not None, "a single write is published, not decided"
        log_step(Step.COMMITTING, driver_id=self._identity.driver_id, batch=decision.batch, tasks=len(opened))
        decider = driver or self._fence_older_drivers()
        if driver is None:
            self._finish_decided()
        found = find_decision(
            self._cluster, self._identity, decision.batch, input_fingerprint=decision.input_fingerprint
        )
        if found is None:
            with self._with_named_error(opened, decider):
                self._cluster.commit_offsets_in_transaction(
                    decider,
                    self._identity.decision_group,
                    {DECISION_PARTITION: encode_decision(self._signed(decision, opened, decider))},
                )
                log_step(Step.DECISION_WRITTEN, **ids_of(decider), batch=decision.batch)
                self._commit_together([decider, *(transaction.producer for transaction in opened)])
            log_step(Step.DECIDED, **ids_of(decider), batch=decision.batch, transactions=len(opened))
            with self._log_errors_as_warnings():
                self._abort_leftovers(lambda: self._end_own_transaction(decider, commit=True))
        elif not found.is_by(decider):
            self._accept_earlier_decision(found, opened, decider)
            with self._log_errors_as_warnings():
                self._abort_leftovers(lambda: self._is_current(decider))
        else:
            self._finish_decided()  # an earlier call may have failed between two ends
        log_step(Step.COMMITTED, driver_id=self._identity.driver_id, batch=decision.batch)

    def publish(self, opened: Sequence[OpenTransaction], *, driver: TransactionalProducer) -> None:
        """All rows of a single write become readable. Raises STREAMLOG_TRANSACTION_EXPIRED or …_FENCED."""
        log_step(Step.COMMITTING, driver_id=self._identity.driver_id, tasks=len(opened))
        producers = [transaction.producer for transaction in opened]
        if producers:
            with self._with_named_error(opened, driver):
                self._commit_together(producers)
            log_step(Step.DECIDED, driver_id=self._identity.driver_id, transactions=len(opened))
        with self._log_errors_as_warnings():
            # Late attempts find their driver fenced, and open no transaction that only a timeout would end.
            closed = self._fence_older_drivers()
            self._abort_leftovers(lambda: self._is_current(closed))
        log_step(Step.COMMITTED, driver_id=self._identity.driver_id)

    def abandon(self, written: Sequence[OpenTransaction], *, driver: TransactionalProducer | None) -> None:
        """Ends the open transactions of the batch; a decision stays. Harmless for a fenced driver. If the driver is not
        known, the current one is fenced at brokers.

        Attempts that are still running find their driver fenced from now on.
        """
        log_step(Step.ABORTING, driver_id=self._identity.driver_id, tasks=len(written))
        if driver is not None and self._end_own_transaction(driver, commit=False):
            self._abort_leftovers(lambda: self._end_own_transaction(driver, commit=False))
        else:
            # Another driver's tasks may have transactions under the same prefix.
            self._abort_all(self._undecided([transaction.producer for transaction in written], driver))
        log_step(Step.ABORTED, driver_id=self._identity.driver_id)

    # -- the driver's transactional id --

    def _fence_older_drivers(self) -> TransactionalProducer:
        """Also ends an older driver's own transaction: finishes it if it was decided, else aborts it."""
        driver = new_producer(self._cluster, self._identity.driver_id)
        log_step(Step.TAKEN_OVER, **ids_of(driver))
        return driver

    def _is_current(self, driver: TransactionalProducer) -> bool:
        try:
            require_current(self._cluster, self._identity, driver)
        except ConditionError:
            return False
        return True

    def _end_own_transaction(self, driver: TransactionalProducer, *, commit: bool) -> bool:
        """Ends the driver's own transaction, or repeats its end, which is harmless until a newer driver takes over.

        Even if nothing is open, an abort fences the driver: attempts that it planned cannot open transactions any more.
        """
        try:
            self._cluster.end_transaction(driver, commit=commit)
        except (ProducerError, UnknownTransactionalIdError):
            return False
        return True

    # -- the tasks' transactions --

    def _finish_decided(self) -> None:
        """Commits the transactions that a dead driver had decided and not ended. Raises STREAMLOG_BATCH_INCOMPLETE if
        it is too late: a transaction timed out in between, or was ended by other means."""
        if self._cluster.ends_together:
            return
        decided = last_decision(self._cluster, self._identity)
        epochs = {} if decided is None else decided.transactions(self._identity)
        if decided is None or not epochs:
            return
        described = self._cluster.describe_transactions(epochs)
        if last_decision(self._cluster, self._identity) != decided:
            return  # a newer driver is active, and finished this batch before it decided the next one
        lost = []
        for name, found in described.items():
            producer = TransactionalProducer(
                transactional_id=name, producer_id=found.producer_id, producer_epoch=epochs[name]
            )
            if is_open(found, producer):
                self._cluster.end_transaction(producer, commit=True)
                log_step(Step.DECIDED_ENDED, **ids_of(producer), batch=decided.batch)
            elif found.producer_epoch == epochs[name] + 1 and found.state in _ABORTED:
                lost.append(name)
        if lost:
            raise sink_error(
                "STREAMLOG_BATCH_INCOMPLETE",
                writer=self._identity.title,
                batch=decided.batch,
                lost=", ".join(sorted(lost)),
                group=self._identity.decision_group,
            )

    def _decided_ids(self) -> frozenset[str]:
        """The ids of transactions that must not be aborted, even if they are open."""
        decided = None if self._cluster.ends_together else last_decision(self._cluster, self._identity)
        return frozenset(() if decided is None else decided.transactions(self._identity))

    def _undecided(
        self, producers: Sequence[TransactionalProducer], driver: TransactionalProducer | None
    ) -> Sequence[TransactionalProducer]:
        """Without those that this batch's own commit decided but did not end before it died.

        commit    ends the driver's own transaction ─► dies
        abort         finds the driver's transaction decided ─► leaves the tasks' to the next driver, which commits
        """
        if self._cluster.ends_together or self._identity.decision_group is None:
            return producers
        # First the driver's transaction ends, so that the decision is either readable or never made. It is unknown
        # whether an abandoned commit is still running: if its driver is not known it is fenced, as by the next commit.
        if driver is None:
            self._fence_older_drivers()
        else:
            self._end_own_transaction(driver, commit=True)
        decided = last_decision(self._cluster, self._identity)
        epochs = {} if decided is None else decided.transactions(self._identity)
        return [one for one in producers if epochs.get(one.transactional_id) != one.producer_epoch]

    def _signed(
        self, decision: Decision, opened: Sequence[OpenTransaction], decider: TransactionalProducer
    ) -> Decision:
        """The decision with its driver; where another driver may have to finish it, also with its transactions."""
        signed = replace(
            decision,
            decided_by=ProducerIdAndEpoch(producer_id=decider.producer_id, producer_epoch=decider.producer_epoch),
        )
        if self._cluster.ends_together:
            return signed
        attempts = {one.task: one.attempt for one in opened}
        task_count = max(decision.task_count, *(task + 1 for task in attempts), 0)
        return replace(
            signed,
            task_count=task_count,
            attempts=attempts,
            turn=next_turn(self._cluster, self._identity),
            idle_tasks=frozenset(range(task_count)) - attempts.keys(),
            epochs=tuple(one.producer.producer_epoch for one in sorted(opened, key=lambda one: one.task)),
        )

    def _abort_leftovers(self, is_still_current: Callable[[], bool]) -> None:
        """All open transactions with this sink's prefix; usually there are none, and no request follows."""
        leftovers = [
            TransactionalProducer(
                transactional_id=left.transactional_id,
                producer_id=left.producer_id,
                producer_epoch=left.producer_epoch,
            )
            for left in self._cluster.list_transactions(
                prefix=self._identity.prefix, states=(TransactionState.ONGOING,)
            )
        ]
        if leftovers and is_still_current():
            decided_ids = self._decided_ids()
            self._abort_all([left for left in leftovers if left.transactional_id not in decided_ids])

    def _commit_together(self, producers: Sequence[TransactionalProducer]) -> None:
        """An error after the decision (such as a full disk when the markers are written) is not a failure: the decision
        is final, and the next process that reads the transactions finishes it.
        """
        first = producers[0]
        try:
            self._cluster.end_transaction(first, commit=True, together_with=producers[1:])
        except StorageError as error:
            found = self._cluster.describe_transactions([first.transactional_id]).get(first.transactional_id)
            if not _is_decided(found, first):
                raise
            logger.warning("%s is decided, but not all of it is readable yet: %s", self._identity.title, error)

    def _abort_all(self, producers: Sequence[TransactionalProducer]) -> None:
        """Ends those that are still open: together if all are, else one by one."""
        if not self._abort_together(producers) and len(producers) > 1:
            for producer in producers:
                self._abort_together([producer])

    def _abort_together(self, producers: Sequence[TransactionalProducer]) -> bool:
        if not producers:
            return True
        try:
            self._cluster.end_transaction(producers[0], commit=False, together_with=producers[1:])
        except (ProducerError, UnknownTransactionalIdError):
            return False  # one of them is ended already, or belongs to a newer owner that ends it
        for producer in producers:
            log_step(Step.LEFTOVER_ENDED, **ids_of(producer))
        return True

    def _accept_earlier_decision(
        self, found: Decision, opened: Sequence[OpenTransaction], decider: TransactionalProducer
    ) -> None:
        """The batch was decided by an earlier run that died, or by another driver in the meantime."""
        require_current(self._cluster, self._identity, decider)
        described = self._cluster.describe_transactions([one.producer.transactional_id for one in opened])
        still_open = [
            one.producer for one in opened if is_open(described.get(one.producer.transactional_id), one.producer)
        ]
        self._abort_all(still_open)
        if still_open:
            raise sink_error(
                "STREAMLOG_DRIVER_FENCED",
                writer=self._identity.title,
                found=f"another driver decided batch {found.batch} while the tasks of this one wrote it",
            )
        log_step(Step.ALREADY_DECIDED, **ids_of(decider), batch=found.batch)

    @contextmanager
    def _log_errors_as_warnings(self) -> Iterator[None]:
        """Wraps what follows a decision: a decided batch must not be reported as failed."""
        try:
            yield
        except StreamlogError as error:
            logger.warning(
                "%s is decided, but its other open transactions stay open until they time out: %s",
                self._identity.title,
                error,
            )

    @contextmanager
    def _with_named_error(self, opened: Sequence[OpenTransaction], decider: TransactionalProducer) -> Iterator[None]:
        try:
            yield
        except (ProducerError, UnknownTransactionalIdError) as error:
            try:
                require_current(self._cluster, self._identity, decider)
            except ConditionError as fenced:
                raise fenced from error
            described = self._cluster.describe_transactions([one.producer.transactional_id for one in opened])
            for one in opened:
                if not is_open(described.get(one.producer.transactional_id), one.producer):
                    log_step(Step.FENCED, **ids_of(one.producer))
                    raise lost_transaction(self._cluster, self._identity, one, self._now_ms()) from error
            raise


def _is_decided(found: TransactionDescription | None, producer: TransactionalProducer) -> bool:
    """Whether this producer's transaction is committed, or being committed. Its end raised the epoch (KIP-890)."""
    return (
        found is not None
        and found.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
        and (found.producer_id, found.producer_epoch) == (producer.producer_id, producer.producer_epoch + 1)
    )
