import os
import subprocess
import sys

import pytest

from spark_streamlog.java_check import missing_java_advice


@pytest.fixture
def no_java(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def put_java(folder, version_line, exit_code=0):
    java = folder / "java"
    java.write_text(f"#!/bin/sh\necho '{version_line}' >&2\nexit {exit_code}\n")
    java.chmod(0o755)


def test_without_java_one_sentence_says_how_to_install_it(no_java):
    advice = missing_java_advice()
    assert "no java is on the PATH" in advice
    assert "openjdk-17-jre-headless" in advice
    assert "\n" not in advice


def test_a_java_home_without_java_is_named(no_java, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(no_java / "nowhere"))
    assert f"JAVA_HOME='{no_java / 'nowhere'}'" in missing_java_advice()


@pytest.mark.parametrize(
    "line", ['openjdk version "17.0.15" 2025-04-15', 'java version "21" 2023', 'openjdk version "26-ea"']
)
def test_a_new_enough_java_is_accepted(no_java, line):
    put_java(no_java, line)
    assert missing_java_advice() is None


@pytest.mark.parametrize(("line", "found"), [('openjdk version "11.0.2"', "11"), ('java version "1.8.0_392"', "8")])
def test_an_old_java_is_refused_with_its_version(no_java, line, found):
    put_java(no_java, line)
    assert f"is version {found}" in missing_java_advice()


def test_a_java_that_does_not_run_is_reported_with_its_output(no_java):
    put_java(no_java, "cannot find libjvm", exit_code=1)
    assert "cannot find libjvm" in missing_java_advice()


def test_without_java_a_program_ends_with_the_sentence_without_a_traceback(no_java):
    program = "from spark_streamlog.java_check import require_java; require_java()"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert result.returncode == 1
    assert result.stderr.startswith("Spark needs Java")
    assert "Traceback" not in result.stderr
