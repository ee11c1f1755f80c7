"""The whole driver dies, JVM and Python; or there are two drivers."""

import pytest
from exactly_once.kill_matrix import KillMatrix
from exactly_once.kill_orders import Kill
from exactly_once.kill_stories import TARGET_LOG, TRANSACTION_LOG, kill_in_write
from exactly_once.spark_process import SparkDied


@pytest.fixture
def matrix(tmp_path, kills):
    matrix = KillMatrix(tmp_path, kills)
    yield matrix
    matrix.close()


def die_in_a_copy(spark, matrix, kill):
    """A run in which the driver dies. Returns the number of batches that Spark noted as committed."""
    before = matrix.newest("commits")
    matrix.add_batches(2)
    matrix.kills.order(kill)
    with pytest.raises(SparkDied):
        matrix.copy(spark)
    spark.kill()
    matrix.note_hits("the whole driver dies", (kill,))
    assert matrix.newest("offsets") == matrix.newest("commits") + 1
    return matrix.newest("commits") - before


@pytest.mark.long
def test_two_concurrent_drivers_and_a_killed_one_lose_and_repeat_no_row(sparks, matrix):
    other = sparks.another()
    spark = sparks.current()
    copied = matrix.be_overtaken(spark, other)
    # Fenced, and a batch behind: the one it commits, and the next one too, are decided by the other.
    for failure in (matrix.end_copy(spark), matrix.copy(spark)):
        assert "STREAMLOG_BATCH_NOT_NEXT" in failure
    matrix.checkpoint = copied
    assert die_in_a_copy(spark, matrix, Kill(step="DECISION_WRITTEN", victims="driver")) == 0
    sparks.replace(other)
    assert matrix.finish(other) == []


LONG_KILLS = {
    "at planning": Kill(step="PLANNED"),
    "as a task begins": Kill(step="TASK_MAY_WRITE"),
    "with rows written": Kill(step="TASK_APPENDED"),
    "with a task done": Kill(step="TASK_FLUSHED", nth=2),
    "before the decision": Kill(step="COMMITTING"),
    "with the decision written": Kill(step="DECISION_WRITTEN"),
    "in the append that decides": kill_in_write("DECISION_WRITTEN", TRANSACTION_LOG, 1, "torn"),
    "after the append that decides": kill_in_write("DECISION_WRITTEN", TRANSACTION_LOG, 1, "after"),
    "between two markers": kill_in_write("DECISION_WRITTEN", TARGET_LOG, 2, "before"),
    "with all markers written": kill_in_write("DECISION_WRITTEN", TRANSACTION_LOG, 2, "before"),
    "with the batch decided": Kill(step="DECIDED"),
    "before Spark's own commit": Kill(step="COMMITTED"),
    "after Spark's own commit": Kill(step="PLANNING", nth=2),
}


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_driver_killed_at_each_step_loses_and_repeats_no_row(sparks, matrix):
    for name, kill in LONG_KILLS.items():
        spark, coming = sparks.current(), sparks.another()
        with matrix.reader.pausing():
            committed = die_in_a_copy(spark, matrix, kill.of("driver"))
        assert committed == (name == "after Spark's own commit"), name
        sparks.replace(coming)
        matrix.kills.order()
        assert matrix.copy(coming) is None, name
    assert matrix.finish(sparks.current()) == []
