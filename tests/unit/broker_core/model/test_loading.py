"""What the process of a broker loads, and what it does without."""

import gc
import importlib
import subprocess
import sys

import pytest

from broker_core.cluster import GroupOffset
from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.identifiers import TopicPartition
from broker_core.model.loading import without_archives, without_collections, without_hypothesis

COMMAND_LINE_LOADED = (
    "import sys\n"
    "from broker_core.cli.main import main\n"
    "sys.argv[1:] = ['broker', '--help']\n"
    "try:\n"
    "    main()\n"
    "except SystemExit:\n"
    "    print('loaded', *sys.modules)\n"
)


def modules_after(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("loaded ")[2].split())


def test_the_broker_command_imports_no_modules_of_other_commands_or_tests():
    loaded = modules_after(COMMAND_LINE_LOADED)
    assert "broker_core.cli.broker_command" in loaded
    assert not loaded & {"hypothesis", "rich.console", "pyarrow", "numpy"}
    assert not loaded & {
        "broker_core.cli.produce_command",
        "broker_core.cli.screen",
        "broker_core.server.broker_server",
    }


def test_objects_loaded_in_the_block_are_excluded_from_garbage_collection():
    frozen_before = gc.get_freeze_count()
    with without_collections():
        assert not gc.isenabled()
        loaded = [[] for _ in range(1000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() >= frozen_before + len(loaded)
    gc.unfreeze()


def test_garbage_collection_stays_disabled_if_it_was_disabled():
    gc.disable()
    try:
        with without_collections():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
        gc.unfreeze()


def test_hypothesis_is_not_importable_inside_the_block_only(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "hypothesis"]:
        monkeypatch.delitem(sys.modules, name)
    with without_hypothesis(), pytest.raises(ImportError):
        importlib.import_module("hypothesis")
    assert "hypothesis" not in sys.modules


def test_an_imported_hypothesis_stays_imported(monkeypatch):
    loaded = object()
    monkeypatch.setitem(sys.modules, "hypothesis", loaded)
    with without_hypothesis():
        assert sys.modules["hypothesis"] is loaded


def test_archives_are_removed_from_the_path_inside_the_block_only(monkeypatch, tmp_path):
    path = [str(tmp_path), str(tmp_path / "pyspark.zip"), str(tmp_path / "spark-core.jar")]
    monkeypatch.setattr(sys, "path", path)
    with pytest.raises(KeyError), without_archives():
        assert sys.path == [str(tmp_path)]
        raise KeyError
    assert sys.path is path


def test_a_broker_that_decodes_no_records_does_not_import_pyarrow(tmp_path):
    """It is a third of such a broker's memory, and a tenth of a second of its start."""
    loaded = modules_after(
        "import sys\n"
        "from broker_core.broker.settings.broker_config import parse_broker_config\n"
        "from broker_core.server.broker_thread import BrokerThread\n"
        "from broker_core.server.development import development_settings\n"
        f"BrokerThread(parse_broker_config(development_settings({str(tmp_path / 'log')!r}, port=0))).stop()\n"
        "print('loaded', *sys.modules)\n"
    )
    assert "broker_core.server.broker_server" in loaded
    assert not loaded & {"pyarrow", "numpy"}


def test_a_broker_with_groups_imports_its_group_modules_before_it_accepts_clients(tmp_path):
    with open_embedded(str(tmp_path / "log"), create=True) as cluster:
        cluster.create_topic("t")
        cluster.commit_offsets("g", {TopicPartition("t", 0): GroupOffset(offset=0)})
    loaded = modules_after(
        "import sys\n"
        "from broker_core.broker.settings.broker_config import parse_broker_config\n"
        "from broker_core.server.broker_server import BrokerServer\n"
        "from broker_core.server.broker_thread import BrokerThread\n"
        "from broker_core.server.development import development_settings\n"
        "opened, at_the_door = BrokerServer._open, []\n"
        "def open_the_doors(server, observer):\n"
        "    at_the_door.extend(sys.modules)\n"
        "    opened(server, observer)\n"
        "BrokerServer._open = open_the_doors\n"
        f"BrokerThread(parse_broker_config(development_settings({str(tmp_path / 'log')!r}, port=0))).stop()\n"
        "print('loaded', *at_the_door)\n"
    )
    assert {"broker_core.record.columns", "pyarrow"} <= loaded
