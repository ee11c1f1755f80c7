"""The topics of a cluster as a broker knows them: changes go to the active controller, and come back in the image."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.broker.callback_errors import OnError
from broker_core.broker.controller_port import ControllerPort
from broker_core.broker.timer_queue import TimerQueue
from broker_core.broker.topic_store import TopicStore
from broker_core.cluster import TopicDescription
from broker_core.log_directory.partition_folders import PartitionFolders
from broker_core.log_directory.topic_catalog import MetadataChanges, TopicPlan
from broker_core.metadata.controller import ProducerIdBlock
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.model.exceptions import (
    InvalidRequestError,
    RequestRefusedError,
    RequestTimedOutError,
    StreamlogError,
    TopicExistsError,
)
from broker_core.model.topic_defaults import TopicDefaults
from broker_core.ports import Clock, Entropy, Jobs
from broker_core.protocol.api_table import message_types
from broker_core.protocol.message_builder import build

_log: Final = logging.getLogger(__name__)

_CREATE_TOPICS, _CREATE_TOPICS_VERSION = 19, 7
_DELETE_TOPICS, _DELETE_TOPICS_VERSION = 20, 6
_ALLOCATE_PRODUCER_IDS = 67
_DEFAULT_FACTOR: Final = -1
_TIMEOUT_MS: Final = 30_000
_IMAGE_WAIT_MS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopicPlan:
    """How an internal topic is created that is not there yet. `configs` are those of its own."""

    partition_count: int
    factor: int
    configs: Mapping[str, str] = field(default_factory=dict)


class ClusterTopics(TopicStore):
    """`broker_epoch` is that of this broker's registration. `internal_plans`: of new internal topics, by name."""

    def __init__(
        self,
        image: MetadataImage,
        catalog: MetadataChanges,
        folders: PartitionFolders,
        jobs: Jobs,
        entropy: Entropy,
        *,
        topic_defaults: Callable[[], TopicDefaults],
        controller: ControllerPort,
        own_id: int,
        broker_epoch: Callable[[], int],
        internal_plans: Mapping[str, InternalTopicPlan],
        timers: TimerQueue,
        clock: Clock,
    ) -> None:
        super().__init__(image, catalog, folders, jobs, entropy, topic_defaults=topic_defaults)
        self._port = controller
        self._own_id = own_id
        self._broker_epoch = broker_epoch
        self._internal_plans = internal_plans
        self._timers = timers
        self._clock = clock
        self._awaited: dict[str, list[Callable[[TopicDescription], None]]] = {}
        """By name, of topics that the controller has made and this image does not have yet."""

    def on_learned(self) -> None:
        """The image has changed, or another one has taken its place."""
        image = self.image
        self._notify()
        for name in [name for name in self._awaited if name in image.topics]:
            for callback in self._awaited.pop(name):
                callback(image.topics[name])

    def change(
        self,
        plan: TopicPlan[Any],
        on_reply: Callable[[Any], None],
        on_error: OnError,
        *,
        after: Callable[[Any], None] | None = None,
    ) -> None:
        on_error(InvalidRequestError("The metadata of a cluster is changed by its active controller."))

    def create_topic(
        self,
        name: str,
        *,
        partition_count: int,
        configs: Mapping[str, str],
        on_reply: Callable[[TopicDescription], None],
        on_error: OnError,
    ) -> None:
        """`on_reply` is called once this broker knows the topic, too."""
        plan = self._internal_plans.get(name)
        factor = _DEFAULT_FACTOR if plan is None else plan.factor
        topic = {
            "name": name,
            "num_partitions": partition_count,
            "replication_factor": factor,
            "assignments": [],
            "configs": [{"name": key, "value": value} for key, value in configs.items()],
        }
        request = _request(_CREATE_TOPICS, _CREATE_TOPICS_VERSION, topics=[topic], timeout=_TIMEOUT_MS)

        def answered(response: Any) -> None:
            (answer,) = response.topics
            if answer.error_code is ErrorCode.none:
                self._when_known(name, on_reply, on_error)
            else:
                on_error(_refused(answer))

        self._port.ask(request, answered, on_error)

    @property
    def is_shared(self) -> bool:
        return True

    def _new_internal_count(self, name: str) -> int:
        return self._internal_plans[name].partition_count

    def _new_internal_configs(self, name: str) -> Mapping[str, str]:
        return {**super()._new_internal_configs(name), **self._internal_plans[name].configs}

    def delete_topic(self, name: str, *, on_reply: Callable[[TopicDescription], None], on_error: OnError) -> None:
        topic = self.image.topics.get(name)
        if topic is None:
            super().delete_topic(name, on_reply=on_reply, on_error=on_error)
            return
        found = topic
        request = _request(
            _DELETE_TOPICS,
            _DELETE_TOPICS_VERSION,
            topics=[{"name": None, "topic_id": topic.topic_id}],
            timeout=_TIMEOUT_MS,
        )

        def answered(response: Any) -> None:
            (answer,) = response.responses
            if answer.error_code is ErrorCode.none:
                on_reply(found)
            else:
                on_error(_refused(answer))

        self._port.ask(request, answered, on_error)

    def allocate_producer_ids(self, on_reply: Callable[[ProducerIdBlock], None], on_error: OnError) -> None:
        request = _request(_ALLOCATE_PRODUCER_IDS, 0, broker_id=self._own_id, broker_epoch=self._broker_epoch())

        def answered(response: Any) -> None:
            if response.error_code is ErrorCode.none:
                on_reply(ProducerIdBlock(first_id=response.producer_id_start, id_count=response.producer_id_len))
            else:
                on_error(RequestRefusedError("no producer ids are given", error_code=response.error_code))

        self._port.ask(request, answered, on_error)

    def _when_known(self, name: str, on_reply: Callable[[TopicDescription], None], on_error: OnError) -> None:
        if name in self.image.topics:
            on_reply(self.image.topics[name])
            return
        key = ("awaited topic", name, on_reply)

        def known(topic: TopicDescription) -> None:
            self._timers.cancel(key)
            on_reply(topic)

        def late(now_ms: int) -> None:
            waiting = self._awaited.get(name, [])
            if known in waiting:
                waiting.remove(known)
                on_error(RequestTimedOutError(f"topic {name} was created, and is not known to this broker yet"))

        self._awaited.setdefault(name, []).append(known)
        self._timers.set(key, self._clock.now_ms() + _IMAGE_WAIT_MS, late)


def _request(key: int, version: int, *, timeout: int | None = None, **values: Any) -> Any:
    waits = {} if timeout is None else {"timeout": timedelta(milliseconds=timeout)}
    return build(message_types(key, version).request, {**values, **waits})


def _refused(answer: Any) -> StreamlogError:
    text = answer.error_message or answer.error_code.name
    if answer.error_code is ErrorCode.topic_already_exists:
        return TopicExistsError(text, topic=answer.name)
    return RequestRefusedError(text, error_code=answer.error_code)
