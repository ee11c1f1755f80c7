"""The harness in its quick form, ours alone: that every bench still runs and finds its results right, not how fast.

By default only a run that is interrupted, which has done the kernel's; those without a JVM run in the long profile; all
of them with `pytest -m bench`.
"""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from bench.card import Contender
from bench.object_storage import why_no_object_storage
from bench.registry import BENCHES, select

ROOT = Path(__file__).parent.parent.parent
# Against a hang; a busy machine is no failure.
SECONDS = 280
LONG_SECONDS = 1800
WITHOUT_A_JVM = ("kernel", "confluent", "growth-connections")


def run_quick_form(folder, *arguments, seconds=SECONDS):
    found = folder / "found.json"
    command = [sys.executable, "-m", "tests.bench", "--quick", "--folder", str(folder), "--json", str(found)]
    result = subprocess.run(
        [*command, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return json.loads(found.read_text()), result


@pytest.mark.long
def test_the_benches_of_clients_and_kernel_run_and_check_their_results(tmp_path):
    report, result = run_quick_form(tmp_path, "--only", *WITHOUT_A_JVM)
    assert report["failures"] == []
    expected = {bench.name for bench in BENCHES if bench.name.startswith(WITHOUT_A_JVM)}
    assert {sample["bench"] for sample in report["samples"]} == expected
    assert all(sample["verified"] and min(sample["values"].values()) > 0 for sample in report["samples"])
    assert result.stdout.count("| kernel, 100 B: ") == 2
    assert "round 1" in result.stderr, "no progress was shown"


def test_an_interrupted_run_keeps_its_results_and_names_the_remaining_benches(tmp_path):
    found, work = tmp_path / "found.json", tmp_path / "work"
    work.mkdir()
    command = [sys.executable, "-m", "tests.bench", "--quick", "--folder", str(work), "--json", str(found)]
    with subprocess.Popen(
        [*command, "--only", "kernel", "confluent-produce"], cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as process:
        for line in process.stderr:
            if "confluent-produce" in line:
                process.terminate()
                break
        said = process.stderr.read()
    assert process.returncode == 128 + signal.SIGTERM
    assert "not done: --only confluent-produce" in said
    assert list(work.iterdir()) == [], "its folder was left behind"
    command = [sys.executable, "-m", "tests.bench", "--report", str(found)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert result.returncode == 0, result.stderr
    assert "| kernel, 100 B: decode | embedded |" in result.stdout
    samples = json.loads(found.read_text())["samples"]
    assert {sample["bench"] for sample in samples} == {"kernel"}
    assert all(sample["verified"] and min(sample["values"].values()) > 0 for sample in samples)


@pytest.mark.bench
@pytest.mark.timeout(LONG_SECONDS + 20)
def test_the_benches_on_object_storage_run_and_check_their_results(tmp_path):
    if reason := why_no_object_storage():
        pytest.skip(reason)
    report, _ = run_quick_form(tmp_path, "--only", "objects", seconds=LONG_SECONDS)
    assert report["failures"] == []
    found = {(sample["bench"], sample["contender"]) for sample in report["samples"]}
    places = [Contender.OBJECTS, Contender.OBJECTS_30_MS, Contender.OBJECTS_100_MS]
    assert {contender for _, contender in found} == {str(place) for place in places}
    assert {name for name, _ in found} == {bench.name for bench in select(["objects"])}


@pytest.mark.bench
@pytest.mark.timeout(LONG_SECONDS + 20)
def test_every_bench_runs_and_checks_its_results(tmp_path):
    report, _ = run_quick_form(tmp_path, "--plot", str(tmp_path / "plot.png"), seconds=LONG_SECONDS)
    skipped = {failure["bench"] for failure in report["failures"]}
    assert {sample["bench"] for sample in report["samples"]} == {bench.name for bench in select([])} - skipped
    assert (tmp_path / "plot.png").stat().st_size > 10_000
