from support.files.read_only_file_system import ReadOnlyFileSystem

from broker_core.embedded.open_log import OpenerServices, open_log
from broker_core.log_directory.directory import LogDirectory
from broker_core.log_directory.system_ports import SystemClock, SystemEntropy


def open_at(path):
    fs = ReadOnlyFileSystem()
    directory = LogDirectory(fs, str(path), create=True, entropy=SystemEntropy())
    means = OpenerServices(
        fs=fs, clock=SystemClock(), entropy=SystemEntropy(), on_rolled=print, make_directory=directory.make
    )
    return open_log(directory, means), fs


def test_a_log_that_does_not_exist_has_no_topics_but_can_create_them(tmp_path):
    log, fs = open_at(tmp_path / "log")
    log.catalog.refresh()
    assert log.catalog.topics() == {}
    assert log.own is not None
    assert log.transactions.list_transactions(prefix="", states=None) == ()
    assert log.groups.groups() == ()
    assert fs.refused == []
    log.close()


def test_a_real_kafkas_log_cannot_be_changed(tmp_path):
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\n")
    log, fs = open_at(tmp_path)
    log.catalog.refresh()
    assert log.own is None
    assert log.transactions.list_transactions(prefix="", states=None) == ()
    assert log.groups.groups() == ()
    assert fs.refused == []
    log.close()
