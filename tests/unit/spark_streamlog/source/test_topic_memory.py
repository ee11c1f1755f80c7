import json
import os
import threading
from uuid import UUID, uuid4

import pytest
from support.builders.append_records import append_values
from support.spark.read_query import at, read_options, values_of

from broker_core.embedded.embedded_cluster import open_embedded
from spark_streamlog.errors import ConditionError
from spark_streamlog.options.option_reader import QueryKind
from spark_streamlog.options.read_options import parse_read_options
from spark_streamlog.planning.topic_ids import VectorTopics
from spark_streamlog.source.stream_reader import StreamlogStreamReader
from spark_streamlog.source.topic_memory import FILE, FOLDER, KEPT_VECTORS, memory_of

A, B = UUID(int=1), UUID(int=2)


def make_checkpoint(folder):
    (folder / "metadata").write_text(json.dumps({"id": str(uuid4())}))
    return folder


@pytest.fixture
def checkpoint(tmp_path):
    return make_checkpoint(tmp_path)


def a_memory(checkpoint, **given):
    return memory_of(read_options(QueryKind.STREAM, checkpointLocation=checkpoint, **given))


def vector(offset, topic_id, topic="t"):
    return VectorTopics(offsets=at(**{f"{topic}_0": offset}), topic_ids={topic: topic_id})


def test_another_process_reads_the_ids_of_each_offset(checkpoint):
    a_memory(checkpoint).remember([vector(3, A), vector(1, B)])
    known = a_memory(f"file:{checkpoint}")
    assert known.ids_at(at(t_0=3)) == {"t": A}
    assert known.ids_at(at(t_0=1)) == {"t": B}
    assert known.ids_at(at(t_0=2)) == {}


def test_the_last_ids_stored_for_an_offset_count(checkpoint):
    memory = a_memory(checkpoint)
    memory.remember([vector(3, A)])
    memory.remember([vector(3, B)])
    assert a_memory(checkpoint).ids_at(at(t_0=3)) == {"t": B}


def test_as_many_offsets_are_kept_as_a_checkpoint_can_be_set_back_to(checkpoint):
    memory = a_memory(checkpoint)
    memory.remember([vector(offset, A) for offset in range(KEPT_VECTORS + 1)])
    assert memory.ids_at(at(t_0=0)) == {}
    assert memory.ids_at(at(t_0=1)) == {"t": A}


def test_sources_of_one_query_are_separate_and_a_wider_subscription_finds_known_ids(checkpoint):
    of_t, of_u = a_memory(checkpoint), a_memory(checkpoint, subscribe="u")
    of_t.remember([vector(3, A)])
    of_u.remember([vector(offset, B, topic="u") for offset in range(KEPT_VECTORS)])
    assert a_memory(checkpoint).ids_at(at(t_0=3)) == {"t": A}
    assert a_memory(checkpoint, subscribe="t,u").ids_at(at(t_0=3)) == {"t": A}
    assert a_memory(checkpoint, path="/another/log").ids_at(at(t_0=3)) == {}


def test_concurrent_writes_of_two_processes_are_not_lost(checkpoint):
    memories = [a_memory(checkpoint, subscribe=name) for name in "tuvw"]
    threads = [
        threading.Thread(target=lambda m=memory: [m.remember([vector(offset, A)]) for offset in range(20)])
        for memory in memories
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    document = json.loads((checkpoint / FOLDER / FILE).read_text())
    assert [len(part["vectors"]) for part in document["sources"].values()] == [20] * 4


def test_ids_that_are_already_stored_are_not_written_again(checkpoint):
    memory = a_memory(checkpoint)
    memory.remember([vector(3, A)])
    before = os.stat(checkpoint / FOLDER / FILE).st_ino
    memory.remember([vector(3, A)])
    assert os.stat(checkpoint / FOLDER / FILE).st_ino == before


def test_a_crash_before_the_file_is_replaced_leaves_the_old_one(checkpoint, monkeypatch):
    a_memory(checkpoint).remember([vector(3, A)])
    crashed = []

    def crash(*_):
        crashed.append(True)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        a_memory(checkpoint).remember([vector(4, A)])
    monkeypatch.undo()
    assert crashed
    assert a_memory(checkpoint).ids_at(at(t_0=3)) == {"t": A}
    a_memory(checkpoint).remember([vector(5, A)])
    assert a_memory(checkpoint).ids_at(at(t_0=5)) == {"t": A}


def test_the_file_of_another_query_is_ignored(checkpoint):
    a_memory(checkpoint).remember([vector(3, A)])
    make_checkpoint(checkpoint)
    assert a_memory(checkpoint).ids_at(at(t_0=3)) == {}


@pytest.mark.parametrize(
    "damaged",
    ["", "{", "[]", '"x"', '{"query":"ID","sources":{"s":{"ids":[{"t":"x"}],"vectors":{"d":0}}}}'],
)
def test_a_damaged_file_is_ignored_with_a_warning_and_replaced(checkpoint, caplog, damaged):
    query_id = json.loads((checkpoint / "metadata").read_text())["id"]
    (checkpoint / FOLDER).mkdir()
    (checkpoint / FOLDER / FILE).write_text(damaged.replace("ID", query_id))
    memory = a_memory(checkpoint)
    assert memory.ids_at(at(t_0=3)) == {}
    assert "topic-ids.json" in caplog.text
    memory.remember([vector(3, A)])
    assert a_memory(checkpoint).ids_at(at(t_0=3)) == {"t": A}


def test_a_checkpoint_that_cannot_be_written_logs_one_warning(checkpoint, caplog):
    (checkpoint / FOLDER).write_text("in the way")
    memory = a_memory(checkpoint)
    for offset in range(3):
        memory.remember([vector(offset, A)])
    assert memory.ids_at(at(t_0=0)) == {}
    assert len([each for each in caplog.messages if "cannot be stored in" in each]) == 1


@pytest.mark.parametrize("location", ["hdfs://names/checkpoint", "s3a://bucket/checkpoint"])
def test_a_checkpoint_that_is_not_local_is_not_used_and_logs_a_warning(location, caplog):
    assert a_memory(location) is None
    assert (
        f"checkpointLocation={location}, because it is not a query's checkpoint on a local file system" in caplog.text
    )


def test_a_directory_that_is_not_a_checkpoint_is_not_used(tmp_path, caplog):
    assert a_memory(tmp_path) is None
    assert "it is not a query's checkpoint" in caplog.text
    assert not os.listdir(tmp_path)


def test_without_the_option_checkpoint_location_nothing_is_stored(caplog):
    assert memory_of(read_options(QueryKind.STREAM)) is None
    assert not caplog.messages


def test_a_reader_detects_a_topic_recreated_since_an_earlier_process(checkpoint, tmp_path):
    with open_embedded(tmp_path / "log", create=True) as log:
        log.create_topic("t")
        append_values(log, "t", "a", "b")
        named = {"path": str(log.path), "subscribe": "t", "startingOffsets": "earliest"}

        def restarted(**given):
            options = named | {"checkpointLocation": str(checkpoint)} | given
            return StreamlogStreamReader(parse_read_options(options, QueryKind.STREAM))

        first = restarted()
        limit = first.getDefaultReadLimit()
        end = first.latestOffset(first.initialOffset(), limit)
        log.delete_topic("t")
        log.create_topic("t")
        append_values(log, "t", "x", "y", "z")
        with pytest.raises(ConditionError, match="TOPIC_RECREATED"):
            restarted().latestOffset(end, limit)
        reader = restarted(failOnDataLoss="false")
        new_end = reader.latestOffset(end, limit)
        values = [value for one in reader.partitions(end, new_end) for value in values_of(reader.read(one))]
        assert values == ["x", "y", "z"]
