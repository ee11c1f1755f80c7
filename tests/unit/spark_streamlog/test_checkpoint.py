"""What a checkpoint says to the sink: something true, or nothing."""

import pytest

from spark_streamlog.checkpoint import input_fingerprint, query_id_of

QUERY_ID = "73186b39-922e-4208-9ce5-ca7bd052e63b"


@pytest.fixture
def checkpoint(tmp_path):
    (tmp_path / "metadata").write_text(f'{{"id":"{QUERY_ID}"}}')
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "3").write_text('v1\n{"batchWatermarkMs":0}\n{"t":{"0":23}}')
    return tmp_path


def test_the_query_id_is_read_from_sparks_metadata(checkpoint):
    assert query_id_of(str(checkpoint)) == QUERY_ID


def test_a_checkpoint_location_can_be_a_uri(tmp_path):
    folder = tmp_path / "check point"
    folder.mkdir()
    (folder / "metadata").write_text(f'{{"id":"{QUERY_ID}"}}')
    escaped = str(folder).replace(" ", "%20")
    assert query_id_of(f"file://{escaped}") == query_id_of(f"file:{escaped}") == query_id_of(str(folder)) == QUERY_ID


@pytest.mark.parametrize("location", [None, "", "hdfs://host/c", "s3a://bucket/c", "dbfs:/c", "/none", "/no\0name"])
def test_an_unreadable_checkpoint_has_no_query_id(location):
    assert query_id_of(location) is None
    assert input_fingerprint(location, QUERY_ID, 3) == ""


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "{}", '{"id":7}', '{"id":"orders"}', "[" * 5000, "\xff"])
def test_foreign_metadata_has_no_query_id(checkpoint, text):
    (checkpoint / "metadata").write_text(text, encoding="latin-1")
    assert query_id_of(str(checkpoint)) is None


def test_the_fingerprint_is_computed_from_the_offsets_of_the_batch(checkpoint):
    before = input_fingerprint(str(checkpoint), QUERY_ID, 3)
    assert before == input_fingerprint(str(checkpoint), QUERY_ID, 3)
    (checkpoint / "offsets" / "3").write_text('v1\n{"batchWatermarkMs":0}\n{"t":{"0":24}}')
    assert len(before) == 16
    assert input_fingerprint(str(checkpoint), QUERY_ID, 3) not in (before, "")


def test_another_querys_checkpoint_and_an_unplanned_batch_have_no_fingerprint(checkpoint):
    assert input_fingerprint(str(checkpoint), QUERY_ID.replace("7", "8"), 3) == ""
    assert input_fingerprint(str(checkpoint), None, 3) == ""
    assert input_fingerprint(str(checkpoint), QUERY_ID, 4) == ""


def test_a_batch_of_an_unknown_query_has_no_fingerprint(checkpoint):
    (checkpoint / "metadata").unlink()
    assert input_fingerprint(str(checkpoint), None, 3) == ""
