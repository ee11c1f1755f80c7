import pytest

from broker_core.protocol.api_table import ApiKey, message_types, versions_with_schemas
from broker_core.protocol.served_versions import SERVED_VERSIONS, is_served

KAFKA_4_3_1 = """
0:0-13 1:4-18 2:1-11 3:0-13 8:2-10 9:1-10 10:0-6 11:0-9 12:0-4 13:0-5 14:0-5 15:0-6 16:0-5 17:0-1 18:0-4 19:2-7 20:1-6
21:0-2 22:0-5 23:2-4 24:0-5 25:0-4 26:0-5 27:1-2 28:0-5 29:1-3 30:1-3 31:1-3 32:1-4 33:0-2 35:1-5 36:0-2 37:0-3 42:0-2
44:0-1 47:0-0 48:0-1 49:0-1 50:0-0 51:0-0 60:0-2 61:0-0 65:0-0 66:0-2 68:0-1 69:0-1 74:0-1 75:0-0
"""
"""What `kafka-broker-api-versions.sh` of Kafka 4.3.1 shows of its broker, as key:first-last."""


def test_the_advertised_version_ranges_match_kafka():
    theirs = {}
    for entry in KAFKA_4_3_1.split():
        key, versions = entry.split(":")
        first, last = versions.split("-")
        theirs[int(key)] = (int(first), int(last))
    assert {int(key): (versions[0], versions[-1]) for key, versions in SERVED_VERSIONS.items()} == theirs


@pytest.mark.parametrize("key", SERVED_VERSIONS, ids=lambda key: key.label)
def test_every_advertised_version_is_readable_except_produce_0_to_2(key):
    without = [version for version in SERVED_VERSIONS[key] if version not in versions_with_schemas(key)]
    assert without == ([0, 1, 2] if key is ApiKey.PRODUCE else [])
    assert [version for version in SERVED_VERSIONS[key] if not is_served(key, version)] == without
    message_types(key, SERVED_VERSIONS[key][-1])


def test_an_unknown_key_or_a_version_beyond_the_range_is_not_served():
    assert not is_served(999, 0)
    assert not is_served(ApiKey.FETCH, 3)
    assert not is_served(ApiKey.INIT_PRODUCER_ID, 6)
    assert not is_served(ApiKey.FETCH, -1)
