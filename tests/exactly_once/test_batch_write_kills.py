"""SIGKILL around a batch write: all of it is read or nothing; with txnAppId and txnVersion also when it is repeated."""

import time

import pytest
from exactly_once.kill_matrix import KillMatrix
from exactly_once.kill_orders import Kill
from exactly_once.kill_stories import TARGET_LOG, TRANSACTION_BOUNDS, TRANSACTION_LOG, kill_in_write, killed_twice
from exactly_once.numbered_rows import NumberedRows, committed_values
from exactly_once.spark_process import QueryFailed
from exactly_once.watching_reader import WatchingReader

ROW_COUNT = 30
NOTHING_IS_READ = {
    "the driver dies as it plans": (Kill(step="TAKEN_OVER"),),
    "a task dies twice with its rows written": killed_twice("TASK_APPENDED", task=1),
    "the driver dies before the decision": (Kill(step="COMMITTING"),),
    "the driver dies in the append that decides": (kill_in_write("COMMITTING", TRANSACTION_LOG, 1, "torn"),),
}
ALL_IS_READ = {
    "a task dies once": (killed_twice("TASK_FLUSHED", task=2)[0],),
    "the driver dies after the append that decides": (kill_in_write("COMMITTING", TRANSACTION_BOUNDS, 1, "after"),),
    "the driver dies between two markers": (kill_in_write("COMMITTING", TARGET_LOG, 2, "torn"),),
    "the driver dies when it has decided": (Kill(step="DECIDED"),),
    "the driver dies before it answers": (Kill(step="COMMITTED"),),
}


@pytest.fixture
def rows(tmp_path):
    rows = NumberedRows(str(tmp_path / "log"))
    yield rows
    rows.close()


def write(spark, rows, word, **options):
    """Whether Spark reports success."""
    try:
        spark.call("write_batch", directory=rows.place, count=ROW_COUNT, word=word, **options)
    except QueryFailed:
        return False
    return True


def written(word):
    return sorted(f"{word}|{number}".encode() for number in range(ROW_COUNT))


@pytest.mark.long
def test_a_killed_batch_write_is_readable_completely_or_not_at_all(spark, rows, kills):
    expected = []
    for name, killed in (NOTHING_IS_READ | ALL_IS_READ).items():
        kills.order(*killed)
        is_written = write(spark, rows, name)
        assert len(kills.hits()) == len(killed), f"{name}: {kills.hits()}"
        print(f"{name}: {[str(kill) for kill in killed]}; Spark says written: {is_written}")
        # A write whose driver died after the decision is there, though Spark could not say so.
        expected += written(name) if name in ALL_IS_READ else []
        assert sorted(committed_values(rows.place)) == sorted(expected), name
        assert list(rows.leftovers()) == [], name


@pytest.mark.long
def test_an_abandoned_write_blocks_readers_no_longer_than_its_timeout(spark, rows, kills):
    timeout_ms = 2000
    kills.order(Kill(step="COMMITTING"), Kill(step="ABORTING"))
    assert not write(spark, rows, "lost", **{"kafka.transaction.timeout.ms": timeout_ms})
    died_at = time.monotonic()
    assert len(kills.hits()) == 2
    kills.order()
    assert write(spark, rows, "next")
    while len(values := committed_values(rows.place)) < ROW_COUNT and time.monotonic() < died_at + 30:
        time.sleep(0.05)
    waited = time.monotonic() - died_at
    assert sorted(values) == written("next")
    assert waited < timeout_ms / 1000 + 10, waited
    assert list(rows.leftovers()) == []


@pytest.mark.long
def test_a_write_with_txn_app_id_and_txn_version_exists_once(spark, rows, kills):
    pair = {"txnAppId": "nightly", "txnVersion": 1}
    kills.order(Kill(step="COMMITTED"))
    assert not write(spark, rows, "first", **pair)
    kills.order()
    assert write(spark, rows, "again", **pair)
    assert sorted(committed_values(rows.place)) == written("first")


@pytest.mark.long
def test_the_next_txn_version_is_written_once_even_if_its_first_write_was_killed(spark, rows, kills):
    assert write(spark, rows, "first", txnAppId="nightly", txnVersion=1)
    kills.order(Kill(step="COMMITTING"))
    assert not write(spark, rows, "lost", txnAppId="nightly", txnVersion=2)
    kills.order()
    assert write(spark, rows, "second", txnAppId="nightly", txnVersion=2)
    assert sorted(committed_values(rows.place)) == sorted(written("first") + written("second"))


@pytest.mark.long
def test_foreach_batch_with_txn_app_id_copies_each_row_once(spark, tmp_path, kills):
    matrix = KillMatrix(tmp_path, kills, query="copy_by_foreach_batch")
    matrix.watch(WatchingReader(matrix.place, matrix.checkpoint, decision_group="streamlog-sink-copier"))
    try:
        matrix.die_at_each(
            spark,
            "foreachBatch",
            Kill(step="PLANNED"),
            Kill(step="COMMITTING"),
            kill_in_write("DECISION_WRITTEN", TRANSACTION_BOUNDS, 1, "after"),
            Kill(step="DECIDED"),
            Kill(step="COMMITTED"),
        )
        matrix.kills.order()
        assert matrix.copy(spark) is None
        matrix.forget_last_commit()
        assert matrix.finish(spark) == []
    finally:
        matrix.close()
