"""The examples, as a newcomer runs them. (The quickstart has a suite of its own.)

Each takes half a minute or more: all are for the long profile. What they show is tested by itself in this folder.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.spark.spark_session import short_lived

from spark_streamlog.java_check import missing_java_advice

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"

needs_java = pytest.mark.skipif(missing_java_advice() is not None, reason=str(missing_java_advice()))


@pytest.fixture
def environment(tmp_path_factory):
    return short_lived(tmp_path_factory.mktemp("spark") / "conf")


def run(command, environment, *, cwd, stdin=None):
    result = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env={**os.environ, **environment},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@needs_java
@pytest.mark.long
def test_orders_become_alerts_exactly_once_even_if_each_query_repeats_its_last_batch(tmp_path, environment):
    # Half as many orders as by default: two micro-batches a run, and some fifty alerts.
    command = [sys.executable, EXAMPLES / "orders_alerts.py", "--path", "here", "--orders", "1500"]
    out = run(command, environment, cwd=tmp_path)
    assert out.count("Spark forgets that its last batch was committed, and starts again") == 2
    assert "All 1,500 orders are in `enriched` once and in order, and every alert once" in " ".join(out.split())


@needs_java
@pytest.mark.long
def test_payments_on_object_storage_are_routed_once_even_if_the_last_batch_is_repeated(tmp_path, environment):
    out = run([sys.executable, EXAMPLES / "object_log.py", "--path", "here"], environment, cwd=tmp_path)
    assert "Spark forgets that its last batch was committed, and starts again" in out
    assert "All 2,000 payments are in `accepted` (1,802) or `refused` (198), each once" in " ".join(out.split())


@needs_java
@pytest.mark.long
def test_the_typed_pipeline_equals_a_plain_computation_and_separates_the_corrupt_value(tmp_path, environment):
    out = run([sys.executable, EXAMPLES / "avro_pipeline.py", "--path", "here"], environment, cwd=tmp_path)
    assert "All 5,000 readings are in the means" in out
    assert "Corrupt value:" in out
    registered = json.loads((tmp_path / "here" / "registry.json").read_text())
    assert registered


@needs_java
@pytest.mark.long
def test_the_submitted_pipeline_reads_its_settings_from_the_file_in_conf(tmp_path, environment):
    requests = "".join(json.dumps({"path": f"/{n}", "status": 200 + 100 * (n % 4), "ms": n}) + "\n" for n in range(40))
    streamlog = [sys.executable, "-m", "broker_core.cli.main"]
    run([*streamlog, "produce", "access", "--path", "streamlog-errors/log"], environment, cwd=tmp_path, stdin=requests)
    submit = [
        Path(sys.executable).parent / "spark-submit",
        "--properties-file",
        ROOT / "conf" / "errors_pipeline.conf",
        EXAMPLES / "errors_pipeline.py",
    ]
    assert "40 requests read; those with status 500 or above are in the topic errors" in run(
        submit, environment, cwd=tmp_path
    )
    consumed = run([*streamlog, "consume", "errors", "--path", "streamlog-errors/log"], environment, cwd=tmp_path)
    assert [json.loads(line)["path"] for line in consumed.splitlines()] == [f"/{n}" for n in range(3, 40, 4)]
