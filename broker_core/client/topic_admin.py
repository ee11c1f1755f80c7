"""Topics at a broker: describe, create, delete, more partitions, settings.

A broker answers when the controller has decided; the brokers' metadata follows a moment later. So each call waits until
a broker shows the change, and a new topic can be used when the call returns.

A request whose answer was lost is sent again; the effect of the first one is then no error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i16, i32

from broker_core.client.broker_errors import broker_error
from broker_core.client.broker_router import BrokerRouter
from broker_core.client.deadline import Backoff, Deadline
from broker_core.client.metadata_snapshot import TopicMetadata, is_there, metadata_request, topic_view
from broker_core.client.topic_settings_reader import TopicSettingsReader
from broker_core.client.wire_values import remaining
from broker_core.cluster import TopicDescription
from broker_core.model.exceptions import (
    BrokerUnavailableError,
    RequestTimedOutError,
    StreamlogError,
    TopicExistsError,
    UnknownTopicError,
)
from broker_core.model.topic_settings import shown_topic_configs

_BROKERS_CHOICE: Final = -1
"""The number of partitions or replicas that means the broker's default."""

_TOPIC_RESOURCE: Final = 2
_SET, _DELETE = 0, 1


class TopicAdmin:
    """`Cluster` documents the methods. `configs` of a description include the broker's defaults for all topics, because
    they apply to this one."""

    def __init__(self, router: BrokerRouter) -> None:
        self._router = router
        self._settings = TopicSettingsReader(router)

    def describe(self, names: Collection[str] | None) -> dict[str, TopicDescription]:
        if names is not None and not names:
            return {}
        return self._router.run("describe topics", lambda deadline: self._describe(names, deadline))

    def create(
        self,
        name: str,
        partition_count: int | None,
        configs: Mapping[str, str],
        *,
        replication_factor: int | None = None,
        assignments: Sequence[Sequence[int]] = (),
    ) -> TopicDescription:
        """`assignments`: the replicas of each partition, instead of both numbers."""
        from kio.schema.create_topics.v7 import request as schema

        topic = schema.CreatableTopic(
            name=TopicName(name),
            num_partitions=i32(_BROKERS_CHOICE if partition_count is None else partition_count),
            replication_factor=i16(_BROKERS_CHOICE if replication_factor is None else replication_factor),
            assignments=tuple(
                schema.CreatableReplicaAssignment(
                    partition_index=i32(number), broker_ids=tuple(BrokerId(replica) for replica in replicas)
                )
                for number, replicas in enumerate(assignments)
            ),
            configs=tuple(schema.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()),
        )

        def request(deadline: Deadline) -> Any:
            return schema.CreateTopicsRequest(topics=(topic,), timeout=self._timeout(deadline))

        what = f"create topic {name!r}"
        try:
            self._change(what, request, lambda answer: answer.topics[0], done=ErrorCode.topic_already_exists)
        except TopicExistsError as error:
            # The caller will use the existing topic next, so it must be visible.
            self._await(what, name, lambda found: found is not None and found.has_all_leaders)
            raise TopicExistsError(f"Topic '{name}' already exists.", topic=name) from error
        return self._shown(what, name, lambda found: found.has_all_leaders)

    def delete(self, name: str) -> None:
        from kio.schema.delete_topics.v6 import request as schema

        def request(deadline: Deadline) -> Any:
            topic = schema.DeleteTopicState(name=TopicName(name), topic_id=None)
            return schema.DeleteTopicsRequest(topics=(topic,), timeout=self._timeout(deadline))

        what = f"delete topic {name!r}"
        done = ErrorCode.unknown_topic_or_partition
        self._change(what, request, lambda answer: answer.responses[0], done=done, topic=name)
        self._await(what, name, lambda found: found is None)

    def create_partitions(self, name: str, total_count: int) -> TopicDescription:
        from kio.schema.create_partitions.v3 import request as schema

        def request(deadline: Deadline) -> Any:
            topic = schema.CreatePartitionsTopic(name=TopicName(name), count=i32(total_count), assignments=None)
            return schema.CreatePartitionsRequest(topics=(topic,), timeout=self._timeout(deadline), validate_only=False)

        what = f"add partitions to topic {name!r}"
        # A retry is answered that the topic has that many partitions already.
        done = ErrorCode.invalid_partitions
        self._change(what, request, lambda answer: answer.results[0], done=done, topic=name)
        return self._shown(what, name, lambda found: len(found.partitions) >= total_count and found.has_all_leaders)

    def alter_configs(self, name: str, changes: Mapping[str, str | None]) -> TopicDescription:
        from kio.schema.incremental_alter_configs.v1 import request as schema

        altered = tuple(
            schema.AlterableConfig(name=key, config_operation=i8(_DELETE if value is None else _SET), value=value)
            for key, value in changes.items()
        )

        def request(deadline: Deadline) -> Any:
            resource = schema.AlterConfigsResource(
                resource_type=i8(_TOPIC_RESOURCE), resource_name=name, configs=altered
            )
            return schema.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)

        what = f"alter the settings of topic {name!r}"
        self._change(what, request, lambda answer: answer.responses[0], done=None, topic=name)
        return self._router.run(what, lambda deadline: self._altered(name, changes, deadline))

    # -- changes --

    def _change(
        self,
        what: str,
        request: Callable[[Deadline], Any],
        result_of: Callable[[Any], Any],
        *,
        done: ErrorCode | None,
        topic: str | None = None,
    ) -> None:
        """Sends it to the controller. `done` is the error that means, for a retry, that the first request succeeded.
        `topic` must exist."""
        is_sent_again = False

        def attempt(deadline: Deadline) -> None:
            nonlocal is_sent_again
            was_sent, is_sent_again = is_sent_again, True
            try:
                view = self._router.view(deadline)
                message = request(deadline)
                if view.controller_id in view.brokers:
                    (answer,) = self._router.ask_node(view.controller_id, [message], deadline)
                else:
                    answer = self._router.ask_any(message, deadline)
            except (BrokerUnavailableError, RequestTimedOutError):
                raise
            except StreamlogError:
                is_sent_again = was_sent
                raise
            result = result_of(answer)
            code = result.error_code
            if code == ErrorCode.none or (was_sent and code == done):
                return
            if code != ErrorCode.request_timed_out:
                is_sent_again = was_sent
            if topic is not None and code == ErrorCode.unknown_topic_or_partition:
                raise UnknownTopicError(f"Topic '{topic}' does not exist.", topic=topic)
            raise broker_error(code, what, result.error_message)

        self._router.run(what, attempt)

    def _timeout(self, deadline: Deadline) -> Any:
        return remaining(deadline, self._router.settings.request_timeout_ms)

    # -- metadata --

    def _describe(self, names: Collection[str] | None, deadline: Deadline) -> dict[str, TopicDescription]:
        if names is None:
            answer = self._router.ask_any(metadata_request(None), deadline)
            found = {str(topic.name): topic_view(topic) for topic in answer.topics if topic.name and is_there(topic)}
        else:
            topics = self._router.refresh(names, deadline).topics
            found = {name: topics[name] for name in names if name in topics}
        configs = self._settings.of(found, deadline)
        return {name: _description(topic, configs[name]) for name, topic in found.items()}

    def _await(self, what: str, name: str, is_so: Callable[[TopicMetadata | None], bool]) -> None:
        """Waits until a broker shows the change."""
        settings = self._router.settings

        def attempt(deadline: Deadline) -> None:
            backoff = Backoff(first_ms=5, longest_ms=settings.retry_backoff_ms)
            while not is_so(self._router.refresh([name], deadline).topics.get(name)):
                if not deadline.pause(backoff.next_seconds()):
                    raise RequestTimedOutError(
                        f"{what}: the change was accepted, but no broker shows it within {deadline.timeout_ms}"
                        f" ms ({deadline.setting})"
                    )

        self._router.run(what, attempt)

    def _shown(self, what: str, name: str, is_so: Callable[[TopicMetadata], bool]) -> TopicDescription:
        self._settings.forget(name)
        self._await(what, name, lambda found: found is not None and is_so(found))
        described = self.describe([name])
        if name not in described:
            raise UnknownTopicError(f"Topic '{name}' was deleted while it was being changed.", topic=name)
        return described[name]

    def _altered(self, name: str, changes: Mapping[str, str | None], deadline: Deadline) -> TopicDescription:
        """Waits a little for the broker to show the change. A broker returns parsed values."""
        backoff, latest = Backoff(first_ms=5, longest_ms=50), time.monotonic() + 2
        expected = shown_topic_configs({key: value for key, value in changes.items() if value is not None})
        while True:
            self._settings.forget(name)
            described = self._describe([name], deadline)
            if name not in described:
                raise UnknownTopicError(f"Topic '{name}' does not exist.", topic=name)
            configs = described[name].configs
            is_shown = all(configs.get(key) == value for key, value in expected.items())
            if is_shown and not any(value is None and key in configs for key, value in changes.items()):
                return described[name]
            if time.monotonic() > latest or not deadline.pause(backoff.next_seconds()):
                return described[name]


def _description(topic: TopicMetadata, configs: Mapping[str, str]) -> TopicDescription:
    return TopicDescription(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_count=len(topic.partitions),
        configs=configs,
        is_internal=topic.is_internal,
        leaderless=topic.leaderless,
    )
