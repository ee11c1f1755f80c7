import os
import pickle
import shutil
import subprocess
import sys

import pytest
from support.brokers.scripted_broker import ScriptedBroker

from broker_core.model.client_settings import parse_client_settings
from broker_core.model.exceptions import DirectoryFormatError
from spark_streamlog.errors import ConditionError
from spark_streamlog.open_cluster import open_for_reading, open_for_writing
from spark_streamlog.options.option_reader import LogTarget


@pytest.fixture
def target(tmp_path):
    return LogTarget(path=str(tmp_path / "log"))


def test_a_log_is_opened_once_per_process(target):
    written = open_for_writing(target)
    written.create_topic("t")
    assert open_for_writing(pickle.loads(pickle.dumps(target))) is written
    read = open_for_reading(target)
    assert open_for_reading(pickle.loads(pickle.dumps(target))) is read
    assert "t" in read.describe_topics()


def test_a_log_opened_for_reading_is_never_created(target):
    open_for_writing(target).create_topic("t")
    read = open_for_reading(target)
    shutil.rmtree(target.path)
    with pytest.raises(DirectoryFormatError):
        read.create_topic("t")
    assert not os.path.exists(target.path)
    open_for_writing(target).create_topic("t")
    assert "t" in read.describe_topics()


def test_reading_creates_no_directory(target):
    with pytest.raises(ConditionError, match=r"\[STREAMLOG_NO_SUCH_LOG\].* no such directory\. Check the path"):
        open_for_reading(target)
    assert not os.path.exists(target.path)


def test_a_directory_that_is_not_a_log_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("not a log")
    with pytest.raises(ConditionError, match="STREAMLOG_NO_SUCH_LOG"):
        open_for_reading(LogTarget(path=str(tmp_path)))


def test_a_forked_child_opens_its_own_log(target):
    parents = open_for_writing(target)
    parents.create_topic("t")
    child = os.fork()
    if child == 0:
        own = open_for_reading(target)
        os._exit(0 if own is not parents and "t" in own.describe_topics() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_brokers_are_connected_at_the_first_call_and_once_per_process():
    with ScriptedBroker() as broker:
        broker.topics["t"] = 3
        target = LogTarget(brokers=parse_client_settings({"bootstrap.servers": broker.address}))
        opened = open_for_reading(target)
        assert broker.connection_count == 0
        assert open_for_writing(pickle.loads(pickle.dumps(target))) is opened
        assert opened.describe_topics(["t"])["t"].partition_count == 3


@pytest.mark.parametrize(
    ("given", "other_door"),
    [
        ({"path": "THE LOG"}, "broker_core.client.cluster_client"),
        ({"kafka.bootstrap.servers": "localhost:1"}, "broker_core.embedded.embedded_cluster"),
    ],
    ids=["embedded", "remote"],
)
def test_a_query_imports_only_the_door_it_uses(tmp_path, given, other_door):
    open_for_writing(LogTarget(path=str(tmp_path / "log"))).create_topic("t")
    named = {name: value.replace("THE LOG", str(tmp_path / "log")) for name, value in given.items()}
    program = f"""
import sys
from spark_streamlog.open_cluster import open_for_reading
from spark_streamlog.options.option_reader import QueryKind
from spark_streamlog.options.read_options import parse_read_options
open_for_reading(parse_read_options({named | {"subscribe": "t"}!r}, QueryKind.STREAM).target)
print({other_door!r} in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
