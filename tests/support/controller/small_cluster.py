"""An active controller over a few brokers, driven by hand: what it appends is committed when the test says so."""

from __future__ import annotations

from uuid import UUID

from broker_core.controller.broker_registrations import (
    BrokerApplication,
    BrokerHeartbeat,
    plan_heartbeat,
    plan_registration,
)
from broker_core.controller.cluster_bootstrap import NEW_CLUSTER_FEATURES
from broker_core.controller.cluster_controller import AppendRecords, ClusterController, SendAnswer
from broker_core.controller.topic_plans import WantedTopic, plan_topic
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_records import BrokerFeature

FEATURES = tuple(
    BrokerFeature(name=name, min_supported_version=0, max_supported_version=level)
    for name, level in NEW_CLUSTER_FEATURES.items()
)


class CountingDice:
    """Bytes that follow from a number, and another number each time."""

    def __init__(self, first=0):
        self._next = first

    def random_bytes(self, count):
        self._next += 1
        return (self._next * 0x9E3779B97F4A7C15 % 2**64).to_bytes(8, "big") * (count // 8) + bytes(count % 8)


def directory(broker_id):
    return UUID(int=1000 + broker_id)


class SmallCluster:
    """`answers` by request; `log` is all records with their offsets."""

    def __init__(self, *broker_ids, defaults=None, timings=None, is_committing=True, controller_type=ClusterController):
        self.now_ms, self.answers, self.log, self.requests = 0, {}, [], 0
        self.is_committing = is_committing
        self.dice = CountingDice()
        self.controller = controller_type(
            MetadataImage(), next_offset=0, cluster_id="cluster", entropy=self.dice, now_ms=0, defaults=defaults,
            timings=timings,
        )  # fmt: skip
        self.carry_out(self.controller.begin(0))
        for broker_id in broker_ids:
            self.start(broker_id)

    @property
    def facts(self):
        return self.controller.facts

    @property
    def image(self):
        return self.controller.image

    def carry_out(self, effects):
        for effect in effects:
            match effect:
                case AppendRecords(from_offset=from_offset, records=records):
                    assert from_offset == len(self.log)
                    self.log += records
                case SendAnswer(request_id=request_id, reply=reply):
                    self.answers[request_id] = reply
        if effects and self.is_committing:
            self.carry_out(self.controller.on_committed(len(self.log)))

    def ask(self, plan):
        """The answer, or None while it waits. `plan` gets the facts."""
        self.requests += 1
        request_id = self.requests
        self.carry_out(
            self.controller.request(request_id, lambda controller, now_ms: plan(controller.facts), self.now_ms)
        )
        return self.answers.get(request_id)

    def pass_time(self, milliseconds):
        self.now_ms += milliseconds
        self.carry_out(self.controller.on_time(self.now_ms))
        return self

    # Brokers

    def register(self, broker_id, *, incarnation=0, rack=None, previous_epoch=None, features=FEATURES, **fields):
        application = BrokerApplication(
            broker_id=broker_id,
            cluster_id=fields.pop("cluster_id", "cluster"),
            incarnation_id=UUID(int=(broker_id << 32) + incarnation),
            features=features,
            rack=rack,
            log_dirs=fields.pop("log_dirs", (directory(broker_id),)),
            previous_epoch=previous_epoch,
            **fields,
        )
        controller, now_ms = self.controller, self.now_ms
        return self.ask(
            lambda facts: plan_registration(
                facts, application, cluster_id="cluster", next_offset=controller.next_offset,
                has_live_session=lambda *session: controller.sessions.keeps_id(*session, now_ms),
            )
        )  # fmt: skip

    def beat(self, broker_id, *, offset=None, epoch=None, **wishes):
        """A heartbeat; by default it knows everything that is committed."""
        controller = self.controller
        broker = self.image.registrations.brokers[broker_id]
        heartbeat = BrokerHeartbeat(
            broker_id=broker_id,
            broker_epoch=broker.broker_epoch if epoch is None else epoch,
            metadata_offset=len(self.log) - 1 if offset is None else offset,
            **wishes,
        )

        def plan(facts):
            result = plan_heartbeat(
                facts, heartbeat, register_offset=controller.register_offset(broker_id),
                is_shutdown_known=controller.is_shutdown_known,
            )  # fmt: skip
            controller.sessions.hear(
                broker_id, heartbeat.broker_epoch, metadata_offset=heartbeat.metadata_offset, now_ms=self.now_ms
            )
            return result

        return self.ask(plan)

    def start(self, broker_id, **fields):
        """Registers it and lets it run."""
        epoch = self.register(broker_id, **fields)
        self.beat(broker_id)
        return epoch

    def fence(self, broker_id):
        self.beat(broker_id, want_fence=True)

    # Topics

    def create(self, name, *assignments, partitions=-1, factor=-1, **configs):
        wanted = WantedTopic(
            name=name,
            partition_count=partitions,
            factor=factor,
            configs={setting.replace("_", "."): value for setting, value in configs.items()},
            assignments=list(enumerate(assignments)),
        )
        return self.ask(lambda facts: plan_topic(facts, wanted, entropy=self.dice))

    def partition(self, name, number=0):
        return self.image.partition(self.image.topics[name].topic_id, number)

    def append(self, *records):
        """Writes records as they are."""
        self.ask(lambda facts: CoordinatorResult(records=records, reply=None))
