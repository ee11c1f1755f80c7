"""One attempt of a task: check, open, write, leave open.

    transaction = TaskTransaction(cluster, identity, task=3, attempt=0, timeout_ms=…, now_ms=…)
    if transaction.may_write(batch, driver):
        producer = TopicProducer(cluster, transaction=transaction, …)
        with transaction.writing():
            … producer.add(…), producer.flush() …
        message = transaction.opened

The transaction opens with the first rows: a task without rows has none. It stays open when the task is done, and the
driver ends it. An attempt that fails aborts its own transaction; that of a killed attempt is ended by the driver, by
the next run, or by its timeout.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from broker_core.cluster import Cluster, TransactionalProducer, TransactionDescription
from broker_core.model.exceptions import (
    InvalidProducerIdMappingError,
    InvalidTransactionStateError,
    ProducerFencedError,
    StreamlogError,
)
from broker_core.model.identifiers import TopicPartition
from broker_core.model.limits import DEFAULT_TRANSACTION_TIMEOUT_MS
from broker_core.model.transaction_state import TransactionState
from broker_core.topic_producer import ProducerTransaction
from spark_streamlog.errors import ConditionError
from spark_streamlog.exactly_once.decision import find_decision, next_turn
from spark_streamlog.exactly_once.sink_identity import SinkIdentity
from spark_streamlog.exactly_once.steps import Step, log_step
from spark_streamlog.sink_conditions import sink_error


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """The transaction that an attempt left open. `opened_at_ms` is wall-clock time, shortly before the
    coordinator's."""

    producer: TransactionalProducer
    task: int
    attempt: int
    opened_at_ms: int
    timeout_ms: int


class TaskTransaction:
    """One attempt's transaction: the task's side of `commit_protocol`, and a `topic_producer.ProducerTransaction`."""

    def __init__(
        self,
        cluster: Cluster,
        identity: SinkIdentity,
        *,
        task: int,
        attempt: int,
        timeout_ms: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._cluster = cluster
        self._identity = identity
        self._task = task
        self._attempt = attempt
        self._timeout_ms = timeout_ms
        self._now_ms = now_ms
        self._turn = 0
        self._batch: int | None = None
        self._driver: TransactionalProducer | None = None
        self._producer: TransactionalProducer | None = None
        self.opened: OpenTransaction | None = None
        """None until a row is written."""

    @property
    def target(self) -> Cluster:
        return self._cluster

    @property
    def transaction(self) -> ProducerTransaction:
        return self

    @property
    def ids(self) -> Mapping[str, object]:
        return {"transactional_id": self.transactional_id}

    @property
    def transactional_id(self) -> str:
        """Known once `may_write` has read the turn."""
        return self._identity.task_id(self._task, self._attempt, self._turn)

    def may_write(self, batch: int | None, driver: TransactionalProducer | None) -> bool:
        """Called first. False: the batch is decided, and the task only drains its input.

        `driver` is the one that planned this attempt, if that is known: an attempt that outlived its driver must not
        use the transactional ids, which now belong to a newer driver's tasks. `batch` is None for a single write.

        Raises STREAMLOG_DRIVER_FENCED and STREAMLOG_BATCH_NOT_NEXT.
        """
        log_step(Step.TASK_STARTED, transactional_id=self.transactional_id, batch=batch)
        self._driver, self._batch = driver, batch
        self._require_current_driver()
        if batch is not None and find_decision(self._cluster, self._identity, batch) is not None:
            log_step(Step.TASK_SKIPS, transactional_id=self.transactional_id, batch=batch)
            return False
        self._turn = next_turn(self._cluster, self._identity)
        log_step(Step.TASK_MAY_WRITE, transactional_id=self.transactional_id, batch=batch)
        return True

    def begin(self) -> TransactionalProducer:
        """Called before the first row. Ends the transaction that an earlier attempt with the same id left open."""
        self._producer = new_producer(self._cluster, self.transactional_id, timeout_ms=self._timeout_ms)
        log_step(Step.TASK_INITIALISED, **ids_of(self._producer))
        return self._producer

    def add_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Called before the first rows of each partition. The first call opens the transaction, and then checks again
        that the driver is the current one: the batch may have ended, and leftovers would not be listed again.

            driver   ends its batch ─► lists what is open, aborts it        so this attempt is on the list,
            task          opens its transaction ─► checks the driver        or learns that the batch has ended

        Raises STREAMLOG_DRIVER_FENCED.
        """
        assert self._producer is not None, "begin() comes first"
        is_first = self.opened is None
        if is_first:
            self.opened = OpenTransaction(
                producer=self._producer,
                task=self._task,
                attempt=self._attempt,
                opened_at_ms=self._now_ms(),
                timeout_ms=self._timeout_ms,
            )
        self._cluster.add_partitions_to_transaction(self._producer, partitions)
        log_step(Step.PARTITIONS_ADDED, **ids_of(self._producer), partitions=",".join(map(str, sorted(partitions))))
        if is_first:
            self._require_current_driver()
            self._require_undecided()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Wraps the writing. An attempt that fails aborts its transaction at once and does not wait for the timeout.

        Raises STREAMLOG_TRANSACTION_EXPIRED or STREAMLOG_TRANSACTION_FENCED if the transaction was ended by others.
        """
        try:
            yield
        except (ProducerFencedError, InvalidTransactionStateError, InvalidProducerIdMappingError) as error:
            if self.opened is None:
                raise
            log_step(Step.FENCED, **ids_of(self.opened.producer))
            raise lost_transaction(self._cluster, self._identity, self.opened, self._now_ms()) from error
        except Exception:
            self._give_up()
            raise

    def finish(self) -> OpenTransaction | None:
        """The transaction stays open. None: no row was written."""
        return self.opened

    def _require_current_driver(self) -> None:
        if self._driver is not None:
            require_current(self._cluster, self._identity, self._driver)

    def _require_undecided(self) -> None:
        """For an unknown driver where transactions are not ended together: an open transaction with a decided id is
        treated as part of the decision, so a late attempt must not write under one."""
        if self._driver is not None or self._batch is None or self._cluster.ends_together:
            return
        if find_decision(self._cluster, self._identity, self._batch) is not None:
            raise sink_error(
                "STREAMLOG_DRIVER_FENCED",
                writer=self._identity.title,
                found=f"batch {self._batch} was decided just before this task began to write it",
            )

    def _give_up(self) -> None:
        if self.opened is None:
            return
        try:
            self._cluster.end_transaction(self.opened.producer, commit=False)
        except StreamlogError:
            return  # ended already, or the log cannot be written: the task's own error is more useful
        log_step(Step.TASK_GAVE_UP, **ids_of(self.opened.producer))


def new_producer(
    cluster: Cluster, transactional_id: str, *, timeout_ms: int = DEFAULT_TRANSACTION_TIMEOUT_MS
) -> TransactionalProducer:
    """Fences the previous owner of the id, and ends its open transaction."""
    given = cluster.init_producer(transactional_id, timeout_ms=timeout_ms)
    return TransactionalProducer(
        transactional_id=transactional_id, producer_id=given.producer_id, producer_epoch=given.producer_epoch
    )


def ids_of(producer: TransactionalProducer) -> dict[str, object]:
    """The ids as fields of a log line."""
    return {
        "transactional_id": producer.transactional_id,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
    }


def is_open(found: TransactionDescription | None, producer: TransactionalProducer) -> bool:
    """Whether the open transaction is this producer's own, not a later one with the same id."""
    return (
        found is not None
        and found.state is TransactionState.ONGOING
        and (found.producer_id, found.producer_epoch) == (producer.producer_id, producer.producer_epoch)
    )


def require_current(cluster: Cluster, identity: SinkIdentity, driver: TransactionalProducer) -> None:
    """Raises STREAMLOG_DRIVER_FENCED if the driver's id was initialised, or its transaction ended, since then."""
    found = cluster.describe_transactions([driver.transactional_id]).get(driver.transactional_id)
    if found is not None and (found.producer_id, found.producer_epoch) == (driver.producer_id, driver.producer_epoch):
        return
    log_step(Step.FENCED, **ids_of(driver))
    now = "does not exist in the log" if found is None else f"now has producer epoch {found.producer_epoch}"
    raise sink_error(
        "STREAMLOG_DRIVER_FENCED",
        writer=identity.title,
        found=f"{driver.transactional_id} {now}; this driver's producer epoch is {driver.producer_epoch}",
    )


def lost_transaction(cluster: Cluster, identity: SinkIdentity, lost: OpenTransaction, now_ms: int) -> ConditionError:
    """Why a transaction is no longer open: its timeout, or fencing by another process."""
    transactional_id = lost.producer.transactional_id
    age_ms = now_ms - lost.opened_at_ms
    if age_ms >= lost.timeout_ms:
        return sink_error(
            "STREAMLOG_TRANSACTION_EXPIRED",
            transactional_id=transactional_id,
            writer=identity.title,
            age_ms=age_ms,
            timeout_ms=lost.timeout_ms,
        )
    found = cluster.describe_transactions([transactional_id]).get(transactional_id)
    return sink_error(
        "STREAMLOG_TRANSACTION_FENCED",
        transactional_id=transactional_id,
        writer=identity.title,
        found="it does not exist in the log"
        if found is None
        else f"it is {found.state.label} with producer epoch {found.producer_epoch}; the task's producer epoch was "
        f"{lost.producer.producer_epoch}",
    )
