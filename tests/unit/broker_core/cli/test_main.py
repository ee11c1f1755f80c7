"""The command as a process: how it starts and how it dies."""

import os
import re
import signal
import socket
import subprocess
import sys
import time

STREAMLOG = [sys.executable, "-m", "broker_core.cli.main"]


def test_a_closed_output_ends_the_command_quietly(streamlog, log_path):
    streamlog("produce", "t", stdin=b"x" * 99 + b"\n" + (b"y" * 99 + b"\n") * 20_000)
    read_end, write_end = os.pipe()
    process = subprocess.Popen(
        [*STREAMLOG, "consume", "t", "--path", str(log_path)], stdout=write_end, stderr=subprocess.PIPE
    )
    os.close(write_end)
    first = os.read(read_end, 100)
    os.close(read_end)
    _, complaint = process.communicate(timeout=60)
    assert first == b"x" * 99 + b"\n"
    assert complaint == b""
    assert process.returncode == -13  # SIGPIPE, which a shell shows as 141


def test_help_starts_fast():
    begin = time.monotonic()
    subprocess.run([*STREAMLOG, "--help"], check=True, capture_output=True)
    assert time.monotonic() - begin < 20  # a bound for a crowded machine; it takes half a second


def test_ctrl_c_is_quiet_at_any_moment(log_path):
    for after_ms in (20, 30, 35, 40, 50, 150, 250, 400, 800):
        process = subprocess.Popen(
            [*STREAMLOG, "produce", "t", "--path", str(log_path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=_default_interrupt,
        )  # fmt: skip
        time.sleep(after_ms / 1000)
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=30)
        # Until our `main` runs, also between the lines that define it, Python cannot yet be interrupted politely.
        if re.search(rb'cli/main\.py", line \d+, in main\n', complaint) or process.returncode == 130:
            assert (complaint, process.returncode) == (b"", 130)


def test_unreachable_brokers_are_reported_on_stderr_while_waiting(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    config = tmp_path / "client.properties"
    config.write_text("default.api.timeout.ms=300\n")
    where = ["--bootstrap-server", address, "--command-config", str(config)]
    ended = subprocess.run([*STREAMLOG, "topic", "list", *where], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (1, "")
    warning, complaint = ended.stderr.splitlines()
    assert warning.startswith(f"{address} cannot be reached: Connection refused (from bootstrap.servers).")
    assert complaint.startswith("streamlog: ")


def _default_interrupt():
    signal.signal(signal.SIGINT, signal.SIG_DFL)
