"""A Spark Connect server in a process of its own, on 127.0.0.1."""

import os
import socket
import subprocess
import sys
from contextlib import contextmanager

from support.spark.spark_session import SHORT_LIVED, short_lived

SERVER = """
import socket, sys
from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin")
    .config("spark.connect.grpc.binding.address", "127.0.0.1")
    .config("spark.connect.grpc.binding.port", sys.argv[1])
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
assert not any(name.startswith(("spark_streamlog", "broker_core", "pyspark_streamlog")) for name in sys.modules)
print("ready", flush=True)
sys.stdin.read()
spark.stop()
"""


@contextmanager
def connect_server(folder, *, conf=SHORT_LIVED):
    """Its address. Its log is `server.log` in `folder`, which must be there."""
    port = _free_port()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    with (folder / "server.log").open("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(port)],
            env=inherited | short_lived(folder / "conf", conf),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=folder,
        )
        try:
            ready = process.stdout.readline()
            assert ready == "ready\n", (folder / "server.log").read_text()[-3000:]
            yield f"sc://127.0.0.1:{port}"
            process.stdin.close()
            process.wait(60)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
