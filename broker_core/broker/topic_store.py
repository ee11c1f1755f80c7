"""The topics, users, access rules and settings of a node: the metadata image on the loop, and changes of it.

The controller plans a change under the metadata log's lock, in a job, one at a time in the order of the calls; the
appended records are then replayed to the loop's image. So the image has only durable records, at most a moment late,
and never changes during a callback.

    change(plan, on_reply, on_error, after=…)     `after(reply)` runs in the job after the append: it creates folders

Folders that are missing after a crash are created at first use.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from broker_core.broker.callback_errors import OnError, log_all_callback_errors, log_callback_errors
from broker_core.cluster import TopicDescription
from broker_core.log_directory.internal_topics import INTERNAL_TOPIC_CONFIGS
from broker_core.log_directory.partition_folders import PartitionFolders
from broker_core.log_directory.topic_catalog import MetadataChanges, TopicPlan
from broker_core.log_directory.topic_configs import TopicConfigs
from broker_core.metadata.controller import MetadataController, ProducerIdBlock
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_records import MetadataRecord
from broker_core.model.exceptions import StorageError, StreamlogError, UnknownTopicError
from broker_core.model.topic_config import TopicConfig
from broker_core.model.topic_defaults import KAFKAS_DEFAULTS, TopicDefaults
from broker_core.ports import Entropy, Jobs

Reply = TypeVar("Reply")

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    plan: TopicPlan[Any]
    after: Callable[[Any], None] | None
    on_reply: Callable[[Any], None]
    on_error: OnError


@dataclass(frozen=True, slots=True, kw_only=True)
class _Changed:
    """`error`: the plan's error; earlier records may have been appended."""

    records: tuple[MetadataRecord, ...]
    reply: Any = None
    error: Exception | None = None


class TopicStore:
    """The topics of one node. `image` is read on the loop and only changed by this store."""

    def __init__(
        self,
        image: MetadataImage,
        metadata_log: MetadataChanges,
        folders: PartitionFolders,
        jobs: Jobs,
        entropy: Entropy,
        *,
        topic_defaults: Callable[[], TopicDefaults] = lambda: KAFKAS_DEFAULTS,
    ) -> None:
        self.image = image
        self._metadata_log = metadata_log
        self._folders = folders
        self._jobs = jobs
        self._entropy = entropy
        self.topic_defaults = topic_defaults
        """Returns the topic defaults from the broker's settings: the same object until they change."""
        self._waiting: deque[_Change] = deque()
        self._is_changing = False
        self._listeners: list[Callable[[], None]] = []
        self._configs = TopicConfigs(lambda name: self.image.topics.get(name), topic_defaults)

    def topic(self, name: str) -> TopicDescription:
        """Raises UnknownTopicError."""
        topic = self.image.topics.get(name)
        if topic is None:
            raise UnknownTopicError(f"Topic '{name}' does not exist.", topic=name)
        return topic

    def config_of(self, topic: TopicDescription) -> TopicConfig:
        """All settings of the topic, with the broker's defaults for the others."""
        return self._configs.of(topic)

    def on_change(self, callback: Callable[[], None]) -> None:
        """Called on the loop whenever the image has changed."""
        self._listeners.append(callback)

    # -- changes --

    def change(
        self,
        plan: TopicPlan[Reply],
        on_reply: Callable[[Reply], None],
        on_error: OnError,
        *,
        after: Callable[[Reply], None] | None = None,
    ) -> None:
        """Appends the plan's records; calls `on_reply` when they are durable and in the image. An error in `after` is
        only logged: the change is durable."""
        self._waiting.append(_Change(plan=plan, after=after, on_reply=on_reply, on_error=on_error))
        self._change_next()

    def create_topic(
        self,
        name: str,
        *,
        partition_count: int,
        configs: Mapping[str, str],
        on_reply: Callable[[TopicDescription], None],
        on_error: OnError,
    ) -> None:
        """Raises nothing: `on_error` gets InvalidTopicNameError, TopicExistsError, InvalidPartitionsError or
        InvalidConfigError."""
        self.change(
            lambda controller: controller.plan_create_topic(
                name, partition_count=partition_count, configs=configs, entropy=self._entropy
            ),
            on_reply,
            on_error,
            after=self._folders.make_all,
        )

    @property
    def is_shared(self) -> bool:
        """Other brokers have a part in the topics: what this image does not have yet may exist."""
        return False

    def internal_partition_count(self, name: str) -> int:
        """Partitions of an internal topic, as it is or as `make_internal_topic` would create it."""
        topic = self.image.topics.get(name)
        return self._new_internal_count(name) if topic is None else topic.partition_count

    def _new_internal_count(self, name: str) -> int:
        """One: embedded processes, which use the same directory, have one coordinator of each kind."""
        return 1

    def _new_internal_configs(self, name: str) -> Mapping[str, str]:
        return INTERNAL_TOPIC_CONFIGS

    def make_internal_topic(
        self, name: str, *, on_reply: Callable[[TopicDescription], None], on_error: OnError
    ) -> None:
        """Creates it as its coordinators need it. `on_error` gets the errors of `create_topic`."""
        self.create_topic(
            name,
            partition_count=self._new_internal_count(name),
            configs=self._new_internal_configs(name),
            on_reply=on_reply,
            on_error=on_error,
        )

    def check_create_topic(self, name: str, *, partition_count: int, configs: Mapping[str, str]) -> TopicDescription:
        """Raises the error of `create_topic` without creating the topic."""
        return self.check(
            lambda controller: controller.plan_create_topic(
                name, partition_count=partition_count, configs=configs, entropy=self._entropy
            )
        )

    def delete_topic(self, name: str, *, on_reply: Callable[[TopicDescription], None], on_error: OnError) -> None:
        self.change(
            lambda controller: controller.plan_delete_topic(name), on_reply, on_error, after=self._folders.remove
        )

    def create_partitions(
        self,
        name: str,
        total_count: int,
        *,
        on_reply: Callable[[TopicDescription], None],
        on_error: OnError,
    ) -> None:
        self.change(
            lambda controller: controller.plan_create_partitions(name, total_count),
            on_reply,
            on_error,
            after=self._folders.make_missing,
        )

    def allocate_producer_ids(self, on_reply: Callable[[ProducerIdBlock], None], on_error: OnError) -> None:
        self.change(MetadataController.plan_allocate_producer_ids, on_reply, on_error)

    def check(self, plan: TopicPlan[Reply]) -> Reply:
        """The plan's reply for the current image, without a change. Raises the plan's errors."""
        return plan(self._controller()).reply

    def _controller(self) -> MetadataController:
        return self._metadata_log.controller_for(self.image)

    def _notify(self) -> None:
        log_all_callback_errors("a change of the metadata log", self._listeners)

    def _change_next(self) -> None:
        if self._is_changing or not self._waiting:
            return
        self._is_changing = True
        change = self._waiting.popleft()

        def done(changed: _Changed) -> None:
            for record in changed.records:
                self.image.replay(record)
            self._is_changing = False
            if changed.records:
                self._notify()
            if changed.error is None:
                log_callback_errors("a change of the metadata log", change.on_reply, changed.reply)
            else:
                log_callback_errors("a change of the metadata log", change.on_error, _as_known(changed.error))
            self._change_next()

        def failed(error: Exception) -> None:
            self._is_changing = False
            log_callback_errors("a change of the metadata log", change.on_error, _as_known(error))
            self._change_next()

        self._jobs.submit(lambda: self._carry_out(change), done, failed)

    def _carry_out(self, change: _Change) -> _Changed:
        """Runs in a job."""
        appended: list[MetadataRecord] = []
        try:
            reply = self._metadata_log.change(change.plan, on_appended=appended.extend)
        except Exception as error:
            return _Changed(records=tuple(appended), error=error)
        if change.after is not None:
            try:
                change.after(reply)
            except Exception as error:
                _log.warning("preparing a changed topic failed, its first use will retry: %s", error)
        return _Changed(records=tuple(appended), reply=reply)


def _as_known(error: Exception) -> StreamlogError:
    if isinstance(error, StreamlogError):
        return error
    _log.error("a change of the metadata log failed: %r", error)
    return StorageError(f"The metadata log could not be changed: {error}")
