"""CPU time and memory of process trees."""

import subprocess
import sys

import pytest
from bench import process_usage
from bench.process_usage import ProcessWatch, cpu_seconds, memory_bytes, wait_for_cpu_seconds

WORKING = """
import subprocess, sys, time
def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
if len(sys.argv) > 1:
    held = bytearray(b"x") * 40_000_000
    work(0.3)
else:
    subprocess.run([sys.executable, __file__, "child"], check=True)
    work(0.2)
    print("done", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _samples_cost_what_they_cost(monkeypatch):
    """Else a machine with many processes looks at these short ones too seldom."""
    monkeypatch.setattr(process_usage, "LARGEST_SHARE", 1.0)


def test_a_process_tree_is_measured_with_its_ended_children(tmp_path):
    program = tmp_path / "working.py"
    program.write_text(WORKING)
    watch = ProcessWatch()
    with subprocess.Popen(
        [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        watch.add("tree", process.pid)
        with watch.measured():
            assert process.stdout.readline() == "done\n"
        process.stdin.close()
    used = watch.last["tree"]
    assert used.cpu_s >= 0.45
    assert used.peak_bytes >= 40_000_000


def test_processes_that_end_during_the_measurement_are_added_to_their_label(tmp_path):
    program = tmp_path / "working.py"
    program.write_text(WORKING)
    watch = ProcessWatch()
    with watch.measured():
        for _ in range(2):
            process = subprocess.Popen([sys.executable, str(program), "child"])
            watch.add("client", process.pid)
            process.returncode, cpu_s = wait_for_cpu_seconds(process.pid)
            watch.finish("client", cpu_s)
    assert process.returncode == 0
    assert watch.last["client"].cpu_s >= 0.55
    assert watch.last["client"].peak_bytes >= 40_000_000


def test_the_memory_of_the_parent_is_not_counted():
    held = bytearray(b"x") * 100_000_000
    watch = ProcessWatch()
    with watch.measured():
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.3)"])
        watch.add("client", process.pid)
        process.returncode, cpu_s = wait_for_cpu_seconds(process.pid)
        watch.finish("client", cpu_s)
    assert watch.last["client"].peak_bytes < len(held)


def test_an_ended_process_uses_nothing():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert (cpu_seconds(process.pid), memory_bytes(process.pid)) == (0.0, 0)


def test_only_processes_that_take_part_are_measured():
    watch = ProcessWatch()
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        watch.add("broker", process.pid)
        watch.add("another", process.pid)
        with watch.measured(lambda label: label == "broker"):
            pass
    assert list(watch.last) == ["broker"]
