from uuid import UUID

import pytest
from support.files.faulty_file_system import FaultyFileSystem, Killed

from broker_core.model.exceptions import DirectoryFormatError
from broker_core.model.identifiers import TopicPartition
from broker_core.storage.checkpoints import (
    read_offset_checkpoint,
    read_partition_metadata,
    read_small_file,
    write_atomically,
    write_offset_checkpoint,
    write_partition_metadata,
)


@pytest.fixture
def fs():
    fs = FaultyFileSystem()
    fs.make_directory("/p")
    fs.sync_directory("")
    return fs


def test_an_offset_checkpoint_has_kafkas_format(fs):
    write_offset_checkpoint(fs, "/p/c", {TopicPartition("t", 1): 5, TopicPartition("a", 0): 17})
    assert fs.content("/p/c") == b"0\n2\na 0 17\nt 1 5\n"
    assert read_offset_checkpoint(fs, "/p/c") == {TopicPartition("t", 1): 5, TopicPartition("a", 0): 17}
    assert read_offset_checkpoint(fs, "/p/none") == {}


@pytest.mark.parametrize(
    "content",
    [b"1\n0\n", b"0\nx\n", b"0\n2\nt 0 5\n", b"0\n1\nt 0\n", b"0\n1\nt x 5\n", b"", b"\xff", "0\n1\nt ² 5\n".encode()],
)
def test_an_invalid_checkpoint_is_refused_with_its_path(fs, content):
    fs.overwrite("/p/c", content)
    with pytest.raises(DirectoryFormatError, match="/p/c"):
        read_offset_checkpoint(fs, "/p/c")


def test_partition_metadata_has_kafkas_format(fs):
    topic_id = UUID("78ea3f91-fc41-4051-97a2-5ff148e8cc1e")
    write_partition_metadata(fs, "/p", topic_id)
    assert fs.content("/p/partition.metadata") == b"version: 0\ntopic_id: eOo_kfxBQFGXol_xSOjMHg"
    assert read_partition_metadata(fs, "/p") == topic_id
    for expected_id in (topic_id, UUID(int=3)):
        assert read_partition_metadata(fs, "/p", expected_id=expected_id) == topic_id


@pytest.mark.parametrize("content", [b"", b"version: 1\ntopic_id: eOo_kfxBQFGXol_xSOjMHg", b"version: 0\ntopic_id: x"])
def test_partition_metadata_of_another_format_is_refused(fs, content):
    fs.overwrite("/p/partition.metadata", content)
    with pytest.raises(DirectoryFormatError, match=r"/p/partition\.metadata"):
        read_partition_metadata(fs, "/p")


def test_a_folder_without_partition_metadata_has_no_topic_id(fs):
    assert read_partition_metadata(fs, "/p") is None


@pytest.mark.parametrize("power", [False, True])
def test_after_a_crash_the_file_has_the_old_or_the_new_content(fs, power):
    write_atomically(fs, "/p/f", b"old")
    for call in range(5):
        fs.kill_at_call(call, torn_bytes=1)
        with pytest.raises(Killed):
            write_atomically(fs, "/p/f", b"newer")
        if power:
            fs.power_loss()
        else:
            fs.restart()
        assert read_small_file(fs, "/p/f") in (b"old", b"newer")
        write_atomically(fs, "/p/f", b"old")
    assert fs.hits["killed"] + fs.hits["torn_write"] == 5


def test_a_write_that_fails_leaves_no_temporary_file(fs):
    fs.overwrite("/p/c", b"old")
    fs.fill_up_after(2)
    with pytest.raises(OSError, match="space"):
        write_atomically(fs, "/p/c", b"new and longer")
    assert fs.hits["disk_full"]
    assert fs.snapshot() == {"/p/c": b"old"}
