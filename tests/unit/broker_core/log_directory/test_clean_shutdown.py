from support.files.faulty_file_system import FaultyFileSystem, Killed

from broker_core.log_directory.clean_shutdown import (
    BROKER_RUNNING_FILE_NAME,
    CLEAN_SHUTDOWN_FILE_NAME,
    mark_broker_running,
    remove_clean_shutdown,
    unmark_broker_running,
    write_clean_shutdown,
)

PATH = f"/log/{CLEAN_SHUTDOWN_FILE_NAME}"


def a_directory():
    fs = FaultyFileSystem()
    fs.make_directory("/log")
    fs.sync_directory("")
    return fs


def test_the_marker_is_kafkas_and_survives_a_power_failure():
    fs = a_directory()
    write_clean_shutdown(fs, "/log", broker_epoch=7)
    fs.power_loss()
    assert fs.content(PATH) == b'{"version":0,"brokerEpoch":7}'


def test_removing_the_marker_is_durable_and_returns_whether_it_existed():
    fs = a_directory()
    assert not remove_clean_shutdown(fs, "/log")
    write_clean_shutdown(fs, "/log", broker_epoch=-1)
    assert remove_clean_shutdown(fs, "/log")
    fs.power_loss()
    assert not fs.exists(PATH)


def test_a_crash_while_writing_the_marker_leaves_none_or_a_whole_one():
    for call in range(100):
        fs = a_directory()
        fs.kill_at_call(call, torn_bytes=5)
        try:
            write_clean_shutdown(fs, "/log", broker_epoch=7)
        except Killed:
            fs.power_loss()
            assert not fs.exists(PATH) or fs.content(PATH).endswith(b"}")
        else:
            assert call > 2
            return


def test_a_killed_broker_is_recognized_by_its_running_marker():
    fs = a_directory()
    assert not mark_broker_running(fs, "/log")
    fs.power_loss()
    assert mark_broker_running(fs, "/log")
    unmark_broker_running(fs, "/log")
    fs.power_loss()
    assert not mark_broker_running(fs, "/log")


def test_removing_the_running_marker_twice_succeeds():
    fs = a_directory()
    unmark_broker_running(fs, "/log")
    mark_broker_running(fs, "/log")
    unmark_broker_running(fs, "/log")
    unmark_broker_running(fs, "/log")
    assert fs.list_directory("/log") == []


def test_a_failed_write_of_the_running_marker_does_not_prevent_a_start():
    fs = a_directory()
    fs.fail_sync()
    assert not mark_broker_running(fs, "/log")
    assert fs.hits["sync_failed"] == 1
    assert not fs.exists(f"/log/{BROKER_RUNNING_FILE_NAME}")
