"""Every example of README.md and docs/ is run, page by page and in order, with what the examples before it left.

An example may use `spark` and the DataFrames of `names_of` without defining them, and the topic `flights`. `/data` and
the brokers that it names become a folder and a broker of the test's own. A function `test_…` of an example is called
with the fixtures that it asks for. One that connects to a Spark Connect server runs in a process of its own.
"""

import inspect
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.brokers.reachable_broker import free_ports
from support.builders.protobuf_messages import write_shop_descriptor
from support.documents.page_examples import PAGES, ROOT, examples_of, page_id

from broker_core.embedded.embedded_cluster import open_embedded

README = ROOT / "README.md"
BASH_SECONDS = 120
START_SECONDS = 60
DOCUMENTED_BROKERS = re.compile(r"broker-\d:9092(?:,broker-\d:9092)*")
CONNECT_SERVER = "sc://localhost:15002"
EVENT = {"type": "record", "name": "Event", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture
def data(tmp_path):
    """What stands for /data: a log, a registry and a descriptor."""
    folder = tmp_path / "data"
    folder.mkdir()
    schema = {"id": 1, "subject": "events-value", "version": 1, "schema": EVENT}
    (folder / "schemas.json").write_text(json.dumps({"schemas": [schema]}))
    write_shop_descriptor(folder / "shop.desc")
    return folder


def make_flights(data):
    cluster = open_embedded(str(data / "log"), create=True)
    cluster.create_topic("flights", partition_count=3)
    cluster.close()


def names_of(spark):
    flights = spark.range(30).selectExpr("string(id % 7) AS key", "concat('flight ', id) AS value")
    return {
        "spark": spark,
        "flights": flights,
        "orders": spark.range(5).selectExpr("id AS key", "named_struct('id', id, 'price', 1.5D) AS value"),
        "events": spark.sql("SELECT X'02' AS value"),
    }


def are_free(*ports):
    """For the brokers of a cluster, which have ports one after the other."""
    for port in ports:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return False
    return True


class PageRun:
    """Runs the examples of one page."""

    def __init__(self, request, data):
        self._request = request
        self._data = data
        self._names = {}
        self._port = next(port for port in (free_ports(1)[0] for _ in range(100)) if are_free(port + 1, port + 2))
        self._beside = None
        request.addfinalizer(self._stop_the_one_beside)

    def run(self, example):
        text = self._of_this_test(example.text)
        getattr(self, f"_run_{example.language}")(example, text)

    def _of_this_test(self, text):
        text = text.replace("/data/", f"{self._data}/")
        for place, number in itertools.product(("--port ", "127.0.0.1:"), range(3)):
            text = text.replace(f"{place}{9092 + number}", f"{place}{self._port + number}")
        if DOCUMENTED_BROKERS.search(text):
            broker = self._request.getfixturevalue("streamlog_broker")
            text = DOCUMENTED_BROKERS.sub(broker.bootstrap_servers, text)
        return text

    def _run_text(self, example, text):
        pass

    def _run_sql(self, example, text):
        self._request.getfixturevalue("spark").sql(text)

    def _run_python(self, example, text):
        if CONNECT_SERVER in text:
            self._run_connect_client(example, text)
            return
        spark = self._request.getfixturevalue("spark")
        self._names = self._names or names_of(spark)
        before = set(self._names)
        # The lines keep their numbers in the page, for the traceback.
        exec(compile("\n" * example.line + text, str(example.page), "exec"), self._names)
        for query in spark.streams.active:
            assert query.awaitTermination(BASH_SECONDS), f"{example.place}: the query goes on"
        for name in self._names.keys() - before:
            if name.startswith("test_"):
                asked = inspect.signature(self._names[name]).parameters
                self._names[name](**{fixture: self._fixture(fixture, name) for fixture in asked})

    def _run_connect_client(self, example, text):
        """In a process of its own: a process has either a Connect session or a classic one."""
        text = text.replace(CONNECT_SERVER, self._request.getfixturevalue("connect_address"))
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        done = subprocess.run(
            [sys.executable, "-c", text],
            env=environment,
            capture_output=True,
            text=True,
            timeout=BASH_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{example.place}: {done.stderr[-3000:]}"

    def _fixture(self, name, function):
        if name != "streamlog_path":
            return self._request.getfixturevalue(name)
        # Each test of a user has its own; here they are called within one.
        path = self._data / function
        path.mkdir()
        return path

    def _run_bash(self, example, text):
        command = ["bash", "-euo", "pipefail", "-c", text]
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        folder = self._data.parent
        (folder / "conf").exists() or (folder / "conf").symlink_to(ROOT / "conf")
        if example.is_stopped or example.is_beside:
            self._stop_the_one_beside()  # it has the port
            process = self._start(["bash", "-c", f"exec {text}"], folder, environment)
            if example.is_beside:
                self._beside = process
            else:
                self._stop(process)
            return
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=BASH_SECONDS, check=False
        )
        assert done.returncode == 0, f"{example.place}: {done.stdout}{done.stderr}"

    def _start(self, command, folder, environment):
        """Waits for the first line on stdout."""
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
        watchdog = threading.Timer(START_SECONDS, process.kill)
        watchdog.start()
        first = process.stdout.readline()
        watchdog.cancel()
        if not first:
            process.kill()
            process.communicate()
        assert first, "it ended, or said nothing"
        return process

    def _stop(self, process):
        """As Ctrl-C does."""
        try:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=START_SECONDS)
            assert process.returncode in (0, 128 + signal.SIGINT)
        finally:
            process.kill()
            process.wait()

    def _stop_the_one_beside(self):
        if self._beside is not None:
            self._stop(self._beside)
        self._beside = None


def pages():
    """Some thirty commands of one page are for the long profile: each has tests of its own, and test_documents.py
    checks that it takes the options that are shown."""
    return [
        pytest.param(page, id=page_id(page), marks=pytest.mark.long if page.name == "command-line.md" else ())
        for page in PAGES
        if examples_of(page) and page != README
    ]


@pytest.mark.parametrize("page", pages())
def test_the_examples_of_each_page_run_in_order(page, request, data):
    if page.name != "command-line.md":  # which makes the topic itself
        make_flights(data)
    run = PageRun(request, data)
    for example in examples_of(page):
        if not example.not_run:
            run.run(example)


def test_the_examples_of_the_readme_run_and_the_first_stream_copies_a_topic_of_three_partitions(spark, request, data):
    make_flights(data)
    run = PageRun(request, data)
    first, *others = examples_of(README)
    run.run(first)

    def rows_of(topic):
        frame = spark.read.format("streamlog").option("subscribe", topic).load(str(data / "log"))
        return frame.selectExpr("string(key) AS key", "string(value) AS value", "partition")

    source = rows_of("flights").collect()
    assert sorted({row.partition for row in source}) == [0, 1, 2]
    assert len(source) == 30
    copied = rows_of("copy").drop("partition").collect()
    assert sorted(copied) == sorted((row.key, row.value) for row in source)
    for example in others:
        if not example.not_run:
            run.run(example)
