import pytest

from broker_core.metadata.replica_assignment import refusal_of_assignment

UNKNOWN = "The manual partition assignment includes broker {}, but no such broker is registered."
TWICE = "The manual partition assignment includes the broker 1 more than once."


# What Kafka 4.3.1 with broker 1 answers to these, in CreateTopics and in CreatePartitions.
@pytest.mark.parametrize(
    ("broker_ids", "refusal"),
    [
        ([1], None),
        ([], "The manual partition assignment includes an empty replica list."),
        ([2], UNKNOWN.format(2)),
        ([-1], UNKNOWN.format(-1)),
        ([1, 1], TWICE),
        ([1, 2], UNKNOWN.format(2)),
        ([2, 1], UNKNOWN.format(2)),
        ([1, 2, 2], UNKNOWN.format(2)),
    ],
)
def test_only_a_registered_broker_can_have_a_replica_and_only_one(broker_ids, refusal):
    assert refusal_of_assignment([1], broker_ids) == refusal
