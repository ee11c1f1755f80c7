"""The same quotas and the same clients at a real Kafka and at ours; `pytest -m kafka`.

Rates are looked at over seconds, and throttle times with a margin for what the requests themselves take.
"""

import time
from datetime import timedelta

import pytest
from support.brokers.either_broker import running_broker
from support.brokers.small_broker import RawClient
from support.builders.builders import a_batch, some_records

from broker_core.protocol.api_table import ApiKey

KINDS = ("ours", "real")
ME = [("user", "ANONYMOUS")]
SHORT_WINDOW = ("quota.window.num=2", "group.initial.rebalance.delay.ms=0")
EXACT, DEFAULT, SPECIFIED = range(3)
MARGIN_MS = 150

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module", params=KINDS)
def broker(request, tmp_path_factory):
    with running_broker(request.param, tmp_path_factory.mktemp(request.param) / "node") as running:
        yield running


@pytest.fixture(scope="module", params=KINDS)
def quick_broker(request, tmp_path_factory):
    """Its rates span one second at first."""
    folder = tmp_path_factory.mktemp(request.param) / "node"
    with running_broker(request.param, folder, settings=SHORT_WINDOW) as running:
        yield running


def a_client(broker):
    return RawClient(broker.ports["PLAINTEXT"])


def entry(entity, **quotas):
    named = [{"entity_type": kind, "entity_name": name} for kind, name in entity]
    ops = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in quotas.items()]
    return {"entity": named, "ops": ops}


def alter(broker, *entries):
    with a_client(broker) as client:
        return client.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=entries, validate_only=False).entries


def set_quotas(broker, entity=ME, **quotas):
    (answer,) = alter(broker, entry(entity, **quotas))
    assert answer.error_code.value == 0, answer
    wanted = {key: value for key, value in quotas.items() if value is not None}
    while described(broker).get(tuple(entity), {}) != wanted:
        time.sleep(0.02)
    time.sleep(0.1)


def described(broker, *components, strict=False):
    named = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components]
    with a_client(broker) as client:
        answer = client.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=named, strict=strict)
    assert answer.error_code.value == 0, answer
    return {
        tuple(sorted((part.entity_type, part.entity_name) for part in each.entity)): {
            value.key: value.value for value in each.values
        }
        for each in answer.entries
    }


def make_topic(client, name, partition_count=1, version=7):
    topic = {"name": name, "num_partitions": partition_count, "replication_factor": 1}
    answer = client.ask(ApiKey.CREATE_TOPICS, version, topics=[topic], timeout=10_000)
    return answer.topics[0].error_code.name, ms(answer)


def ms(answer):
    return round(answer.throttle_time / timedelta(milliseconds=1))


def produce(client, topic, size_bytes, acks=1):
    batch = a_batch(some_records(1, value=b"x" * size_bytes))
    data = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
    fields = {"acks": acks, "timeout": 10_000, "transactional_id": None, "topic_data": data}
    answer = client.ask(ApiKey.PRODUCE, 9, **fields)
    assert answer.responses[0].partition_responses[0].error_code.value == 0
    return ms(answer)


def fetch(client, topic, offset, max_bytes=2**20):
    answer = client.ask(
        ApiKey.FETCH, 11, replica_id=-1, max_wait=500, min_bytes=1, max_bytes=max_bytes, isolation_level=0,
        session_id=0, session_epoch=-1, forgotten_topics_data=[], rack_id="",
        topics=[{"topic": topic, "partitions": [
            {"partition": 0, "fetch_offset": offset, "partition_max_bytes": max_bytes, "log_start_offset": -1}]}],
    )  # fmt: skip
    records = [len(each.partitions[0].records or b"") for each in answer.responses]
    return sum(records), ms(answer)


EVERY_LEVEL = [
    entry([("user", "ann"), ("client-id", "etl")], producer_byte_rate=1.0),
    entry([("user", "ann"), ("client-id", None)], producer_byte_rate=2.0, consumer_byte_rate=2000.0),
    entry([("user", "ann")], request_percentage=12.5),
    entry([("user", None), ("client-id", "etl")], producer_byte_rate=4.0),
    entry([("user", None), ("client-id", None)], producer_byte_rate=5.0),
    entry([("user", None)], controller_mutation_rate=0.5),
    entry([("client-id", "etl")], producer_byte_rate=7.0),
    entry([("client-id", None)], producer_byte_rate=8.0),
    entry([("ip", "10.0.0.1")], connection_creation_rate=9.0),
    entry([("ip", None)], connection_creation_rate=1000.0),
]
FILTERS = [
    [],
    [("user", EXACT, "ann")],
    [("user", DEFAULT, None)],
    [("user", SPECIFIED, None)],
    [("user", SPECIFIED, None), ("client-id", DEFAULT, None)],
    [("client-id", EXACT, "etl")],
    [("ip", SPECIFIED, None)],
    [("ip", DEFAULT, None)],
]
REFUSED = [
    entry([("user", "ann")], nothing=1.0),
    entry([("user", "ann")], producer_byte_rate=0.0001),
    entry([("user", "ann")], producer_byte_rate=-1.0),
    entry([("user", "ann")], request_percentage=-1.0),
    entry([("ip", "10.0.0.1")], connection_creation_rate=1.5),
    entry([("ip", "10.0.0.1")], producer_byte_rate=1.0),
    entry([("ip", "10.0.0.1"), ("user", "ann")], producer_byte_rate=1.0),
    entry([("nation", "fr")], producer_byte_rate=1.0),
    entry([("user", "")], producer_byte_rate=1.0),
    entry([("ip", "not.an.address.invalid")], connection_creation_rate=1.0),
    entry([], producer_byte_rate=1.0),
]


def test_the_same_quotas_are_described_in_the_same_way(tmp_path_factory):
    found = []
    for kind in KINDS:
        with running_broker(kind, tmp_path_factory.mktemp(kind) / "node") as running:
            assert {answer.error_code.value for answer in alter(running, *EVERY_LEVEL)} == {0}
            time.sleep(0.3)
            of_filters = [described(running, *each, strict=strict) for each in FILTERS for strict in (False, True)]
            refusals = [alter(running, each)[0].error_code.name for each in REFUSED]
            found.append((of_filters, refusals))
    assert found[0] == found[1]
    assert len(found[0][0][0]) == len(EVERY_LEVEL)
    assert set(found[0][1]) == {"invalid_request"}


def test_the_first_throttled_produce_and_its_time(broker):
    set_quotas(broker, producer_byte_rate=100_000.0)
    with a_client(broker) as client:
        make_topic(client, "first-produce")
        times = [produce(client, "first-produce", 99_900) for _ in range(11)]
    set_quotas(broker, producer_byte_rate=None)
    # Ten requests of 100 KB fit the ten seconds, and the eleventh is a tenth too much: one second, less what they took.
    assert times[:10] == [0] * 10
    assert 0 < times[10] <= 1_000 + MARGIN_MS


def test_the_client_is_answered_at_once_and_read_from_after_the_throttle_time(quick_broker):
    with a_client(quick_broker) as client:
        make_topic(client, "muted")
        produce(client, "muted", 10)
        set_quotas(quick_broker, producer_byte_rate=100_000.0)
        before = time.monotonic()
        throttle_ms = produce(client, "muted", 199_900)
        answered = time.monotonic()
        produce(client, "muted", 10)
        after = time.monotonic()
    set_quotas(quick_broker, producer_byte_rate=None)
    assert throttle_ms == pytest.approx(1_000, abs=MARGIN_MS)
    assert (answered - before) * 1000 < throttle_ms / 2
    assert (after - answered) * 1000 == pytest.approx(throttle_ms, abs=MARGIN_MS)


def test_a_producer_is_slowed_down_to_its_rate(quick_broker):
    set_quotas(quick_broker, producer_byte_rate=200_000.0)
    with a_client(quick_broker) as client:
        make_topic(client, "slow-producer")
        begun, sent, throttled = time.monotonic(), 0, 0
        while time.monotonic() - begun < 6:
            throttled += produce(client, "slow-producer", 20_000) > 0
            sent += 20_000
        rate = sent / (time.monotonic() - begun)
    set_quotas(quick_broker, producer_byte_rate=None)
    print(f"produced {rate:,.0f} B/s, quota 200,000, {throttled} of {sent // 20_000} throttled")
    assert 140_000 < rate < 260_000
    assert throttled


def test_a_consumer_is_slowed_down_to_its_rate(quick_broker):
    with a_client(quick_broker) as client:
        make_topic(client, "slow-consumer")
        for _ in range(100):
            produce(client, "slow-consumer", 20_000)
        set_quotas(quick_broker, consumer_byte_rate=200_000.0)
        begun, read, offset, empty = time.monotonic(), 0, 0, 0
        while time.monotonic() - begun < 6:
            byte_count, throttle_ms = fetch(client, "slow-consumer", offset, 21_000)
            assert (byte_count == 0) == (throttle_ms > 0)
            empty += throttle_ms > 0
            offset += byte_count > 0
            read += byte_count
        rate = read / (time.monotonic() - begun)
    set_quotas(quick_broker, consumer_byte_rate=None)
    print(f"fetched {rate:,.0f} B/s, quota 200,000, {empty} answers without records")
    assert 130_000 < rate < 260_000
    assert empty


def test_partitions_beyond_the_mutation_rate(broker):
    set_quotas(broker, controller_mutation_rate=1.0)
    with a_client(broker) as client:
        made = [make_topic(client, f"mutated-{number}", 4) for number in range(3)]
        refused = make_topic(client, "mutated-3", 4)
        time.sleep(1.2)
        again = make_topic(client, "mutated-3", 3)
        old = make_topic(client, "mutated-4", 3, version=5)
    with a_client(broker) as client:
        deletion = client.ask(ApiKey.DELETE_TOPICS, 5, topic_names=["mutated-0"], timeout=10_000)
    set_quotas(broker, controller_mutation_rate=None)
    assert made == [("none", 0)] * 3
    assert refused[0] == "throttling_quota_exceeded"
    assert 0 < refused[1] <= 1_000
    assert again == ("none", 0)
    assert old[0] == "none"
    assert old[1] > 2_000
    assert deletion.responses[0].error_code.name == "throttling_quota_exceeded"


def test_a_request_percentage_throttles_for_a_second_at_most(quick_broker):
    set_quotas(quick_broker, request_percentage=0.001)
    with a_client(quick_broker) as client:
        times = [ms(client.ask(ApiKey.METADATA, 9, topics=[])) for _ in range(3)]
    set_quotas(quick_broker, request_percentage=None)
    assert 0 < max(times) <= 1_000


def test_an_address_that_opens_connections_too_fast_sees_them_closed(broker):
    set_quotas(broker, [("ip", "127.0.0.1")], connection_creation_rate=5.0)
    # The questions of `set_quotas` itself count, too.
    clients = [a_client(broker) for _ in range(60)]
    with_answer = 0
    for client in clients:
        try:
            client.ask(ApiKey.API_VERSIONS, 0)
            with_answer += 1
        except (AssertionError, OSError):
            pass
        client.close()
    time.sleep(12)
    set_quotas(broker, [("ip", "127.0.0.1")], connection_creation_rate=None)
    print(f"{with_answer} of 60 connections stay")
    assert 40 <= with_answer <= 52
