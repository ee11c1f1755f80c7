"""The two brokers, with the settings that the scenarios depend on."""

import importlib
from pathlib import Path

from differential.scenario import SCENARIOS
from differential.side import Side

TYPED_IN_THE_FILE = (
    "log.cleaner.min.cleanable.ratio= 0.50",
    "log.cleaner.delete.retention.ms=086400000",
    "log.cleanup.policy=delete,  delete",
    "log.preallocate=FALSE",
    "log.roll.hours=0168",
    "log.cleaner.io.buffer.load.factor=1",
    "sasl.login.refresh.min.period.seconds=060",
    "group.consumer.assignors= uniform, range,uniform",
)
"""One of each type, in unusual spellings."""
SETTINGS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=500",
    "group.consumer.min.session.timeout.ms=1000",
    "group.consumer.session.timeout.ms=30000",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=5000",
    # The records of the scenarios are years old.
    "log.retention.ms=-1",
    *TYPED_IN_THE_FILE,
    "log.cleaner.backoff.ms=100",
)
SETTLE_SECONDS = 0.2
"""A real Kafka's controller and broker are two nodes."""


def all_scenarios():
    """Imports every module with scenarios first."""
    for module in sorted(Path(__file__).parent.glob("*_scenarios.py")):
        importlib.import_module(f"differential.{module.stem}")
    return SCENARIOS


def side_of(name, broker, settle_seconds=0.0):
    side = Side(name, ("127.0.0.1", broker.ports["PLAINTEXT"]), settle_seconds=settle_seconds)
    side.warm_up()
    return side
