"""The note about a driver, between two processes of one Spark application."""

import pytest

from broker_core.cluster import TransactionalProducer
from spark_streamlog.sink.planned_driver import store_driver, stored_driver

QUERY_ID = "73186b39-922e-4208-9ce5-ca7bd052e63b"
OTHER_ID = "00000000-0000-4000-8000-000000000000"


def a_driver(epoch):
    return TransactionalProducer(transactional_id=f"{QUERY_ID}-driver", producer_id=7, producer_epoch=epoch)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/elsewhere")
    return tmp_path


def test_the_newest_driver_of_a_query_is_stored_for_the_application(folder):
    assert stored_driver(QUERY_ID) is None
    store_driver(QUERY_ID, a_driver(1))
    store_driver(QUERY_ID, a_driver(2))
    assert stored_driver(QUERY_ID) == a_driver(2)
    assert stored_driver(OTHER_ID) is None
    assert [path.name for path in folder.iterdir()] == [f"streamlog-driver-{QUERY_ID}.json"]


def test_another_application_does_not_see_it(folder, tmp_path_factory, monkeypatch):
    store_driver(QUERY_ID, a_driver(1))
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path_factory.mktemp("other")))
    assert stored_driver(QUERY_ID) is None


def test_without_a_local_directory_of_the_application_nothing_is_stored(monkeypatch):
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    store_driver(QUERY_ID, a_driver(1))
    assert stored_driver(QUERY_ID) is None


def test_a_directory_that_cannot_be_written_does_not_fail_the_query(monkeypatch, caplog):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/nowhere/at/all")
    store_driver(QUERY_ID, a_driver(1))
    assert QUERY_ID in caplog.text
    assert stored_driver(QUERY_ID) is None


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"transactional_id": "a", "producer_id": "x"}', "null"])
def test_a_damaged_file_is_ignored(folder, content):
    (folder / f"streamlog-driver-{QUERY_ID}.json").write_text(content)
    assert stored_driver(QUERY_ID) is None
