import subprocess
import sys
from pathlib import Path

import pytest
from kio.schema.index import api_key_map

from broker_core.model.exceptions import UnsupportedVersionError
from broker_core.protocol.api_table import ApiKey, api_label, message_types, versions_with_schemas

ADVERTISED = """
0 0-13 / 1 4-18 / 2 1-11 / 3 0-13 / 8 2-10 / 9 1-10 / 10 0-6 / 11 0-9 / 12 0-4 / 13 0-5 / 14 0-5 / 15 0-6 / 16 0-5 /
17 0-1 / 18 0-4 / 19 2-7 / 20 1-6 / 21 0-2 / 22 0-5 / 23 2-4 / 24 0-5 / 25 0-4 / 26 0-5 / 27 1-2 / 28 0-5 / 29 1-3 /
30 1-3 / 31 1-3 / 32 1-4 / 33 0-2 / 35 1-5 / 36 0-2 / 37 0-3 / 42 0-2 / 44 0-1 / 47 0-0 / 48 0-1 / 49 0-1 / 50 0-0 /
51 0-0 / 60 0-2 / 61 0-0 / 65 0-0 / 66 0-2 / 68 0-1 / 69 0-1 / 74 0-1 / 75 0-0
"""
"""What a real Kafka 4.3.1 advertises of our keys."""


def test_every_key_and_version_of_a_real_broker_has_a_schema():
    advertised = {}
    for entry in ADVERTISED.split("/"):
        key, versions = entry.split()
        advertised[ApiKey(int(key))] = range(int(versions.split("-")[0]), int(versions.split("-")[1]) + 1)
    assert advertised.keys() == set(ApiKey)
    missing = {
        (key, version) for key, span in advertised.items() for version in span
        if version not in versions_with_schemas(key)
    }  # fmt: skip
    # Advertised for clients that look for them, and not served.
    assert missing == {(ApiKey.PRODUCE, version) for version in (0, 1, 2)}


def test_api_keys_have_kafkas_names():
    for key in ApiKey:
        assert key.name.lower() == api_key_map[key]
    assert ApiKey.ADD_PARTITIONS_TO_TXN.label == "AddPartitionsToTxn"
    assert api_label(45) == "AlterPartitionReassignments"
    assert api_label(4711) == "API key 4711"


@pytest.mark.parametrize(("key", "version"), [(4711, 0), (ApiKey.FETCH, 3), (ApiKey.FETCH, 99), (-1, -1)])
def test_an_api_key_without_a_schema_is_refused(key, version):
    assert version not in versions_with_schemas(key)
    with pytest.raises(UnsupportedVersionError, match=str(version)):
        message_types(key, version)


def test_only_versions_in_use_are_imported():
    code = (
        "import sys; from broker_core.protocol.connection import ClientSide;"
        "from broker_core.protocol.api_table import message_types; message_types(1, 12);"
        "print(sum(name.startswith('kio.schema.') for name in sys.modules))"
    )
    root = Path(__file__).parents[4]
    answer = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert int(answer.stdout) < 30
