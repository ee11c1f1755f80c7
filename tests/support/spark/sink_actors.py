"""Drivers and tasks of the sink without Spark: what Spark would run, as functions over any Cluster."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from broker_core.cluster import Cluster, TransactionalProducer
from broker_core.model.limits import MAX_TRANSACTION_TIMEOUT_MS
from broker_core.topic_producer import ProducerSettings, TopicProducer, describe_or_create
from spark_streamlog.exactly_once.commit_protocol import BatchFacts
from spark_streamlog.exactly_once.sink_driver import SinkDriver
from spark_streamlog.exactly_once.sink_identity import SinkIdentity
from spark_streamlog.exactly_once.steps import Step, log_step, logger
from spark_streamlog.exactly_once.task_transaction import OpenTransaction, TaskTransaction

TOPIC = "t"
ROWS_PER_ROUND = 2


class SinkKilled(BaseException):
    """Stands for SIGKILL: nothing in the product catches it, so nothing is cleaned up."""


@dataclass(slots=True, kw_only=True)
class Sink:
    """One sink's view of a cluster. `now_ms` is a list of one number, shared with the cluster's clock."""

    cluster: Cluster
    identity: SinkIdentity
    now_ms: Any
    timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS

    @property
    def driver(self) -> SinkDriver:
        return SinkDriver(self.cluster, self.identity, now_ms=self.now_ms)

    def write(
        self,
        rows: list[str],
        *,
        batch: int | None,
        driver: TransactionalProducer | None,
        task: int = 0,
        attempt: int = 0,
        after_rows: Any = None,
    ) -> OpenTransaction | None:
        """One attempt of a task. `after_rows(transaction)` runs before the attempt returns."""
        transaction = TaskTransaction(
            self.cluster,
            self.identity,
            task=task,
            attempt=attempt,
            timeout_ms=self.timeout_ms,
            now_ms=self.now_ms,
        )
        if not transaction.may_write(batch, driver):
            return None
        producer = TopicProducer(
            self.cluster,
            find_topic=partial(describe_or_create, self.cluster),
            now_ms=self.now_ms,
            settings=ProducerSettings(),
            transaction=transaction,
        )
        with transaction.writing():
            for start in range(0, len(rows), ROWS_PER_ROUND):
                values = pa.array([row.encode() for row in rows[start : start + ROWS_PER_ROUND]])
                producer.add(TOPIC, pa.RecordBatch.from_pydict({"value": values}))
                producer.flush()
                log_step(Step.TASK_APPENDED, transactional_id=transaction.transactional_id)
            if after_rows is not None:
                after_rows(transaction)
            opened = transaction.finish()
        log_step(Step.TASK_FLUSHED, transactional_id=transaction.transactional_id)
        return opened

    def run_batch(self, batch: int, *tasks: list[str], knows_query: bool = True, input_fingerprint: str = "") -> None:
        """A whole micro-batch, as a driver runs it that meets no error; when it does, it abandons the batch."""
        driver = self.driver.take_over() if knows_query else None
        opened: list[OpenTransaction | None] = []
        try:
            for task, rows in enumerate(tasks):
                opened.append(self.write(rows, batch=batch, driver=driver, task=task))
            facts = BatchFacts(batch=batch, task_count=len(tasks), input_fingerprint=input_fingerprint)
            self.driver.commit(facts, written(*opened), driver=driver)
        except Exception:
            self.driver.abandon(written(*opened), driver=driver)
            raise


def written(*opened: OpenTransaction | None) -> list[OpenTransaction]:
    """What the messages of tasks hold: tasks without rows have no transaction."""
    return [one for one in opened if one is not None]


class StepHandler(logging.Handler):
    """Collects the steps that are logged, and kills the process that logs a certain one for the nth time."""

    def __init__(self, kill_at: Step | None, nth: int) -> None:
        super().__init__()
        self.kill_at = kill_at
        self.nth = nth
        self.seen: list[Step] = []
        self.was_hit = False

    def emit(self, record: logging.LogRecord) -> None:
        step = getattr(record, "step", None)
        if step is None:
            return
        self.seen.append(step)
        if step is self.kill_at and self.seen.count(step) == self.nth:
            self.was_hit = True
            raise SinkKilled(step)


@contextmanager
def steps(*, kill_at: Step | None = None, nth: int = 1) -> Any:
    """Within it, every step goes to the handler."""
    handler = StepHandler(kill_at, nth)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
