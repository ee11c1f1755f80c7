"""Exactly-once into a log on object storage: tasks upload, one commit of the driver decides. See `commit_protocol`.

    driver   plan_staging         its `StagingPlan` is the token: tasks and commit look nothing up that it knows
    task     may_write(batch)     False: the application's last version covers the batch, the task only drains its input
             target               one object, uploaded while rows come; not visible
    driver   commit(facts, ...)   ONE conditional request makes all rows of all tasks readable, in all partitions,
                                  or finds that the batch was committed before

The plan may be some seconds old. A task that writes because of that makes garbage: the commit decides.

A driver that was replaced fails its next conditional request or finds its batch committed, so nothing must be fenced,
aborted or finished. Data of dead tasks is garbage that no commit refers to; maintenance deletes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from broker_core.staged_writes import AppVersion, StagedData, StagedUpload, StagedWrites, StagingPlan
from broker_core.topic_producer import ProducerTransaction
from spark_streamlog.exactly_once.commit_protocol import BatchFacts
from spark_streamlog.exactly_once.decision import Decision, refuse_another_history
from spark_streamlog.exactly_once.sink_identity import SinkIdentity
from spark_streamlog.exactly_once.steps import Step, log_step


class StagedTask:
    """The task's side: one attempt and its upload."""

    def __init__(
        self, log: StagedWrites, identity: SinkIdentity, plan: StagingPlan | None = None, *, task: int, attempt: int
    ) -> None:
        self._log = log
        self._plan = plan
        self._identity = identity
        self._name = identity.task_id(task, attempt)
        self._upload: StagedUpload | None = None

    @property
    def target(self) -> StagedUpload:
        """The upload, which makes no request before there are rows."""
        if self._upload is None:
            self._upload = self._log.stage(self._plan)
        return self._upload

    @property
    def transaction(self) -> ProducerTransaction | None:
        return None

    @property
    def ids(self) -> Mapping[str, object]:
        return {"transactional_id": self._name}

    def may_write(self, batch: int | None, driver: StagingPlan | None = None) -> bool:
        """Raises STREAMLOG_BATCH_NOT_NEXT."""
        log_step(Step.TASK_STARTED, **self.ids, batch=batch)
        if batch is not None and committed_version(self._log, self._identity, batch, driver) is not None:
            log_step(Step.TASK_SKIPS, **self.ids, batch=batch)
            return False
        log_step(Step.TASK_MAY_WRITE, **self.ids, batch=batch)
        return True

    @contextmanager
    def writing(self) -> Iterator[None]:
        """An exception aborts the upload."""
        try:
            yield
        except BaseException:
            self.target.abort()
            log_step(Step.TASK_GAVE_UP, **self.ids)
            raise

    def finish(self) -> StagedData | None:
        staged = self.target.finish()
        return staged if staged.ranges else None


class StagedDriver:
    """The driver's side. Nothing must be fenced: the token is a plan, from the same log."""

    def __init__(self, log: StagedWrites, identity: SinkIdentity) -> None:
        self._log = log
        self._identity = identity

    def take_over(self) -> None:
        log_step(Step.PLANNING, driver_id=self._identity.driver_id)
        log_step(Step.PLANNED, driver_id=self._identity.driver_id)

    def commit(self, facts: BatchFacts, written: Sequence[StagedData], *, driver: StagingPlan | None = None) -> None:
        """Raises STREAMLOG_BATCH_NOT_NEXT, and what `StagedWrites.commit_staged` raises."""
        log_step(Step.COMMITTING, driver_id=self._identity.driver_id, batch=facts.batch, tasks=len(written))
        outcome = self._log.commit_staged(written, app=self._version_of(facts), plan=driver)
        decided = Step.DECIDED if outcome.is_new else Step.ALREADY_DECIDED
        log_step(decided, driver_id=self._identity.driver_id, batch=facts.batch, commit=outcome.commit_number)
        if not outcome.is_new and outcome.last is not None and facts.batch is not None:
            self._refuse_another_history(outcome.last, facts.batch, facts.input_fingerprint)
        log_step(Step.COMMITTED, driver_id=self._identity.driver_id, batch=facts.batch)

    def abandon(self, written: Sequence[StagedData], *, driver: StagingPlan | None = None) -> None:
        """Nothing is visible and nothing is open."""
        log_step(Step.ABORTING, driver_id=self._identity.driver_id)
        log_step(Step.ABORTED, driver_id=self._identity.driver_id)

    def _version_of(self, facts: BatchFacts) -> AppVersion | None:
        if facts.batch is None:
            return None
        assert self._identity.decision_group is not None, "a batch with a number belongs to a query or an application"
        return AppVersion(app_id=self._identity.decision_group, version=facts.batch, note=facts.input_fingerprint)

    def _refuse_another_history(self, last: AppVersion, batch: int, fingerprint: str) -> None:
        if self._identity.batches_come_in_order:
            found = Decision(batch=last.version, input_fingerprint=last.note)
            refuse_another_history(self._identity, found, batch, fingerprint)


def committed_version(
    log: StagedWrites, identity: SinkIdentity, batch: int, plan: StagingPlan | None = None
) -> AppVersion | None:
    """The last committed version if it covers this batch; as the plan knows it, if there is one. Raises
    STREAMLOG_BATCH_NOT_NEXT for a query whose batch is before it."""
    if identity.decision_group is None:
        return None
    last = plan.version_of(identity.decision_group) if plan is not None else log.last_version(identity.decision_group)
    if last is None or last.version < batch:
        return None
    if identity.batches_come_in_order:
        refuse_another_history(identity, Decision(batch=last.version, input_fingerprint=last.note), batch, "")
    return last
