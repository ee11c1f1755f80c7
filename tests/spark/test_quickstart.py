"""The README's first command, as a newcomer runs it: a minute of two cores, and so for the long profile."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from support.spark.spark_session import SHORT_LIVED, short_lived

from spark_streamlog.java_check import missing_java_advice

QUICKSTART = Path(__file__).parent.parent.parent / "examples" / "quickstart.py"


def run_quickstart(folder, **environment):
    return subprocess.run(
        [sys.executable, str(QUICKSTART), "--path", str(folder)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env={**os.environ, **environment},
    )


needs_java = pytest.mark.skipif(missing_java_advice() is not None, reason=str(missing_java_advice()))


@pytest.mark.long
def test_the_quickstart_with_some_flights_equals_the_csv(spark, tmp_path, monkeypatch, capsys):
    """In this process: starting another Spark would take longer than all the rest."""
    monkeypatch.syspath_prepend(QUICKSTART.parent)
    monkeypatch.setattr(spark, "stop", lambda: None)
    monkeypatch.setattr(sys, "argv", ["quickstart.py", "--path", str(tmp_path / "run"), "--flights", "5000"])
    assert runpy.run_path(str(QUICKSTART))["main"]() == 0
    out = capsys.readouterr().out
    stages = ("starting Spark", "writing 5,000 flights", "streaming flights into delays", "5,001 rows read")
    assert [stage for stage in stages if stage not in out] == []
    assert "All 5,000 flights, departures and delay minutes agree with the CSV" in out
    assert (tmp_path / "run" / "log" / "flights-0").is_dir()


@needs_java
@pytest.mark.long
def test_the_quickstart_equals_the_csv_and_keeps_its_log_at_the_printed_path(tmp_path):
    # What Spark does with a query stays as it is by default, here at least; the JVM need not be one that lives long.
    jvm = {"spark.driver.extraJavaOptions": SHORT_LIVED["spark.driver.extraJavaOptions"]}
    result = run_quickstart(tmp_path / "run", **short_lived(tmp_path / "conf", jvm))
    assert result.returncode == 0, result.stdout + result.stderr
    # Without a terminal there is no progress bar: each stage is a line.
    stages = ("starting Spark", "writing 336,776 flights", "streaming flights into delays", "336,777 rows read")
    assert [stage for stage in stages if stage not in result.stdout] == []
    assert "All 336,776 flights, departures and delay minutes agree with the CSV" in result.stdout
    # What R's count(flights, origin) says of the same data.
    assert all(number in result.stdout for number in ("120,835", "111,279", "104,662"))
    assert (tmp_path / "run" / "log" / "flights-0").is_dir()


def test_the_quickstart_does_not_change_a_directory_with_other_files(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    result = run_quickstart(tmp_path)
    assert result.returncode == 1
    assert "mine.txt" in result.stderr
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_without_java_the_quickstart_ends_with_one_sentence(tmp_path):
    result = run_quickstart(tmp_path / "run", JAVA_HOME=str(tmp_path))
    assert result.returncode == 1
    assert result.stderr.strip().startswith("Spark needs Java")
    assert "Traceback" not in result.stderr
