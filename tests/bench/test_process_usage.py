"""CPU time and memory of process trees."""

import subprocess
import sys

from bench.process_usage import ProcessWatch, cpu_seconds, memory_bytes, wait_for_usage

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


def test_a_tree_is_measured_with_the_children_that_ended(tmp_path):
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


def test_an_ended_process_tells_status_and_usage():
    process = subprocess.Popen([sys.executable, "-c", "x = bytearray(b'x') * 30_000_000; raise SystemExit(3)"])
    status, used = wait_for_usage(process.pid)
    process.returncode = status
    assert status == 3
    assert used.peak_bytes >= 30_000_000


def test_a_process_that_is_gone_uses_nothing():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert (cpu_seconds(process.pid), memory_bytes(process.pid)) == (0.0, 0)
