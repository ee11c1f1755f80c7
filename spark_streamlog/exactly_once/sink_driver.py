"""What the driver does for one sink: take over, decide, abandon, end leftovers.

    take_over   when a batch is planned: fences every older driver and ends what its tasks left open
    decide      when all tasks are done: the decision and all their transactions, in one
    publish     the same for a single write, which leaves no decision behind
    abandon     when a task failed: nothing of the batch becomes readable

A driver that has been fenced without knowing it must do no harm. So transactions are ended by their producer id and
epoch, never by their name alone: names are used again from batch to batch, epochs are not. And leftovers are listed
first, then it is asked whether this driver is still the current one, then they are ended: what was open while it was
current is not a newer driver's. What is opened after the list is refused by `TaskTransaction.add_partitions`.

Where transactions are not ended together (at brokers) a driver may die between the decision and the last end. The next
one commits what is left of that batch, by the names in the decision, before it does anything else (`finish_decided`).
What is open under those names cannot be of a later batch, since batches take turns with two sets of ids: those of batch
n are used again by batch n + 2, and that begins when batch n + 1 is decided.
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

    All that must be remembered between the calls is in the log and in `driver`, which `take_over` gives.

    Where planning cannot know whose batch it is, `driver` is None in the later calls: then `decide` takes over, and of
    two drivers the one that decides first has the batch.
    """

    def __init__(self, cluster: Cluster, identity: SinkIdentity, *, now_ms: Callable[[], int]) -> None:
        self._cluster = cluster
        self._identity = identity
        self._now_ms = now_ms

    def take_over(self) -> TransactionalProducer:
        """Before the tasks start. The next call of `decide` needs what is returned."""
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
        """The batch is readable when this returns, and was not before it. Repeating it is harmless.

        `decision` lacks only who decides. Raises STREAMLOG_DRIVER_FENCED, STREAMLOG_TRANSACTION_EXPIRED,
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
            with self._named_error(opened, decider):
                self._cluster.commit_offsets_in_transaction(
                    decider,
                    self._identity.decision_group,
                    {DECISION_PARTITION: encode_decision(self._signed(decision, opened, decider))},
                )
                log_step(Step.DECISION_WRITTEN, **ids_of(decider), batch=decision.batch)
                self._commit_together([decider, *(transaction.producer for transaction in opened)])
            log_step(Step.DECIDED, **ids_of(decider), batch=decision.batch, transactions=len(opened))
            with self._only_warning():
                self._abort_leftovers(lambda: self._ends_again(decider, commit=True))
        elif not found.is_by(decider):
            self._accept_earlier_decision(found, opened, decider)
            with self._only_warning():
                self._abort_leftovers(lambda: self._is_current(decider))
        else:
            self._finish_decided()  # a first call may have failed between two ends
        log_step(Step.COMMITTED, driver_id=self._identity.driver_id, batch=decision.batch)

    def publish(self, opened: Sequence[OpenTransaction], *, driver: TransactionalProducer) -> None:
        """All rows of a single write become readable. Raises STREAMLOG_TRANSACTION_EXPIRED or …_FENCED."""
        log_step(Step.COMMITTING, driver_id=self._identity.driver_id, tasks=len(opened))
        producers = [transaction.producer for transaction in opened]
        if producers:
            with self._named_error(opened, driver):
                self._commit_together(producers)
            log_step(Step.DECIDED, driver_id=self._identity.driver_id, transactions=len(opened))
        with self._only_warning():
            # Attempts that start late find their driver fenced, and open nothing that only a timeout would end.
            closed = self._fence_older_drivers()
            self._abort_leftovers(lambda: self._is_current(closed))
        log_step(Step.COMMITTED, driver_id=self._identity.driver_id)

    def abandon(self, written: Sequence[OpenTransaction], *, driver: TransactionalProducer | None) -> None:
        """Ends what the batch left open; what is decided stays. Harmless for a driver that has been fenced. Where the
        driver is not known, a broker's current one is fenced.

        Attempts that are still running find their driver fenced from now on.
        """
        log_step(Step.ABORTING, driver_id=self._identity.driver_id, tasks=len(written))
        if driver is not None and self._ends_again(driver, commit=False):
            self._abort_leftovers(lambda: self._ends_again(driver, commit=False))
        else:
            # Another driver's tasks may have transactions under the same prefix.
            self._abort_all(self._undecided([transaction.producer for transaction in written], driver))
        log_step(Step.ABORTED, driver_id=self._identity.driver_id)

    # -- the driver's own id --

    def _fence_older_drivers(self) -> TransactionalProducer:
        """Also ends an older driver's own transaction: a decision that was made is finished, another is aborted."""
        driver = new_producer(self._cluster, self._identity.driver_id)
        log_step(Step.TAKEN_OVER, **ids_of(driver))
        return driver

    def _is_current(self, driver: TransactionalProducer) -> bool:
        try:
            require_current(self._cluster, self._identity, driver)
        except ConditionError:
            return False
        return True

    def _ends_again(self, driver: TransactionalProducer, *, commit: bool) -> bool:
        """Ends the driver's own transaction, or repeats its end, which is harmless as long as no newer driver came.

        Even where nothing is open an abort fences the driver: attempts that it planned open nothing any more.
        """
        try:
            self._cluster.end_transaction(driver, commit=commit)
        except (ProducerError, UnknownTransactionalIdError):
            return False
        return True

    # -- the tasks' transactions --

    def _finish_decided(self) -> None:
        """Commits what a dead driver had decided and not ended. Raises STREAMLOG_BATCH_INCOMPLETE where that is too
        late: a transaction timed out in between, or somebody ended it."""
        if self._cluster.ends_together:
            return
        decided = last_decision(self._cluster, self._identity)
        epochs = {} if decided is None else decided.transactions(self._identity)
        if decided is None or not epochs:
            return
        described = self._cluster.describe_transactions(epochs)
        if last_decision(self._cluster, self._identity) != decided:
            return  # a newer driver is at work, and has finished this batch before it decided the next one
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
                who=self._identity.title,
                batch=decided.batch,
                lost=", ".join(sorted(lost)),
                group=self._identity.decision_group,
            )

    def _decided_ids(self) -> frozenset[str]:
        """Of transactions that must not be aborted, open as they may be."""
        decided = None if self._cluster.ends_together else last_decision(self._cluster, self._identity)
        return frozenset(() if decided is None else decided.transactions(self._identity))

    def _undecided(
        self, producers: Sequence[TransactionalProducer], driver: TransactionalProducer | None
    ) -> Sequence[TransactionalProducer]:
        """Without those that this batch's own commit has decided, and died before it ended them.

        commit    ends the driver's own transaction ─► dies
        abort         finds the driver's transaction decided ─► the tasks' are left to the next driver, which commits
        """
        if self._cluster.ends_together or self._identity.decision_group is None:
            return producers
        # First the driver's transaction is over, so that the decision is readable, or will never be made. Nobody knows
        # whether a commit that was given up is dead: where its driver is not known it is fenced, as by the next commit.
        if driver is None:
            self._fence_older_drivers()
        else:
            self._ends_again(driver, commit=True)
        decided = last_decision(self._cluster, self._identity)
        epochs = {} if decided is None else decided.transactions(self._identity)
        return [one for one in producers if epochs.get(one.transactional_id) != one.producer_epoch]

    def _signed(
        self, decision: Decision, opened: Sequence[OpenTransaction], decider: TransactionalProducer
    ) -> Decision:
        """With who decides; where others may have to end it, also with which transactions it is about."""
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
        """All that is open under this sink's prefix; in the ordinary case there is nothing, and nothing is asked."""
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
        """An error after the decision (a disk that is full when the markers are written) is no failure: nobody can take
        the decision back, and whoever next looks at the transactions finishes it.
        """
        first = producers[0]
        try:
            self._cluster.end_transaction(first, commit=True, together_with=producers[1:])
        except StorageError as error:
            found = self._cluster.describe_transactions([first.transactional_id]).get(first.transactional_id)
            if not _is_decided(found, first):
                raise
            logger.warning("%s is decided; not all of it is readable yet: %s", self._identity.title, error)

    def _abort_all(self, producers: Sequence[TransactionalProducer]) -> None:
        """Those that are still open: together if all are, else one by one."""
        if not self._abort_together(producers) and len(producers) > 1:
            for producer in producers:
                self._abort_together([producer])

    def _abort_together(self, producers: Sequence[TransactionalProducer]) -> bool:
        if not producers:
            return True
        try:
            self._cluster.end_transaction(producers[0], commit=False, together_with=producers[1:])
        except (ProducerError, UnknownTransactionalIdError):
            return False  # one of them is ended already, or has a newer owner who ends it
        for producer in producers:
            log_step(Step.LEFTOVER_ENDED, **ids_of(producer))
        return True

    def _accept_earlier_decision(
        self, found: Decision, opened: Sequence[OpenTransaction], decider: TransactionalProducer
    ) -> None:
        """The batch was decided by a run that died, or by another driver in the meantime."""
        require_current(self._cluster, self._identity, decider)
        described = self._cluster.describe_transactions([one.producer.transactional_id for one in opened])
        still_open = [
            one.producer for one in opened if is_open(described.get(one.producer.transactional_id), one.producer)
        ]
        self._abort_all(still_open)
        if still_open:
            raise sink_error(
                "STREAMLOG_DRIVER_FENCED",
                who=self._identity.title,
                found=f"another driver decided batch {found.batch} while this one's tasks wrote it",
            )
        log_step(Step.ALREADY_DECIDED, **ids_of(decider), batch=found.batch)

    @contextmanager
    def _only_warning(self) -> Iterator[None]:
        """Around what follows a decision: a batch that is decided is not to be reported as failed."""
        try:
            yield
        except StreamlogError as error:
            logger.warning(
                "%s is decided; what else it left open waits for its timeout: %s", self._identity.title, error
            )

    @contextmanager
    def _named_error(self, opened: Sequence[OpenTransaction], decider: TransactionalProducer) -> Iterator[None]:
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
    """Whether this producer's transaction is committed, or about to be. Its end has raised the epoch (KIP-890)."""
    return (
        found is not None
        and found.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
        and (found.producer_id, found.producer_epoch) == (producer.producer_id, producer.producer_epoch + 1)
    )
