"""Whatever is acknowledged was synced by the kernel: where it refuses the system call, nothing is."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from broker_core.storage.os_file_system import OsFileSystem

ROOT = Path(__file__).parents[4]
LONG_SECONDS = 120


def told(*arguments):
    ended = subprocess.run(
        [sys.executable, "-m", "support.files.refused_sync_stories", *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])},
        capture_output=True,
        text=True,
        timeout=LONG_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return dict(line.split(": ") for line in ended.stdout.splitlines())


def test_syncing_a_file_calls_fdatasync(tmp_path, monkeypatch):
    synced, real = [], os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: synced.append(os.fstat(descriptor)) or real(descriptor))
    file = OsFileSystem().open(f"{tmp_path}/f", writable=True, create=True)
    file.write_at(0, b"x")
    file.sync()
    assert [state.st_ino for state in synced] == [(tmp_path / "f").stat().st_ino]


def test_syncing_a_directory_calls_fsync(tmp_path, monkeypatch):
    synced, real = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor)) or real(descriptor))
    OsFileSystem().sync_directory(str(tmp_path))
    assert [(state.st_ino, stat.S_ISDIR(state.st_mode)) for state in synced] == [(tmp_path.stat().st_ino, True)]


def test_an_append_is_not_acknowledged_if_fdatasync_fails(tmp_path):
    assert told("embedded", tmp_path / "log", "fdatasync") == {
        "an append": "refused",
        "an append that is not to be synced": "done",
        "an append that begins a segment": "refused",
        "a commit of offsets": "refused",
        "the end of a transaction": "refused",
        "a new topic": "refused",
        "its first append": "refused",
        "what readers see": "as before",
    }


def test_an_append_is_not_acknowledged_if_the_directory_sync_fails(tmp_path):
    found = told("embedded", tmp_path / "log", "fsync")
    assert found["an append that begins a segment"] == "refused"
    assert found["its first append"] == "refused"
    assert found["an append"] == "done", "its file was there, and its directory synced"


@pytest.mark.parametrize("kind", ["native", "python"])
def test_a_broker_does_not_acknowledge_a_record_if_fdatasync_fails(tmp_path, kind):
    assert told("broker", tmp_path / "log", kind, "fdatasync") == {
        "a produce": "refused",
        "what readers see": "as before",
    }
