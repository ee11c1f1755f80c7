"""Tests of these rooms sync a lot, and none is about the device: in memory they take a third of the time."""

import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def tmp_path(tmp_path):
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory, ignore_cleanup_errors=True) as folder:
        yield Path(folder)
