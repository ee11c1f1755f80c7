"""Metadata records against the bytes that Kafka 4.3.1 makes of the same values, and of its own log: see README.md."""

import json

import pytest
from generate_records import RECORDS, SCHEMAS, formatted, sources
from kafka_metadata import TYPES, from_json
from record_samples import RECORDING, answered, drawn_samples
from support.brokers import kafka_tools

from broker_core.metadata.metadata_record_codec import decode_metadata_record, encode_metadata_record

SAMPLES = json.loads(RECORDING.read_text())


def test_the_samples_have_every_type_in_every_version():
    found = {(sample["type"], sample["version"]) for sample in SAMPLES}
    assert len(found) == 26 + 4 + 2 + 2 + 3  # RegisterBroker 0-4, both Partition ones 0-2, BrokerRegistrationChange 0-3
    assert {api_key for api_key, _ in found} == set(TYPES)


def test_kafkas_bytes_are_read_as_the_values_they_were_encoded_from():
    for sample in SAMPLES:
        expected = from_json(TYPES[sample["type"]], sample["data"], sample["version"])
        assert decode_metadata_record(bytes.fromhex(sample["hex"])) == expected, sample


def test_the_values_are_written_as_kafkas_bytes():
    for sample in SAMPLES:
        record = from_json(TYPES[sample["type"]], sample["data"], sample["version"])
        assert encode_metadata_record(record).hex() == sample["hex"], sample


@pytest.mark.kafka
def test_kafka_still_makes_the_same_bytes():
    if reason := kafka_tools.why_unavailable():
        pytest.skip(reason)
    assert answered(drawn_samples()) == SAMPLES


@pytest.mark.kafka
def test_the_generated_files_are_what_kafkas_definitions_give():
    if reason := kafka_tools.why_unavailable():
        pytest.skip(reason)
    assert [formatted(text) for text in sources()] == [path.read_text() for path in (RECORDS, SCHEMAS)]
