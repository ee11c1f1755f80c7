"""A copy of a process that runs the command line. Each test forks from a small process of its own."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the program is started anew")

FORK = """
import os, pathlib, signal, subprocess, sys, threading
from broker_core.cli.forked_process import ForkedProcess, fork_program
log = open(sys.argv[1], "ab")
"""


def output_of(story, tmp_path):
    command = [sys.executable, "-c", FORK + story, str(tmp_path / "log")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_copy_writes_to_the_pipe_and_the_file_and_ends_with_the_status_of_its_command(tmp_path):
    story = """
one = ForkedProcess(["--version"], log)
print(one.stdout.read().decode().split()[0], one.wait(), one.poll())
two = ForkedProcess(["nonsense"], log)
print(two.wait(20))
"""
    assert output_of(story, tmp_path) == ["streamlog 0 0", "2"]
    assert "No such command 'nonsense'" in (tmp_path / "log").read_text()


def test_a_signal_ends_the_copy_and_not_its_parent_whatever_the_parent_does_with_signals(tmp_path):
    story = """
from broker_core.cli.stop_signals import StopSignals
with StopSignals() as stop:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
        copy = ForkedProcess(["broker"], log)
        copy.send_signal(number)
        print(copy.wait(30) == -number, stop.received)
        copy.send_signal(number)
"""
    assert output_of(story, tmp_path) == ["True None"] * 3


def test_the_copy_has_a_session_and_no_files_of_its_parent(tmp_path):
    story = """
copy = ForkedProcess(["broker"], log)
copy.stdout.read(1)
print(os.getsid(copy.pid) == copy.pid)
links = {os.readlink(each) for each in pathlib.Path(f"/proc/{copy.pid}/fd").iterdir()}
print("/dev/null" in links, log.name in links, any(name.endswith("unseen") for name in links))
try:
    copy.wait(0.01)
except subprocess.TimeoutExpired:
    print("it goes on")
copy.send_signal(signal.SIGKILL)
copy.wait()
"""
    lines = output_of("unseen = open(sys.argv[1] + 'unseen', 'w')" + story, tmp_path)
    assert lines == ["True", "True True False", "it goes on"]


def test_a_process_with_several_threads_starts_the_program_anew(tmp_path):
    story = """
may_end = threading.Event()
threading.Thread(target=may_end.wait).start()
process = fork_program(["--version"], log)
print(type(process).__name__, process.wait(30))
may_end.set()
"""
    assert output_of(story, tmp_path) == ["Popen 0"]
