"""The recorded answers on the wire are those that a real Kafka still gives."""

import pytest
from differential.plain_values import Names, plain
from golden.wire_recording import asked_again, message_of
from support.brokers.kafka_tools import why_unavailable
from support.brokers.real_kafka import RealKafka
from support.clients.recorded_wire import recorded_exchanges

pytestmark = pytest.mark.kafka
OF_THE_RUN = {"port", "cluster_id", "finalized_features_epoch", "throttle_time"}


def told(exchange, names):
    return without_what_is_of_the_run(plain(message_of(exchange, exchange.response[4:]), names))


def without_what_is_of_the_run(value):
    if isinstance(value, dict):
        return {name: without_what_is_of_the_run(each) for name, each in value.items() if name not in OF_THE_RUN}
    return [without_what_is_of_the_run(each) for each in value] if isinstance(value, list) else value


def test_a_real_kafka_still_answers_the_recorded_requests(tmp_path):
    reason = why_unavailable()
    if reason:
        pytest.skip(reason)
    exchanges = list(recorded_exchanges().values())
    assert exchanges
    running = RealKafka(tmp_path / "node")
    try:
        again = asked_again(running, exchanges)
    finally:
        running.kill()
    before, now = Names(), Names()
    for one, other in zip(exchanges, again, strict=True):
        assert told(other, now) == told(one, before), one.name
